# SPDX-License-Identifier: Apache-2.0
"""Possible reasons why a claim is not reproduced: changes of its study, one thing at a time.

Its own suspects come first, then kernels, the drives' state, processors, nominal drives, memory and data.
Each is a value at key paths of the study, so that it is checked as if it were written in the file.
"""

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
    found = [
        Variation(name=AS_MEASURED, changes={}, why="the study as it is"),
        *_suspects(claim),
        *_kernels(study),
        *_states(study, stacks),
        *_processors(study),
        *_nominal(study),
        *_sizes(study, workloads),
    ]
    return list({each.model_dump_json(exclude={"why"}): each for each in found}.values())


def _suspects(claim: Claim) -> Iterator[Variation]:
    for each in claim.suspect:
        text = each.value if isinstance(each.value, str) else json.dumps(each.value)
        first, *others = each.key
        more = f" and {len(others)} more" if others else ""
        name = f"{first.removeprefix(f'{HEAD}.')}{more} = {text}"
        yield Variation(name=name, changes=dict.fromkeys(each.key, each.value), why=each.why)


def _kernels(study: Study) -> Iterator[Variation]:
    for version in KERNELS:
        if version != study.kernel.name:
            why = f"Linux {version} instead of {study.kernel.name}"
            yield Variation(name=f"kernel = {version}", changes={f"{HEAD}.kernel": version}, why=why)


def _states(study: Study, stacks: Iterable[str]) -> Iterator[Variation]:
    used = {each.name: each.device for stack in stacks for each in study.stack_devices(stack)}
    flash = {name: each for name, each in used.items() if "precondition" in each.parameters}
    for state, why in _STATES.items() if flash else ():
        if any(each.number("precondition") != PRECONDITIONS[state] for each in flash.values()):
            changes = {f"devices.{name}.precondition": state for name in flash}
            yield Variation(name=f"precondition = {state}", changes=changes, why=why)


def _processors(study: Study) -> Iterator[Variation]:
    """No processor at all, the fastest and the slowest of the bundled ones, with as many cores."""
    cores = int(study.processor.number("processors"))
    priced = sorted(
        (each for each in map(find_processor, bundled_processors()) if each.number("unit_time")),
        key=lambda each: each.number("unit_time"),
    )
    whys = {
        "free": "computing takes no time",
        priced[0].name: "the fastest of the bundled processors",
        priced[-1].name: "the slowest of the bundled processors",
    }
    for name, why in whys.items():
        if name != study.processor.name:
            changes = {f"{HEAD}.cpu": name, f"{HEAD}.cpus": cores}
            yield Variation(name=f"cpu = {name}", changes=changes, why=why)


def _nominal(study: Study) -> Iterator[Variation]:
    if study.drives != "exact":
        why = "every seed has the values of the devices' and the processor's files"
        yield Variation(name="drives = exact", changes={f"{HEAD}.drives": "exact"}, why=why)


def _sizes(study: Study, workloads: Iterable[str]) -> Iterator[Variation]:
    """A quarter and four times of memory and of data; the largest data take the longest, and come last."""
    sizes = [
        each
        for each in quantities(study, workloads)
        if each.kind == "memory"
        or (each.kind == "workload" and each.quantity.rpartition(".")[2] not in _OF_LOAD)
    ]
    sizes.sort(key=lambda each: each.kind)
    for end in ("low", "high"):
        for each in sizes:
            number = each.near(getattr(each, end))
            if number == each.stated:
                continue
            value = describe_size(int(number)) if each.unit == "B" else int(number)
            key = f"{HEAD}.memory" if each.kind == "memory" else f"workloads.{each.quantity}"
            yield Variation(
                name=f"{each.quantity} = {value}",
                changes={key: value},
                why=f"{each.words}, {each.shown(each.stated)} in the study",
            )
