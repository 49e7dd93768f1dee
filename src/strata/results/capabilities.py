# SPDX-License-Identifier: Apache-2.0
"""The abilities of a study's stacks, and what power cuts took, as found by trial; kept in findings.json.

docs/reference/result-format.md describes it for readers of the JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from strata.results.record import Fingerprint, Frozen, TimeDomain

Verdict = Literal["yes", "no", "partial", "failed"]
"""``failed``: the probe came to no verdict, because something else went wrong."""


class Capability(Frozen):
    """One capability of one stack, as it was found.

    Attributes:
        note: A remark on the verdict.
        duration_ns: Virtual time of the operation itself, without preparing and verifying.
        read_bytes: Read by the disks during the operation; ``write_bytes`` written.
        commands: The operation's command lines, with variables.
        returned_as_data: Of damaged content: whether it was read without an error; null: not tried.
    """

    stack: str
    probe: str
    verdict: Verdict
    note: str = ""
    duration_ns: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    commands: tuple[str, ...] = ()
    returned_as_data: bool | None = None


class ProbeTitle(Frozen):
    name: str
    title: str
    question: str = ""


class PowerCutFinding(Frozen):
    """The outcome of one power cut of ``[survival]``.

    Attributes:
        number: Of the cut among those of the stack and workload, from 1 on.
        at_ns: The drawn instant, from the beginning of the measured window.
        verdict: As of `strata lab power-cut`; ``failed``: something else went wrong.
        note: The last lines of what went wrong.
        lost_by_disks: The writes that disks had acknowledged and that the cut took, whole or in part.
        acknowledged: The operations that the load had acknowledged; null: it cannot be judged.
        lost: The acknowledged operations that cannot be read after recovery; null: it cannot be judged.
        recovery_ns: The virtual time until the content could be used again; null: never.
        uncounted: Why nobody can say what was acknowledged; empty: it was counted.
    """

    stack: str
    workload: str
    seed: int
    number: int
    at_ns: int
    verdict: Literal[
        "sound", "damaged", "not mountable", "content damaged", "kernel panicked", "unknown", "failed"
    ]
    note: str = ""
    lost_by_disks: int = 0
    acknowledged: int | None = None
    lost: int | None = None
    recovery_ns: int | None = None
    uncounted: str = ""

    @property
    def durability_held(self) -> bool | None:
        """Whether everything acknowledged was there again; None: nobody can say."""
        if self.verdict in ("unknown", "failed") or (self.verdict == "sound" and self.lost is None):
            return None
        return self.verdict == "sound" and not self.lost


def mean_recovery_ns(cuts: Sequence[PowerCutFinding]) -> float | None:
    """The mean over the cuts after which the content could be used again; None: after none."""
    taken = [cut.recovery_ns for cut in cuts if cut.recovery_ns is not None]
    return sum(taken) / len(taken) if taken else None


def lost_words(cuts: Sequence[PowerCutFinding]) -> str:
    """What power cuts took of what was acknowledged, in words; empty: nothing that was found."""
    broken = [cut for cut in cuts if cut.durability_held is False]
    lost = sum(cut.lost or 0 for cut in broken)
    bad = Counter(cut.verdict for cut in broken if cut.verdict != "sound")
    ways = [f"{lost:,} acknowledged operations lost"] if lost else []
    ways += [f"{verdict} after {count}" for verdict, count in bad.items()]
    return f"measured in {len(broken)} of {len(cuts)} power cuts: {', '.join(ways)}" if ways else ""


class Capabilities(Frozen):
    """The matrix of capabilities, and the power cuts.

    Attributes:
        time_domain: Of the durations. Probes run in the lab, even for a study that is measured on a host.
        stacks: The columns in the study's order: each stack's title when it was probed.
        cells: At most one for each stack and probe.
        uncut: The workloads during which the power was not cut, each with the reason.
    """

    study: str
    time_domain: TimeDomain = "virtual"
    fingerprint: Fingerprint | None = None
    probes: tuple[ProbeTitle, ...]
    stacks: dict[str, str]
    cells: tuple[Capability, ...] = ()
    cuts: tuple[PowerCutFinding, ...] = ()
    uncut: dict[str, str] = Field(default={})

    def of(self, stack: str, probe: str) -> Capability | None:
        return next((each for each in self.cells if (each.stack, each.probe) == (stack, probe)), None)

    def title(self, probe: str) -> str:
        """A probe's heading; its name if it has no row."""
        return next((each.title for each in self.probes if each.name == probe), probe)

    def limited_to(self, titles: Mapping[str, str]) -> Capabilities:
        """Without the stacks whose titles differ from ``titles``, by name: they were changed or removed."""
        stacks = {name: title for name, title in titles.items() if self.stacks.get(name) == title}
        cells = tuple(cell for cell in self.cells if cell.stack in stacks)
        cuts = tuple(cut for cut in self.cuts if cut.stack in stacks)
        return self.model_copy(update={"stacks": stacks, "cells": cells, "cuts": cuts})

    def joined(self, before: Capabilities) -> Capabilities:
        """With the findings of an earlier survey of the same stacks in the same lab."""
        if (before.study, before.fingerprint) != (self.study, self.fingerprint):
            return self
        before = before.limited_to(self.stacks)
        cells = {(cell.stack, cell.probe): cell for cell in (*before.cells, *self.cells)}
        ordered = [(stack, probe.name) for stack in self.stacks for probe in self.probes]
        return self.model_copy(
            update={
                "cells": tuple(cells[at] for at in ordered if at in cells),
                "cuts": self.cuts or before.cuts,
                "uncut": self.uncut if self.cuts else before.uncut,
            }
        )
