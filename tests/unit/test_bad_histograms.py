# SPDX-License-Identifier: Apache-2.0
"""Histograms that are damaged or made to do harm: they cost no memory, and hide no other trial."""

from __future__ import annotations

import base64
import random
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from results_factory import make_study

from made_results import trial_key
from strata.model.histogram import BadHistogram, bins, decode, empty_histogram, encode, record
from strata.model.trial import TrialKey
from strata.results.store import ResultsFolder
from strata.statistics.study import gather

GOOD = empty_histogram()
record(GOOD, 3_000_000, 7)
WIRE = base64.b64decode(encode(GOOD))
CONTENT = zlib.decompress(WIRE[8:])


def wrapped(content: bytes, length: int | None = None) -> str:
    deflated = zlib.compress(content, 9)
    size = (len(deflated) if length is None else length).to_bytes(4, "big")
    return base64.b64encode(WIRE[:4] + size + deflated).decode()


def with_field(at: int, value: int, size: int) -> str:
    return wrapped(CONTENT[:at] + value.to_bytes(size, "big") + CONTENT[at + size :])


BAD: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "no base64": lambda: "\u202e\x1b[31m",
    "no histogram": lambda: base64.b64encode(b"nothing").decode(),
    "cut off": lambda: base64.b64encode(WIRE[: len(WIRE) // 2]).decode(),
    "a bomb": lambda: wrapped(CONTENT + bytes(64 << 20)),
    "a bomb of nothing": lambda: wrapped(bytes(64 << 20)),
    "too short": lambda: wrapped(CONTENT[:20]),
    "a wrong length": lambda: wrapped(CONTENT, 5),
    "many digits": lambda: with_field(12, 5, 4),
    "no digits": lambda: with_field(12, 0, 4),
    "no range": lambda: with_field(24, 0, 8),
    "a huge range": lambda: with_field(24, (1 << 64) - 1, 8),
    "a huge lowest value": lambda: with_field(16, (1 << 63) - 1, 8),
    "more bins than there are": lambda: wrapped(CONTENT[:40] + b"\x02" * 60_000),
    "a huge count": lambda: wrapped(CONTENT[:40] + b"\xfe" * 8 + b"\x7f"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_histogram_is_refused_without_the_memory_that_it_asks_for(how: str) -> None:
    text = BAD[how]()
    tracemalloc.start()
    try:
        with pytest.raises(BadHistogram):
            bins(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 8 << 20


def test_damage_at_any_byte_yields_a_histogram_or_a_refusal() -> None:
    drawn = random.Random(1)
    for _ in range(2000):
        content = bytearray(CONTENT)
        for _ in range(drawn.randint(1, 4)):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
        try:
            values, counts = bins(wrapped(bytes(content)))
        except BadHistogram:
            continue
        assert len(values) == len(counts)


def test_a_histogram_comes_back_as_it_was() -> None:
    assert decode(encode(GOOD)).total_count == 7
    assert [part.tolist() for part in bins(encode(GOOD))] == [
        [GOOD.get_highest_equivalent_value(3_000_000)],
        [7],
    ]


@pytest.mark.parametrize("how", BAD)
def test_one_bad_histogram_is_a_problem_of_its_trial_and_the_others_are_shown(
    tmp_path: Path, how: str
) -> None:
    folder = make_study(tmp_path / "results", seeds=(1, 2))
    path = folder.attempts(TrialKey("xfs", "oltp", 2))[0].result_path
    rewrite(folder, "xfs.oltp.s2", BAD[how]())

    results = gather(ResultsFolder.open(folder.path))

    assert {each.trial_id for each in results.readings if not each.usable} == {"xfs.oltp.s2"}
    problem = next(each.problem for each in results.readings if each.trial_id == "xfs.oltp.s2")
    assert "the histogram of latency_ns cannot be decoded" in str(problem)
    assert path.parent.name in str(problem)


def rewrite(folder: ResultsFolder, trial_id: str, histogram: str) -> None:
    """Give a result another histogram, and the hash that is right for it."""
    attempt = folder.attempts(trial_key(trial_id))[0]
    record = attempt.read_result()
    attempt.write_result(record.model_copy(update={"histograms": {"latency_ns": histogram}}))
