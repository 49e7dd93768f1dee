# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

from command_line import shown
from strata.plan.catalogue import catalogue
from strata.reading.schema import study_schema

SCHEMA = study_schema(catalogue())


def test_the_command_prints_the_schema() -> None:
    assert json.loads(shown("schema")) == SCHEMA


def test_the_name_of_a_layer_or_a_workload_selects_its_schema() -> None:
    for group, models in (("layer", catalogue().layers), ("workload", catalogue().workloads)):
        for name in list(models):
            found = SCHEMA["$defs"][f"{group}-{name}"]
            assert found["properties"][group]["const"] == name
            assert group in found["required"]
            assert found["additionalProperties"] is False


def test_every_reference_leads_somewhere() -> None:
    names = [f"#/$defs/{name}" for name in SCHEMA["$defs"]]

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            inner = [ref for item in value.values() for ref in references(item)]
            return [*inner, value["$ref"]] if isinstance(value.get("$ref"), str) else inner
        return [ref for item in value for ref in references(item)] if isinstance(value, list) else []

    assert set(references(SCHEMA)) <= set(names)


def test_defaults_are_written_as_in_a_file() -> None:
    assert SCHEMA["properties"]["study"]["properties"]["time_limit"]["default"] == "30m"
    assert SCHEMA["$defs"]["workload-fio"]["properties"]["size"]["default"] == "1GiB"
    assert SCHEMA["$defs"]["Age"]["properties"]["file_size"]["default"] == "256KiB"
