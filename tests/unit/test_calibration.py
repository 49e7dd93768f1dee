# SPDX-License-Identifier: Apache-2.0
"""A drive's measurements become a device file: what fio wrote is read, and known drives are recovered."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disk_machine import BY_ID, Tree

from strata.actions.calibrate import chosen_cells
from strata.calibration.calibrate import Calibrated, calibrate, candidates
from strata.calibration.device_file import device_toml
from strata.calibration.fit import Candidate, DriveSearch, simulate
from strata.calibration.host import host_notes, without_sleep
from strata.calibration.measuring import measure_disk, usable_disk
from strata.calibration.page import render
from strata.calibration.script import READS, WRITES, fio_script, measuring_study
from strata.calibration.unknowns import KEPT_BACK, FittedDrive
from strata.datasheet.cells import Measurements, Modelling, read_cells, table_text
from strata.datasheet.fio_results import MeasuredCell
from strata.datasheet.measure import Pattern, Subject, measure, rate_per_s
from strata.devices.device import device_folder, find_device, load_device
from strata.devices.plausible import plausible_drive
from strata.errors import DiagnosticsError, ResultError, ToolError
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.reading.load import load_study

OPTIONS = {"filename": "/dev/sda", "ioengine": "libaio", "direct": "1", "bs": "4k", "rw": "randread"}
PERCENTILES = {"50.000000": 100, "99.000000": 200, "99.900000": 300}


def side(iops: float = 0.0, *, version: int = 3, depth: int = 4) -> dict[str, Any]:
    mean_us = depth * 1e6 / iops if iops else 0
    common = {"iops": iops, "runtime": 10_000, "total_ios": int(iops * 10), "io_bytes": int(iops * 10 * 4096)}
    scale, suffix = (1000, "_ns") if version == 3 else (1, "")
    percentile = {key: value * scale for key, value in PERCENTILES.items()}
    return common | {
        f"clat{suffix}": {"mean": mean_us * scale, "percentile": percentile},
        f"lat{suffix}": {"mean": mean_us * scale},
    }


def job(iops: float = 10_000.0, *, group: int = 0, version: int = 3, **options: str) -> dict[str, Any]:
    shown = {} if version == 2 else {"job options": {"iodepth": "4"} | options}
    name = {"jobname": "random", "groupid": group, "error": 0}
    return name | shown | {"read": side(iops, version=version), "write": side(), "trim": {"iops": 0}}


def written(
    tmp_path: Path, *jobs: dict[str, Any], before: str = "", cut: int = 0, shared: bool = True
) -> Measurements:
    content = ({"global options": OPTIONS} if shared else {}) | {"jobs": list(jobs)}
    text = before + json.dumps({"fio version": "fio", **content})
    file = tmp_path / "fio.json"
    file.write_text(text[: len(text) - cut])
    return read_cells([file])


def test_results_of_each_version_of_fio_are_the_same_cell(tmp_path: Path) -> None:
    third = written(tmp_path, job())
    second = written(tmp_path, job(version=2), shared=False)
    for found in (third, second):
        assert found.cells[0].pattern == Pattern("randread", 4096, 4)
        assert found.cells[0].latencies_ns == {50.0: 100e3, 99.0: 200e3, 99.9: 300e3}
        assert found.cells[0].requests == 100_000
    assert "taken for randread of 4096 bytes at depth 4" in second.notes[0]


def test_jobs_of_one_group_are_one_load_and_of_several_groups_several(tmp_path: Path) -> None:
    beside = written(tmp_path, job(), job()).cells
    assert [(each.pattern.depth, each.iops) for each in beside] == [(8, 20_000.0)]
    assert len(written(tmp_path, job(), job(group=1)).cells) == 2
    grouped = written(tmp_path, job(numjobs="4", group_reporting="1")).cells
    assert grouped[0].pattern.depth == 16
    with pytest.raises(ResultError, match="different loads ran at once"):
        written(tmp_path, job(), job(bs="8k"))


def test_a_file_that_is_cut_off_keeps_its_whole_jobs(tmp_path: Path) -> None:
    for cut in (1, 3, 40, 400):
        found = written(tmp_path, job(), job(group=1), job(group=2), cut=cut, before="fio: a warning\n")
        assert len(found.cells) >= 2, cut
        assert "cut off" in found.notes[0]
    with pytest.raises(ResultError, match="no measurement"):
        written(tmp_path, job(), cut=900)


def test_jobs_that_say_nothing_of_the_disk_are_left_out_with_the_reason(tmp_path: Path) -> None:
    for options, why in (
        ({"direct": "0"}, "page cache"),
        ({"rate_iops": "100"}, "rate_iops held it back"),
        ({"rw": "randtrimwrite"}, "rw=randtrimwrite is not fitted"),
        ({"bs": "4k,64k"}, "several sizes"),
        ({"random_distribution": "zipf:1.2"}, "not uniform"),
    ):
        with pytest.raises(ResultError, match=why):
            written(tmp_path, job() | {"job options": {"iodepth": "4"} | options})
    with pytest.raises(ResultError, match="error 5"):
        written(tmp_path, job() | {"error": 5})


def test_a_job_that_reads_and_writes_at_once_is_a_cell_for_each_direction(tmp_path: Path) -> None:
    mix = job(7_000, rw="randrw", rwmixread="70") | {"write": side(3_000)}
    found = written(tmp_path, mix, mix).cells
    assert [(c.pattern.rw, c.pattern.beside_percent, c.pattern.depth, c.iops) for c in found] == [
        ("randread", 30, 8, 14_000),
        ("randwrite", 70, 8, 6_000),
    ]
    second = job(7_000, version=2) | {"write": side(3_000, version=2)}
    assert "taken for randrw of 4096 bytes at depth 8" in written(tmp_path, second, shared=False).notes[0]
    assert [each.pattern.rw for each in written(tmp_path, job(rw="randrw")).cells] == ["randread"]
    with pytest.raises(ResultError, match="flushes between"):
        written(tmp_path, mix | {"job options": {"rw": "randrw", "fsync": "4"}})
    (tmp_path / "kept.csv").write_text(table_text(found, "a mix"))
    assert [each.pattern for each in read_cells([tmp_path / "kept.csv"]).cells] == [c.pattern for c in found]
    chosen = chosen_cells(["randrw:8"])
    assert all(map(chosen, found))
    assert not any(map(chosen_cells(["randread:8"]), found))

    for name in ("generic-desktop-hdd", "generic-sata-ssd"):
        drive = FittedDrive(find_device(name))
        reads, writes = simulate(drive, found, "used", Modelling(requests=4_000))
        assert reads.iops / writes.iops == pytest.approx(7 / 3, rel=0.1), name
        held = sum(each.iops * each.latencies_ns[50.0] / 1e9 for each in (reads, writes))
        assert 4 < held < 9, name


def test_latency_logs_are_cells_of_their_own_unless_a_json_has_them(tmp_path: Path) -> None:
    """Of both versions, cut off, averaged, of a mix, and beside the job's other log or its JSON."""
    third = "".join(f"{n // 10}, {400_000 + n % 7}, {int(n % 10 > 6)}, 4096, 0\n" for n in range(10_001))
    second = "".join(f"{n // 10}, 400, 0, 65536\n" for n in range(10_001))
    averaged = "".join(f"{500 * n}, 400000, 0, 4096, 0\n" for n in range(200))
    logs = {
        "a_lat.1": third,
        "a_clat.1": third,
        "b_clat.2": second[:-4],
        "c_lat.1": averaged,
        "a_slat.1": "x",
    }
    for name, text in logs.items():
        (tmp_path / f"{name}.log").write_text(text)
    found = read_cells([tmp_path])
    assert [(c.pattern.rw, c.pattern.depth, round(c.iops, -2), c.is_total) for c in found.cells] == [
        ("randread", 4, 7_000, True),
        ("randwrite", 4, 3_000, True),
        ("read", 4, 10_000, False),
    ]
    assert found.cells[2].latencies_ns[99.0] == 400e3
    assert any("c_lat.1.log: it is left out: its lines are averages" in note for note in found.notes)
    (tmp_path / "fio.json").write_text(json.dumps({"global options": OPTIONS, "jobs": [job()]}))
    assert len(read_cells([tmp_path]).cells) == 1


