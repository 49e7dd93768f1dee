# SPDX-License-Identifier: Apache-2.0
"""The recommendations' sentences, as they are printed for made results.

``pytest tests/golden --update-golden`` rewrites them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from advice_studies import around, capabilities, said_of, study, use, weight
from golden_text import Golden
from strata.advice.advise import advise
from strata.advice.model import Advice
from strata.advice.uses import Need, Use
from strata.report.advice_tables import whole
from strata.report.document import Document, markdown_of
from strata.results.capabilities import Capabilities
from strata.statistics.comparison import Comparison
from strata.statistics.study import StudyResults

NEEDS = (
    Need(capability="durable", level="required", why="what was acknowledged must be there"),
    Need(capability="disk-loss", level="preferred", why="it should go on"),
    Need(capability="snapshot", level="wished", why="a way back"),
    Need(capability="grow", level="wished", why="it grows"),
)
SERVER = use(weight("database", 60), weight("mail", 25), weight("files", 15), needs=NEEDS)
PLAIN = use(weight("database", 1))
CAN = capabilities(
    xfs="disk-loss snapshot:no grow quota send:no clone:no corruption-healed:no",
    ext4="disk-loss snapshot:no grow quota send:no clone:no corruption-healed:no",
    zfs="disk-loss snapshot grow:partial quota send clone corruption-healed",
    single="disk-loss:no snapshot:no grow quota",
)
MEASURED = study(
    {
        "async": {"database": around(900.0), "mail": around(3000.0)},
        "ext4": {"database": around(352.0), "mail": around(1180.0)},
        "xfs": {"database": around(403.0, 0.02), "mail": around(1220.0, 0.03)},
        "zfs": {"database": around(290.0, 0.03), "mail": around(1610.0, 0.02)},
        "single": {"database": around(500.0), "mail": around(2000.0)},
        "btrfs": {"database": around(110.0), "mail": []},
    },
    risks={"async": "zfs: sync = disabled: it acknowledges what is only in memory"},
)
EVEN = study(
    {
        "ext4": {"database": around(352.0, 0.002)},
        "xfs": {"database": around(349.0, 0.003)},
        "btrfs": {"database": around(110.0)},
    }
)
UNDECIDED = study(
    {
        "ext4": {"database": around(352.0, 0.1, 4)},
        "xfs": {"database": around(345.0, 0.05, 4)},
        "btrfs": {"database": around(110.0, 0.02, 4)},
    },
    time_domain="wall",
)
DISAGREEING = study(
    {
        "ext4": {"database": around(100.0), "mail": around(100.0)},
        "zfs": {"database": around(530.0), "mail": around(24.0)},
    }
)
LATENCY = study(
    {"ext4": {"database": around(9_100_000.0)}, "xfs": {"database": around(7_400_000.0, 0.03)}},
    better="lower",
    unit="ns",
    metric="latency_ns_p99",
)
CASES: dict[str, tuple[StudyResults, Use, Capabilities | None]] = {
    "clear": (MEASURED, SERVER, CAN),
    "clear-of-one-workload": (LATENCY, PLAIN, None),
    "clear-by-the-weights": (MEASURED, use(weight("database", 32), weight("mail", 68), needs=NEEDS), CAN),
    "the-means-disagree": (DISAGREEING, use(weight("database", 75), weight("mail", 25)), None),
    "even": (EVEN, use(weight("database", 1), needs=NEEDS), CAN),
    "undecided": (UNDECIDED, PLAIN, None),
    "too-few-seeds": (study({"ext4": {"database": [352.0]}, "xfs": {"database": [403.0]}}), PLAIN, None),
    "cannot-say": (MEASURED, use(weight("files", 60), weight("mail", 40)), CAN),
    "no-stack-left": (
        study({"a": {"database": around(352.0)}}, risks={"a": "disk0: ignores-flush: it lies"}),
        use(weight("database", 1), needs=NEEDS),
        None,
    ),
    "nothing-to-compare": (study({"ext4": {"database": around(352.0)}}), PLAIN, None),
    "one-meets-the-requirement": (
        study({"single": {"database": around(500.0)}, "ext4": {"database": around(352.0)}}, risks={}),
        use(weight("database", 1), needs=NEEDS),
        CAN,
    ),
}


MIXED = use(weight("database", 70), weight("mail", 30))
NEED = {each.capability: use(weight("database", 1), needs=[each]) for each in NEEDS}
ASYNC = "zfs: sync = disabled: it acknowledges what is only in memory"


def rates(risks: Mapping[str, str] | None = None, **stacks: float | Sequence[float]) -> StudyResults:
    """Results of a database on these stacks: around a rate, or values by seed."""
    values = {name: around(each) if isinstance(each, float) else each for name, each in stacks.items()}
    return study({name: {"database": each} for name, each in values.items()}, risks=risks)


def both(
    reference: str | None = None, **stacks: tuple[float | Sequence[float], float | Sequence[float]]
) -> StudyResults:
    """Results of a database and of mail."""
    made = {
        name: {
            load: around(each) if isinstance(each, float) else each
            for load, each in zip(("database", "mail"), values, strict=True)
        }
        for name, values in stacks.items()
    }
    return study(made, reference=reference)


LUCKY, UNLUCKY = [112.0, 95, 110, 101, 113, 99], [100.0, 104, 95, 108, 97, 106]
# What the conclusion rests on, by a sentence each.
FACTS: dict[str, tuple[StudyResults, Use, Capabilities | None]] = {
    "better by more than the zone and the doubt": (rates(a=100.0, b=120.0), PLAIN, None),
    "even with two, and not with a third that is slow": (
        rates(a=around(100, 0.002), b=around(101, 0.002), c=around(50, 0.002)), PLAIN, None),
    "not even with one that scatters": (
        rates(a=around(100, 0.002), b=around(100, 0.002), c=around(99, 0.2)), PLAIN, None),
    "a large difference is excluded": (rates(a=around(100, 0.04), b=101.0), PLAIN, None),
    "a large difference may hide": (rates(a=around(100, 0.2), b=101.0), PLAIN, None),
    "seeds are asked for of the leaders alone": (
        rates(a=around(100, 0.1), b=around(106, 0.2), c=[20] * 6), PLAIN, None),
    "no number of seeds decides at the edge of the zone": (
        rates(a=around(100, 0.05), b=around(103.2, 0.1)), PLAIN, None),
    "seeds that the leaders share decide": (
        rates(a=[*LUCKY, *around(80, 0.01, 34)], b=[*UNLUCKY, *around(104, 0.01, 34)], c=[30.0] * 6),
        PLAIN, None),
    "one seed": (rates(a=[100.0], b=[300.0]), PLAIN, None),
    "two seeds": (rates(a=[100.0] * 2, b=[300.0] * 2), PLAIN, None),
    "a stack with one seed is out": (rates(a=100.0, b=200.0, c=[900.0]), PLAIN, None),
    "a metric of zero has no ratio": (rates(a=[0.0] * 6, b=100.0), PLAIN, None),
    "less than half of the weights was measured": (
        study({"a": {"mail": around(100)}, "b": {"mail": around(200)}}), MIXED, None),
    "the rest of the weights might decide": (
        rates(a=100.0, b=80.0), use(weight("database", 60), weight("mail", 40)), None),
    "the rest of the weights does not decide": (
        rates(a=100.0, b=20.0), use(weight("database", 60), weight("mail", 40)), None),
    "the waiting of two workloads": (both(a=(100.0, 100.0), b=(200.0, 90.0)), MIXED, None),
    "fast mostly, and slow for the rest": (
        both(ext4=(100.0, 100.0), zfs=(530.0, 24.0)), use(weight("database", 75), weight("mail", 25)), None),
    "the study's reference": (both("b", a=(100.0, 100.0), b=(300.0, 80.0)), MIXED, None),
    "a reference without a place": (both("c", a=(100.0, 100.0), b=(300.0, 80.0), c=([], [])), MIXED, None),
    "worse at a workload than the best there": (
        both(a=(300.0, 100.0), b=(100.0, 120.0), c=(100.0, 150.0)), MIXED, None),
    "no results of a counted workload": (
        both(a=(100.0, 100.0), b=(200.0, 100.0), c=(900.0, [])), MIXED, None),
    "a workload that hardly any stack has": (
        both(a=(100.0, 100.0), b=(200.0, []), c=(50.0, []), d=(40.0, [])), MIXED, None),
    "workloads share their weight": (
        study({name: dict.fromkeys(("one", "two", "mail"), around(100)) for name in "ab"}),
        use(weight("database", 60), weight("mail", 20), weight("pgbench-again", 20)), None),
    "out without what others have": (
        rates(fast=300.0, safe=100.0, slow=50.0), NEED["disk-loss"],
        capabilities(fast="disk-loss:no", safe="disk-loss", slow="disk-loss:partial")),
    "a price that the seeds do not show": (
        rates(fast=[90.0, 140, 80, 150, 100, 110], safe=105.0), NEED["disk-loss"],
        capabilities(fast="disk-loss:no", safe="disk-loss")),
    "a preference that no stack meets": (
        rates(a=300.0, b=100.0), NEED["disk-loss"], capabilities(a="disk-loss:no", b="disk-loss:no")),
    "durability is required": (
        rates({"async": ASYNC}, **{"async": 210.0}, a=100.0, b=80.0), NEED["durable"], None),
    "durability is wished": (
        rates({"async": ASYNC}, **{"async": 210.0}, a=100.0),
        use(weight("database", 1), needs=[NEEDS[0].model_copy(update={"level": "wished"})]), None),
    "none is durable": (rates({"a": ASYNC, "b": ASYNC}, a=210.0, b=100.0), NEED["durable"], None),
    "nothing says what is durable": (rates(a=210.0, b=100.0), NEED["durable"], None),
    "what was not probed is asked for": (
        rates(a=300.0, b=100.0), use(weight("database", 1), needs=[NEEDS[1], NEEDS[2]]),
        capabilities(a="disk-loss:failed snapshot", b="disk-loss snapshot")),
    "what the choice gives up": (
        rates(a=300.0, b=100.0), NEED["snapshot"],
        capabilities(a="snapshot:no send:no quota:no", b="snapshot send quota:no")),
}  # fmt: skip


def advice_of(case: str) -> Advice:
    results, on, can = CASES[case] if case in CASES else FACTS[case]
    [advice] = advise(results, [on], can)
    return advice


def figures(each: Comparison | None) -> str:
    if each is None:
        return "–"
    ends = each.gain_interval and f" ({each.gain_interval.low:.3f} to {each.gain_interval.high:.3f})"
    return f"{each.stack} / {each.baseline}: {each.gain:.3f}{ends or ''} {each.verdict}"


def facts(advice: Advice) -> Iterator[str]:
    """What an advice holds, without its sentences."""
    leaders = f"{', '.join(advice.leaders)} (either: {advice.take_either})"
    yield f"{advice.conclusion}: {leaders} of {', '.join(advice.candidates)}"
    yield f"against {advice.baseline}, {advice.covered:.0%} covered by {len(advice.seeds)} seeds"
    for each in advice.standings:
        share = "–" if each.best_share is None else f"{each.best_share:.3f}"
        weightings = advice.weightings.get(each.stack, 0)
        yield f"{each.stack} waits {each.waiting:.4f}, leads in {share}, {weightings:.3f}"
        yield from (f"  {figures(mean)}" for mean in (each.score, each.geometric) if mean)
    yield from (f"part {each.workload} of {each.weight}: {each.share:.3f}" for each in advice.parts)
    yield from (f"covered by {each.workloads} lacking {each.lacking}" for each in advice.coverage)
    for out in advice.out:
        yield f"out {out.stack}, {out.why} {out.capability}: {out.text}; price {figures(out.price)}"
    for lack in advice.missing:
        yield f"missing {lack.capability} ({lack.need and lack.need.level}), held by {lack.held_by}"
    yield from (f"worse in {each.part.workload}: {figures(each.comparison)}" for each in advice.worse)
    yield from (f"apart in {each.part.workload}: {figures(each.comparison)}" for each in advice.apart)
    yield from (f"unprobed {each.capability}" for each in advice.unprobed)
    yield from (f"not durable {stack}: {why}" for stack, why in advice.durability.items())
    for step in advice.settling:
        yield f"settle by {step.kind}: {step.toml!r} {' '.join(step.commands)}"


def test_conclusions_rest_on_the_same_facts(golden: Golden) -> None:
    lines = (line for case in (*CASES, *FACTS) for line in (f"# {case}", *facts(advice_of(case)), ""))
    golden("advice/facts.txt", "\n".join(lines))


def test_a_recommendation_reads_as_it_was_read_and_approved(golden: Golden) -> None:
    lines = str(Document(whole(advice_of("undecided")))).splitlines()
    golden("advice/undecided.txt", "".join(f"{line.rstrip()}\n" for line in lines))


def test_the_markdown_has_everything(golden: Golden) -> None:
    golden("advice/clear.md", markdown_of(whole(advice_of("clear"))))


def test_a_recommendation_has_no_superlatives_and_ends_its_sentences() -> None:
    for case in (*CASES, *FACTS):
        text = said_of(advice_of(case))
        words = {*text.lower().replace(",", " ").split()}
        assert text.endswith("."), case
        assert ".." not in text, case
        assert not {"best", "fastest", "worst", "optimal", "perfect"} & words, case
