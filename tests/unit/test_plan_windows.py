# SPDX-License-Identifier: Apache-2.0
"""Options of every workload around its window: snapshots in it, fragmentation before and after it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from strata.errors import DiagnosticsError
from strata.layers.btrfs import Btrfs
from strata.layers.ext import Ext4
from strata.layers.xfs import Xfs
from strata.layers.zfs.zpool import Zpool
from strata.model.abilities import FreeSpace
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.model.workload import Outputs, StepOutput
from strata.plan.aspects.fragmentation import Fragmentation
from strata.plan.aspects.snapshots import WindowSnapshots
from strata.plan.compile import compile_trial, skipped
from strata.plan.model import Plan
from strata.plan.placement import placements_of
from strata.rules.fit import SNAPSHOT_LANE
from study_texts import read, stack_text

S = 1_000_000_000
FIO = 'workload = "fio"\npreset = "random-write-4k"\nsize = "64MiB"\nwarmup = "2s"\nduration = "30s"\n'
EVERY = FIO + 'snapshot_every = "10s"'
LOOKS = FIO + "fragmentation = true\nlinear_read = true"
THIN = '{ layer = "lvm-thin" }, { layer = "ext4" }'


def study(folder: Path, layers: str, load: str, disks: int = 1) -> Study:
    return read(folder, stack_text(layers, disks, load, model="wd-re4-500gb"))


def plan(folder: Path, layers: str, load: str) -> Plan:
    return compile_trial(study(folder, layers, load), "stack", "load", 1)


def test_a_stack_without_snapshots_is_skipped_with_the_reason(tmp_path: Path) -> None:
    assert skipped(study(tmp_path, '{ layer = "ext4" }', EVERY)) == {
        ("stack", "load"): "no layer of the stack takes snapshots"
    }


def test_intervals_that_give_no_snapshot_are_refused(tmp_path: Path) -> None:
    for load, says in (
        ('workload = "fio"\npreset = "random-write-4k"\nsnapshot_every = "1s"', "ends when its work is done"),
        (FIO + 'snapshot_every = "30s"', "none at all in a window of 30s"),
        (FIO + 'snapshot_every = "0s"', "at least"),
    ):
        with pytest.raises(DiagnosticsError, match=says):
            study(tmp_path, THIN, load)


def test_a_classical_group_must_have_room_for_all_of_them(tmp_path: Path) -> None:
    layers = '{{ layer = "lvm", snapshot_size = "64MiB"{} }}, {{ layer = "ext4" }}'

    with pytest.raises(DiagnosticsError, match=r"2 snapshots at once.*room for 1") as caught:
        study(tmp_path, layers.format(""), EVERY)

    assert "snapshots = 2" in str(caught.value)
    assert study(tmp_path, layers.format(", snapshots = 2"), EVERY)


def test_the_number_and_duration_of_snapshots_are_metrics(tmp_path: Path) -> None:
    compiled = plan(tmp_path, THIN, EVERY)
    taking = [step.id for step in compiled.steps if step.lane == SNAPSHOT_LANE]
    outputs = Outputs({name: StepOutput(duration_ns=(at + 1) * S) for at, name in enumerate(taking)})

    trial = SimpleNamespace(plan=compiled, placements=[], outputs=outputs)

    found = {metric.name: metric.value for metric in WindowSnapshots().metrics(trial)}

    assert found == {"snapshots_taken": 2, "snapshot_ns_mean": 1.5 * S, "snapshot_ns_max": 2 * S}


def test_files_cannot_be_read_where_there_are_none(tmp_path: Path) -> None:
    assert "reads files" in skipped(study(tmp_path, '{ layer = "crypt" }', LOOKS))[CellKey("stack", "load")]


EXTENTS = {
    "supported": True,
    "files": 4,
    "bytes": 4096,
    "extents": 10,
    "extents_per_file": {"mean": 2.5, "p50": 2, "p99": 5, "max": 5},
    "in_one_piece": 1,
    "bytes_per_extent_mean": 409.6,
}


def test_the_looks_become_metrics(tmp_path: Path) -> None:
    for supported in (True, False):
        declared = study(tmp_path, '{ layer = "xfs" }', LOOKS)
        _, placements = placements_of(declared, TrialKey("stack", "load", 1))
        compiled = compile_trial(declared, "stack", "load", 1)
        outputs = {
            "extents": StepOutput(stdout=json.dumps({**EXTENTS, "supported": supported})),
            "free-space": StepOutput(stdout=XFS),
            "linear-read": StepOutput(
                stderr="Total bytes written: 1000 (1KiB, 1KiB/s)\n", duration_ns=S // 2
            ),
        }
        steps = {step.id: outputs[step.purpose.what] for step in compiled.steps_for(*outputs) if step.purpose}

        trial = SimpleNamespace(plan=compiled, placements=placements, outputs=Outputs(steps))
        found = Fragmentation().metrics(trial)
        metrics = {metric.name: metric for metric in found}

        assert metrics["linear_read_before_bytes_per_s"].value == 2000
        assert metrics["linear_read_before_bytes_per_s"].phase == "alter"
        assert metrics["linear_read_after_bytes_per_s"].phase == "inspect"
        assert metrics["fragmentation_xfs_free_extents"].value == 8
        assert ("fragmentation_xfs_extents_per_file_mean" in metrics) == supported
        if supported:
            assert metrics["fragmentation_xfs_before_extents_per_file_max"].value == 5
            assert metrics["fragmentation_xfs_files_in_one_piece"].value == 0.25


# As printed in the lab by e2fsprogs 1.47, xfsprogs 6.13, btrfs-progs 6.14 and OpenZFS 2.4.
EXT = """\
Device: /dev/sda
Blocksize: 4096 bytes
Total blocks: 1048576
Free blocks: 1010712 (96.4%)

