# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strata.errors import LabError
from strata.model.step import Prerequisites
from strata.runners.block_devices import network_devices
from strata.runners.kernel import HostKernel

ALL = Prerequisites(
    modules=("zfs",),
    features=(
        *("filesystem:xfs", "md:raid10", "dm:thin-pool", "dm:linear", "driver:nbd", "bcache"),
        *("cgroup:memory", "quota:v2", "quota:xfs", "xfs-scrub", "modelled-disks"),
    ),
)


@dataclass
class Programs:
    """A machine's programs, as far as the kernel is asked by them."""

    modules: Iterable[str] = ()
    targets: str = ""
    called: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, *argv: str) -> subprocess.CompletedProcess[str]:
        self.called.append(argv)
        match argv:
            case ("modprobe", "--dry-run", "--quiet", module) | ("modprobe", module):
                return subprocess.CompletedProcess(argv, int(module not in self.modules), "", "not found\n")
            case ("dmsetup", "targets"):
                return subprocess.CompletedProcess(argv, int(not self.targets), self.targets, "")
        raise AssertionError(argv)


def write(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def full(root: Path) -> HostKernel:
    write(root, "proc/filesystems", "nodev\tproc\n\txfs\n")
    write(root, "proc/mdstat", "Personalities : [raid1] [raid10]\nunused devices: <none>\n")
    write(root, "proc/devices", "Block devices:\n  9 md\n253 device-mapper\n")
    write(root, "sys/module/zfs/version")
    write(root, "sys/block/nbd0/size")
    write(root, "sys/fs/bcache/register")
    write(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory io\n")
    write(root, "proc/sys/kernel/osrelease", "7.2.0\n")
    write(root, "boot/config-7.2.0", "CONFIG_QFMT_V2=y\nCONFIG_XFS_QUOTA=y\nCONFIG_XFS_ONLINE_SCRUB=y\n")
    targets = "thin-pool        v1.23.0\nstriped          v1.6.0\nlinear           v1.4.0\n"
    return HostKernel(root, Programs(targets=targets))


def test_a_kernel_that_has_all_lacks_modelled_disks_only(tmp_path: Path) -> None:
    kernel = full(tmp_path)

    assert list(kernel.unmet(ALL)) == ["only the lab has modelled disks, which obey a study"]
    kernel.load(ALL)
    assert isinstance(kernel.call, Programs)
    assert not [argv for argv in kernel.call.called if argv[0] == "modprobe" and len(argv) == 2]


def test_what_can_be_loaded_is_not_lacking_and_what_loads_by_itself_is_left_to_that(tmp_path: Path) -> None:
    programs = Programs(
        modules=("zfs", "fs-xfs", "md-raid10", "dm-thin-pool", "dm-mod", "nbd", "bcache", "quota_v2"),
    )
    write(tmp_path, "sys/fs/cgroup/cgroup.controllers", "memory\n")
    kernel = HostKernel(tmp_path, programs)

    assert list(kernel.unmet(ALL)) == ["only the lab has modelled disks, which obey a study"]
    kernel.load(ALL)

    loaded = [argv[1] for argv in programs.called if argv[0] == "modprobe" and len(argv) == 2]
    assert loaded == ["zfs", "md-raid10", "dm-mod", "nbd", "bcache"]


def test_a_kernel_that_has_nothing_says_each(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "config.gz", "wt") as packed:
        packed.write("# CONFIG_QFMT_V2 is not set\n# CONFIG_XFS_QUOTA is not set\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "config.gz").rename(tmp_path / "proc/config.gz")
    kernel = HostKernel(tmp_path, Programs())

    assert list(kernel.unmet(ALL)) == [
        "the kernel has no module zfs",
        "the kernel has no filesystem xfs",
        "the kernel has no arrays of level raid10 (MD)",
        "the kernel's device mapper has no target thin-pool",
        "the kernel's device mapper has no target linear",
        "the kernel has no driver nbd",
        "the kernel has no bcache",
        "/sys/fs/cgroup has no control groups of version 2 with the controller memory",
        "the kernel has no quotas of format 2 (CONFIG_QFMT_V2)",
        "the kernel's xfs has no quotas (CONFIG_XFS_QUOTA)",
        "the kernel cannot scrub a mounted XFS (CONFIG_XFS_ONLINE_SCRUB)",
        "only the lab has modelled disks, which obey a study",
    ]
    assert list(kernel.unmet(Prerequisites(features=("tape",)))) == [
        "this Strata cannot see whether the machine has tape"
    ]
    with pytest.raises(LabError, match="zfs cannot be loaded: not found"):
        kernel.load(ALL)


def test_this_machines_kernel_can_be_asked() -> None:
    known = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    known -= {"overlay"}  # of the lab alone

    assert (
        list(
            HostKernel().unmet(Prerequisites(features=tuple(f"filesystem:{each}" for each in sorted(known))))
        )
        == []
    )
    assert list(HostKernel().unmet(Prerequisites(modules=("no-such-module",)))) == [
        "the kernel has no module no-such-module"
    ]


def test_a_free_network_device_is_taken_by_one_trial_only(tmp_path: Path) -> None:
    # Names that no machine has, because what is taken is taken on all of it.
    for number in (90010, 90002, 90003):
        write(tmp_path, f"sys/block/nbd{number}/size")
    write(tmp_path, "sys/block/nbd90003/pid", "7\n")
    write(tmp_path, "sys/block/nbd90011/pid", "")  # connected, but its process cannot be read
    write(tmp_path, "sys/block/nbd90002p1/size")

    with network_devices(["nbd-a"], tmp_path) as first:
        assert first == {"nbd-a": "/dev/nbd90002"}
        with network_devices(["nbd-b"], tmp_path) as second:
            assert second == {"nbd-b": "/dev/nbd90010"}
        with pytest.raises(LabError, match="2 network block devices are needed, and only 1"):
            network_devices(["nbd-b", "nbd-c"], tmp_path).__enter__()
    with network_devices(["nbd-a", "nbd-b"], tmp_path) as both:
        assert both == {"nbd-a": "/dev/nbd90002", "nbd-b": "/dev/nbd90010"}
    with network_devices([], tmp_path / "none") as none:
        assert none == {}
