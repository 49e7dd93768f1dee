# SPDX-License-Identifier: Apache-2.0
"""The measurements that would make an advice surer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from strata.advice.evidence import Evidence
from strata.advice.model import Conclusion, Coverage, Settling, hardly_matters
from strata.advice.uses import DURABLE, Need
from strata.plan.catalogue import catalogue
from strata.results.record import StudySnapshot
from strata.statistics.comparison import Comparison
from strata.statistics.interval import PRACTICAL_ZONE, SEEDS_WANTED, half_width, student_quantile
from strata.statistics.study import StudyResults
from strata.toml import toml_table
from strata.units import percent
from strata.words import listed

# A difference that needs more seeds than this to be seen is not worth a night. A judgement.
_SEEDS_WORTH: Final = 100
_WEIGHTS: Final = Settling(
    "weights",
    "No measurement settles this: decide whose time counts, and give the weights (`--weights`), or share "
    "the workloads out over two stacks.",
)


def settlings(
    results: StudyResults,
    stacks: Sequence[str],
    evidence: Evidence,
    conclusion: Conclusion,
    *,
    tied: Sequence[Comparison],
    unprobed: Sequence[Need],
) -> tuple[Settling, ...]:
    """The measurements to make, the most important first.

    ``stacks`` are the candidates; ``tied`` compares the other stacks in front with the leader.
    """
    snapshot = results.snapshot
    unfinished = [*_unfinished(results, stacks, evidence)]
    more = None
    take_either = conclusion == "undecided" and all(map(hardly_matters, tied))
    if conclusion in ("too few seeds", "undecided") and not take_either:
        unsure = [each for each in tied if each.verdict not in ("worse", "doubtful")]
        if unsure or not tied:
            more = _seeds(results, evidence, unsure, unfinished=bool(unfinished))
        if doubts := "; ".join(dict.fromkeys(each.doubt for each in tied if each.verdict == "doubtful")):
            unfinished.append(
                Settling("trials", f"Measure again what is in doubt ({doubts}): its warnings have remedies.")
            )
    if conclusion == "the means disagree":
        more = _WEIGHTS
    missing = [*_workloads(snapshot, evidence.coverage)]
    found = [*unfinished, *([more] if more else []), *missing]
    if len(stacks) < 2:
        another = "another one that has what the use requires" if len(results.stacks) > 1 else "another one"
        none = "No stack is left: add one that has what the use requires to the study."
        one = f"One stack is no choice: add {another} to the study."
        found.insert(0, Settling("stacks", one if stacks else none))
    if probes := [need for need in unprobed if need.capability != DURABLE]:
        found.append(_probes(snapshot, probes))
    return tuple(found)


def _unfinished(results: StudyResults, stacks: Sequence[str], evidence: Evidence) -> Iterator[Settling]:
    counting = {name for each in evidence.coverage for name in (*each.workloads, *each.lacking)}
    missing = [
        each.trial_id
        for each in results.readings
        if not each.usable and each.trial.stack in stacks and each.trial.workload in counting
    ]
    if missing:
        shown = listed([*missing[:3], f"{len(missing) - 3} more"] if len(missing) > 4 else missing)
        count = "1 trial" if len(missing) == 1 else f"{len(missing)} trials"
        have = "has" if len(missing) == 1 else "have"
        yield Settling(
            "trials",
            f"{count} that count here {have} no usable result: {shown}. Running the study again measures "
            "only these.",
            commands=(f"strata run {results.snapshot.file or 'STUDY.toml'}",),
        )


def _workloads(snapshot: StudySnapshot, coverage: Sequence[Coverage]) -> Iterator[Settling]:
    missing = [each for each in coverage if not each.workloads and not each.lacking]
    names = list(snapshot.workloads)
    for part in sorted(missing, key=lambda one: -one.share):
        pattern = part.weight.fits[0]
        name = part.weight.name
        while name in names:
            name += "-more"
        names.append(name)
        yield Settling(
            "workload",
            f"Nothing was measured of {part.weight.name} ({percent(part.share)} of the weights: "
            f"{part.weight.why}). Add a workload to the study, such as:",
            toml=toml_table(f"workloads.{name}", pattern.example(catalogue())),
            commands=(f"strata run {snapshot.file or 'STUDY.toml'}",),
        )


def _seeds(
    results: StudyResults, evidence: Evidence, tied: Sequence[Comparison], *, unfinished: bool
) -> Settling | None:
    snapshot = results.snapshot
    now = len(evidence.common_seeds(evidence.stacks))
    wanted = max((seeds_wanted(each) for each in tied), default=SEEDS_WANTED)
    if wanted > _SEEDS_WORTH:
        return Settling(
            "seeds",
            f"More than {_SEEDS_WORTH} seeds would be needed to tell on which side of ±3 % the difference "
            "lies: it is near to that limit, or scatters much, which longer windows lower.",
        )
    if unfinished and wanted <= len(snapshot.seeds):
        return None  # the study already asks for this many
    named = {name for each in tied for name in (each.stack, each.baseline)}
    stacks = [stack for stack in results.stacks if stack in named]
    workloads = list(dict.fromkeys(part.workload for part in evidence.parts))
    everything = len(stacks) in (0, len(results.stacks))
    command = f"strata run {snapshot.file or 'STUDY.toml'}"
    within = f"{workloads[0]}." if len(workloads) == 1 else ""
    of = "all stacks" if everything else listed(stacks)
    text = f"{wanted} seeds of {of} instead of {now} would give intervals to judge by."
    if all(each.gain_interval is not None for each in tied):
        text = (
            f"About {wanted} seeds of {of} instead of {now} may settle it: an interval narrows with the "
            "square root of their number."
        )
    seeds = _seeds_from(snapshot.seeds, wanted)
    return Settling(
        "seeds",
        text,
        toml=f"[study]\nseeds = {len(seeds) if seeds == [*range(1, len(seeds) + 1)] else seeds}\n",
        commands=(command,)
        if everything
        else tuple(f"{command} --trial '{stack}.{within}*'" for stack in stacks),
        seeds=wanted,
    )


def seeds_wanted(score: Comparison) -> int:
    """The approximate number of seeds that bring a comparison's interval to one side of the zone's edge.

    The half-width falls with the square root of the number of seeds and with Student's quantile for it; the
    estimate is assumed to stay.
    """
    n, width = score.ratio.n, half_width(score.gain_interval)
    if math.isinf(width):
        return SEEDS_WANTED
    room = abs(abs(math.log(score.gain)) - math.log(1 + PRACTICAL_ZONE))
    scale = width * math.sqrt(n) / student_quantile(n - 1)
    for more in range(max(SEEDS_WANTED, n + 1), _SEEDS_WORTH + 1):
        if scale * student_quantile(more - 1) / math.sqrt(more) <= room:
            return more
    return _SEEDS_WORTH + 1


def _seeds_from(declared: Sequence[int], count: int) -> list[int]:
    free = (number for number in itertools.count(1) if number not in declared)
    return [*declared, *itertools.islice(free, max(0, count - len(declared)))]


def _probes(snapshot: StudySnapshot, unprobed: Sequence[Need]) -> Settling:
    words = " ".join(f"--probe {need.capability}" for need in unprobed)
    names = listed([need.capability for need in unprobed])
    return Settling(
        "capabilities",
        f"These capabilities, which the use asks for, were not probed on every stack: {names}.",
        commands=(f"strata capabilities {snapshot.file or 'STUDY.toml'} {words}",),
    )
