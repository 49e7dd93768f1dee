# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from layer_factory import GIB, context, on, refused, step_of

from strata.layers.zfs.datasets import Zfs, Zvol
from strata.layers.zfs.zpool import FIND_ERRORS, Zpool
from strata.model.layer import Layer, LayerContext, Provided
from study_texts import mistakes


def zpool(**keys: Any) -> Zpool:
    return Zpool.model_validate(keys)


def zfs(**keys: Any) -> Zfs:
    return Zfs.model_validate(keys)


def zvol(**keys: Any) -> Zvol:
    return Zvol.model_validate(keys)


def in_pool(layer: Layer, capacity_bytes: int = 16 * GIB) -> LayerContext:
    pool = ("${stack}_zpool",)
    return LayerContext(name=layer.layer, seed=1, lower=pool, provided=Provided("pool", (capacity_bytes,)))


def test_what_zfs_would_refuse_or_ignore_is_refused() -> None:
    keys: dict[str, Any]
    for keys, disks, cause in (
        ({"vdev": "mirror"}, 1, "a vdev mirror needs 2 disks"),
        ({"vdev": "raidz2"}, 2, "a vdev raidz2 needs 3 disks"),
        ({"vdev": "raidz3", "width": 3}, 6, "a vdev raidz3 needs 4 disks"),
        ({"vdev": "mirror", "width": 2}, 5, "5 disks cannot be divided into vdevs of 2"),
        ({"vdev": "mirror", "width": 4}, 2, "2 disks cannot be divided into vdevs of 4"),
        ({"vdev": "mirror", "width": 1}, 2, "needs 2 disks at least, not 1"),
        ({"width": 2}, 2, "in a stripe each disk is a vdev of its own"),
        ({"ashift": 8}, 1, "ashift is from 9 to 16"),
        ({"arc_max": "32MiB"}, 1, "ignores a limit of the ARC below 64MiB"),
        ({"properties": {"ashift": 12}}, 1, "Strata gives the property ashift itself"),
        ({"properties": {"-o": 12}}, 1, 'the property "-o" is not one'),
        ({"parameters": {"zfs_arc_max": 1}}, 1, "Strata gives the parameter zfs_arc_max itself"),
        ({"parameters": {"../../x": 1}}, 1, 'the parameter "../../x" is not one'),
    ):
        assert cause in refused(zpool(**keys), on(*[8] * disks))


def test_devices_that_are_too_small_are_refused() -> None:
    assert "at least 64MiB" in refused(zpool(), Provided("block", (8 << 20,)))
    assert "at least 64MiB" in refused(zpool(log=["log0"]), on(8), log0=1 << 20)


def test_redundancy_takes_its_disks() -> None:
    keys: dict[str, Any]
    for keys, disks_gib, usable_gib, losses in (
        ({}, (4, 8), 12, 0),
        ({"vdev": "mirror"}, (4, 8), 4, 1),
        ({"vdev": "mirror"}, (4, 4, 4), 4, 2),
        ({"vdev": "mirror", "width": 2}, (4, 4, 8, 8), 12, 1),
        ({"vdev": "raidz1"}, (4, 4, 4), 8, 1),
        ({"vdev": "raidz2"}, (4, 4, 4, 2), 4, 2),
        ({"vdev": "raidz3", "width": 4}, (4,) * 8, 8, 3),
    ):
        layer = zpool(**keys)
        lower = Provided("block", tuple(gib * GIB for gib in disks_gib))
        assert layer.provided(lower) == Provided("pool", (usable_gib * GIB,))
        assert layer.losses_survived(lower) == losses


STATUS = """\
  pool: strata_zpool
 state: DEGRADED
  scan: scrub repaired 393216 in 00:00:01 with {unmended} errors on Fri Jan  1 00:00:16 2027
config:

\tNAME                       STATE     READ WRITE CKSUM
\tstrata_zpool               DEGRADED     0     0     7
\t  mirror-0                 ONLINE       0     0     7
\t    strata_zpool/disk0     ONLINE       0     0   {wrong}
\t    strata_zpool/disk1     ONLINE       0     0     0
\t  mirror-1                 DEGRADED     0     0     0
\t    strata_zpool/disk2     ONLINE       0     0     0
\t    spare-1                DEGRADED     0     0     0
\t      strata_zpool/disk3   FAULTED      3    29     0  too many errors
\t      strata_zpool/spare0  ONLINE       0     0     2
\tspares
\t  strata_zpool/spare0      INUSE     currently in use

errors: No known data errors
"""


def test_a_scrub_counts_wrong_checksums_and_what_cannot_be_mended_of_its_own_time() -> None:
    before = STATUS.replace("repaired 393216", "repaired 0").format(unmended=0, wrong=131)
    row = "\tNAME STATE READ WRITE CKSUM\n\tpool ONLINE 0 0 3\n\t  sda ONLINE 0 0 3\n\nerrors: none\n"

    for status, errors in (
        (STATUS.format(unmended=0, wrong=131), 131),
        (STATUS.format(unmended=4, wrong=0), 4),
        (STATUS.format(unmended=0, wrong=0), 0),
        (before, 0),
        (f"config:\n\n{row}", 3),
    ):
        assert Zpool().scrub_errors(status) == errors
    assert Zpool().scrub_errors(before.replace("with 0 errors", "with 4 errors")) > 0


SOUND = STATUS.replace("     7\n", "     0\n").format(unmended=0, wrong=0)
SPARE = "\t      strata_zpool/spare0  ONLINE       0     0     2\n"
RETURNED = "\t    strata_zpool/disk1     ONLINE       0     0     {}\n"


