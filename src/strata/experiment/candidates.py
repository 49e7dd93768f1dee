# SPDX-License-Identifier: Apache-2.0
"""The changes of a study that may explain why a claim is not reproduced, the likeliest first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from strata.devices.kinds.flash import PRECONDITIONS
from strata.devices.processor import bundled_processors, find_processor
from strata.diagnostics.key_paths import HEAD
from strata.experiment.quantities import quantities
from strata.model.kernel import KERNELS
from strata.model.study import Study
from strata.reading.claims import Claim
from strata.results.findings import AS_MEASURED, Variation
from strata.units import describe_size

_STATES: Final[Mapping[str, str]] = {
    "fresh": "nothing was ever written to the drive",
    "used": "the drive was in use for months, and then idle",
    "steady": "the drive was overwritten until its speed no longer changed",
}
_OF_LOAD: Final = ("clients", "threads")
"""A claim states how many operations wait at once; it often leaves out the amount of data."""


def candidates(
    study: Study, claim: Claim, stacks: Iterable[str], workloads: Iterable[str]
) -> list[Variation]:
    """The study as it is, and the changes to try; ``study`` is the one of the full size."""
    exact = "every seed has the values of the devices' and the processor's files"
    found = [
        Variation(name=AS_MEASURED, why="the study as it is"),
        *_suspects(claim),
        *(
            _of_head("kernel", version, f"Linux {version} instead of {study.kernel.name}")
            for version in KERNELS
            if version != study.kernel.name
        ),
        *_states(study, stacks),
        *_processors(study),
        *([_of_head("drives", "exact", exact)] if study.drives != "exact" else ()),
        *_sizes(study, workloads),
    ]
    return list({each.model_dump_json(exclude={"why"}): each for each in found}.values())


def _of_head(name: str, value: object, why: str, **more: object) -> Variation:
    changes = {f"{HEAD}.{key}": changed for key, changed in {name: value, **more}.items()}
    return Variation(name=f"{name} = {value}", changes=changes, why=why)


def _suspects(claim: Claim) -> Iterator[Variation]:
    for suspect in claim.suspect:
        text = suspect.value if isinstance(suspect.value, str) else json.dumps(suspect.value)
        first, *others = suspect.key
        more = f" and {len(others)} more" if others else ""
        name = f"{first.removeprefix(f'{HEAD}.')}{more} = {text}"
        yield Variation(name=name, changes=dict.fromkeys(suspect.key, suspect.value), why=suspect.why)


def _states(study: Study, stacks: Iterable[str]) -> Iterator[Variation]:
    used = {each.name: each.device for stack in stacks for each in study.stack_devices(stack)}
    flash = {name: each for name, each in used.items() if "precondition" in each.parameters}
    for state, why in _STATES.items():
        if any(each.number("precondition") != PRECONDITIONS[state] for each in flash.values()):
            changes = {f"devices.{name}.precondition": state for name in flash}
            yield Variation(name=f"precondition = {state}", changes=changes, why=why)


def _processors(study: Study) -> Iterator[Variation]:
    """No processor at all, the fastest and the slowest of the bundled ones, with as many cores."""
    every = map(find_processor, bundled_processors())
    times = {each.number("unit_time"): each.name for each in every if each.number("unit_time")}
    whys = {
        "free": "computing takes no time",
        times[min(times)]: "the fastest of the bundled processors",
        times[max(times)]: "the slowest of the bundled processors",
    }
    for name, why in whys.items():
        if name != study.processor.name:
            yield _of_head("cpu", name, why, cpus=int(study.processor.number("processors")))


def _sizes(study: Study, workloads: Iterable[str]) -> Iterator[Variation]:
    """A quarter and four times of memory and of data; the largest data take the longest, and come last."""
    every = (each for each in quantities(study, workloads) if each.kind in ("memory", "workload"))
    sizes = [each for each in every if each.quantity.rpartition(".")[2] not in _OF_LOAD]
    sizes.sort(key=lambda each: each.kind)
    for each, number in [*((each, each.low) for each in sizes), *((each, each.high) for each in sizes)]:
        if (near := each.near(number)) != each.stated:
            value = describe_size(int(near)) if each.unit == "B" else int(near)
            why = f"{each.words}, {each.shown(each.stated)} in the study"
            key = f"{HEAD}.memory" if each.kind == "memory" else f"workloads.{each.quantity}"
            yield Variation(name=f"{each.quantity} = {value}", changes={key: value}, why=why)
