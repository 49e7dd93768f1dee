# SPDX-License-Identifier: Apache-2.0
"""``strata confirm``: a prediction beside a measurement, what explains the difference, and the ranking."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from varied_studies import TEXT, PlantedRunner, measured, planted

from command_line import refusal, shown, shown_json
from made_results import made_record, made_results
from strata.bundled import project_root
from strata.model.metric import Metric
from strata.model.trial import CellKey
from strata.plan.model import Trial
from strata.report.confirm import confirmation, ranking_words
from strata.report.document import Code
from strata.results.findings import Finding, Variation
from strata.results.record import TimeDomain
from strata.results.store import ResultsFolder
from strata.runners.name import RunnerName
from strata.statistics.confirmation import compared_pairs, confirmed
from strata.statistics.study import CellResults, StudyResults
from study_texts import disk

LOAD = "postgresql"
OPERATIONS = 10_000


class Planted(NamedTuple):
    """Microseconds of an operation, and its requests; on a real disk a flush waits ``flush_us``."""

    time_us: float = 1000
    busy_us: float = 600
    writes: float = 3
    flushes: float = 1
    flush_us: float = 300


def results(tmp_path: Path, domain: TimeDomain, stacks: Mapping[str, Planted]) -> StudyResults:
    place = tmp_path / domain
    made = made_results(place, stacks=[*stacks], workloads=[LOAD], seeds=1, time_domain=domain)
    cells = {}
    for stack, it in stacks.items():
        records = {}
        for seed in (1, 2, 3):
            trial = Trial(study="made", stack=stack, workload=LOAD, seed=seed, id=f"{stack}.{LOAD}.s{seed}")
            write_us = max(0.0, it.busy_us - it.flushes * it.flush_us)
            account = {
                "writes": it.writes * OPERATIONS,
                "write_bytes": it.writes * OPERATIONS * 8192,
                "flushes": it.flushes * OPERATIONS,
                "busy_ns": it.busy_us * 1000 * OPERATIONS,
            }
            if domain == "wall":
                waited = {"write_ns": write_us, "flush_ns": it.flushes * it.flush_us, "read_ns": 0}
                account |= {key: us * 1000 * OPERATIONS for key, us in waited.items()}
            rate = 1e6 / it.time_us * (1 + 0.002 * seed)
            named = {"better": "higher", "phase": "measure"}
            changed: dict[str, Any] = {
                "disks": {"disk0": {key: int(value) for key, value in account.items()}},
                "phases_ns": {"measure": int(it.time_us * 1000 * OPERATIONS)},
                "metrics": (
                    Metric(name="transactions_per_s", value=rate, unit="1/s", headline=True, **named),
                    Metric(name="transactions", value=OPERATIONS, unit="1", **named),
                ),
                "checks": (),
            }
            records[seed] = made_record(trial, time_domain=domain).model_copy(update=changed)
        cells[stack, LOAD] = CellResults(stack, LOAD, records)
    return StudyResults(made.study(), (), cells)


def test_the_explanation_names_the_share_that_was_planted(tmp_path: Path) -> None:
    slower = {
        "disk": Planted(time_us=1400, busy_us=1000, flush_us=500),
        "processor": Planted(time_us=1400),
        "counts": Planted(time_us=1400, busy_us=1000, flushes=2, flush_us=400),
    }
    predicted = results(tmp_path, "virtual", dict.fromkeys(slower, Planted()))
    measured = results(tmp_path, "wall", slower)

    for name in slower:
        found = confirmed(predicted, measured, CellKey(name, LOAD))
        assert found is not None, name
        assert (found.cause, found.outcome, found.operation) == (name, "fails", "transaction")
        shares_us = {share: round(ns / 1000) for share, ns in found.shares_ns.items()}
        assert shares_us == {**dict.fromkeys(slower, 0), name: 400}, name
        assert math.isclose(sum(found.shares_ns.values()), found.times_ns[1] - found.times_ns[0])
        assert found.ratio == pytest.approx(1000 / 1400)
        assert found.low is not None
        if name == "counts":
            assert found.counts["flushes"] == (1, 2)
            assert found.load == {"rw": "randwrite", "bs": "8k", "iodepth": 1, "fsync": 2}


def test_a_prediction_that_is_near_holds_and_a_request_that_only_the_lab_makes_is_counted(
    tmp_path: Path,
) -> None:
    predicted = results(tmp_path, "virtual", {"near": Planted(), "unflushed": Planted(flushes=1)})
    there = {"near": Planted(time_us=1050), "unflushed": Planted(850, 450, flushes=0)}
    measured = results(tmp_path, "wall", there)

    near, unflushed = (confirmed(predicted, measured, CellKey(name, LOAD)) for name in there)
    assert near is not None
    assert unflushed is not None
    assert near.outcome == "holds"
    assert (unflushed.cause, round(unflushed.shares_ns["counts"])) == ("counts", -150_000)


def test_the_ranking_says_which_pairs_changed_places_beyond_their_intervals(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    order = dict(zip(names, map(Planted, (1000, 1100, 2000)), strict=True))
    before = compared_pairs(results(tmp_path, "virtual", order), LOAD, names)
    said = {}
    for number, times_us in enumerate([(900, 1200, 1900), (1300, 1100, 2000), (1005, 1000, 2000)]):
        there = dict(zip(names, map(Planted, times_us), strict=True))
        after = compared_pairs(results(tmp_path / str(number), "wall", there), LOAD, names)
        said[number] = ranking_words(before, after)

    assert said[0] == "3 of 3 pairs in the predicted order (Kendall's tau 1)."
    assert "2 of 3 pairs" in said[1]
    assert "0.33); a and b changed places beyond their intervals." in said[1]
    assert "a and b changed places within what is known" in said[2]


class _OnHost(PlantedRunner):
    time_domain = "wall"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[RunnerName, Any]:
    """Results of the lab, and runners of the lab and of a host that is twice as slow on XFS."""
    lab = planted(lambda stack, values: 10.0 if stack == "xfs" else 5.0)
    measured(tmp_path, planted(lab.response), TEXT)
    host = planted(lambda stack, values: 20.0 if stack == "xfs" else 5.0)
    host.__class__ = _OnHost
    runners: dict[RunnerName, Any] = {RunnerName.LAB: lab, RunnerName.HOST: host}
    monkeypatch.setattr("strata.actions.run.runner_for", lambda name, *words, **options: runners[name])
    monkeypatch.chdir(tmp_path)
    return runners


def test_prediction_and_measurement_stand_side_by_side_and_nothing_is_run_twice(
    asked: dict[RunnerName, Any], tmp_path: Path
) -> None:
    [found] = shown_json("confirm", "results", "--scratch", tmp_path)["findings"]

    ratios = {each["stack"]: round(each["ratio"], 2) for each in found["confirmed"]}
    assert ratios == {"ext4": 1.0, "xfs": 0.5}
    assert [each["outcome"] for each in found["confirmed"]] == ["holds", "fails"]
    assert [each.get("time_domain") for each in found["tried"]] == [None, "wall"]
    assert asked[RunnerName.LAB].begun == []  # the results have the prediction
    assert len(asked[RunnerName.HOST].begun) == 6
    assert shown_json("confirm", "results", "--scratch", tmp_path)["findings"] == [found]
    assert len(asked[RunnerName.HOST].begun) == 6
    assert ResultsFolder.open(tmp_path / "results" / "on-host" / "oltp").study().time_domain == "wall"

    # The disks were idle in both, so the processor's price is in doubt.
    shown("confirm", "results", "--scratch", tmp_path, "--page", "page.html")
    assert "strata lab price" in (tmp_path / "page.html").read_text()


def test_the_lab_predicts_again_with_this_machines_processor_disk_and_memory(
    asked: dict[RunnerName, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.actions.confirm.memory_available_bytes", lambda: 7 << 30)
    for kind, name in (("cpus", "small-vps"), ("devices", "wd-re4-500gb")):
        shutil.copy(project_root() / kind / f"{name}.toml", tmp_path / f"my-{kind}.toml")
    words = ("--scratch", tmp_path, "--cpu", "my-cpus.toml", "--device", "disk0=my-devices.toml")

    [found] = shown_json("confirm", "results", *words)["findings"]

    changes = {key: Path(value).name for key, value in found["tried"][0]["changes"].items()}
    known = {"study.cpu": "my-cpus.toml", "devices.disk0.model": "my-devices.toml"}
    assert changes == known | {"study.memory": "4GiB"}
    assert len(asked[RunnerName.LAB].begun) == len(asked[RunnerName.HOST].begun) == 6
    assert {each["stack"] for each in found["confirmed"]} == {"ext4", "xfs"}


def test_without_a_prediction_or_a_measurement_the_reason_is_said(
    asked: dict[RunnerName, Any], tmp_path: Path
) -> None:
    made_results(tmp_path / "host", seeds=1, time_domain="wall")
    assert "they predict nothing" in str(refusal("confirm", "host", "--scratch", tmp_path))
    assert "ends in .toml" in str(refusal("confirm", "results", "--scratch", tmp_path, "--cpu", "mine"))
    asked[RunnerName.HOST].behaviours = {f"{s}.oltp.s{n}": "fail" for s in ("ext4", "xfs") for n in (1, 2, 3)}
    assert "cannot be confirmed" in str(refusal("confirm", "results", "--scratch", tmp_path))


def test_only_what_is_known_of_a_questions_own_disks_makes_another_prediction(
    asked: dict[RunnerName, Any], tmp_path: Path
) -> None:
    text = TEXT
    for stack in ("ext4", "xfs"):
        text = text.replace(f"[stacks.{stack}]\n", f'[stacks.{stack}]\ndevices = ["disk0"]\n')
    text += disk("disk1") + '[stacks.far]\ndevices = ["disk1"]\nlayers = [{ layer = "ext4" }]\n'
    times_ms = {"ext4": 5.0, "far": 7.0, "xfs": 10.0}
    asked[RunnerName.LAB] = lab = planted(lambda stack, values: times_ms[stack])
    shutil.rmtree(tmp_path / "results")
    measured(tmp_path, planted(lab.response), text)
    shutil.copy(project_root() / "devices" / "generic-sata-ssd.toml", tmp_path / "my-ssd.toml")
    shutil.copy(project_root() / "devices" / "wd-re4-500gb.toml", tmp_path / "same.toml")
    words = ("confirm", "results", "--scratch", tmp_path, "--best", "1")

    for devices in (("disk1=my-ssd.toml",), ("disk0=same.toml",), ("disk0=same.toml", "disk1=my-ssd.toml")):
        [found] = shown_json(*words, *(word for each in devices for word in ("--device", each)))["findings"]
        assert (found["tried"][0].get("changes", {}), lab.begun) == ({}, [])
        assert {each["stack"] for each in found["confirmed"]} == {"ext4", "xfs"}

    [found] = shown_json(*words, "--device", "my-ssd.toml")["findings"]
    assert "devices.disk0.model" in found["tried"][0]["changes"]


def test_disks_are_not_measured_for_a_prediction_that_has_no_valid_trial(
    asked: dict[RunnerName, Any], tmp_path: Path
) -> None:
    every = {f"{stack}.oltp.s{seed}": "fail" for stack in ("ext4", "xfs") for seed in (1, 2, 3)}
    asked[RunnerName.LAB].behaviours = every
    shutil.copy(project_root() / "cpus" / "small-vps.toml", tmp_path / "mine.toml")

    said = str(refusal("confirm", "results", "--scratch", tmp_path, "--cpu", "mine.toml"))

    assert "oltp cannot be confirmed: ext4.oltp" in said
    assert asked[RunnerName.HOST].begun == []


def test_the_processor_is_measured_after_the_disks_are_found_fit(
    asked: dict[RunnerName, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurings: list[object] = []
    monkeypatch.setattr("strata.actions.confirm.measure_processor", measurings.append)

    for words in (("--disk", "disk0=/dev/no-such-disk"), ("--erase", "SERIAL")):
        refusal("confirm", "results", "--cpu", "new.toml", *words)

    assert measurings == []


def test_the_commands_to_measure_again_are_of_the_disk_that_had_the_load(tmp_path: Path) -> None:
    predicted = results(tmp_path, "virtual", {"raid": Planted()})
    there = results(tmp_path, "wall", {"raid": Planted(time_us=1400, busy_us=1000, flush_us=500)})
    records = {}
    for seed, record in there.cells["raid", LOAD].records.items():
        disks = {"disk0": {**record.disks["disk0"], "busy_ns": 1}, "disk1": record.disks["disk0"]}
        disks["disk0"] |= dict.fromkeys(("writes", "write_bytes", "flushes", "write_ns", "flush_ns"), 0)
        records[seed] = record.model_copy(update={"disks": disks})
    there = replace(there, cells={("raid", LOAD): CellResults("raid", LOAD, records)})
    found = confirmed(predicted, there, CellKey("raid", LOAD))
    assert found is not None
    assert (found.disk, found.cause, found.load["rw"]) == ("disk1", "disk", "randwrite")
    tried = (Variation(name="predicted").tried(), Variation(name="measured").tried())
    finding = Finding(kind="confirm", subject=LOAD, tried=tried, confirmed=(found,))

    def commands(*known: Mapping[str, str]) -> Sequence[str]:
        blocks = [each for each in confirmation(finding, *known) if isinstance(each, Code)]
        return "\n".join(each.text for each in blocks).splitlines()

    [fio, calibrate] = commands({"disk0": "/dev/a", "disk1": "/dev/b"}, {"disk1": "other.toml"})
    assert "--filename=/dev/b " in fio
    assert calibrate == (
        f"strata calibrate --fio other.csv --fio raid-{LOAD}-disk1-1.json --output other.toml"
    )
    first, fio, _ = commands({"disk0": "/dev/a"})
    assert first == "sudo strata calibrate DISK --output my-disk1.toml"
    assert "--filename=DISK " in fio, "never the path of another disk"
