# SPDX-License-Identifier: Apache-2.0
"""An advice in words, made from its figures alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from strata.advice.model import COVERAGE_MIN, Advice, Excluded, MissingCapability, Standing, Worse
from strata.advice.uses import DURABLE
from strata.model.metric import metric_title
from strata.report.spans import Times
from strata.report.wording import between
from strata.statistics.comparison import Comparison
from strata.statistics.interval import SEEDS_WANTED, Interval
from strata.units import format_value, percent, times
from strata.words import counted, grouped, listed

# With more than this, a paragraph counts the rest.
_NAMED_MAX: Final = 3
_TOLD_APART_MAX: Final = 3  # leaders; of more, the table of the evidence says what each is better at
# The probes of `strata capabilities` in a sentence; a test demands all of them.
ABILITIES: Final = {
    DURABLE: "durability when the power fails",
    "snapshot": "snapshots",
    "clone": "instant clones",
    "restore-latest": "a return to the latest snapshot",
    "restore-older": "a return to an older snapshot",
    "send": "incremental transfer of snapshots",
    "quota": "enforced quotas",
    "grow": "online growth",
    "shrink": "online shrinking",
    "discard": "the return of discarded space",
    "copy-on-write": "copy-on-write copies of files",
    "nesting": "nested images",
    "corruption-detected": "detection of corruption",
    "corruption-healed": "healing of corruption",
    "disk-loss": "survival of a lost disk",
    "second-disk-loss": "survival of a second lost disk",
}


def lead(advice: Advice) -> str:
    """The answer with which every view begins: the choice, what is ruled out and why, what power cuts did.

    ``Home server, with snapshots: choose zfs. Ruled out: ext4 (without snapshots).``
    """
    required = [ability(each) for each in advice.use.required]
    said = f"{advice.use.title}{f', with {listed(required)}' if required else ''}: {headline(advice)}."
    out = grouped((lacks_words(each), stack) for stack, each in advice.ruled_out.items())
    if out:
        said += f" Ruled out: {'; '.join(f'{listed(stacks)} ({why})' for why, stacks in out.items())}."
    for stack in advice.leaders:
        if lost := advice.durability.get(stack):
            said += f" {stack} is not power-fail safe ({lost})."
        elif kept := advice.power_cuts.get(stack):
            said += f" {stack}: {kept}."
    open_yet = [ability(each.capability) for each in advice.unprobed if each.level == "required"]
    return said + (f" Not known of every stack yet: {listed(open_yet)}." if open_yet else "")


def headline(advice: Advice) -> str:
    if advice.conclusion == "clear":
        return f"choose {advice.leaders[0]}"
    apart = apart_words(advice)
    if advice.take_either:
        *others, last = advice.leaders
        said = f"take {'any of' if others[1:] else 'either'} {', '.join(others)} or {last}"
    elif advice.conclusion == "undecided":
        # A leader that is better at something, and worse at nothing, is the answer, unless that is in doubt.
        better = {each.comparison.baseline for each in advice.apart}
        is_said = apart and len(better) == 1 and not _is_doubted(advice)
        said = "" if is_said else f"undecided between {listed(advice.leaders)}"
    elif advice.conclusion == "the means disagree":
        said = f"the means disagree about {listed(advice.leaders)}"
    elif advice.conclusion == "nothing to compare" and advice.ruled_out:
        said = f"only {listed(advice.candidates)} qualifies"
    else:
        said = advice.conclusion
    return ": ".join(filter(None, (said, apart)))


def apart_words(advice: Advice) -> str:
    """What each of several leaders is better at; empty where no difference between them is shown.

    ``zfs is better in files (6.1 × as good as ext4), and no difference is shown in oltp``
    """
    if len(advice.leaders) > _TOLD_APART_MAX:
        return ""
    better: dict[str, dict[str, list[Comparison]]] = {}
    for each in advice.apart:
        found = better.setdefault(each.comparison.baseline, {})
        found.setdefault(each.part.workload, []).append(each.comparison)
    said = [
        f"{stack} is better in {listed([_most(*each) for each in found.items()])}"
        for stack, found in better.items()
    ]
    apart = {each.part.workload for each in advice.apart}
    alike = dict.fromkeys(part.workload for part in advice.parts if part.workload not in apart)
    if said and alike and not _is_doubted(advice):
        said.append(f"no difference is shown in {listed(list(alike))}")
    return ", ".join(said[:-1]) + (", and " if said[1:] else "") + said[-1] if said else ""


def _is_doubted(advice: Advice) -> bool:
    return any(each.doubt for each in advice.tied)


def _most(workload: str, comparisons: Sequence[Comparison]) -> str:
    """The widest lead under a workload: ``files (6.1 × as good as ext4)``; its metric, if no headline."""
    most = min(comparisons, key=lambda each: each.gain)
    if most.kind.headline:
        return f"{workload} ({times(1 / most.gain)} as good as {most.stack})"
    return f"{workload} ({times(1 / most.ratio.ratio)} {most.stack}'s {metric_title(most.kind)})"


def lacks_words(out: Excluded) -> str:
    """Why a requirement rules a stack out, in a few words."""
    if out.capability == DURABLE:
        return f"not power-fail safe: {out.text}"
    return f"without {ability(out.capability)}"


def reasons(advice: Advice) -> Iterator[tuple[str, str]]:
    """Under a heading each: how sure the choice is, for whom it is, its drawbacks, and the unknowns."""
    for title, sentences in (
        ("How sure", [_sure(advice)]),
        ("Measured", [*_heaviest(advice), *_behind(advice)]),
        ("For whom" if advice.standings else "Missing", _coverage(advice)),
        ("Ruled out", _out(advice)),
        ("Gives up", _given_up(advice)),
        ("Not known", _unknown(advice)),
    ):
        if text := " ".join(sentences):
            yield title, text


def _ratio(score: Comparison | None) -> str:
    """``1.16 × (95 % interval 1.14 to 1.19)``."""
    assert score is not None
    return Times(score.ratio.ratio, score.ratio.interval, is_named=True).text


def missing_words(missing: Sequence[MissingCapability]) -> str:
    """Missing capabilities, by the stacks that have them: ``snapshots (unlike btrfs and zfs)``."""
    held = grouped((each.held_by, ability(each.capability)) for each in missing)
    return listed(
        [
            listed(names) + (f" (unlike {listed(by)})" if by else " (no other stack has this in full)")
            for by, names in held.items()
        ]
    )


def ability(capability: str) -> str:
    return ABILITIES.get(capability, capability)


def _worse_words(worse: Worse) -> str:
    """``in mail: 0.76 × (95 % interval 0.745 to 0.771) zfs's operations per second``."""
    score = worse.comparison
    return f"in {score.workload}: {_ratio(score)} {score.baseline}'s {metric_title(score.kind)}"


