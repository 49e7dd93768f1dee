# SPDX-License-Identifier: Apache-2.0
"""Recordings of a disk from the kernel's block events: their text, and one of a real disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from strata.cli import app
from strata.traces.block_events import block_events
from strata.traces.foreign import joined
from strata.traces.requests import read_any, request_lines
from strata.traces.table import latency_ns, write_parquet

# Linux 6.18; a request of Linux 5.10; a name of a process that looks like an event; a disk without a queue.
EVENTS = """\
           fio-553     [001] ..... 67504.314512: block_rq_issue: 8,0 RA 24576 () 4096 + 48 be,0,4 [fio]
 kworker/0-7308 [000] ..... 67504.314612: block_rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 none,0,0 [a]
 [0] . 1.000000: b-99 [000] ..... 67504.314712: block_rq_issue: 8,0 WFS 4096 () 8 + 8 [block_rq_issue: ]
          <idle>-0    [000] ..s.. 67504.315512: block_rq_complete: 8,0 RA () 4096 + 48 be,0,4 [0]
CPU:1 [LOST 7 EVENTS]
      <idle>-0  [000] ..s.. 67504.315612: block_rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]
          <idle>-0    [000] ..s.. 67504.315812: block_rq_complete: 8,0 WFS () 8 + 8 [0]
             a-1      [000] ..... 67504.315912: block_rq_issue: 8,0 R 4096 () 16 + 8 be,0,4 [never complete]
"""
BIOS = """\
            dd-1      [000] ..... 1.000001: block_bio_queue: 254,0 WS 100 + 8 [dd]
            dd-1      [000] ..... 1.000003: block_bio_complete: 254,0 WS 100 + 8 [0]
"""


def test_block_events_are_requests_that_can_be_repeated(tmp_path: Path) -> None:
    trace = joined(block_events(EVENTS.splitlines()))
    write_parquet(tmp_path / "disk.parquet", trace)
    read = read_any(tmp_path / "disk.parquet")
    assert [*request_lines(read)] == [
        "0 read 2097152 24576 8,0\n",
        "100000 flush 0 0 8,0\n",
        "200000 fua 4096 4096 8,0\n",
    ]
    assert [*latency_ns(read.records)] == [1_000_000, 1_000_000, 1_100_000]
    assert [*request_lines(joined(block_events(BIOS.splitlines())))] == ["0 write 51200 4096 254,0\n"]


def test_what_is_no_disk_and_options_of_applications_are_refused(tmp_path: Path) -> None:
    for words, said in (
        (("--disk", "/dev/null"), "no block device"),
        (("--disk", str(tmp_path / "gone")), "no block device"),
        (("--disk", "/dev/sda", "--pid", "1"), "are of an application"),
        (("--disk", "/dev/sda", "--", "no-such-program"), "no such program"),
    ):
        done = CliRunner().invoke(app, ["record", "-o", str(tmp_path / "out"), *words])
        assert said in str(done.exception), (words, done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for the kernel's block events")
@pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="the kernel has no loop devices")
def test_the_requests_of_a_real_disk_are_recorded_and_nothing_is_left(tmp_path: Path) -> None:
    """The machine's tracing may not be mounted: it is in a mount namespace of the test's own."""
    with (tmp_path / "content").open("wb") as file:
        file.truncate(8 << 20)
    attach = ("losetup", "--find", "--show", "--direct-io=off", str(tmp_path / "content"))
    disk = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    load = f"dd if=/dev/zero of={disk} bs=4k count=50 oflag=direct,dsync"
    record = f"{Path(sys.executable).with_name('strata')} record --disk {disk} -o {tmp_path}/disk.parquet"
    mounted = "mount -t tracefs tracefs /sys/kernel/tracing || mountpoint -q /sys/kernel/tracing || exit 77"
    left = "ls /sys/kernel/tracing/instances | grep -c strata-"
    script = f"{mounted}\n{record} -- {load} && {left}"
    try:
        words = ("unshare", "--mount", "sh", "-c", script)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    finally:
        subprocess.run(("losetup", "--detach", disk), check=True)
    if done.returncode == 77:
        pytest.skip("the kernel has no tracefs")
    assert done.stdout.endswith("\n0\n"), done.stderr
    lines = [line.split()[1:4] for line in request_lines(read_any(tmp_path / "disk.parquet"))]
    writes = [place for kind, *place in lines if kind in {"write", "fua"}]
    assert writes == [[str(4096 * each), "4096"] for each in range(50)]
    assert sum(kind in {"flush", "fua"} for kind, *_ in lines) >= 50  # how many is the kernel's choice
