# SPDX-License-Identifier: Apache-2.0
"""Traces of fio, blkparse and blktrace, as requests that can be replayed."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import refusal
from strata.devices.device import find_device
from strata.errors import ResultError
from strata.explanation.replay import replay
from strata.traces.blkparse import blkparse_lines
from strata.traces.foreign import files_of, read_foreign
from strata.traces.kinds import KINDS, OPS
from strata.traces.requests import read_any
from strata.traces.table import Records, Trace, write_parquet
from traces import request, trace

US = 1000
IOLOG = """fio version 3 iolog
21 /data/a add
25 /data/a open
100 /data/a read 4096 8192
350 /data/a write 1000 2000
351 /data/a sync 1000 0
400 /data/a trim 0 1048576
500 /data/a close
"""
# struct blk_io_trace of linux/blktrace_api.h
RECORD = "<IIQQIIIIIHH"
QUEUE, ISSUE, COMPLETE = 1, 7, 8
READ, WRITE, FLUSH, SYNC, NOTIFY, FUA = (1 << bit + 16 for bit in (0, 1, 2, 3, 10, 15))
SDB = 8 << 20 | 16


def rows(found: Trace) -> list[tuple[str, str, int, int, int, int]]:
    """Disk, kind, sector, sectors, arrival and completion."""
    columns = ("kind", "sector", "sectors", "arrival_ns", "complete_ns")
    return [
        (found.disks[row["disk"]], KINDS[row["kind"]], *(int(row[name]) for name in columns[1:]))
        for row in found.records
    ]


def written(folder: Path, content: str | bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_an_iolog_of_fio_has_requests_without_completions(tmp_path: Path) -> None:
    found = read_foreign(written(tmp_path, IOLOG))

    assert rows(found) == [
        ("/data/a", "read", 8, 16, 0, 0),
        ("/data/a", "write_sync", 1, 5, 250 * US, 250 * US),  # every sector that it touches
        ("/data/a", "flush", 0, 0, 251 * US, 251 * US),
        ("/data/a", "discard", 0, 2048, 300 * US, 300 * US),
    ]
    assert [OPS[row["op"]] for row in found.records] == ["read", "write", "flush", "discard"]


def test_the_logs_of_several_jobs_are_merged_by_their_times(tmp_path: Path) -> None:
    """fio writes the logs of numjobs=2 into one file, each with a head; version 2 has no times."""
    second = "fio version 3 iolog\n18 /data/b add\n90 /data/b read 0 4096\n352 /data/b read 512 512\n"
    whole = written(tmp_path, IOLOG + second)
    parts = [written(tmp_path, text, f"load.iolog.{at}") for at, text in enumerate((IOLOG, second))]

    for found in (read_foreign(whole), read_foreign(parts[0]), read_foreign(parts[1])):
        assert [(row[0], row[4] // US) for row in rows(found)] == [
            *(("/data/b", 0), ("/data/a", 10), ("/data/a", 260), ("/data/a", 261)),
            *(("/data/b", 262), ("/data/a", 310)),
        ]
    older = "fio version 2 iolog\n/f read 0 512\n"
    with pytest.raises(ResultError, match="a second log begins here: several jobs") as caught:
        read_foreign(written(tmp_path, older + older))
    assert str(caught.value.place).endswith(":3")


def test_blkparse_s_issues_alone_are_requests(tmp_path: Path) -> None:
    text = (
        "  8,0    0        1     0.000000000   100  D  WS 2048 + 8 [fio]\n"
        "  8,0    0        2     0.001000000   100  D   R 4096 + 8 [fio]\n"
    )

    found = read_foreign(written(tmp_path, text))

    assert not found.has_completions
    assert [(row[1], row[2], row[3]) for row in rows(found)] == [("write_sync", 2048, 8), ("read", 4096, 8)]


def test_in_an_older_iolog_waits_add_up(tmp_path: Path) -> None:
    lines = (
        "/f add",
        "/f open",
        "/f read 0 512",
        "/f wait 500 0",
        "/f read 512 512",
        "/f wait 70",
        "/f sync 0 0",
    )
    text = "\n".join(("fio version 2 iolog", *lines))

    assert [row[4] for row in rows(read_foreign(written(tmp_path, text)))] == [0, 500 * US, 570 * US]


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_what_fio_itself_writes_can_be_replayed(tmp_path: Path) -> None:
    size = ("--size=1m", "--io_size=64k", "--rw=randrw", "--bs=4k", "--fsync=3", "--randseed=1")
    files = (f"--filename={tmp_path / 'data'}", f"--write_iolog={tmp_path / 'log'}")
    subprocess.run(["fio", "--name=job", *size, *files], check=True, capture_output=True)

    found = read_foreign(tmp_path / "log")
    done = replay(found.of_disk(found.disks[1]), find_device("generic-sata-ssd"))

    kinds = [row[1] for row in rows(found)]
    assert kinds.count("read") + kinds.count("write_sync") == 16
    assert "flush" in kinds
    assert not found.has_completions
    assert done.replayed["read"].mean > 0


def test_a_trace_without_completions_has_no_closed_replay(tmp_path: Path) -> None:
    words = ["trace", str(written(tmp_path, IOLOG)), "--on", "generic-sata-ssd", "--mode", "closed"]

    assert "does not tell when requests were complete" in str(refusal(*words))


@st.composite
def any_trace(draw: st.DrawFn) -> Trace:
    """Requests of two disks, as the lab records them."""
    made: list[dict[str, Any]] = []
    for sector in draw(st.lists(st.integers(1, 2**40), min_size=1, max_size=20, unique=True)):
        disk = draw(st.integers(1, 2))
        # Requests of one place and kind at once could be told apart by nothing.
        flushed = any(each["disk"] == disk and each["sectors"] == 0 for each in made)
        kind = draw(st.sampled_from([each for each in KINDS if each != "flush" or not flushed]))
        place = {"sector": 0, "sectors": 0} if kind == "flush" else {"sector": sector}
        flags = ["fua"] * (kind == "write_journal")
        arrival_ns, transfer_ns = draw(st.integers(0, 10**12)), draw(st.integers(1, 10**9))
        made.append(request(arrival_ns, kind=kind, flags=flags, disk=disk, transfer=transfer_ns, **place))
    return Trace(trace(*made).records, ("rootimage", "disk0", "disk1"))


def sorted_rows(records: Records) -> list[list[int]]:
    names = ("arrival_ns", "complete_ns", "sector", "sectors", "op", "kind", "flags")
    return sorted([int(row[name]) for name in names] for row in records)


@given(made=any_trace())
def test_the_lab_s_own_trace_as_text_is_read_as_it_was(
    made: Trace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = read_foreign(written(tmp_path_factory.mktemp("text"), "".join(blkparse_lines(made, None))))

    first_ns = min(made.records["arrival_ns"])
    for name in ("arrival_ns", "complete_ns"):
        made.records[name] -= first_ns
    for disk, number in (("8,0", 1), ("8,16", 2)):
        mine = made.records[made.records["disk"] == number]
        theirs = found.of_disk(disk) if disk in found.disks else found.records[:0]
        assert sorted_rows(theirs) == sorted_rows(mine)


def event(at_ns: int, action: int, sector: int = 0, length: int = 0, more: bytes = b"") -> bytes:
    return struct.pack(RECORD, 0x65617407, 1, at_ns, sector, length, action, 9, SDB, 0, 0, len(more)) + more


def test_blktrace_s_files_of_all_cpus_are_one_trace(tmp_path: Path) -> None:
    first = event(0, NOTIFY | QUEUE, more=b"fio\0") + event(10 * US, QUEUE | READ, 64, 4096)
    first += event(12 * US, ISSUE | READ, 64, 4096) + event(60 * US, ISSUE | WRITE | FLUSH)
    second = event(50 * US, COMPLETE | READ, 64, 4096) + event(90 * US, COMPLETE | WRITE | FLUSH)
    second += event(95 * US, ISSUE | WRITE | SYNC | FUA, 8, 512)
    written(tmp_path, second, "sdb.blktrace.1")

    found = read_foreign(written(tmp_path, first, "sdb.blktrace.0"))

    # The last one was not complete when the recording ended.
    assert rows(found) == [("8,16", "read", 64, 8, 0, 38 * US), ("8,16", "flush", 0, 0, 48 * US, 78 * US)]


def test_records_of_a_machine_with_the_other_byte_order_are_read(tmp_path: Path) -> None:
    record = (0x65617407, 1, 5, 64, 4096, QUEUE | WRITE, 9, SDB, 0, 0, 0)

    assert rows(read_foreign(written(tmp_path, struct.pack(">IIQQIIIIIHH", *record)))) == [
        ("8,16", "write", 64, 8, 0, 0)
    ]


def test_a_bad_file_is_refused_with_the_place(tmp_path: Path) -> None:
    for content, said in (
        ("fio version 3 iolog\n10 /f add\nx /f read 0 1\n", r"trace:3: this is no line of the format"),
        ("fio version 3 iolog\n10 /f wait 5\n", r"trace:2: this is no line of the format"),
        ("  8,0    0        1     0.5   0  Q  WS 8 + 8 [x]\n", r"trace:1: this is no line of the format"),
        ("hello\n", "no request of a disk was found"),
        (event(0, QUEUE | READ, 64, 4096)[:30], "ends inside the record at byte 0"),
        (event(0, QUEUE | READ, 64, 4096) + b"\1" * 48, "no record at byte 48"),
    ):
        with pytest.raises(ResultError) as raised:
            read_foreign(written(tmp_path, content))
        assert said in str(raised.value)


def test_a_name_is_no_pattern(tmp_path: Path) -> None:
    """``disk[1].blktrace.0`` is not ``disk1.blktrace.0``, and what is no part of a recording is left out."""
    own, other = (event(0, QUEUE | READ, sector, 4096) for sector in (8, 16))
    for name, content in (
        ("disk[1].blktrace.0", own),
        ("disk1.blktrace.0", other),
        ("disk1.blktrace.1", other),
        ("disk[1].blktrace.bak", other),
        ("d*.blktrace.0", own),
    ):
        written(tmp_path, content, name)

    for name in ("disk[1].blktrace.0", "d*.blktrace.0"):
        assert [each.name for each in files_of(tmp_path / name)] == [name]
        assert [row[2] for row in rows(read_foreign(tmp_path / name))] == [8]


@pytest.mark.parametrize("name", ["t[1].parquet", "t*.parquet", "t?.parquet", "a=1/t.parquet"])
def test_nor_is_the_name_of_a_table(name: str, tmp_path: Path) -> None:
    (tmp_path / "a=1").mkdir()
    write_parquet(tmp_path / "t1.parquet", trace(request(0, sector=8)))
    write_parquet(tmp_path / "plain.parquet", trace(request(0, sector=16), request(1, sector=24)))
    (tmp_path / "plain.parquet").rename(tmp_path / name)

    assert [int(each) for each in read_any(tmp_path / name).records["sector"]] == [16, 24]


HEAD_3 = "fio version 3 iolog\n"
LARGE = 10**40
RANGES: list[str | bytes] = [
    HEAD_3 + "-5 /f read 0 4096\n",
    HEAD_3 + f"{LARGE} /f read 0 4096\n",
    HEAD_3 + "5 /f read -4096 4096\n",
    HEAD_3 + "5 /f write 0 -4096\n",
    HEAD_3 + f"5 /f read {1 << 63} 4096\n",
    HEAD_3 + f"5 /f read 0 {1 << 62}\n",  # more sectors than a request can have
    HEAD_3 + f"5 /f read {LARGE} 4096\n",
    HEAD_3 + f"5 /f read {'9' * 5000} 4096\n",
    "fio version 2 iolog\n/f wait -1\n/f read 0 512\n",
    "fio version 2 iolog\n/f wait 9223372036854775\n/f wait 9223372036854775\n/f read 0 512\n",
    f"  8,0    0        1     0.{'0' * 9}   0  Q  WS {LARGE} + 8 [x]\n",
    f"  8,0    0        1     0.{'0' * 9}   0  Q  WS 8 + {1 << 33} [x]\n",
    f"  8,0    0        1     {LARGE}.{'0' * 9}   0  Q  WS 8 + 8 [x]\n",
    f"  8,0    0        1     {'9' * 5000}.{'0' * 9}   0  Q  WS 8 + 8 [x]\n",
    f"  8,0    0        1     0.{'0' * 9}   0  Q  WS -8 + 8 [x]\n",
    f"  8,0    0        1     0.{'0' * 9}   0  Q  WS 8 + -8 [x]\n",
    HEAD_3 + "5 /f read 0 " + "1" * 70_000 + "\n",
    event(1 << 63, QUEUE | READ, 8, 4096),
    event(5, QUEUE | READ, (1 << 64) - 1, 4096),
]


def test_numbers_have_ranges(tmp_path: Path) -> None:
    for number in range(len(RANGES)):
        with pytest.raises(ResultError, match=r"out of range|no line of the format") as raised:
            read_foreign(written(tmp_path, RANGES[number]))
        assert len(str(raised.value)) < 600


def test_a_completion_before_the_first_arrival_is_nobody_s(tmp_path: Path) -> None:
    events = event(5, COMPLETE | READ, 8, 4096) + event(10, ISSUE | READ, 8, 4096)
    events += event(20, COMPLETE | READ, 8, 4096)

    assert rows(read_foreign(written(tmp_path, events))) == [("8,16", "read", 8, 8, 0, 10)]


def test_so_have_those_of_a_table(tmp_path: Path) -> None:
    for column, value in (
        ("sector", (1 << 64) - 1),
        ("sector", 1 << 55),
        ("complete_ns", 0),
        ("complete_ns", (1 << 64) - 1),
    ):
        made = trace(request(10, sector=8, transfer=5))
        made.records[column] = value
        write_parquet(tmp_path / "trace.parquet", made)
        with pytest.raises(ResultError, match=r"out of range|cannot read"):
            read_any(tmp_path / "trace.parquet")


def test_a_long_trace_takes_memory_for_its_requests_alone(tmp_path: Path) -> None:
    for form in ("iolog", "blkparse", "blktrace"):
        count = 20_000
        if form == "iolog":
            content: str | bytes = HEAD_3 + "".join(f"{at} /f read {at * 4096} 4096\n" for at in range(count))
        elif form == "blkparse":
            line = "  8,0    0        1     {0}.000000000   0  Q  WS {0} + 8 [x]\n"
            content = "".join(line.format(at) for at in range(count))
        else:
            content = b"".join(event(at, QUEUE | READ, at, 4096) for at in range(count))
        path = written(tmp_path, content)
        del content
        read_foreign(path)

        tracemalloc.start()
        found = read_foreign(path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

        assert len(found.records) == count
        # Records of 128 bytes, the columns that they are made from, and the rows of a batch.
        assert peak_bytes < count * 300 + (4 << 20)
