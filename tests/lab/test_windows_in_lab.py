# SPDX-License-Identifier: Apache-2.0
"""Options of every workload around its window, and the checks of every trial, in the real lab."""

from __future__ import annotations

import pytest
from lab_factory import records, run_text

from strata.lab import Lab
from strata.results.record import ResultRecord
from strata.runners.lab import LabRunner

STUDY = """\
[study]
name = "windows"
question = "What do snapshots make of a file?"
seeds = [1]
sample_interval = "500ms"

[devices.disk0]
model = "wd-re4-500gb"
capacity = "2GiB"

[stacks.ext4-thin]
layers = [{ layer = "lvm-thin" }, { layer = "ext4" }]

[stacks.btrfs]
layers = [{ layer = "btrfs" }]

[stacks.zfs]
layers = [{ layer = "zpool" }, { layer = "zfs" }]

[workloads.rewrite]
workload = "fio"
options = { rw = "randwrite", bs = "4k", ioengine = "psync", fsync = 1 }
file = "overwritten"
size = "16MiB"
duration = "4s"
snapshot_every = "1500ms"
fragmentation = true
linear_read = true
"""


@pytest.fixture(scope="module")
def found(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ResultRecord]:
    folder = tmp_path_factory.mktemp("windows")
    run_text(STUDY, folder, LabRunner(lab), jobs=1)
    return {name.partition(".")[0]: record for name, record in records(folder / "results").items()}


def values(record: ResultRecord) -> dict[str, float]:
    return {metric.name: metric.value for metric in record.metrics}


def test_snapshots_are_taken_during_the_window_on_every_kind_of_stack(found: dict[str, ResultRecord]) -> None:
    for record in found.values():
        assert record.validity.valid, record.validity.reasons
        assert values(record)["snapshots_taken"] == 2
        assert values(record)["snapshot_ns_max"] > 0
        # They do not make the window longer.
        assert record.phases_ns["measure"] < 6_000_000_000


def test_rewriting_below_snapshots_divides_a_file_where_blocks_are_copied(
    found: dict[str, ResultRecord],
) -> None:
    btrfs, ext4 = values(found["btrfs"]), values(found["ext4-thin"])

    assert btrfs["fragmentation_btrfs_before_extents_per_file_mean"] == 1
    assert btrfs["fragmentation_btrfs_extents_per_file_mean"] > 10
    assert ext4["fragmentation_ext4_extents_per_file_mean"] == 1
    for name in ("fragmentation_ext4_free_extents", "fragmentation_ext4_free_extent_bytes_mean"):
        assert ext4[name] > 0
    assert "fragmentation_zpool_free_space_index" in values(found["zfs"])
    for record in found.values():
        assert values(record)["linear_read_after_bytes_per_s"] > 0
        assert values(record)["linear_read_before_bytes_per_s"] > 10e6


def test_every_trial_is_checked(found: dict[str, ResultRecord]) -> None:
    for record in found.values():
        verdicts = {check.name: check.verdict for check in record.checks}
        assert verdicts["finished"] == verdicts["did-io"] == verdicts["did-io-in-window"] == "yes"
        assert verdicts["larger-than-memory"] == "no"
        # Five seconds may be too few to tell, but they are judged.
        assert any("they drift by" in check.detail for check in record.checks if check.name == "steady")
