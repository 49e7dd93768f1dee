# SPDX-License-Identifier: Apache-2.0
"""What would reproduce a claim: its study is changed one thing at a time, and the claim judged anew.

Each variation is run on the claim's stacks and workloads alone, with the seeds of the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from strata.devices.kinds.flash import PRECONDITIONS
from strata.devices.processor import bundled_processors, find_processor
from strata.diagnostics.key_paths import HEAD
from strata.errors import ResultError
from strata.experiment.experiment import Cells
from strata.experiment.quantities import quantities
from strata.model.kernel import KERNELS
from strata.model.study import Study
from strata.reading.claims import Claim, ClaimSubject, Expectation
from strata.results.declared import declared_study
from strata.results.findings import AS_MEASURED, SEEDS, Compared, Finding, Tried, Variation, identity_of
from strata.statistics.claims import ClaimFinding, Judgement, cells_of, judge
from strata.statistics.study import StudyResults
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


@dataclass(frozen=True)
class WhatIf:
    """The changes of a study that flip the verdict of a claim.

    Attributes:
        judgement: Of the claim by the results.
        subject: The names that the claims of the results may use.
        file: The study's file, if it needs files beside it.
        seeds_max: Of each variation.
    """

    judgement: Judgement
    results: StudyResults
    subject: ClaimSubject
    file: Path | None = None
    seeds_max: int = SEEDS

    @cached_property
    def _measured(self) -> list[ClaimFinding]:
        """The comparisons of which the results have numbers. Raises ResultError without any."""
        claim, cells = self.judgement.claim, self.results.cells
        found = [
            comparison
            for comparison in self.judgement.findings
            if comparison.verdict != "not testable"
            and all(cells[cell].records for cell in cells_of(comparison))
        ]
        if not found:
            why = self.judgement.why or "they have no results of its stacks and workloads"
            cause = f"these results say nothing of {claim.id}, so nothing can change it: {why}"
            raise ResultError(
                cause, place="--what-if", remedy="run its stacks and workloads with `strata run`"
            )
        return found

    @cached_property
    def cells(self) -> Cells:
        """Those of the claim. Raises ResultError if no seed has results of all of them."""
        cells = [cell for comparison in self._measured for cell in cells_of(comparison)]
        common = set.intersection(*(set(self.results.cells[cell].records) for cell in cells))
        if not common:
            cause = "no seed has a result of every stack and workload of the claim"
            raise ResultError(cause, place="--what-if", remedy="run the study again with `strata run`")
        named = {cell.stack for cell in cells}
        stacks = [stack for stack in self.results.stacks if stack in named]
        workloads = list(dict.fromkeys(cell.workload for cell in cells))
        return Cells(stacks, workloads, sorted(common)[: self.seeds_max])

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        """Every candidate at once, the study as it is before them."""
        if tried:
            return []
        full = declared_study(self.results.snapshot, full=True, file=self.file)
        return candidates(full, self.judgement.claim, self.cells.stacks, self.cells.workloads)

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        subject = replace(self.subject, stacks=self.cells.stacks)
        claim = self.judgement.claim

        def pair(comparison: ClaimFinding) -> tuple[Expectation, str, str | None]:
            return comparison.expectation, comparison.stack, comparison.against

        wanted = list(map(pair, self._measured))
        # Only comparisons with results: another workload may not have run at all.
        expected = [each for each in claim.expect if any(each == expectation for expectation, *_ in wanted)]
        [judged] = judge([claim.model_copy(update={"expect": expected})], results, subject)
        judged = replace(judged, findings=[each for each in judged.findings if pair(each) in wanted])
        compared = map(_compared, judged.findings)
        return variation.tried(judged.verdict, judged.why, compared, len(self.cells.seeds))

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        return Finding(
            kind="what-if",
            subject=self.judgement.claim.id,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            tried=tuple(tried),
        )


def _compared(finding: ClaimFinding) -> Compared:
    interval = finding.interval
    return Compared(
        workload=finding.expectation.workload,
        metric=finding.expectation.metric,
        stack=finding.stack,
        against=finding.against,
        verdict=finding.verdict,
        unit="1" if finding.against is not None else finding.unit or "1",
        level=finding.level,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )
