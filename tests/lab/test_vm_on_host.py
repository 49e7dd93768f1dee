# SPDX-License-Identifier: Apache-2.0
"""A virtual machine on this machine: QEMU with the lab's root image, in the sandbox, on a loop device."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import head, host_ground, oltp, records, run_text

from present import present
from strata.lab import Lab
from strata.plan.compile import ENVIRONMENT
from strata.runners.host import HostRunner
from strata.runners.kernel import HostKernel
from strata.runners.machines import has_kvm

pytestmark = pytest.mark.root

STUDY = """
[stacks.vm]
layers = [{{ layer = "vm", emulator = "qemu", bus = "{bus}", cache = "{cache}" }}, {{ layer = "ext4" }}]

[workloads.sync]
workload = "fio"
preset = "fsync-write-4k"
size = "1MiB"
"""
DATABASE = """
[stacks.vm]
layers = [{ layer = "vm", emulator = "qemu", cpus = 2 }, { layer = "ext4" }]
"""
FSYNCS = 256


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    if not shutil.which("qemu-system-x86_64", path=ENVIRONMENT["PATH"]):
        pytest.skip("this machine lacks qemu-system-x86_64")
    with host_ground() as path:
        yield path


@pytest.mark.parametrize(
    ("bus", "cache"),
    [("virtio-blk", "none"), pytest.param("virtio-scsi", "writethrough", marks=pytest.mark.slow)],
)
def test_a_trial_in_a_machine_of_qemu_comes_to_its_end_and_leaves_nothing(
    lab: Lab, ground: Path, bus: str, cache: str
) -> None:
    folder, scratch = ground / bus, ground / "scratch"
    folder.mkdir()
    runner = HostRunner(lab.agent, scratch=scratch, journal=folder / "results", load=lab.load)
    text = head("vm", [1], capacity="2GiB") + STUDY.format(bus=bus, cache=cache)

    summary = run_text(text, folder, runner, retries=0)

    (record,) = records(folder / "results").values()
    checks = {check.name: check for check in record.checks}
    assert summary.exit_code == 0, record
    assert checks["finished"].verdict == "yes"
    # Only a machine that writes through has no need to flush.
    flushes = present(record.machines)["vm"]["disk"]["flushes"]
    assert (flushes >= FSYNCS) is (cache == "none")
    # Where there is no KVM the result says so.
    assert checks["own-processor"].verdict == ("yes" if has_kvm(HostKernel()) else "no")
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_a_server_runs_as_the_machines_own_user(lab: Lab, ground: Path) -> None:
    """PostgreSQL's user has another number in the root image than on this machine, if there is one here."""
    folder = ground / "database"
    folder.mkdir()
    runner = HostRunner(lab.agent, scratch=ground / "scratch", journal=folder / "results", load=lab.load)

    run_text(head("vm", [1], capacity="2GiB") + DATABASE + oltp(2), folder, runner, retries=0)

    (record,) = records(folder / "results").values()
    assert {metric.name: metric.value for metric in record.metrics}["transactions_per_s"] > 0
