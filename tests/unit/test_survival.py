# SPDX-License-Identifier: Apache-2.0
"""``[survival]``: its keys, its drawn power cuts, and what is made of their findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from execution_factory import TEXT, study_in

from advice_studies import around, capabilities, said_of, study, use, weight
from command_line import refusal, shown
from strata.advice.advise import advise
from strata.advice.uses import Need
from strata.errors import DiagnosticsError, RunError, ToolError
from strata.experiment.strategies.power_cuts import drawn_cuts, uncut
from strata.model.survival import Kept
from strata.model.workload import Outputs, StepOutput
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped
from strata.plan.recovery import compile_recovery
from strata.reading.load import load_study
from strata.report.survival import survival_tables
from strata.report.table import markdown
from strata.results.capabilities import PowerCutFinding
from strata.units import NS_PER_MS
from strata.workloads.pgbench import Pgbench
from study_texts import HEAD, SSD, disk

DATABASE = """
[workloads.oltp]
workload = "pgbench"
scale = 1
clients = 2
duration = "5s"
"""
SURVIVAL = "[survival]\npower_cuts = 3\n"
DURABLE = Need(capability="durable", level="required", why="what was acknowledged must be there")
VERIFIED = ("pgbench-left", "pgbench-balances")
LOAD = Pgbench.model_validate({"scale": 1, "clients": 2, "duration": "5s"})


def finding(stack: str, **fields: object) -> PowerCutFinding:
    known = {"workload": "database", "seed": 1, "number": 1, "at_ns": NS_PER_MS, "verdict": "sound"}
    return PowerCutFinding.model_validate({"stack": stack, **known, **fields})


def refused(folder: Path, text: str) -> str:
    (folder / "study.toml").write_text(text)
    with pytest.raises(DiagnosticsError) as caught:
        load_study(folder / "study.toml", catalogue())
    return str(caught.value)


def test_all_mistakes_of_the_table_are_told_at_once(tmp_path: Path) -> None:
    short = TEXT.replace('duration = "2s"', 'duration = "1s"')
    priced = TEXT.replace("[devices.disk0]\n", "[devices.disk0]\nprice = 45\n")
    variant = DATABASE.replace("workloads.oltp", "workloads.oltp-degraded")
    three = ("survival.power_cuts", "survival.disk_loss", "survival.fire")

    for text, *causes in (
        (TEXT + '[survival]\npower_cuts = -1\ndisk_loss = "yes"\nfire = true\n', *three),
        (f"{TEXT}[survival]\n", "requests no failure"),
        (short + SURVIVAL, "in which an instant could be drawn"),
        (f'{TEXT}{DATABASE}{SURVIVAL}workloads = ["oltb"]\n', 'no workload "oltb"', 'mean "oltp"?'),
        (f"{TEXT}{SURVIVAL}workloads = []\n", "no workload is named"),
        (f"{MIRROR}{DATABASE}{variant}[survival]\ndisk_loss = true\n", "has the name of a variant"),
        (f"{priced}[survival]\npower_cuts = 2.5\n", "a price has a currency", "survival.power_cuts"),
    ):
        said = refused(tmp_path, text)
        assert all(cause in said for cause in causes), said


def test_failures_are_tried_under_the_chosen_workloads_alone(tmp_path: Path) -> None:
    other = DATABASE.replace("oltp", "other")
    table = f'{SURVIVAL}disk_loss = true\nworkloads = ["oltp"]\n'
    read = study_in(tmp_path, f"{MIRROR}{DATABASE}{other}{table}")
    assert read.survival is not None

    assert {*read.workloads} == {"oltp", "other", "oltp-degraded", "oltp-rebuilding"}
    assert {cut.workload for cut in drawn_cuts(read, read.survival)} == {"oltp"}
    assert uncut(read) == {"other": "the study does not ask for it"}


def test_on_a_host_survival_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(TEXT + DATABASE + SURVIVAL)

    error = refusal("run", file, "--runner", "host", "--scratch", tmp_path)

    assert isinstance(error, ToolError)
    assert "measured in the lab alone: a host's power and disks cannot fail and return" in str(error)


def test_all_stacks_lose_their_power_at_the_same_drawn_instants_of_the_window(tmp_path: Path) -> None:
    read = study_in(tmp_path, TEXT + DATABASE + SURVIVAL)
    assert read.survival is not None
    cuts = [cut for cut in drawn_cuts(read, read.survival) if cut.workload == "oltp"]
    by_stack = {stack: [cut.at_ns for cut in cuts if cut.stack == stack] for stack in read.stacks}

    assert len(by_stack) > 1
    assert len({tuple(each) for each in by_stack.values()}) == 1
    assert len(set(next(iter(by_stack.values())))) == 3
    assert all(0 < cut.at_ns < read.workloads["oltp"].window_ns for cut in cuts)


def test_the_plan_asks_beside_the_load_what_is_acknowledged_and_then_cuts(tmp_path: Path) -> None:
    read = study_in(tmp_path, TEXT + DATABASE + SURVIVAL)
    plan = compile_trial(read, next(iter(read.stacks)), "oltp", 1, cut_after_ns=7 * NS_PER_MS)
    lanes = {step.id: (step.lane, step.not_before_ns) for step in plan.steps if step.phase == "measure"}

    assert lanes["pgbench-measure"] == ("load", 0)
    assert lanes["acknowledged"] == lanes["power-cut"] == ("power-cut", 7 * NS_PER_MS)
    assert [*lanes].index("acknowledged") < [*lanes].index("power-cut")


def test_acknowledged_transactions_are_counted_again() -> None:
    said = "740:751:742,745|70\n"
    for left, lost, damage in (
        ("70 12|12|12|12", 0, ""),
        ("64 12|12|12|12", 6, ""),
        ("64", 6, ""),  # the balances could not be read
        ("", 70, ""),  # nothing could
        ("70 12|11|12|12", 0, "the balances of accounts differ from the history"),
    ):
        outputs = {name: StepOutput(f"{text}\n") for name, text in zip(VERIFIED, left.split(), strict=False)}
        assert LOAD.kept(said, Outputs(outputs)) == Kept(70, lost, damage)
    with pytest.raises(RunError, match="of another form"):
        LOAD.kept("740:751:'; DROP TABLE x|70\n", Outputs({}))


def test_a_stack_whose_power_cuts_lost_acknowledged_operations_is_refused_however_fast() -> None:
    results = study(
        {
            "fast": {"database": around(300)},
            "safe": {"database": around(100)},
            "slow": {"database": around(50)},
        },
        risks={},
    )
    cuts = (
        finding("fast", acknowledged=1500, lost=1200),
        finding("fast", number=2, verdict="not mountable", acknowledged=700, lost=700),
        finding("safe", acknowledged=900, lost=0),
    )
    can = capabilities().model_copy(update={"cuts": cuts})

    [unmeasured] = advise(results, [use(weight("database", 1), needs=[DURABLE])], None)
    [advice] = advise(results, [use(weight("database", 1), needs=[DURABLE])], can)

    assert unmeasured.leader == "fast"
    assert advice.leader == "safe"
    assert [(out.stack, out.text) for out in advice.out] == [
        ("fast", "measured in 2 of 2 power cuts: 1,900 acknowledged operations lost, not mountable after 1")
    ]
    said = said_of(advice)
    assert "safe: 1 power cut lost none of 900 acknowledged operations." in said
    assert "Survival of a power failure was not measured" not in said


def test_the_table_says_what_cannot_be_judged() -> None:
    cuts = (
        finding("a", acknowledged=1000, lost=12, recovery_ns=2 * 10**9),
        finding("b", workload="files", uncounted="fio keeps no count"),
        finding("c", verdict="failed", note="no room\nfor it"),
    )
    found = capabilities().model_copy(
        update={"cuts": cuts, "uncut": {"tree": "its window ends when its work is done"}}
    )
    [table] = survival_tables(found, study({"a": {"database": around(300)}}))
    rows = {line.split("|")[2].strip(): line for line in markdown(table).splitlines() if line.count("|") > 3}

    assert "1,000" in rows["a"]
    assert "12" in rows["a"]
    assert "cannot say (fio keeps no count)" in rows["b"]
    assert "cannot say (its window ends when its work is done)" in rows["–"]
    assert "1 of 1" in rows["b"]
    assert "no room" in rows["c"]


def test_workloads_whose_window_has_no_instants_are_named_with_the_reason(tmp_path: Path) -> None:
    short = DATABASE.replace("oltp", "short").replace("5s", "1s")
    endless = '[workloads.storm]\nworkload = "file-storm"\nfiles = 100\n'
    read = study_in(tmp_path, f"{TEXT}{DATABASE}{short}{endless}{SURVIVAL}")

    assert uncut(read) == {
        "short": "its window is shorter than 2s",
        "storm": "its window ends when its work is done, so that no instant can be drawn in it",
    }


DEGRADED = f'{DATABASE}before_measure = ["lose-disk"]\n'.replace("oltp", "lost")
REBUILT = f'{DATABASE}before_measure = ["lose-disk", "rebuild"]\n'.replace("oltp", "rebuilt")


def test_a_degraded_stack_is_cut_and_a_rebuild_is_not_and_check_says_so(tmp_path: Path) -> None:
    read = study_in(tmp_path, f"{MIRROR}{DATABASE}{DEGRADED}{REBUILT}{SURVIVAL}")
    assert read.survival is not None
    why = "the boot after the cut would have to continue the rebuild"

    assert {(cut.stack, cut.workload) for cut in drawn_cuts(read, read.survival)} == {
        ("mirror", "oltp"),
        ("mirror", "lost"),
        ("single", "oltp"),
    }
    assert uncut(read) == {"rebuilt": why}
    assert f"the power is not cut under rebuilt: {why}" in shown("check", tmp_path / "tiny.toml")


def test_the_boot_after_the_cut_of_a_degraded_stack_has_the_others_alone(tmp_path: Path) -> None:
    btrfs = '[stacks.btrfs]\ndevices = ["disk0", "disk1"]\nlayers = [{ layer = "btrfs", data = "raid1" }]\n'
    read = study_in(tmp_path, f"{MIRROR}{btrfs}{DEGRADED}")

    for stack, step in (("mirror", "md-assemble"), ("btrfs", "btrfs-recover-mount")):
        whole = compile_recovery(read, stack, 1)
        degraded = compile_recovery(read, stack, 1, degraded=True)
        assert "lose-disk" not in [each.id for each in whole.steps]
        assert degraded.steps[0].stdin == "${disk1} gone,0\n"
        built, left = (
            " ".join(next(each for each in plan.steps if each.id == step).argv) for plan in (whole, degraded)
        )
        assert ("${disk1}" in built, "${disk1}" in left) == (True, False)
        assert ("degraded" in built, "degraded" in left) == (False, stack == "btrfs")


def test_tenants_are_cut_but_not_asked(tmp_path: Path) -> None:
    load = '{ workload = "pgbench", scale = 1, clients = 2, duration = "5s" }'
    shares = ", ".join(f'{{ name = "{name}", load = {load} }}' for name in ("one", "two"))
    tenants = f'[workloads.both]\nworkload = "tenants"\ntenants = [{shares}]\n'
    read = study_in(tmp_path, f"{TEXT}{tenants}{SURVIVAL}")
    plan = compile_trial(read, next(iter(read.stacks)), "both", 1, cut_after_ns=7 * NS_PER_MS)

    ids = [step.id for step in plan.steps]
    assert "power-cut" in ids
    assert "acknowledged" not in ids


MIRROR = HEAD + disk("disk0", SSD) + disk("disk1", SSD) + disk("disk2", SSD)
MIRROR += """
[stacks.mirror]
devices = ["disk0", "disk1"]
layers = [{ layer = "md", level = 1, spares = ["disk2"] }, { layer = "ext4" }]
[stacks.single]
devices = ["disk0"]
layers = [{ layer = "ext4" }]
"""


def test_each_workload_is_also_measured_with_a_disk_lost_where_a_stack_survives_that(tmp_path: Path) -> None:
    read = study_in(tmp_path, f"{MIRROR}{DATABASE}[survival]\ndisk_loss = true\npower_cuts = 1\n")
    assert read.survival is not None

    assert {name: load.before_measure for name, load in read.workloads.items()} == {
        "oltp": [],
        "oltp-degraded": ["lose-disk"],
        "oltp-rebuilding": ["lose-disk", "rebuild"],
    }
    assert {str(cell) for cell in skipped(read)} == {"single.oltp-degraded", "single.oltp-rebuilding"}
    assert {cut.workload for cut in drawn_cuts(read, read.survival)} == {"oltp"}
    assert [step.id for step in compile_trial(read, "mirror", "oltp-degraded", 1).steps].count(
        "lose-disk"
    ) == 1


def test_a_use_is_not_judged_by_the_speed_with_a_disk_lost() -> None:
    results = study({"a": {"database": around(300)}, "b": {"database": around(100)}}, risks={})
    lost = results.snapshot.workloads["database"].model_copy(update={"loses_disk": True})
    snapshot = results.snapshot.model_copy(update={"workloads": {"database": lost}})
    degraded = replace(results, snapshot=snapshot)

    verdicts = [
        advise(each, [use(weight("database", 1))], None)[0].conclusion for each in (results, degraded)
    ]

    assert verdicts == ["clear", "cannot say"]
