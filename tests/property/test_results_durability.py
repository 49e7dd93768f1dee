# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from strata.errors import ResultError
from strata.model.histogram import empty_histogram, encode, record
from strata.model.metric import Metric
from strata.plan.model import Trial
from strata.results.events import read_events
from strata.results.reading import read_record
from strata.results.record import (
    Charges,
    Fingerprint,
    RealTime,
    ResultRecord,
    Validity,
    Versions,
    record_sha256,
)
from strata.results.records import Attempt, RecordStore

names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
# Characters that JSON escapes, and texts that look like JSON's own marks.
MARKS = ['": ', '"', "\\", "\n ", "\n", "\r", "\t", "\x7f", "\u2028", "·", "{", "}", "a", ": ", ","]
words = st.lists(st.sampled_from(MARKS) | st.characters(exclude_categories=["Cs"]), max_size=20).map("".join)
counts = st.integers(0, 2**63 - 1)
values = st.floats(allow_nan=False, allow_infinity=False)

latencies = st.lists(st.integers(1, 10**12), max_size=5)


def encoded(latencies_ns: list[int]) -> str:
    histogram = empty_histogram()
    for each in latencies_ns:
        record(histogram, each)
    return encode(histogram)


metrics = st.builds(
    Metric,
    name=names,
    value=values,
    unit=st.sampled_from(["1/s", "ns", "B/s"]),
    better=st.sampled_from(["higher", "lower"]),
    headline=st.booleans(),
    family=st.none() | names,
    quantile=st.none() | st.floats(0, 1),
)
records = st.builds(
    ResultRecord,
    trial=st.builds(Trial, study=words, stack=names, workload=names, seed=counts, id=words),
    spec_sha256=hashes,
    fingerprint=st.builds(
        Fingerprint, kernel_sha256=st.none() | hashes, image_sha256=hashes, agent_sha256=hashes
    ),
    time_domain=st.sampled_from(["virtual", "wall"]),
    runner=names,
    validity=st.builds(Validity, valid=st.booleans(), reasons=st.lists(words, max_size=3).map(tuple)),
    metrics=st.lists(metrics, max_size=4).map(tuple),
    histograms=st.dictionaries(names, latencies.map(encoded), max_size=2),
    phases_ns=st.dictionaries(st.sampled_from(["build", "measure"]), counts),
    disks=st.dictionaries(names, st.dictionaries(names, counts, max_size=3), max_size=2),
    versions=st.builds(
        Versions, strata=words, kernel=words, agent=words, packages=st.dictionaries(names, words)
    ),
    charges=st.builds(Charges, syscall_ns=counts, yield_ns=counts, clock_read_ns=counts),
    events_sha256=st.none() | hashes,
    real_time=st.builds(
        RealTime, started_at=words, duration_s=values, virtual_per_real=st.none() | values, host=words
    ),
)


def stored(record: ResultRecord, folder: Path) -> Attempt:
    store = RecordStore(folder)
    attempt = store.begin(record.spec_sha256)
    store.put(attempt, record)
    return attempt


@given(records)
@settings(max_examples=50, deadline=None)
def test_a_record_is_read_back_as_it_was_written(record: ResultRecord) -> None:
    unnamed = record.model_copy(update={"trial": Trial.model_validate(record.trial.unnamed())})
    with tempfile.TemporaryDirectory() as name:
        assert read_record(stored(record, Path(name)).result_path).record == unnamed


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from leaves(below, (*path, index))
    else:
        yield path


def other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1 if value + 1 != value else 0
        case "virtual":
            return "wall"
        case "wall":
            return "virtual"
        case str():
            return ("0" if value[:1] != "0" else "1") + value[1:]
        case _:
            return "0" * 64


@given(records, st.data())
@settings(max_examples=50, deadline=None)
def test_the_hash_changes_with_everything_but_real_time(record: ResultRecord, data: st.DataObject) -> None:
    plain = record.model_dump(mode="json")
    path = data.draw(st.sampled_from(list(leaves(plain))))
    changed = copy.deepcopy(plain)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = other(place[path[-1]])
    try:
        another = ResultRecord.model_validate_json(json.dumps(changed))
    except ValidationError:  # such as another unit of "better": refused is as good as noticed
        return

    same = record_sha256(another) == record_sha256(record)

    assert same == (path[0] == "real_time")


@given(records, st.data())
@settings(max_examples=50, deadline=None)
def test_a_torn_result_is_never_valid(record: ResultRecord, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        attempt = stored(record, Path(name))
        content = attempt.result_path.read_bytes()
        kept = data.draw(st.integers(0, len(content) - 3))  # the last two bytes are "}" and the line's end
        attempt.result_path.write_bytes(content[:kept])

        try:
            read_record(attempt.result_path)
        except ResultError:
            return
        raise AssertionError(f"{kept} of {len(content)} bytes were taken for a result")


@given(records, st.data())
@settings(max_examples=50, deadline=None)
def test_a_damaged_byte_is_noticed_or_changes_nothing_that_is_hashed(
    record: ResultRecord, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        attempt = stored(record, Path(name))
        content = bytearray(attempt.result_path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        attempt.result_path.write_bytes(bytes(content))

        try:
            read = read_record(attempt.result_path).record
        except ResultError:
            return

        assert record_sha256(read) == record_sha256(record)


SAID: list[dict[str, Any]] = [
    {
        "type": "agent_start",
        "event_version": 1,
        "agent_version": "0.1.0",
        "plan_sha256": "0",
        "trial": "t",
        "runner": "lab",
        "kernel": {},
    },
    {"type": "step_start", "step": "one", "phase": "measure", "argv": ["true"]},
    {"type": "output", "step": "one", "stream": "stdout", "text": "straße\n"},
    {"type": "step_end", "step": "one", "outcome": "ok", "exit_code": 0},
    {"type": "agent_end", "outcome": "ok"},
]
EVENTS = "".join(
    json.dumps({"seq": seq, "monotonic_ns": seq, "realtime_ns": seq, **event}, ensure_ascii=False) + "\n"
    for seq, event in enumerate(SAID)
).encode()


@given(st.integers(0, len(EVENTS)))
@settings(deadline=None)
def test_events_of_an_agent_killed_at_any_byte_can_be_read(kept: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "events.jsonl"
        path.write_bytes(EVENTS[:kept])

        events = read_events(path)

        assert events.complete == (kept >= len(EVENTS) - 1)
        assert not (events.complete and events.truncated)
