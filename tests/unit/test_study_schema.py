# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

from command_line import shown
from strata.plan.catalogue import catalogue
from strata.reading.schema import study_schema


def schema() -> dict[str, Any]:
    return study_schema(catalogue())


def test_the_command_prints_the_schema() -> None:
    assert json.loads(shown("schema")) == schema()


def test_the_name_of_a_layer_selects_its_schema() -> None:
    for name in list(catalogue().layers):
        layer = schema()["$defs"][f"layer-{name}"]
        assert layer["properties"]["layer"]["const"] == name
        assert "layer" in layer["required"]
        assert layer["additionalProperties"] is False


def test_the_name_of_a_workload_selects_its_schema() -> None:
    for name in list(catalogue().workloads):
        workload = schema()["$defs"][f"workload-{name}"]
        assert workload["properties"]["workload"]["const"] == name
        assert "workload" in workload["required"]


def test_every_reference_leads_somewhere() -> None:
    found = schema()
    names = [f"#/$defs/{name}" for name in found["$defs"]]

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            inner = [ref for item in value.values() for ref in references(item)]
            return [*inner, value["$ref"]] if isinstance(value.get("$ref"), str) else inner
        return [ref for item in value for ref in references(item)] if isinstance(value, list) else []

    assert set(references(found)) <= set(names)


def test_defaults_are_written_as_in_a_file() -> None:
    found = schema()

    assert found["properties"]["study"]["properties"]["time_limit"]["default"] == "30m"
    assert found["$defs"]["workload-fio"]["properties"]["size"]["default"] == "1GiB"
    assert found["$defs"]["Age"]["properties"]["file_size"]["default"] == "256KiB"


def test_the_design_of_the_experiment_is_completed_and_checked() -> None:
    study = schema()["properties"]["study"]["properties"]

    assert study["order"]["enum"] == ["blocks", "abba", "file"]
    assert "1.5%" in study["precision"]["examples"]
    assert any(each.get("$ref") == "#/$defs/Age" for each in study["age"]["anyOf"])
