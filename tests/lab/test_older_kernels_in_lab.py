# SPDX-License-Identifier: Apache-2.0
"""Every older kernel is built, and runs every kind of stack with the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import head, records, run_text

from record_hashes import hashes
from strata.lab import Lab
from strata.model.kernel import DEFAULT_VERSION, KERNELS
from strata.runners.lab import LabRunner

pytestmark = pytest.mark.slow  # a kernel, its modules and ZFS are compiled

STACKS = {
    "ext4": '{ layer = "ext4" }',
    "xfs": '{ layer = "xfs" }',
    "btrfs": '{ layer = "btrfs" }',
    "f2fs": '{ layer = "f2fs" }',
    "crypt": '{ layer = "integrity" }, { layer = "crypt" }, { layer = "lvm-thin" }, { layer = "ext4" }',
    "md": '{ layer = "md", level = 6 }, { layer = "xfs" }',
    "zfs": '{ layer = "zpool" }, { layer = "zfs" }',
    "vm": '{ layer = "ext4" }, { layer = "raw" }, { layer = "vm" }, { layer = "xfs" }',
}
WORKLOAD = """
[workloads.verify]
workload = "fio"
preset = "verify-random-write-4k"
size = "8MiB"
"""


def study(version: str) -> str:
    text = head("older", [1], "2GiB")
    for name in ("disk1", "disk2", "disk3"):
        text += f'[devices.{name}]\nmodel = "wd-re4-500gb"\ncapacity = "2GiB"\n'
    for name, layers in STACKS.items():
        disks = ["disk0", "disk1", "disk2", "disk3"] if name == "md" else ["disk0"]
        text += f'[stacks.{name}]\nkernel = "{version}"\ndevices = {disks}\nlayers = [{layers}]\n'
    text += '[stacks.default]\ndevices = ["disk0"]\nlayers = [{ layer = "ext4" }]\n'
    return text + WORKLOAD


@pytest.mark.parametrize("version", KERNELS[1:])
def test_every_kind_of_stack_runs_twice_with_the_same_bytes(lab: Lab, tmp_path: Path, version: str) -> None:
    for name in ("first", "second"):
        folder = tmp_path / name
        assert run_text(study(version), folder, LabRunner(lab)).exit_code == 0

    found = records(tmp_path / "first/results")
    assert hashes(tmp_path / "first/results") == hashes(tmp_path / "second/results")
    assert found.pop("default.verify.s1").versions.kernel.startswith(f"{DEFAULT_VERSION}.")
    assert {each.versions.kernel.rpartition(".")[0] for each in found.values()} == {version}
    assert lab.kernel.sha256 not in {each.fingerprint.kernel_sha256 for each in found.values()}
