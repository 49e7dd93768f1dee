# SPDX-License-Identifier: Apache-2.0
"""The rebuild at full size, estimated from two parts: held against planted rates and seeks."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_results import made_results
from strata.actions.rebuild import RebuildAsked
from strata.datasheet.formulas import sustained_bytes_per_s
from strata.devices.device import Device
from strata.devices.kinds.mechanism import mechanism
from strata.errors import StudyError
from strata.experiment.strategies.rebuild import CAPACITY, Rebuild, seek_ns
from strata.model.metric import Metric
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.plan.compile import compile_trial, skipped
from strata.report.findings import rebuilds
from strata.report.report import Report
from strata.report.sections import sections
from strata.report.table import Table
from strata.results.findings import Compared, Finding, Tried, keep_finding
from strata.units import GIB, NS_PER_S, SECTOR_BYTES
from study_texts import HEAD, disk, read

DISKS = disk("a", "generic-nearline-hdd-4tb", "16GiB") + disk("b", "generic-nearline-hdd-4tb", "16GiB")
STACKS = """
[stacks.md]
devices = ["a", "b"]
layers = [{ layer = "md", level = 1 }, { layer = "ext4" }]
[stacks.btrfs]
devices = ["a", "b"]
layers = [{ layer = "btrfs", data = "raid1", metadata = "raid1" }]
[stacks.zfs]
devices = ["a", "b"]
layers = [{ layer = "zpool", vdev = "mirror", arc_max = "128MiB" }, { layer = "zfs" }]
[stacks.alone]
devices = ["a"]
layers = [{ layer = "ext4" }]
[workloads.any]
workload = "fio"
preset = "random-read-4k"
size = "64MiB"
duration = "5s"
"""
ASKED = RebuildAsked(part_bytes=2 * GIB)
_START_NS = 3e9


def given(folder: Path, text: str = DISKS + STACKS) -> Study:
    return read(folder, HEAD + text)


def transfer_ns(device: Device, size_bytes: int) -> float:
    """Zone after zone at its sequential rate, which the lab's own tests hold against the driver."""
    disk, took, left_bytes = mechanism(device), 0.0, size_bytes
    for number, zone in enumerate(disk.zones):
        taken_bytes = min(left_bytes, zone.sectors * SECTOR_BYTES)
        took, left_bytes = took + taken_bytes / sustained_bytes_per_s(disk, number), left_bytes - taken_bytes
    return took * NS_PER_S


def took_ns(strategy: Rebuild, stack: str, seed: int, size_bytes: int, slowness: float) -> float:
    device = [*strategy.study.drawn_devices(stack, seed).values()][-1]
    return _START_NS + slowness * transfer_ns(device, size_bytes)


def planted(strategy: Rebuild, slowness: float, seeks_per_gib: float = 0.0) -> Finding:
    """What a drive takes that needs ``slowness`` times the transfers of what is used, after a start."""

    def results(size_bytes: int) -> Any:
        def record(key: CellKey, seed: int) -> Any:
            took = Metric.of("rebuild_ns", took_ns(strategy, key.stack, seed, size_bytes, slowness), "ns")
            seeks = seeks_per_gib * size_bytes / GIB
            return SimpleNamespace(metric=lambda name: took, trace=SimpleNamespace(window={"seeks": seeks}))

        cells = {
            key: SimpleNamespace(records={seed: record(key, seed) for seed in strategy.study.seeds})
            for key in strategy.cells.keys
        }
        return SimpleNamespace(cells=cells)

    tried = [
        strategy.judge(each, results(each.changes.get(CAPACITY, strategy.part_bytes)))
        for each in strategy.next(())
    ]
    return strategy.finding(tried, whole=True)


def ends(each: Compared) -> tuple[float, float, float]:
    assert each.level is not None
    assert each.low is not None
    assert each.high is not None
    return each.level, each.low, each.high


def estimate(found: Finding) -> Tried:
    [tried] = [each for each in found.tried if each.verdict == "estimated"]
    return tried


def test_the_whole_disk_follows_from_two_parts_zone_by_zone(tmp_path: Path) -> None:
    strategy = ASKED.strategy(given(tmp_path))
    assert strategy.full_bytes == 4_000_787_030_016
    found = planted(strategy, slowness=1.5)

    [md] = [each for each in estimate(found).compared if (each.stack, each.workload) == ("md", "idle")]
    full_bytes = strategy.full_bytes
    logs = [math.log(took_ns(strategy, "md", seed, full_bytes, 1.5)) for seed in strategy.study.seeds]
    level, low, high = ends(md)
    assert level == pytest.approx(math.exp(sum(logs) / len(logs)), rel=1e-6)
    assert low < level < high, "other drives have other rates"
    assert 1.5 * 4e12 / 250e6 < level / 1e9 < 1.5 * 4e12 / 71e6
    assert low < 0.75 * level, "no more than the transfers may be needed"
    outer = transfer_ns([*strategy.study.drawn_devices("md", 1).values()][-1], 2 * GIB) / (2 * GIB)
    assert level / full_bytes > 1.2 * 1.5 * outer, "inner zones are slower than the measured part"


