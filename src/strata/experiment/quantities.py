# SPDX-License-Identifier: Apache-2.0
"""The quantities that an answer rests on and nobody knows exactly: of disks, of the machine, of the load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from strata.devices.processor import Processor
from strata.errors import StudyError
from strata.model.study import MEMORY_BYTES_MIN, Study, StudyDevice
from strata.model.workload import Workload
from strata.results.findings import Uncertain
from strata.units import MIB

_FACTOR: Final = 4.0
"""How far memory, clients and data are varied each way, for lack of a range. A judgement: what a user may be
wrong by, or come to in some years."""
_CHOSEN: Final = f"chosen by the study; tried from a {_FACTOR:g}th to {_FACTOR:g} times"
_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "clients": ("clients", "1"),
    "threads": ("threads", "1"),
    "scale": ("scale of the data", "1"),
    "rows": ("rows of each table", "1"),
    "files": ("files", "1"),
    "size_bytes": ("size of the data", "B"),
}
"""The keys of a workload that say how much load and data there are, with their meaning and unit."""


class Quantity(Uncertain):
    """A quantity of a study, which can be given another value.

    Attributes:
        whole: The step of its values, if they are whole multiples of it; 0: any.
        applied: The study with another value.
    """

    whole: int
    applied: Callable[[Study, float], Study]

    def near(self, value: float) -> float:
        """The nearest value that it can have."""
        return float(f"{value:.4g}") if not self.whole else round(value / self.whole) * self.whole


def quantities(study: Study, workloads: Iterable[str]) -> list[Quantity]:
    """The quantities of a study, those of the workloads that count among them.

    A budget may end before all are tried: what the user said of load and memory comes first.
    """
    return [
        *(each for name in workloads for each in _of_load(study, name)),
        *_of_memory(study),
        *_of_disks(study),
    ]


def with_values(study: Study, workloads: Iterable[str], values: Mapping[str, float]) -> Study:
    """The study with other values of its quantities, by their ids.

    ``processor`` is a factor of its prices. Any parameter of a device may have a value, with a range or not.
    Raises StudyError for others.
    """
    known = {each.quantity: each for each in quantities(study, workloads)} if values else {}
    for quantity, value in values.items():
        model, _, name = quantity.rpartition(".")
        if quantity in known:
            study = known[quantity].applied(study, value)
        elif quantity == "processor":
            study = replace(study, processor=_scaled(study.processor, value))
        elif any(
            used.device.name == model and name in used.device.parameters for used in study.devices.values()
        ):
            study = _with_parameter(study, model, name, value)
        else:
            raise StudyError(f"no disk of the study has {quantity}")
    return study


def _scaled(processor: Processor, factor: float) -> Processor:
    """The processor with all prices, and their ranges, times a factor."""
    parameters = {
        name: each.model_copy(
            update={end: getattr(each, end) * factor for end in ("value", "low", "high")}
            if name != "processors"
            else {}
        )
        for name, each in processor.parameters.items()
    }
    return replace(processor, parameters=parameters)


def _of_disks(study: Study) -> Iterator[Quantity]:
    named = {name for stack in study.stacks.values() for name in stack.all_devices}
    models = {used.device.name: used.device for name, used in study.devices.items() if name in named}
    for model, device in models.items():
        for name, each in device.parameters.items():
            if each.low is None or each.high is None or isinstance(each.value, str):
                continue
            spec = device.model.parameters[name]
            yield Quantity(
                quantity=f"{model}.{name}",
                kind="disk",
                words=spec.meaning,
                unit=each.unit,
                stated=float(each.value),
                low=float(each.low),
                high=float(each.high),
                known="estimated" if each.estimate else "published",
                source=each.range or each.source,
                whole=int(spec.whole),
                applied=lambda study, value, model=model, name=name: _with_parameter(
                    study, model, name, value
                ),  # type: ignore[misc]
            )


def _with_parameter(study: Study, model: str, name: str, value: float) -> Study:
    """All disks of this model with one value of a parameter, which is then not drawn, unlike the others."""

    def changed(used: StudyDevice) -> StudyDevice:
        if used.device.name != model:
            return used
        known = used.device.parameters[name]
        fixed: float | int = int(value) if isinstance(known.value, int) and value == int(value) else value
        parameter = known.model_copy(update={"value": fixed, "low": None, "high": None, "range": None})
        parameters = {**used.device.parameters, name: parameter}
        return replace(used, device=replace(used.device, parameters=parameters))

    return replace(study, devices={key: changed(used) for key, used in study.devices.items()})


def _of_memory(study: Study) -> Iterator[Quantity]:
    if any("memory_bytes" in own for own in study.own.values()):
        return  # a factor of the study varies it
    stated = float(study.memory_bytes)
    yield Quantity(
        quantity="memory",
        kind="memory",
        words="memory of the machine",
        unit="B",
        stated=stated,
        low=max(stated / _FACTOR, float(MEMORY_BYTES_MIN)),
        high=stated * _FACTOR,
        known="chosen",
        source=_CHOSEN,
        whole=MIB,
        applied=lambda study, value: replace(study, memory_bytes=int(value)),
    )


def _of_load(study: Study, workload: str) -> Iterator[Quantity]:
    load = study.workloads[workload]
    for key, (words, unit) in _KEYS.items():
        stated = getattr(load, key, None)
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 1:
            continue
        step = MIB if unit == "B" else 1
        low = max(round(stated / _FACTOR / step), 1) * step
        yield Quantity(
            quantity=f"{workload}.{key.removesuffix('_bytes')}",
            kind="workload",
            words=f"{words} of {workload}",
            unit=unit,
            stated=float(stated),
            low=float(min(low, stated)),
            high=float(stated * _FACTOR),
            known="chosen",
            source=_CHOSEN,
            whole=step,
            applied=lambda study, value, key=key: _with_key(study, workload, key, int(value)),  # type: ignore[misc]
        )


def _with_key(study: Study, workload: str, key: str, value: int) -> Study:
    load = study.workloads[workload]
    changed: dict[str, object] = {key: value}
    jobs = getattr(load, "jobs", None)
    if key == "clients" and isinstance(jobs, int):
        changed["jobs"] = min(jobs, value)  # pgbench has at most as many threads
    loads: dict[str, Workload] = {**study.workloads, workload: load.model_copy(update=changed)}
    return replace(study, workloads=loads)
