# SPDX-License-Identifier: Apache-2.0
"""Every number of a study has bounds, and `strata check` answers an absurd one in little time and memory."""

from __future__ import annotations

import json
import math
import os
import resource
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from golden_studies import CASES, study_of
from strata.devices.faults import FAULTS
from strata.errors import DiagnosticsError, StrataError
from strata.model.design import Age
from strata.model.study import DeviceTable, HeadTable
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.reading.load import load_study

MEMORY_BYTES: Final = 4 << 30
PROCESSOR_S: Final = 240

MODELS: Final[dict[str, type[BaseModel]]] = {
    "study": HeadTable,
    "age": Age,
    "device": DeviceTable,
    **catalogue().layers,
    **catalogue().workloads,
    **FAULTS,
}
NUMBERS: Final[tuple[object, ...]] = (
    *(0, -1, (1 << 31) - 1, (1 << 63) - 1, 1 << 63, 10**300, 1e308, math.nan, math.inf, -math.inf, "0B"),
)
SIZES: Final[tuple[object, ...]] = (
    "0B",
    "1B",
    "511B",
    "524288TiB",
    "9999999999999999999TiB",
    "-1B",
    0,
    math.nan,
)
DURATIONS: Final[tuple[object, ...]] = ("0s", "1ns", "8784h", "9999999999999999999h", "-1s", -1, math.inf)
SHARES: Final[tuple[object, ...]] = ("0%", "0.000000001%", "999999999%", "-1%", 1e308)


def absurd(kind: str) -> tuple[object, ...]:
    """The values to try for a key with this schema."""
    marks = {"iB": SIZES, "ns|": DURATIONS, "%": SHARES}
    return next((values for mark, values in marks.items() if mark in kind), NUMBERS)


def _annotations(kind: Any) -> Iterator[Any]:
    yield kind
    for inner in get_args(kind):
        yield from _annotations(inner)


def numeric(field: FieldInfo) -> bool:
    return bool({int, float} & set(map(_hashable, _annotations(field.annotation))))


def _hashable(kind: Any) -> Any:
    return kind if isinstance(kind, type) else None


def metadata(field: FieldInfo) -> list[Any]:
    found = list(field.metadata)
    for kind in _annotations(field.annotation):
        for each in getattr(kind, "__metadata__", ()):
            found += each.metadata if isinstance(each, FieldInfo) else [each]
    return found


@pytest.mark.parametrize("name", MODELS)
def test_every_number_has_bounds(name: str) -> None:
    for key, field in MODELS[name].model_fields.items():
        if not numeric(field) or "dict" in str(field.annotation):
            continue  # tables of other programs' options have lists of their own
        marks = metadata(field)
        checked = any(isinstance(each, AfterValidator | BeforeValidator) for each in marks)
        above = any(isinstance(each, Ge | Gt) for each in marks)
        below = any(isinstance(each, Le | Lt) for each in marks)
        assert checked or (above and below), f"{name}.{key} has no bounds"


def sound_study(name: str, folder: Path) -> dict[str, Any]:
    """A study that has the layer or the workload; any for what every study may have."""
    case = next((each for each in CASES if each in {f"layer-{name}", f"workload-{name}"}), "layer-ext4")
    return tomllib.loads(study_of(case, folder).file.read_text())


def tables_of(tables: Any, name: str) -> Iterator[dict[str, Any]]:
    """The tables of a study that the model reads."""
    match name:
        case "study":
            yield tables["study"]
        case "device":
            yield from tables["devices"].values()
        case "age":
            yield tables["study"].setdefault("age", {"fill": "50%"})
        case _ if name in FAULTS:
            device = next(iter(tables["devices"].values()))
            fault = {"fault": name, "at": "1s", "from": "1s", "first_sector": 0, "sectors": 8, "factor": 2}
            known = {field.alias or key for key, field in FAULTS[name].model_fields.items()}
            device["faults"] = [{key: value for key, value in fault.items() if key in known}]
            yield device["faults"][0]
        case _:
            for each in (*tables["stacks"].values(), {"layers": [*tables["workloads"].values()]}):
                for entry in each["layers"]:
                    if name in {entry.get("layer"), entry.get("workload")}:
                        yield entry


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def in_bounds(work: Callable[[str, Path], None], name: str, folder: Path) -> int | None:
    """The exit code of a process that may take little."""
    child = get_context("fork").Process(target=_bounded, args=(work, name, folder))
    child.start()
    child.join()
    return child.exitcode


def _bounded(work: Callable[[str, Path], None], name: str, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
    work(name, folder)
    os._exit(0)  # not what pytest does at the end of a process


def _try_all(name: str, folder: Path) -> None:
    sound = sound_study(name, folder)
    for key, field in MODELS[name].model_fields.items():
        if not numeric(field):
            continue
        schema = MODELS[name].model_json_schema(by_alias=True)["properties"]
        for value in absurd(str(schema[field.alias or key].get("pattern") or schema[field.alias or key])):
            tables = deepcopy(sound)
            for table in tables_of(tables, name):
                table[field.alias or key] = value
            file = _written(folder, tables)
            print(f"{name}.{field.alias or key} = {str(value)[:40]}", flush=True)
            _check(file)


def _written(folder: Path, tables: dict[str, Any]) -> Path:
    file = folder / "absurd.toml"
    file.write_text("".join(f"{top} = {toml(each)}\n" for top, each in tables.items()))
    return file


def _check(file: Path) -> None:
    try:
        study = load_study(file, catalogue())
        stack, workload = next(iter(study.stacks)), next(iter(study.workloads))
        compile_trial(study, stack, workload, study.seeds[0])
    except StrataError:
        return


@pytest.mark.parametrize("name", MODELS)
def test_an_absurd_number_is_refused_or_taken_in_bounded_time_and_memory(name: str, tmp_path: Path) -> None:
    assert in_bounds(_try_all, name, tmp_path) == 0


def test_hundreds_of_thousands_of_seeds_are_refused(tmp_path: Path) -> None:
    assert in_bounds(_try_seeds, "study", tmp_path) == 0


def _try_seeds(name: str, folder: Path) -> None:
    tables = sound_study(name, folder)
    for seeds in (list(range(200_000)), [1] * 10_001):
        with pytest.raises(DiagnosticsError) as caught:
            load_study(
                _written(folder, {**tables, "study": {**tables["study"], "seeds": seeds}}), catalogue()
            )
        assert "are more than 10,000" in str(caught.value)


def test_a_study_of_more_trials_than_anybody_can_wait_for_is_refused(tmp_path: Path) -> None:
    tables = sound_study("study", tmp_path)
    workload = next(iter(tables["workloads"].values()))
    tables["workloads"] = {f"load{index}": workload for index in range(11)}
    tables["study"]["seeds"] = [*range(10_000)]

    with pytest.raises(DiagnosticsError, match="110,000 trials"):
        load_study(_written(tmp_path, tables), catalogue())