def test_a_file_on_the_disk_is_a_part_of_it_and_a_synchronous_engine_has_one_request(tmp_path: Path) -> None:
    on_file = written(tmp_path, job(filename="/srv/test.bin", size="100G"))
    assert on_file.cells[0].pattern.span_bytes == 100 << 30
    assert "takes a part of the disk" in on_file.notes[0]
    assert written(tmp_path, job(ioengine="psync")).cells[0].pattern.depth == 1


def test_a_host_s_ceiling_and_its_sleep_are_recognised() -> None:
    """The MX200 and the PM883 stood behind SATA at 3 Gb/s; the machine of the DC500M slept."""
    for name, note in (("crucial-mx200-250-g8", "SATA at 3 Gb/s"), ("kingston-dc500m-m1015", "controller")):
        cells = read_cells([device_folder() / "real" / f"ssd-{name}.csv"]).cells
        reads = [each for each in cells if each.pattern.rw == "randread"]
        assert any(note in said for said in host_notes(reads, is_flash=True)), name
        asleep = [each.pattern.depth for each in without_sleep(reads) if each.limit]
        assert asleep == ([1] if "dc500m" in name else []), name


def measured_drive(name: str, seed: int, loads: list[Pattern]) -> tuple[Measurements, FittedDrive]:
    """A drive of a class, and its measurements with other random draws than the fit has."""
    drive = FittedDrive(plausible_drive(find_device(name), seed))
    cells = [MeasuredCell(load, 1e3, {}) for load in loads]
    rates = simulate(drive, cells, "used", Modelling(seed=99, requests=6_000))
    return Measurements(tuple(rates), ()), drive