def test_data_that_may_lie_at_the_rim_and_longer_seeks_widen_it(tmp_path: Path) -> None:
    study = given(tmp_path)
    found = {
        (each.stack, seeks): ends(each)
        for seeks in (0.0, 200.0)
        for each in estimate(planted(ASKED.strategy(study), 1.0, seeks)).compared
        if each.workload == "idle"
    }
    (level, low, high), (even, packed, _) = found["md", 0.0], found["btrfs", 0.0]
    assert packed / even < 0.95 * low / level, "data at the rim are rebuilt sooner"
    assert found["md", 200.0][:2] == pytest.approx((level, low))
    assert found["md", 200.0][2] > 1.05 * high, "heads move further on a full disk"
    device = study.devices["a"].device
    assert seek_ns(device, 2 * GIB) < seek_ns(device, device.capacity_bytes) <= 20e6


def test_the_whole_is_shown_beside_the_estimate_and_what_was_not_rebuilt_is_named(tmp_path: Path) -> None:
    asked = RebuildAsked(part_bytes=2 * GIB, full_bytes=16 * GIB, whole=True)
    found = planted(asked.strategy(given(tmp_path)), 2.0)
    assert [each.verdict for each in found.tried] == ["measured", "measured", "estimated", "measured"]
    for guess, truth in zip(estimate(found).compared, found.tried[-1].compared, strict=True):
        assert guess.level == pytest.approx(truth.level, rel=1e-6)
    [section] = rebuilds([found])
    [table] = [each for each in section.blocks if isinstance(each, Table)]
    assert [column.title for column in table.columns[-2:]] == [
        "16 GiB of each disk, estimated",
        "16 GiB of each disk, measured",
    ]
    assert [row[:2] for row in table.rows][:2] == [("md", "idle"), ("md", "loaded")]


def test_two_seeds_have_no_interval(tmp_path: Path) -> None:
    found = planted(RebuildAsked(seeds=2).strategy(given(tmp_path)), 1.0, seeks_per_gib=200.0)
    assert {(each.low, each.high) for each in estimate(found).compared} == {(None, None)}


def test_a_shingled_disk_whose_media_cache_is_not_filled_is_named(tmp_path: Path) -> None:
    study = given(tmp_path, (DISKS + STACKS).replace("generic-nearline-hdd-4tb", "generic-smr-hdd"))
    assert (
        "was not filled: a full rebuild may take longer" in estimate(planted(ASKED.strategy(study), 1.0)).note
    )
    unused = DISKS + STACKS + disk("shingled", "generic-smr-hdd", "16GiB")
    unused += '[stacks.other]\ndevices = ["a", "shingled"]\n'
    unused += 'layers = [{ layer = "md", level = 1 }, { layer = "xfs" }]\n'
    asked = RebuildAsked(stacks=("md",), part_bytes=2 * GIB)
    assert not estimate(planted(asked.strategy(given(tmp_path, unused)), 1.0)).note


def test_every_stack_with_a_mirror_is_aged_loses_a_disk_and_is_rebuilt(tmp_path: Path) -> None:
    strategy = ASKED.strategy(given(tmp_path))
    assert [*strategy.study.stacks] == ["md", "btrfs", "zfs"]
    assert strategy.study == ASKED.study(strategy.chosen), "a variation changes what the user has"
    larger = ASKED.study(strategy.chosen, {CAPACITY: 4 * GIB})
    assert larger.name == strategy.study.name
    sizes = {key: {each.capacity_bytes for each in larger.stack_devices(key)} for key in larger.stacks}
    assert sizes == {"md": {4 * GIB}, "btrfs": {16 * GIB}, "zfs": {4 * GIB}}
    fills = {key: age.fill for key in larger.stacks if (age := larger.of(key).age)}
    assert fills == {"md": 0.6, "btrfs": 0.15, "zfs": 0.6}, "as many bytes, with room for block groups"
    for study in (strategy.study, larger):
        assert not skipped(study)
        for key in strategy.cells.keys:
            purposes = [step.purpose.what for step in compile_trial(study, *key, 1).steps if step.purpose]
            assert {"age-churn", "lose-disk", "rebuild", "rebuilt"} <= {*purposes}, key


def test_what_cannot_be_rebuilt_or_told_is_refused(tmp_path: Path) -> None:
    study = given(tmp_path)
    for asked, cause in (
        (RebuildAsked(stacks=("alone", "md")), '"alone" does not survive a lost disk'),
        (RebuildAsked(stacks=("mdd", "md")), 'there is no stack "mdd"'),
        (RebuildAsked(fill=0.99), "99 % is no share"),
        (RebuildAsked(fill=0.0), "0 % is no share"),
        (RebuildAsked(full_bytes=4 * GIB), "no part to tell 4 GiB by"),
    ):
        with pytest.raises(StudyError, match=cause):
            asked.strategy(study)


def test_the_report_of_the_study_has_the_section(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "results")
    keep_finding(folder, planted(ASKED.strategy(given(tmp_path)), 1.5))
    [section] = [each for each in sections(Report.read(folder)) if each.name == "rebuild"]
    [table] = [each for each in section.blocks if isinstance(each, Table)]
    assert [row[:2] for row in table.rows[:2]] == [("md", "idle"), ("md", "loaded")]
