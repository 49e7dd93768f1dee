# SPDX-License-Identifier: Apache-2.0
"""The damage by failures to the stacks of two sets of results, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from strata.results.capabilities import Capabilities, Capability, PowerCutFinding, mean_recovery_ns
from strata.results.capabilities import Verdict as Found
from strata.results.differences import Naming
from strata.units import format_duration
from strata.words import counted

Verdict = Literal["better", "equal", "worse", "not judged"]

PROBES: Final = ("disk-loss", "second-disk-loss", "corruption-detected", "corruption-healed")
"""The probes of `strata capabilities` that a survival table asks for."""
_RANK: Final[Mapping[Found, int]] = {"no": 0, "partial": 1, "yes": 2}


@dataclass(frozen=True)
class SurvivalRow:
    """One thing that was tried in both sets, in words; ``first`` or ``second`` is None if it was not."""

    what: str
    stack: str
    workload: str  # empty: it is of no workload
    first: str | None
    second: str | None
    verdict: Verdict


def survival_rows(
    first: Capabilities | None, second: Capabilities | None, naming: Naming
) -> list[SurvivalRow]:
    """The rows of all power cuts and probes that one of the sets has, in the first study's order."""
    rows: list[SurvivalRow] = []
    for stack, other in naming.stacks.items():
        for workload, renamed in naming.workloads.items():
            rows += _cut_rows(stack, workload, (_cuts(first, stack, workload), _cuts(second, other, renamed)))
        rows += _probe_rows(stack, [(first, stack), (second, other)])
    return rows


def _cuts(found: Capabilities | None, stack: str, workload: str) -> list[PowerCutFinding]:
    return [cut for cut in (found.cuts if found else ()) if (cut.stack, cut.workload) == (stack, workload)]


def _cut_rows(stack: str, workload: str, sides: Sequence[list[PowerCutFinding]]) -> Iterator[SurvivalRow]:
    if not any(sides):
        return
    for what, measured in (
        ("acknowledged operations lost", [_lost(cuts) for cuts in sides]),
        ("not sound after recovery", [_unsound(cuts) for cuts in sides]),
    ):
        shares = [None if each is None else each[0] for each in measured]
        texts = [None if each is None else each[1] for each in measured]
        yield SurvivalRow(what, stack, workload, texts[0], texts[1], _less_is_better(*shares))
    times_ns = [mean_recovery_ns(cuts) for cuts in sides]
    if any(times_ns):
        texts = [None if each is None else format_duration(each) for each in times_ns]
        yield SurvivalRow("time to recover", stack, workload, texts[0], texts[1], "not judged")


def _lost(cuts: Sequence[PowerCutFinding]) -> tuple[float, str] | None:
    """The lost share of what was acknowledged, and in words; None: nobody counted."""
    counts = [cut for cut in cuts if cut.lost is not None]
    if not counts:
        return None
    lost, acknowledged = (sum(getattr(cut, key) or 0 for cut in counts) for key in ("lost", "acknowledged"))
    return lost / max(acknowledged, 1), f"{lost:,} of {acknowledged:,}"


def _unsound(cuts: Sequence[PowerCutFinding]) -> tuple[float, str] | None:
    judged = [cut for cut in cuts if cut.verdict not in ("unknown", "failed")]
    bad = sum(cut.verdict != "sound" for cut in judged)
    return (bad / len(judged), f"{bad} of {counted(len(judged), 'cut')}") if judged else None


def _less_is_better(first: float | None, second: float | None) -> Verdict:
    if first is None or second is None:
        return "not judged"
    return "equal" if first == second else "worse" if second > first else "better"


def _probe_rows(stack: str, sides: Sequence[tuple[Capabilities | None, str]]) -> Iterator[SurvivalRow]:
    for probe in PROBES:
        known = [_known(found, name, probe) for found, name in sides]
        if not any(known):
            continue
        texts = [None if cell is None else cell.verdict for cell in known]
        ranks = [None if text is None else -float(_RANK[text]) for text in texts]
        title = next(found.title(probe) for found, _ in sides if found)
        yield SurvivalRow(title, stack, "", texts[0], texts[1], _less_is_better(*ranks))
        returned = [None if cell is None else cell.returned_as_data for cell in known]
        if probe == "corruption-detected" and returned != [None, None]:
            said = [None if wrong is None else "yes" if wrong else "no" for wrong in returned]
            verdict = _less_is_better(*returned)
            yield SurvivalRow("Wrong data returned as data", stack, "", said[0], said[1], verdict)


def _known(found: Capabilities | None, stack: str, probe: str) -> Capability | None:
    """A probe's finding on a stack, if there is one and it did not fail."""
    cell = found.of(stack, probe) if found else None
    return None if cell is None or cell.verdict == "failed" else cell