def test_a_drawn_drive_is_recovered(tmp_path: Path) -> None:
    """The mean seek of a disk, from five cells; what they do not show keeps the range of the class."""
    loads = [Pattern("randread", 4096, depth) for depth in (1, 2, 4, 8, 32)]
    measured, drive = measured_drive("generic-desktop-hdd", 5, loads)
    found = calibrate("drawn", measured, class_name="generic-desktop-hdd")
    values = {each.name: each for each in found.values}
    assert values["seek_average_read"].is_measured
    assert values["seek_average_read"].value == pytest.approx(
        drive.device.number("seek_average_read"), rel=0.06
    )
    assert all(abs(each.ratios["rate"] - 1) < 0.05 for each in found.cells)
    assert not values["write_cache"].is_measured
    read_back(found, tmp_path)


def test_what_reads_cannot_tell_of_writes_is_in_their_interval(tmp_path: Path) -> None:
    """A drive's past and a cache that is off: both rates lie in the interval, which the file states."""
    for name, other in (("generic-sata-ssd", "steady"), ("generic-desktop-hdd", "cache off")):
        drive = FittedDrive(plausible_drive(find_device(name), 4))
        loads = [Pattern(rw, 4096, 8) for rw in ("randread", "randwrite")]
        blank, often = [MeasuredCell(load, 1e3, {}) for load in loads], Modelling(seed=99, requests=3_000)
        cells = simulate(drive, blank, "used", often)
        slow = replace(drive, device=replace(drive.device, write_cache=other == "steady"))
        slowly = simulate(slow, blank, other if other == "steady" else "used", often)[1]
        found = calibrate(
            "reads", Measurements(tuple(cells), ()), class_name=name, only=chosen_cells(["randread:8"])
        )
        low, high = found.cells[1].interval or (0, 0)
        # At the ends a host that takes no time and a cache that is seldom off: nine cases of ten.
        assert low / 1.05 < slowly.iops < cells[1].iops < 1.1 * high, name
        assert found.cells[0].interval is None
        load, least, most = found.unsure[0]
        assert "randwrite" in load
        assert f"{load}, {least:,.0f} to {most:,.0f}/s" in device_toml(found, "a test")


def read_back(found: Calibrated, tmp_path: Path) -> None:
    file = tmp_path / "drawn.toml"
    file.write_text(device_toml(found, "a test"))
    device = load_device(file)
    assert device.number("seek_average_read") == pytest.approx(
        found.device.number("seek_average_read"), rel=1e-3
    )
    assert "not measured: of generic-desktop-hdd" in device.parameters["write_cache"].source
    assert "<svg" in render(found)


def test_the_jobs_only_read_unless_writes_are_wanted() -> None:
    reading, writing = fio_script(writes=False), fio_script(writes=True)
    assert "write" not in reading.split("[global]")[1]
    assert "--readonly" in reading
    assert "OVERWRITES" in writing
    assert reading.count("stonewall") == len(READS)
    assert writing.count("stonewall") == len(READS) + len(WRITES)


def test_the_jobs_are_a_study_of_a_modelled_disk(tmp_path: Path) -> None:
    for name in ("generic-desktop-hdd", "generic-sata-ssd"):
        file = tmp_path / "measure.toml"
        file.write_text(measuring_study(name, writes=True))
        study = load_study(file, catalogue())
        plan = compile_trial(study, "raw", "jobs", 1)
        measured = [step for step in plan.steps if step.id.startswith("fio-measure-")]
        assert len(measured) == len(READS) + len(WRITES), name