def _sure(advice: Advice) -> str:
    tied = [each for each in advice.standings if each.score and each.stack in advice.leaders]
    match advice.conclusion:
        case "clear":
            leader, nearest = advice.standings[:2]
            return (
                f"Over {_score(nearest).ratio.n} seeds, in weighted mean time (lower is better), "
                f"{nearest.stack}, the next, takes {_ratio(nearest.score)} as long as {leader.stack}"
                f"{_geometric([nearest])}."
            )
        case "the means disagree":
            return (
                f"{_slower(advice, tied, ' (lower is better)')}{_geometric(tied)}. The first sums the times; "
                "in the second a ratio at one workload makes up for another elsewhere."
            )
        case "even" | "undecided":
            reached, n = _slower(advice, tied, " (lower is better)"), _score(tied[0]).ratio.n
            reached += _geometric(tied)
            so_far = f": less than 3 % apart, and {n} seeds exclude 10 %, though not 3 %."
            open_yet = f"; {n} seeds do not tell whether they differ by more than 3 %."
            known = f", over {n} seeds: they lie within ±3 % of one another."
            doubts = "; ".join(
                dict.fromkeys(each.doubt for each in advice.tied if each.verdict == "doubtful")
            )
            open_yet = f"; but these numbers are in doubt ({doubts})." if doubts else open_yet
            undecided = so_far if advice.take_either and not doubts else open_yet
            return reached + (known if advice.conclusion == "even" else undecided)
        case "too few seeds":
            shared = f"{len(advice.seeds)} seed{'' if len(advice.seeds) == 1 else 's'} in common"
            return f"The stacks have {shared}; without an interval a difference may be chance."
        case "cannot say":
            return (
                f"Of what counts for this use, {percent(advice.covered)} was measured on two stacks or "
                f"more; {percent(COVERAGE_MIN)} would be needed."
            )
        case "nothing to compare" | "no stack left":
            if not advice.candidates:
                said = "None of the study's stacks has all that this use requires."
            elif any(each.why == "requirement" for each in advice.out):
                said = f"Of the study's stacks only {listed(advice.candidates)} has what this use requires."
            else:
                said = "The study has one stack."
            return said