@pytest.mark.parametrize(
    ("status", "exit_code", "scrubbed"),
    [
        pytest.param(SOUND, 0, 0, id="the spare beside the lost disk counts two that were mended"),
        pytest.param(SOUND.replace("spare-1 ", "replacing-1 "), 0, 0, id="a disk that is replaced"),
        pytest.param(SOUND.replace(SPARE, ""), 0, 0, id="none"),
        pytest.param(
            SOUND.replace(RETURNED.format("0"), RETURNED.format("1  (resilvering)")), 0, 0, id="resilvering"
        ),
        pytest.param(SOUND.replace(RETURNED.format("0"), RETURNED.format("1")), 1, 1, id="a sound disk"),
        pytest.param(
            SOUND.replace(
                "\tspares\n", "\t  mirror-2  ONLINE  0 0 0\n\t    disk4  ONLINE  0 0 3\n\tspares\n"
            ),
            1,
            3,
            id="a disk after the group of the spare",
        ),
        pytest.param(
            SOUND.replace("No known data errors", "1 data errors, use '-v' for a list"), 1, 0, id="a file"
        ),
    ],
)
def test_wrong_checksums_of_a_disk_that_is_rebuilt_are_no_damage(
    tmp_path: Path, status: str, exit_code: int, scrubbed: int
) -> None:
    (tmp_path / "status").write_text(status)
    (tmp_path / "zpool").write_text(f"#!/bin/sh\ncat {tmp_path}/status\n")
    (tmp_path / "zpool").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = ("perl", "-we", FIND_ERRORS.replace("$$", "$"), "strata_zpool")

    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (exit_code, status, "")
    assert Zpool().scrub_errors(status) == scrubbed


def test_values_have_the_forms_of_zfs() -> None:
    off_and_on = {"compression": "off", "dedup": "on", "checksum": "off"}

    assert zfs(compression=False, dedup=True, checksum=False) == zfs(**off_and_on)
    for level in ("off", "lz4", "zstd", "zstd-19", "zstd-fast-1000", "gzip-6"):
        assert zfs(compression=level).compression == level
    for level in ("zstd-20", "gzip-10", "brotli", "zstd-fast-11", "lz4-1"):
        with pytest.raises(ValueError, match="ZFS has no compression"):
            zfs(compression=level)
    for size in ("100kB", "32MiB"):
        with pytest.raises(ValueError, match="not a power of two from 512B to 16MiB"):
            zfs(recordsize=size)
    with pytest.raises(ValueError, match="not a power of two from 512B to 128KiB"):
        zvol(volblocksize="256KiB")


def test_a_dataset_that_cannot_be_made_is_refused() -> None:
    for layer, cause in (
        (zfs(properties={"mountpoint": "/mnt"}), "Strata gives the property mountpoint itself"),
        (zfs(properties={"sync": "always"}), "Strata gives the property sync itself"),
        (zvol(size="1073742336B"), "not a multiple of the volume's blocks of 16KiB"),
        (zvol(size="16GiB"), "does not fit into the pool"),
        (zvol(size="12GiB", copies=2), "does not fit into the pool"),
        (zvol(properties={"volsize": 1}), "Strata gives the property volsize itself"),
    ):
        assert cause in refused(layer, Provided("pool", (16 * GIB,)))


def test_a_sparse_volume_may_be_larger_than_its_pool() -> None:
    assert refused(zvol(size="64GiB", sparse=True), Provided("pool", (16 * GIB,))) == ""
    assert "-s" in step_of((layer := zvol(sparse=True)).build(in_pool(layer)), "make").argv


def test_a_volume_takes_three_quarters_by_default() -> None:
    room = 16 * GIB - 16 * GIB // 32

    assert zvol().provided(Provided("pool", (16 * GIB,))) == Provided("block", (room * 3 // 4,))
    assert zvol().usable_bytes([512 << 20]) == 288 << 20
    assert refused(zvol(copies=3), Provided("pool", (16 * GIB,))) == ""
    assert zvol().path(in_pool(zvol())) == "/dev/zvol/${stack}_zpool/zvol"


def test_copies_take_their_space() -> None:
    assert zfs(copies=2).provided(Provided("pool", (16 * GIB,))) == Provided("filesystem", (8 * GIB,))


def test_two_pools_of_one_kernel_have_one_limit_of_the_arc(tmp_path: Path) -> None:
    head = '[study]\nname = "s"\nquestion = "?"\nseeds = [1]\n[devices.disk0]\nmodel = "wd-re4-500gb"\n'
    workload = '[workloads.w]\nworkload = "fio"\npreset = "random-mix-4k"\nduration = "10s"\n'
    lower = '{ layer = "zpool", arc_max = "128MiB" }, { layer = "zvol" }'
    upper = '{ layer = "zpool", arc_max = "64MiB" }, { layer = "zfs" }'

    def found(*layers: str) -> list[str]:
        stack = f"[stacks.s]\nlayers = [{', '.join(layers)}]\n"
        return list(mistakes(tmp_path, head + stack + workload))

    assert found(lower, '{ layer = "vm" }', upper) == []
    assert found(lower, '{ layer = "guest" }', upper.replace("64MiB", "128MiB")) == []
    assert found(lower, '{ layer = "guest" }', upper) == ["stacks.s.layers[3].arc_max"]


def test_a_spare_replaces_a_lost_disk() -> None:
    layer = zpool(vdev="mirror", spares=["spare0"])
    replace = step_of(layer.rebuild(context("zpool", 2), "${disk1}", "${spare0}"), "replace")

    assert replace.argv[-2:] == ("/dev/${stack}_zpool/disk1", "/dev/${stack}_zpool/spare0")
    assert zpool(spares=["spare0"]).rebuild(context("zpool", 2), "${disk1}", "${spare0}") is None
