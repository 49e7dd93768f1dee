# SPDX-License-Identifier: Apache-2.0
"""Measured values beside the published ones: whether a stack works in the regime that was published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from strata.model.trial import CellKey
from strata.printable import in_json
from strata.reading.claims import ClaimSubject, PublishedLevel
from strata.results.record import ResultRecord
from strata.statistics.study import StudyResults
from strata.units import format_share, format_value, percent, times


@dataclass(frozen=True)
class LevelFinding:
    """One stack's value beside its published level.

    Attributes:
        measured: The mean over the seeds, in the level's unit; None without results.
        seeds: The number of seeds behind it.
        processors: The busy share of the processors in the measured window; None if that is not known.
        disk: The busy share of the busiest disk there.
        why: The reason why the two are no level of one kind; empty: they are.
    """

    level: PublishedLevel
    stack: str
    measured: float | None = None
    seeds: int = 0
    processors: float | None = None
    disk: float | None = None
    why: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.stack, self.level.workload, self.level.metric

    @property
    @in_json
    def off_by(self) -> float | None:
        """The measured value over the published one; None where nothing can be said."""
        return None if self.why or self.measured is None else self.level.off_by(self.measured)

    @property
    @in_json
    def is_met(self) -> bool | None:
        return None if self.why or self.measured is None else self.level.is_met(self.measured)

    @property
    def published(self) -> str:
        ends = [format_value(end, self.level.unit) for end in self.level.value]
        return " to ".join(dict.fromkeys(ends))

    @property
    def waited(self) -> str:
        """What the measured window waited for: ``processors 99 % busy, the busiest disk 31 %``."""
        shares = {"processors": self.processors, "the busiest disk": self.disk}
        known = {name: percent(share) for name, share in shares.items() if share is not None}
        return ", ".join(f"{name} {share}" for name, share in known.items()) + (" busy" if known else "")

    @property
    def other_regime(self) -> str:
        """Why comparisons with this stack are in another regime; empty: they are not."""
        if self.is_met is not False or self.measured is None or self.off_by is None:
            return ""
        measured = format_value(self.measured, self.level.unit)
        waited = f"; {self.waited}" if self.waited else ""
        return f"{self.stack} has {measured}, published {self.published} ({times(self.off_by)}{waited})"


def beside(
    levels: Sequence[PublishedLevel], results: StudyResults, subject: ClaimSubject
) -> list[LevelFinding]:
    """Each published level of the stacks in the results, with the measured value."""
    cells = [(level, stack) for level in levels for stack in level.stacks(results.stacks)]
    return [
        _beside(level, stack, results, subject)
        for level, stack in cells
        if level.workload in results.workloads
    ]


def _beside(level: PublishedLevel, stack: str, results: StudyResults, subject: ClaimSubject) -> LevelFinding:
    cell = CellKey(stack, level.workload)
    level = level.at_scale(subject.reduced.get(level.workload, 1))
    summary = results.summaries(level.workload, level.metric).get(stack)
    why = _unlike(level, cell, subject)
    if summary is None:
        return LevelFinding(level, stack, why=why)
    kind = next(kind for kind in results.kinds(level.workload) if kind.name == level.metric)
    records = list(results.cells[cell].records.values()) if kind.phase == "measure" else []
    used = (each.processor.utilisation if each.processor else None for each in records)
    shares = _mean(used), _mean(map(_busiest, records))
    return LevelFinding(level, stack, summary.estimate, summary.n, *shares, why)


def _unlike(level: PublishedLevel, cell: CellKey, subject: ClaimSubject) -> str:
    """Why a value of these results is not held against the published one; empty: it is."""
    share = subject.reduced.get(level.workload)
    if why := subject.skipped.get(cell) or subject.unlike.get(level.workload, ""):
        return why
    if share is not None and not (level.counted or level.unit.endswith("/s")):
        return f"a value of the full size, and this is {format_share(share)} of it"
    return ""


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _busiest(record: ResultRecord) -> float | None:
    """The busy share of the busiest disk in the measured window."""
    length_ns = record.processor.window_ns if record.processor else record.phases_ns.get("measure", 0)
    busy = [account["busy_ns"] for account in record.disks.values() if "busy_ns" in account]
    return min(1.0, max(busy) / length_ns) if busy and length_ns else None
