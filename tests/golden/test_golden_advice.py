# SPDX-License-Identifier: Apache-2.0
"""The recommendations' sentences, as they are printed for made results.

``pytest tests/golden --update-golden`` rewrites them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from advice_studies import around, capabilities, said_of, study, use, weight
from strata.advice.advise import advise
from strata.advice.model import Advice
from strata.advice.uses import Need, Use
from strata.report.advice_tables import whole
from strata.report.document import Document, markdown_of
from strata.results.capabilities import Capabilities
from strata.statistics.study import StudyResults

FOLDER = Path(__file__).parent / "advice"
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


def advice_of(case: str) -> Advice:
    results, on, can = CASES[case]
    [advice] = advise(results, [on], can)
    return advice


def held(name: str, text: str, request: pytest.FixtureRequest) -> None:
    file = FOLDER / name
    if request.config.getoption("--update-golden"):
        file.write_text(text)
    assert file.read_text() == text, "review the change, then run: pytest tests/golden --update-golden"


def test_a_recommendation_reads_as_it_was_read_and_approved(request: pytest.FixtureRequest) -> None:
    lines = str(Document(whole(advice_of("undecided")))).splitlines()
    held("undecided.txt", "".join(f"{line.rstrip()}\n" for line in lines), request)


def test_the_markdown_has_everything(request: pytest.FixtureRequest) -> None:
    held("clear.md", markdown_of(whole(advice_of("clear"))), request)


def test_a_recommendation_has_no_superlatives_and_ends_its_sentences() -> None:
    for case in CASES:
        text = said_of(advice_of(case))
        words = {*text.lower().replace(",", " ").split()}
        assert text.endswith("."), case
        assert ".." not in text, case
        assert not {"best", "fastest", "worst", "optimal", "perfect"} & words, case
