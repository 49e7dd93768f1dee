# SPDX-License-Identifier: Apache-2.0
"""The trace of a trial's requests: from the driver's bytes to a table, and back."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from present import present
from strata.errors import ResultError
from strata.results.record import TraceSummary
from strata.results.records import Attempt
from strata.results.trace import read_trace, seal_trace
from strata.traces.kinds import FLAGS, KINDS, OPS, TIME_PARTS
from strata.traces.table import (
    RECORD,
    flag,
    latency_ns,
    parse_records,
    parts_ns,
    read_parquet,
    write_csv,
    write_parquet,
)
from traces import MS, records, request, trace

HEADER = Path(__file__).parents[2] / "kernel" / "disk" / "trace.h"
SOME = (
    request(5 * MS, kind="read", sector=2048, seek=4 * MS, rotation=3 * MS, transfer=MS),
    request(6 * MS, kind="write_journal", sector=(1 << 63) + 8, flags=["fua"], queue=7 * MS, cell=2 * MS),
    request(30 * MS, kind="flush", sectors=0, flush=9 * MS, outstanding=2),
)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(1, tmp_path)


def test_a_record_is_laid_out_as_the_driver_writes_it(tmp_path: Path) -> None:
    fields = {name: int(RECORD.fields[name][1]) for name in RECORD.names or ()} if RECORD.fields else {}
    offsets = ",".join(
        f"offsetof(struct trace_record, {'parts.' if name in TIME_PARTS else ''}{name})" for name in fields
    )
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include "{HEADER}"\nint layout[] = {{ sizeof(struct trace_record), {offsets} }};\n'
        "int kinds = TRACE_KINDS; int ops = DISK_OPS;\n"
        "int flags[] = { TRACE_FLAG_FUA, TRACE_FLAG_READ_AHEAD, TRACE_FLAG_FAILED, TRACE_FLAG_ZEROES, "
        "TRACE_FLAG_OVERDUE };\n"
    )
    library = tmp_path / "layout.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    layout = list((ctypes.c_int * (1 + len(fields))).in_dll(loaded, "layout"))

    assert layout == [RECORD.itemsize, *fields.values()]
    assert (ctypes.c_int.in_dll(loaded, "kinds").value, ctypes.c_int.in_dll(loaded, "ops").value) == (
        len(KINDS),
        len(OPS),
    )
    assert list((ctypes.c_int * 5).in_dll(loaded, "flags")) == [1 << bit for bit in range(len(FLAGS))]


def test_kinds_have_the_drivers_names() -> None:
    named = re.findall(r"^\tTRACE_(\w+),", HEADER.read_text(), re.MULTILINE)

    assert [name.lower() for name in named if name != "KINDS"] == list(KINDS)


def test_a_sealed_attempt_holds_the_table_instead_of_the_drivers_bytes(attempt: Attempt) -> None:
    made = records(*SOME)
    (attempt.path / "trace.bin").write_bytes(made.tobytes())
    (attempt.path / "trace.json").write_text(json.dumps({"left_out": 4}))

    summary = seal_trace(attempt, ["disk0"])

    assert summary is not None
    assert (summary.kept, summary.left_out) == (3, 4)
    assert [path.name for path in attempt.path.iterdir()] == ["trace.parquet"]
    found = read_trace(attempt, summary)
    assert found.disks == ("rootimage", "disk0")
    np.testing.assert_array_equal(found.records, made)
    assert list(latency_ns(found.records)) == [8 * MS, 9 * MS, 9 * MS]
    assert list(flag(found.records, "fua")) == [False, True, False]


def test_the_requests_of_the_measured_window_are_counted_by_kind(attempt: Attempt) -> None:
    made = records(*SOME)
    (attempt.path / "trace.bin").write_bytes(made.tobytes())

    window = present(seal_trace(attempt, ["disk0"], (0, 20 * MS))).window

    assert {kind: count for kind, count in window.items() if count} == {
        "read": 1,
        "write_journal": 1,
        "seeks": 1,
    }


def test_more_requests_than_a_json_file_may_have_bytes_are_sealed_in_little_memory(attempt: Attempt) -> None:
    kept = (64 << 20) // RECORD.itemsize + 1  # JSON of others was limited to this many bytes
    with (attempt.path / "trace.bin").open("wb") as file:
        file.write(records(*SOME).tobytes())
        file.truncate(kept * RECORD.itemsize)  # records of zeros are sound

    tracemalloc.start()
    summary = seal_trace(attempt, ["disk0"])
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert summary is not None
    assert summary.kept == kept
    assert peak_bytes < kept * RECORD.itemsize / 2
    found = read_trace(attempt, summary).records
    np.testing.assert_array_equal(found[:3], records(*SOME))


def test_a_trial_without_a_trace_has_none(attempt: Attempt) -> None:
    assert seal_trace(attempt, ["disk0"]) is None

    with pytest.raises(ResultError, match="the trial has no trace of its requests") as error:
        read_trace(attempt, None)
    assert "trace = false" in str(error.value)


def test_a_trace_that_was_removed_is_missed(attempt: Attempt) -> None:
    with pytest.raises(ResultError, match="the trial's trace is missing"):
        read_trace(attempt, TraceSummary(kept=1, left_out=0, trace_sha256="0" * 64))


def test_a_table_that_was_changed_is_refused(attempt: Attempt) -> None:
    (attempt.path / "trace.bin").write_bytes(records(*SOME).tobytes())
    summary = seal_trace(attempt, ["disk0"])
    write_parquet(attempt.trace_path, trace(*SOME[:2]))

    with pytest.raises(ResultError, match="does not match its record's hash"):
        read_trace(attempt, summary)


def test_a_table_with_a_hole_is_refused(attempt: Attempt) -> None:
    write_parquet(attempt.trace_path, trace(*SOME))
    content = bytearray(attempt.trace_path.read_bytes())
    content[-12:] = bytes(12)
    attempt.trace_path.write_bytes(content)

    with pytest.raises(ResultError, match="cannot read the trace"):
        read_parquet(attempt.trace_path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("op", 9, "an unknown operation"),
        ("kind", 8, "an unknown kind"),
        ("disk", 2, "a disk that the trial does not have"),
        ("complete_ns", 1, "a completion before its arrival"),
        ("seek_ns", 1, "parts that do not add up"),
    ],
)
def test_a_record_that_cannot_be_is_named(name: str, value: int, said: str) -> None:
    made = records(*SOME)
    made[name][1] = value

    with pytest.raises(ResultError, match=f"record 1 of the trace has {said}"):
        parse_records(made.tobytes(), 2, Path("trace.bin"))


def test_a_cut_record_is_named() -> None:
    with pytest.raises(ResultError, match="ends inside a record: 300 bytes"):
        parse_records(records(*SOME).tobytes()[:300], 2, Path("trace.bin"))


def test_the_table_names_what_records_number(tmp_path: Path) -> None:
    write_csv(tmp_path / "trace.csv", trace(*SOME))

    head, first, second, _ = (tmp_path / "trace.csv").read_text().splitlines()
    assert head.split(",")[:12] == [
        *("arrival_ns", "complete_ns", "sector", "sectors", "op", "kind"),
        *("fua", "read_ahead", "failed", "zeroes", "overdue", "disk"),
    ]
    assert first.startswith(
        "5000000,13000000,2048,8,read,read,false,false,false,false,false,disk0,1,0,0,4000000,"
    )
    assert second.split(",")[4:7] == ["write", "write_journal", "true"]


def test_parts_come_in_the_order_of_their_names() -> None:
    row = parts_ns(records(SOME[0]))[0]

    assert list(row) == [0, 0, 4 * MS, 3 * MS, MS, 0, 0, 0, 0, 0, 0]