Min. free extent: 296 KB
Max. free extent: 1146752 KB
Avg. free extent: 310988 KB
Num. free extent: 13
"""
XFS = """\
meta-data=/dev/sda               isize=512    agcount=4, agsize=262144 blks
data     =                       bsize=4096   blocks=1048576, imaxpct=25
   from      to extents  blocks    pct blkcdf extcdf
      2       3       1       3   0.00 100.00 100.00
 131072  262144       4 1031241  99.98  99.98  50.00
total free extents 8
total free blocks 1031466
average free extent size 128933
"""
BTRFS = """\
\titem 5 key (22020096 FREE_SPACE_INFO 8388608) itemoff 16267 itemsize 8
\t\tfree space info extent count 2 flags 0
\titem 6 key (22020096 FREE_SPACE_EXTENT 16384) itemoff 16267 itemsize 0
\t\tfree space extent
\titem 7 key (22052864 FREE_SPACE_EXTENT 8355840) itemoff 16267 itemsize 0
\t\tfree space extent
"""


def test_free_space_metrics_come_from_each_tools_output() -> None:
    def values(found: list[FreeSpace]) -> dict[str, float]:
        return {each.name: each.value for each in found}

    assert values(Ext4().free_space_metrics(EXT)) == {
        "free_extents": 13,
        "free_extent_bytes_mean": 310988 << 10,
        "free_extent_bytes_max": 1146752 << 10,
    }
    assert values(Xfs().free_space_metrics(XFS)) == {
        "free_extents": 8,
        "free_extent_bytes_mean": 128933 * 4096,
    }
    assert values(Btrfs().free_space_metrics(BTRFS)) == {
        "free_extents": 2,
        "free_extent_bytes_mean": (16384 + 8355840) / 2,
        "free_extent_bytes_max": 8355840,
    }
    bitmap = BTRFS.replace("FREE_SPACE_EXTENT 16384", "FREE_SPACE_BITMAP 16384")
    assert values(Btrfs().free_space_metrics(bitmap)) == {"free_extents": 2}
    assert values(Zpool().free_space_metrics("42\n")) == {"free_space_index": 0.42}
