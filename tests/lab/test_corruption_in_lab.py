# SPDX-License-Identifier: Apache-2.0
"""Damage that a layer meets while it is measured makes the result invalid, even if no program fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from lab_factory import head, records, run_text

from strata.lab import Lab
from strata.plan.aspects.interventions import FAULT_PARAMETER
from strata.runners.lab import LabRunner

CAPACITY: Final = "1GiB"
SECTORS: Final = 1 << 21
# The caches are emptied, and from then on the first disk reads as something else.
SCRIPT: Final = f"""
mkdir MOUNT/d
head -c 8000000 /dev/urandom | split -b 20000 - MOUNT/d/
sync
fsfreeze --freeze MOUNT && fsfreeze --unfreeze MOUNT  # not only into the journal
echo 3 >/proc/sys/vm/drop_caches
echo "${{disk0}} corrupt,0,{SECTORS},0" >{FAULT_PARAMETER}
ls -lR MOUNT >/dev/null
cat MOUNT/d/* >/dev/null
true
"""
STACKS: Final = {
    "ext4": ('{ layer = "ext4" }', "the kernel said: EXT4-fs error"),
    "xfs": ('{ layer = "xfs" }', "the kernel said: XFS"),
    "btrfs": ('{ layer = "btrfs" }', "the kernel said: BTRFS error"),
    "f2fs": ('{ layer = "f2fs" }', "the kernel said: F2FS-fs"),
    "zfs": (
        '{ layer = "zpool", vdev = "mirror" }, { layer = "zfs", primarycache = "metadata" }',
        "has met wrong checksums",
    ),
    "integrity": ('{ layer = "integrity" }, { layer = "xfs" }', "the kernel said: device-mapper: integrity"),
}


@pytest.mark.parametrize("name", STACKS)
def test_damage_that_a_layer_meets_makes_the_result_invalid(name: str, lab: Lab, tmp_path: Path) -> None:
    layers, said = STACKS[name]
    disks = ["disk0", "disk1"] if name == "zfs" else ["disk0"]
    second = f'[devices.disk1]\nmodel = "wd-re4-500gb"\ncapacity = "{CAPACITY}"\n'
    summary = run_text(
        f"{head('damage', [1], CAPACITY)}\n{second}"
        f"[stacks.stack]\ndevices = {disks}\nlayers = [{layers}]\n"
        f'[workloads.load]\nworkload = "script"\nscript = {json.dumps(SCRIPT)}\n',
        tmp_path,
        LabRunner(lab),
        scripts=True,
    )

    reasons = records(tmp_path / "results")["stack.load.s1"].validity.reasons
    assert summary.exit_code != 0
    assert any(said in each for each in reasons), reasons