def test_only_values_that_a_cell_shows_are_searched_and_a_cache_that_is_off_is_seen() -> None:
    device = find_device("generic-desktop-hdd")
    reads = [MeasuredCell(Pattern("randread", 4096, depth), 1e3, {}) for depth in (1, 32)]
    search = DriveSearch(Candidate(device), reads, Modelling(requests=500, before=0))
    shown = {search.unknowns.groups[index][0] for index in search.moved}
    assert {"seek_average_read", "positioning_margin", KEPT_BACK} <= shown
    in_order = MeasuredCell(Pattern("read", 4096, 1), 12_000, {})
    slow = replace(reads[0], iops=70)
    assert "flash" not in {each.device.kind for each in candidates([slow, in_order], "")}
    # As slow as a cloud volume, and a disk that says whether it rotates.
    some = [replace(reads[0], iops=250)]
    kinds = {said: {each.device.kind for each in candidates(some, "", rotates=said)} for said in (None, True)}
    assert kinds == {None: {"rotating", "network"}, True: {"rotating"}}
    assert not {"write_cache", "write_cache_runs", "destage_window", "read_segments"} & shown

    writes = [MeasuredCell(Pattern("randwrite", 4096, depth), 1e3, {}) for depth in (1, 32)]
    through = FittedDrive(replace(plausible_drive(device, 3), write_cache=False))
    cells = tuple(simulate(through, [*reads, *writes], "used", Modelling(seed=99, requests=2_000)))
    assert not calibrate("through", Measurements(cells, ()), class_name=device.name).device.write_cache


def test_a_measurement_repeats_with_its_seed_and_keeps_requests_back_beside_flushes() -> None:
    subject = Subject(find_device("wd-re4-500gb"))
    sorted_64 = [
        measure(subject, subject.open(), Pattern("randread", 4096, 64), 800, 0, s) for s in (1, 1, 2)
    ]
    assert np.array_equal(sorted_64[0].arrival_ns, sorted_64[1].arrival_ns)
    assert not np.array_equal(sorted_64[0].arrival_ns, sorted_64[2].arrival_ns)
    flushed = Pattern("randwrite", 4096, 8, flush_every=4)
    all_held, one = (measure(subject, subject.open(), flushed, 400, kept) for kept in (0, 7))
    assert rate_per_s(one, depth=8) < rate_per_s(all_held, depth=8)
    assert len(one.latency_ns) == 400


def fio_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """A program in fio's place; ``$OUTPUT`` is the file that it should write."""
    program = tmp_path / "bin" / "fio"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nfor word; do case $word in --output=*) OUTPUT="${{word#*=}}";; esac; done\n{does}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_a_disk_that_is_in_use_vanishes_or_fails_is_not_calibrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path / "root")
    tree.disk("sda", "S1")
    tree.disk("sdb", "S2").busy("sdb")
    with pytest.raises(DiagnosticsError, match="one process alone"):
        usable_disk(f"{BY_ID}/ata-DISK_S2", {}, "", tree.machine)
    with pytest.raises(DiagnosticsError, match="serial number"):
        usable_disk(f"{BY_ID}/ata-DISK_S1", {}, "S2", tree.machine)
    disk = usable_disk(f"{BY_ID}/ata-DISK_S1", {}, "", tree.machine)
    good = tmp_path / "good.json"
    good.write_text(json.dumps({"global options": OPTIONS, "jobs": [job()]}))
    for does, why in (
        ("echo fio: Input/output error >&2; exit 1", "Input/output error"),
        (f'cp {good} "$OUTPUT"; rm -r {tree.root}/sys/block/sda', "vanished"),
    ):
        monkeypatch.undo()
        shutil.rmtree(tmp_path / "bin", ignore_errors=True)
        fio_that(tmp_path, monkeypatch, does)
        with pytest.raises(ToolError, match=why):
            measure_disk(disk, tree.machine, erase=False, part=0.01, step=lambda _: None)


def test_each_load_of_the_plan_is_read_only_and_its_results_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path / "root")
    tree.disk("sda", "S1")
    disk = usable_disk(f"{BY_ID}/ata-DISK_S1", {}, "", tree.machine)
    good, asked = tmp_path / "good.json", tmp_path / "asked"
    good.write_text(json.dumps({"global options": OPTIONS, "jobs": [job()]}))
    fio_that(tmp_path, monkeypatch, f'echo "$*" >> {asked}; cp {good} "$OUTPUT"')
    found = measure_disk(disk, tree.machine, erase=False, part=0.01, step=lambda _: None)
    assert len(found.cells) == len(READS)
    assert all("--readonly" in line for line in asked.read_text().splitlines())
    asked.unlink()
    erasing = measure_disk(disk, tree.machine, erase=True, part=0.01, step=lambda _: None)
    assert len(erasing.cells) == len(READS) + len(WRITES)
    # The first job wakes the disk.
    assert ["--readonly" in line for line in asked.read_text().splitlines()] == (
        [True] * (1 + len(READS)) + [False] * len(WRITES)
    )
    kept = tmp_path / "kept.csv"
    kept.write_text(table_text(found.cells, "a disk"))
    again = read_cells([kept]).cells
    assert [(c.pattern, c.iops, c.latencies_ns, c.capacity_bytes) for c in again] == [
        (c.pattern, c.iops, c.latencies_ns, disk.size_bytes) for c in found.cells
    ]
    assert {each.device.capacity_bytes for each in candidates(again, "")} == {disk.size_bytes}