def _heaviest(advice: Advice) -> Iterator[str]:
    if not advice.leaders:
        return
    part, measured = max(zip(advice.parts, advice.measured, strict=True), key=lambda each: each[0].share)
    stacks = [each.stack for each in advice.standings][: max(2, len(advice.leaders))]
    shown = [
        f"{format_value(measured[stack].estimate, part.kind.unit)} on {stack}"
        + (f" ({_interval(measured[stack].interval, part.kind.unit)})" if index == 0 else "")
        for index, stack in enumerate(stacks)
    ]
    yield (
        f"The heaviest metric, with {percent(part.share)} of the weighted time on {advice.baseline}, is "
        f"{metric_title(part.kind)} in {part.workload}: {listed(shown)}."
    )


def _interval(interval: Interval | None, unit: str) -> str:
    return f"95 % interval {between(interval.low, interval.high, unit, 'to')}" if interval else "no interval"


def _slower(advice: Advice, standings: Sequence[Standing], note: str = "") -> str:
    """``In weighted mean time, xfs takes 1.02 × (…) as long as ext4, and zfs 1.3 × (…)``."""
    first, *others = _nearest(standings)
    shown = [f"{first.stack} takes {_ratio(first.score)} as long as {advice.standings[0].stack}"]
    shown += [f"{each.stack} {_ratio(each.score)}" for each in others]
    left = len(standings) - len(shown)
    more = f"; {left} more take longer" if left else ""
    return f"In weighted mean time{note}, {listed(shown)}{more}"


def _nearest(standings: Sequence[Standing]) -> Sequence[Standing]:
    return standings[:_NAMED_MAX] if len(standings) > _NAMED_MAX + 1 else standings


def _geometric(standings: Sequence[Standing]) -> str:
    """The second mean, where its verdict is another than the first's; else empty."""
    means = [
        f"{_ratio(each.geometric)} on {each.stack}"
        for each in _nearest(standings)
        if each.geometric is not None and each.geometric.verdict != _score(each).verdict
    ]
    return f"; the geometric mean of the times is {listed(means)}" if means else ""


def _behind(advice: Advice) -> Iterator[str]:
    behind = [each for each in advice.standings if each.stack not in advice.leaders]
    behind = behind[1:] if advice.conclusion == "clear" else behind
    if advice.leaders and behind:
        yield f"{_slower(advice, behind)}."


def _out(advice: Advice) -> Iterator[str]:
    unfit = grouped(
        (each.capability, each.stack + (f" ({each.text})" if each.capability == DURABLE else ""))
        for each in advice.out
        if each.why == "requirement"
    )
    lacking = grouped((each.text, each.stack) for each in advice.out if each.why != "requirement")
    for capability, stacks in unfit.items():
        levels = {need.capability: need.level for need in advice.use.needs}
        asks = "prefers" if levels.get(capability) == "preferred" else "requires"
        yield f"{listed(stacks)}, for lack of {ability(capability)}, which the use {asks}."
    yield from _price(advice)
    if lacking:
        shown = [f"{listed(stacks)} ({text})" for text, stacks in lacking.items()]
        yield f"Not ranked: {listed(shown)}."


def _price(advice: Advice) -> Iterator[str]:
    """How much faster the stacks without a requirement would be."""
    for excluded in advice.out:
        if excluded.price is None:
            continue
        lacks = f"lacks {ability(excluded.capability)}"
        but = "is not power-fail safe" if excluded.capability == DURABLE else lacks
        seeds = counted(excluded.price.ratio.n, "seed")
        unsure = {"better": "", "doubtful": f"; that number is in doubt ({excluded.price.doubt})"}.get(
            excluded.price.verdict, f"; {seeds} do not tell whether it is more than 3 % faster"
        )
        gain = Times.of(excluded.price, is_named=True).text
        yield f"{excluded.stack} would be {gain} as fast as {excluded.price.baseline}, but {but}{unsure}."


def _unmeasured(advice: Advice) -> str:
    """The weights without results, with their shares; empty: there are none."""
    missing = [each for each in advice.coverage if not each.workloads]
    return listed([f"{each.weight.name} ({percent(each.share)})" for each in missing])


def _coverage(advice: Advice) -> Iterator[str]:
    missing = _unmeasured(advice)
    if advice.standings:
        names = listed(list(dict.fromkeys(name for each in advice.coverage for name in each.workloads)))
        left = f"; not measured: {missing}" if missing else ""
        yield f"{percent(advice.covered)} of the use's weights were measured, by {names}{left}."
        yield from _bound(advice)
        yield from _weights(advice)
    elif missing and advice.conclusion not in ("nothing to compare", "no stack left"):
        yield f"Not measured: {missing}."


