# SPDX-License-Identifier: Apache-2.0
"""The workload `trace`: its diagnostics of traces beside a study, and the requests of the load generator."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.model.inputs import read_input
from strata.plan.compile import compile_trial, runnable_trials, skipped
from strata.traces.requests import read_any, request_lines, touched_bytes
from strata.traces.table import write_parquet
from study_texts import HEAD, disk, mistakes, read
from traces import MS, request, trace

MIB = 1 << 20
AREA_SECTORS = MIB // 512
DISKS = HEAD + disk("disk0", capacity="2GiB") + disk("disk1", capacity="2GiB")
STUDY = """{disks}[stacks.s]
devices = ["disk0"]
layers = [{{ layer = "ext4" }}]
[stacks.s.filesystems.wal]
devices = ["disk1"]
layers = [{{ layer = "xfs" }}]
mount = "/wal"
[workloads.w]
workload = "trace"
trace = "recorded"
{keys}
"""
IOLOG = "fio version 3 iolog\n0 /dev/sda read {offset} 4096\n5 /dev/sdb write 0 4096\n"


def test_requests_are_lines_by_time_without_those_of_the_root_image() -> None:
    recorded = trace(
        request(5 * MS, kind="read", sector=8, sectors=16, seek=9 * MS),
        request(7 * MS, kind="write_journal", sector=64, flags=["fua"], cell=MS),
        request(7 * MS, kind="flush", sectors=0, flush=MS),
        request(9 * MS, kind="discard", sector=0, sectors=2048, cell=MS),
        request(1 * MS, kind="read", disk=0, cell=MS),
    )

    assert [*request_lines(recorded)] == [
        "0 read 4096 8192 disk0\n",
        "2000000 fua 32768 4096 disk0\n",
        "2000000 flush 0 0 disk0\n",
        "4000000 discard 0 1048576 disk0\n",
    ]


@given(st.lists(st.tuples(st.integers(0, 40 * AREA_SECTORS), st.integers(1, 3 * AREA_SECTORS)), max_size=12))
def test_what_a_trace_touches_is_counted_once(places: list[tuple[int, int]]) -> None:
    recorded = trace(*(request(MS, sector=sector, sectors=sectors, cell=1) for sector, sectors in places))
    areas = {
        area
        for sector, sectors in places
        for area in range(sector // AREA_SECTORS, -(-(sector + sectors) // AREA_SECTORS))
    }

    assert touched_bytes(recorded) == {"disk0": len(areas) * MIB}


def test_a_table_of_strata_is_read_as_any_other_trace(tmp_path: Path) -> None:
    recorded = trace(request(MS, sector=4096, cell=MS))
    write_parquet(tmp_path / "trace.parquet", recorded)
    (tmp_path / "trace.parquet").rename(tmp_path / "another-name")

    assert [*request_lines(read_any(tmp_path / "another-name"))] == [*request_lines(recorded)]
    found = read_input("another-name", tmp_path, "trace")
    assert found is not None
    assert found.sizes_bytes == {"disk0": MIB}


@pytest.mark.parametrize(
    ("content", "keys", "key", "said"),
    [
        (IOLOG.format(offset=0), 'disk = "/dev/sda"', None, ""),
        (IOLOG.format(offset=0), "", "disk", "several disks"),
        (IOLOG.format(offset=0), 'disk = "sdc"', "disk", 'no disk "sdc"'),
        (f"fio version 3 iolog\n0 a write 0 {3 << 30}\n", "", "trace", "data of 3GiB do not fit"),
        ("fio version 3 iolog\n0 a erase 0 1\n", "", "trace", "recorded:2"),
        ("nothing\n", "", "trace", "no request"),
        (None, "", "trace", "recorded cannot be read: No such file"),
        (IOLOG.format(offset=0), 'disk = "/dev/sda"\nfrom = "2s"\nuntil = "1s"', "until", "before it begins"),
        (IOLOG.format(offset=0), 'beside = { "/dev/sdb" = "wal" }', "disk", "choose one of"),
        (IOLOG.format(offset=0), 'disk = "/dev/sda"\nbeside = { sdc = "wal" }', "beside", 'no disk "sdc"'),
        (IOLOG.format(offset=0), 'disk = "/dev/sda"\nbeside = { "/dev/sdb" = "way" }', "beside", '"way"'),
        (IOLOG.format(offset=0), 'disk = "/dev/sda"\nbeside = { "/dev/sdb" = "wal" }', None, ""),
        (
            IOLOG.format(offset=0),
            'disk = "/dev/sda"\nbeside = { "/dev/sda" = "wal" }',
            "beside",
            "two places",
        ),
        (IOLOG.format(offset=0), 'disk = "/dev/sda"\ntiming = "asap"\nspeed = 2', "speed", "leave speed out"),
    ],
)
def test_mistakes_are_told_with_their_key(
    tmp_path: Path, content: str | None, keys: str, key: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "recorded").write_text(content)

    found = mistakes(tmp_path, STUDY.format(disks=DISKS, keys=keys))

    assert [*found] == ([] if key is None else [f"workloads.w.{key}"])
    assert said in "".join(found.values())


def test_a_trace_that_changes_is_another_input(tmp_path: Path) -> None:
    """Also if a file of another processor changes: blktrace writes one for each."""
    first, second = (tmp_path / f"sda.blktrace.{cpu}" for cpu in (0, 1))
    first.write_text(IOLOG.format(offset=0))
    second.write_text("x")
    before = read_input(first.name, tmp_path, "trace")
    second.write_text("y")

    assert read_input(first.name, tmp_path, "trace") != before


BESIDE = """[workloads.several]
workload = "trace"
trace = "recorded"
disk = "/dev/sda"
beside = { "/dev/sdb" = "disk1" }
[workloads.one]
workload = "fio"
preset = "random-read-4k"
size = "1GiB"
duration = "10s"
[stacks.bare]
layers = []
[stacks.mirror]
layers = [{ layer = "md", level = 1 }]
[stacks.file]
layers = [{ layer = "md", level = 1 }, { layer = "ext4" }]
"""


def test_several_disks_have_a_target_each_and_other_loads_skip_several_devices(tmp_path: Path) -> None:
    (tmp_path / "recorded").write_text(IOLOG.format(offset=0))
    study = read(tmp_path, DISKS + BESIDE)

    assert {str(cell): why for cell, why in skipped(study).items()} == {
        "bare.one": "fio runs on one device, and the stack ends in 2",
        "mirror.several": 'the stack has no further device "disk1"',
    }
    plans = [
        compile_trial(study, each.stack, each.workload, each.seed)
        for each in runnable_trials(study)
        if each.workload == "several"
    ]
    words = {
        plan.trial.stack: next(step.argv for step in plan.steps if step.id == "trace-run") for plan in plans
    }
    targets = {
        stack: [word for word in argv if word.startswith("--target=")] for stack, argv in words.items()
    }
    assert targets == {
        "bare": ["--target=${disk0}", "--target=${disk1}"],
        "file": ["--target=${mount}/trace.data", "--target=${mount}/trace-1.data"],
    }
    assert {"--disk=/dev/sda", "--disk=/dev/sdb"} <= {*words["bare"]}
