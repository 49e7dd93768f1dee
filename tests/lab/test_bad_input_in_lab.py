# SPDX-License-Identifier: Apache-2.0
"""A study that becomes unsound is refused with cause, place and remedy, and keeps the results that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from lab_factory import environment, head, shared_lab, stacks, strata

from record_hashes import hashes
from strata.lab import Lab
from strata.lab.cache import cache_root

SOUND: Final = (
    head("own", [1], "4GiB")
    + '[devices.ssd]\nmodel = "samsung-870-evo-1tb"\ncapacity = "8GiB"\n'
    + stacks("ext4").replace("layers", 'devices = ["disk0"]\nlayers')
    + '\n[workloads.copy]\nworkload = "command"\nload = ["dd if=/dev/zero of=${data}/a bs=64k count=16"]\n'
)
_DIVIDED: Final = (
    "[stacks.divided]\ndevices = ['disk0']\nlayers = [{{ layer = 'partition', disk = 'ssd', {} }}, "
    "{{ layer = 'zpool', log = ['ssd.log'], special = ['ssd.special'] }}, {{ layer = 'zfs' }}]\n"
)
_MOUNTED: Final = (
    "[stacks.two]\ndevices = ['disk0']\nlayers = [{ layer = 'partition', disk = 'ssd', "
    "sizes = { data = '4GiB', log = 'rest' } }, { layer = 'ext4' }]\n"
    "[stacks.two.filesystems.data]\ndevices = ['ssd.data']\nlayers = [{ layer = 'xfs' }]\nmount = '/srv'\n"
    "[stacks.two.filesystems.log]\ndevices = ['ssd.log']\nlayers = [{ layer = 'xfs' }]\nmount = '/srv'\n"
)
_FOREIGN: Final = (
    "[workloads.foreign]\nworkload = 'command'\npackages = ['no-such-package']\nload = ['no-such-program']\n"
)
# What is added to the sound study, and the place, the cause and the remedy that the user reads.
BAD: Final[dict[str, tuple[str, str, str, str]]] = {
    "overlap": (
        _DIVIDED.format("sizes = { log = '4GiB', special = '2GiB' }, starts = { special = '1GiB' }"),
        "stacks.divided.layers[0].starts.special",
        'within the partition "log"',
        "",
    ),
    "too-large": (
        _DIVIDED.format("sizes = { log = '4GiB', special = '6GiB' }"),
        "stacks.divided.layers[0].sizes.special",
        "the partitions do not fit",
        "",
    ),
    "one-mount-point": (_MOUNTED, "stacks.two.filesystems.log.mount", "on one mount point", ""),
    "no-package": (
        _FOREIGN,
        "workloads.foreign.packages",
        "has no package no-such-package",
        "apt-cache search",
    ),
}


def test_what_is_refused_says_why_and_costs_no_result(lab: Lab, tmp_path: Path) -> None:
    env = environment(cache_root(), shared_lab(lab, tmp_path / "shared"), HOME="/root")
    file = tmp_path / "study.toml"
    file.write_text(SOUND)
    strata("run", str(file), env=env, cwd=tmp_path)
    kept = hashes(tmp_path / "results/own")
    assert [*kept] == ["ext4.copy.s1"]

    for name, (more, place, cause, remedy) in BAD.items():
        file.write_text(SOUND + more)
        done = strata("run", str(file), env=env, cwd=tmp_path, check=False)
        said = " ".join(done.stderr.split())
        if name == "no-package" and "package lists" in said and cause not in said:
            pytest.skip(f"no Debian mirror can be reached: {said}")
        assert done.returncode == 2, f"{name}: {said}"
        for words in (place, cause, remedy):
            assert words in said, f"{name}: {said}"
        assert "Traceback" not in said
        assert hashes(tmp_path / "results/own") == kept

    file.write_text(SOUND)
    again = strata("run", str(file), env=env, cwd=tmp_path)
    assert "1 skipped" in " ".join((again.stdout + again.stderr).split())
    assert hashes(tmp_path / "results/own") == kept


def test_a_failed_mount_is_reported_with_the_kernels_own_line(lab: Lab, tmp_path: Path) -> None:
    env = environment(cache_root(), shared_lab(lab, tmp_path / "shared"), HOME="/root")
    file = tmp_path / "study.toml"
    file.write_text(SOUND.replace('layer = "ext4"', 'layer = "ext4", mount = ["dax=always"]'))

    done = strata("run", str(file), env=env, cwd=tmp_path, check=False)

    said = " ".join((done.stdout + done.stderr).split())
    assert "it said: mount: " in said
    assert "the kernel said last: EXT4-fs: dax option not supported" in said