def _bound(advice: Advice) -> Iterator[str]:
    """How fast the next stack would have to be where nothing was measured, by the interval's near end."""
    if advice.leader is None or advice.covered >= 1:
        return
    first, rival = advice.standings[:2]
    interval, rest = _score(rival).ratio.interval, 1 - advice.covered
    if interval is None:
        return
    left = 1 - advice.covered / rest * first.waiting * (interval.low - 1)
    where = f"in the {percent(rest)} that was not measured"
    given = f", if {first.stack} takes there as long as the weights say"
    given = given if first.stack != advice.baseline else ""
    if left > 0:
        fast = f"at least {times(1 / left)} as fast as {first.stack} {where} to draw level{given}"
        yield f"{rival.stack}, the next, would have to be {fast}."
    else:
        yield f"However fast {rival.stack}, the next, is {where}, it does not draw level{given}."


def _given_up(advice: Advice) -> Iterator[str]:
    """The leaders' missing capabilities, needed ones first, and the parts at which others are better."""
    for need, opening in ((True, "Of what the use asks for, "), (False, "Besides, ")):
        missing = grouped(
            (each.stack, each)
            for each in advice.missing
            if each.verdict == "no" and (each.need is not None) is need
        )
        lacking = grouped((missing_words(missing[each]), each) for each in advice.leaders if each in missing)
        for text, stacks in lacking.items():
            yield f"{opening}{listed(stacks)} {'do' if len(stacks) > 1 else 'does'} without {text}."
    for stack, risks in advice.durability.items():
        if risks and stack in advice.leaders:
            yield f"{stack} is not power-fail safe ({risks})."
    for stack in advice.leaders:
        yield from _drawbacks(advice, stack)


def _drawbacks(advice: Advice, stack: str) -> Iterator[str]:
    """A leader's capabilities in part, and the metrics at which another stack is better."""
    missing = [each for each in advice.missing if each.stack == stack]
    if partial := [ability(each.capability) for each in missing if each.verdict == "partial"]:
        yield f"{stack} has {listed(partial)} in part only."
    worse = [each for each in advice.worse if each.comparison.stack == stack]
    worse = sorted(worse, key=lambda each: -each.part.share)
    if worse:
        named = [_worse_words(each) for each in worse[:_NAMED_MAX]]
        left = len(worse) - _NAMED_MAX
        more = [f"and in {counted(left, 'more metric')}"] if left > 0 else []
        yield f"{stack} is worse {'; '.join([*named, *more])}."


def _unknown(advice: Advice) -> Iterator[str]:
    if not advice.leaders:
        return
    if len(advice.seeds) < SEEDS_WANTED:
        yield f"With fewer than {SEEDS_WANTED} seeds the intervals are rough."
    unprobed = [ability(each.capability) for each in advice.unprobed if each.capability != DURABLE]
    if unprobed:
        yield f"Not probed on every stack: {listed(unprobed)}."
    if None in [advice.durability.get(stack) for stack in advice.leaders]:
        yield "These results do not say whether a setting gives durability away."
    yield from _survived(advice)
    if advice.warnings:
        count = len(advice.warnings)
        yield f"{count} warning{'s apply' if count > 1 else ' applies'} to these figures."
    if advice.time_domain == "virtual":
        yield "Times are virtual, on modelled disks and processors."
    else:
        yield "Times are those of one machine."


def _survived(advice: Advice) -> Iterator[str]:
    for stack in advice.leaders:
        for said in (advice.power_cuts.get(stack), advice.failures.get(stack)):
            if said:
                yield f"{stack}: {said}."
    if not advice.power_cuts.keys() >= {*advice.leaders}:
        yield "Survival of a power failure was not measured under these workloads."


def _weights(advice: Advice) -> Iterator[str]:
    """How far the choice rests on the weights."""
    if advice.conclusion != "clear":
        return
    yours = f" (yours: {listed(advice.use.adjusted)})" if advice.use.adjusted else ""
    if len({part.weight for part in advice.parts}) < 2:
        yield f"The weights are judgement{yours}."
        return
    [leader] = advice.leaders
    others = {stack: share for stack, share in advice.weightings.items() if share and stack != leader}
    shown = listed([f"{stack} leads in {percent(share)}" for stack, share in others.items()])
    yield (
        f"The weights are judgement{yours}: the choice holds in {percent(advice.weightings[leader])} of "
        f"plausible weightings{f'; {shown}' if shown else ''}."
    )


def _score(standing: Standing) -> Comparison:
    assert standing.score is not None
    return standing.score
