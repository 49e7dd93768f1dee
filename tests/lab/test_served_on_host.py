# SPDX-License-Identifier: Apache-2.0
"""A modelled disk served to this machine's kernel: its times, a filesystem on it, and its end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from bench.served import served_and_modelled
from lab_factory import STRATA

from strata.datasheet.measure import Pattern
from strata.devices.device import find_device
from strata.lab.folder import stale_folders
from strata.runners.served import served_root

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a loop device"),
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="the kernel has no FUSE"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="the kernel has no loop devices"),
]

SERVE = (*STRATA, "disks", "serve", "wd-re4-500gb", "--size", "1GiB")


def assert_nothing_left(disk: str) -> None:
    assert stale_folders(served_root()) == []
    backing = Path("/sys/block") / Path(disk).name / "loop/backing_file"
    assert not backing.exists() or "strata-" not in backing.read_text()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_a_served_disk_takes_the_time_of_its_model() -> None:
    """The machine adds to what a program sees, and how much depends on what else it does; never less."""
    loads = (Pattern("randread", 4096, 1), Pattern("randwrite", 4096, 1, flush_every=1))
    measured = served_and_modelled(find_device("wd-re4-500gb"), 16 << 30, loads, 10)
    for (served, modelled, counts), kind in zip(measured, ("read", "flush"), strict=True):
        cycle_ns = sum(counts.model_ns[name] for name in {kind, served.pattern.rw.removeprefix("rand")})
        assert cycle_ns == pytest.approx(1e9 / modelled.iops, rel=0.1)
        assert served.iops < 1.1 * modelled.iops


def test_a_filesystem_lives_on_it_and_nothing_is_left(tmp_path: Path) -> None:
    made = "echo $STRATA_DISK; mkfs.ext4 -q $STRATA_DISK; mount $STRATA_DISK $0; cp -r /etc/ssl $0; umount $0"
    script = f"{made}; mount $STRATA_DISK $0 && diff -r /etc/ssl $0/ssl; code=$?; umount $0; exit $code"
    done = subprocess.run(
        [*SERVE, "--", "sh", "-c", script, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    disk, *lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} >= {"read", "write", "flush"}
    assert_nothing_left(disk)


def test_a_write_without_room_fails_and_the_commands_exit_code_is_kept(tmp_path: Path) -> None:
    serve = shlex.join(map(str, (*SERVE, "--content", tmp_path, "--")))
    script = f"mount -t tmpfs -o size=1m none {tmp_path} && exec {serve}"
    fill = "dd if=/dev/zero of=$STRATA_DISK bs=1M count=8 oflag=direct || exit 7"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{script} sh -c "$0"', fill],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert " failed" in done.stdout


def test_a_killed_servers_disk_is_cleaned() -> None:
    with subprocess.Popen([*SERVE, "-q"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        disk = server.stdout.readline().strip()
        server.send_signal(signal.SIGKILL)
    done = subprocess.run([*STRATA, "lab", "clean"], capture_output=True, text=True, check=True)
    assert f"detached {disk} " in done.stdout
    assert_nothing_left(disk)
