# SPDX-License-Identifier: Apache-2.0
"""Pairing the trials of two sets of results: by names, and by seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from strata.errors import ResultError
from strata.printable import in_json
from strata.results.capabilities import Capabilities
from strata.results.differences import Naming
from strata.results.store import Reading
from strata.statistics.study import StudyResults
from strata.words import matching

Likeness = Literal["identical", "the same numbers", "different"]


@dataclass(frozen=True)
class Side:
    """One of the two sets; ``name`` is of the command line, ``stack`` the only one to compare, if given."""

    results: StudyResults = field(repr=False)
    name: str
    stack: str | None = None
    capabilities: Capabilities | None = field(default=None, repr=False)

    @property
    @in_json
    def study(self) -> str:
        return self.results.snapshot.name

    @property
    @in_json
    def runner(self) -> str:
        return self.results.snapshot.runner

    @property
    @in_json
    def time_domain(self) -> str:
        return self.results.snapshot.time_domain


@dataclass(frozen=True)
class PairedCell:
    """A stack under a workload, in both sets, with its usable trials by seed.

    Stack and workload have these names in the first set, the ``other`` names in the second.
    """

    stack: str
    workload: str
    other_stack: str
    other_workload: str
    first: Mapping[int, Reading] = field(repr=False)
    second: Mapping[int, Reading] = field(repr=False)

    @property
    @in_json
    def seeds(self) -> list[int]:
        return sorted(self.first.keys() & self.second.keys())

    @property
    @in_json
    def first_seeds(self) -> list[int]:
        return sorted(self.first)

    @property
    @in_json
    def second_seeds(self) -> list[int]:
        return sorted(self.second)

    @property
    def pairs(self) -> list[tuple[Reading, Reading]]:
        return [(self.first[seed], self.second[seed]) for seed in self.seeds]

    @property
    def neighbours(self) -> list[tuple[Reading, Reading]]:
        """Trials paired in the order of their seeds, for differences that no seed affects."""
        sides = ([side[seed] for seed in sorted(side)] for side in (self.first, self.second))
        return list(zip(*sides, strict=False))

    @property
    @in_json
    def likeness(self) -> Likeness:
        """Whether its pairs are identical by their hashes, or at least in every number."""
        if not self.seeds:
            return "different"
        if all(one.record_sha256 == two.record_sha256 for one, two in self.pairs):
            return "identical"
        if all(_numbers(one) == _numbers(two) for one, two in self.pairs):
            return "the same numbers"
        return "different"

    @property
    def title(self) -> str:
        """Stack and workload, both names of each where they differ."""
        return f"{self.stack_title} under {self.workload_title}"

    @property
    def stack_title(self) -> str:
        return " → ".join(dict.fromkeys([self.stack, self.other_stack]))

    @property
    def workload_title(self) -> str:
        return " → ".join(dict.fromkeys([self.workload, self.other_workload]))


@dataclass(frozen=True)
class Absence:
    """A cell, or a metric of one, that could not be compared; the reason calls the sets A and B."""

    what: str
    why: str


def named_alike(first: Side, second: Side, renamed: Mapping[str, str]) -> Naming:
    """The stacks and workloads of the first set by their names in the second, where ``renamed`` has others.

    Raises ResultError if one is in virtual and the other in wall time, or has none of the names.
    """
    domains = [side.results.snapshot.time_domain for side in (first, second)]
    if domains[0] != domains[1]:
        raise ResultError(
            f"the one is in {domains[0]} time and the other in {domains[1]} time, which are never mixed",
            place=f"{first.name}, {second.name}",
            remedy="compare results of the lab with others of the lab, and a host's with those of a host",
        )
    _refuse_unknown(first, second, renamed)
    one, two = first.results, second.results
    return Naming(
        stacks=_paired_names((one.stacks, two.stacks), (first.stack, second.stack), renamed),
        workloads=_paired_names((one.workloads, two.workloads), (None, None), renamed),
    )


def restricted(naming: Naming, stacks: Sequence[str], workloads: Sequence[str]) -> Naming:
    """The names that match one of the globs, in either set; without globs all."""
    return Naming(_chosen(naming.stacks, stacks), _chosen(naming.workloads, workloads))


def _paired_names(
    names: tuple[list[str], list[str]], only: tuple[str | None, str | None], renamed: Mapping[str, str]
) -> dict[str, str]:
    """The names of the first set by the names of the second."""
    first, second = names
    if only[0] is not None or only[1] is not None:
        old = only[0] or only[1] or ""
        return {old: only[1] or renamed.get(old, old)}
    mapped = {name: renamed.get(name, name) for name in first}
    taken = {renamed[name] for name in first if name in renamed}
    return {old: new for old, new in mapped.items() if new in second and (old in renamed or new not in taken)}


def _refuse_unknown(first: Side, second: Side, renamed: Mapping[str, str]) -> None:
    """Refuse names that neither set has: nothing would be compared."""
    known = [{*side.results.stacks, *side.results.workloads} for side in (first, second)]
    for old, new in renamed.items():
        for name, names, side in ((old, known[0], first), (new, known[1], second)):
            if name not in names:
                stacks, workloads = _listed(side.results.stacks), _listed(side.results.workloads)
                cause = f'{side.name} has no stack and no workload "{name}"'
                remedy = f"it has the stacks {stacks}, and the workloads {workloads}"
                raise ResultError(cause, place=f"--map {old}={new}", remedy=remedy)
    for side in (first, second):
        if side.stack is not None and side.stack not in side.results.stacks:
            cause = f'the study has no stack "{side.stack}"'
            raise ResultError(cause, place=side.name, remedy=f"it has {_listed(side.results.stacks)}")


def _chosen(names: Mapping[str, str], globs: Sequence[str]) -> dict[str, str]:
    return {old: new for old, new in names.items() if matching((old, new), globs)}


def cells_of(first: Side, second: Side, naming: Naming) -> tuple[list[PairedCell], list[Absence]]:
    """The cells that have valid results in both sets, and the reasons why the others have none."""
    usable = [_usable(side.results) for side in (first, second)]
    cells: list[PairedCell] = []
    absent: list[Absence] = []
    for workload, other_workload in naming.workloads.items():
        for stack, other_stack in naming.stacks.items():
            one = usable[0].get((stack, workload), {})
            two = usable[1].get((other_stack, other_workload), {})
            cell = PairedCell(stack, workload, other_stack, other_workload, one, two)
            if one and two:
                cells.append(cell)
                continue
            whys = [
                f"no valid result in {letter}{_in_brackets(side.results.lacking(*names))}"
                for letter, side, names, found in (
                    ("A", first, (stack, workload), one),
                    ("B", second, (other_stack, other_workload), two),
                )
                if not found
            ]
            absent.append(Absence(cell.title, "; ".join(whys)))
    return cells, absent


def _usable(results: StudyResults) -> dict[tuple[str, str], dict[int, Reading]]:
    found: dict[tuple[str, str], dict[int, Reading]] = {}
    for reading in results.readings:
        if reading.record is not None and reading.usable and reading.trial.rate is None:
            trial = reading.record.trial
            found.setdefault((trial.stack, trial.workload), {})[trial.seed] = reading
    return found


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def only_in_one(first: Side, second: Side, naming: Naming) -> Iterator[Absence]:
    if first.stack is not None or second.stack is not None:
        return
    for letter, side, stacks, workloads in (
        ("A", first, naming.stacks.keys(), naming.workloads.keys()),
        ("B", second, naming.stacks.values(), naming.workloads.values()),
    ):
        for kind, names, paired in (
            ("stack", side.results.stacks, stacks),
            ("workload", side.results.workloads, workloads),
        ):
            for name in names:
                if name not in paired:
                    yield Absence(f"the {kind} {name}", f"only in {letter}")


def nothing_to_compare(first: Side, second: Side, absent: Sequence[Absence]) -> ResultError:
    place = f"{first.name}, {second.name}"
    if absent:
        more = f", and {len(absent) - 1} more" if len(absent) > 1 else ""
        cause = f"there is nothing to compare: {absent[0].what}: {absent[0].why}{more}"
        remedy = "`strata show` says of each trial why it has no valid result"
    else:
        cause = "the two sets have no stack and workload in common, or none was chosen"
        names = [
            f"{_listed(each.stacks)} under {_listed(each.workloads)}"
            for each in (first.results, second.results)
        ]
        remedy = f"`strata compare --map OLD=NEW` says what stands for what: {', against '.join(names)}"
    return ResultError(cause, place=place, remedy=remedy)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _numbers(reading: Reading) -> object:
    """Everything that a trial measured, without its specification and origin."""
    record = reading.record
    if record is None:
        return None
    metrics = {each.name: each.value for each in record.metrics}
    # Free memory depends on the length of a command line, which the specification shows.
    samples = record.samples.model_copy(update={"available_bytes_min": None})
    return metrics, record.histograms, record.phases_ns, record.disks, record.filesystems, samples
