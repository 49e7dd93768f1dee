# SPDX-License-Identifier: Apache-2.0
"""Capabilities: the verdicts from the events of a probe's boot, and the plans of probes."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from golden_text import Golden
from strata.capabilities.probe import cell_of, worst_of
from strata.capabilities.probe_plan import CONTENT_BYTES, ProbePlan
from strata.capabilities.probes import PROBES
from strata.capabilities.probes.integrity import DiskLoss, Extent, content_extent
from strata.capabilities.probes.snapshots import Clone, Send, Snapshot
from strata.errors import StudyError
from strata.experiment.survey import chosen_probes
from strata.layers.vm import Vm
from strata.printable import json_text
from strata.report.capability_table import capability_table
from strata.report.table import markdown
from strata.results.capabilities import Capabilities, Capability, ProbeTitle, Verdict
from strata.results.events import AccountReading, AgentEnd, Ending, Events, StepRun
from strata.traces.kinds import KINDS, OPS
from strata.traces.table import RECORD, Records, Trace
from strata.units import NS_PER_S
from study_texts import SOUND, read


def records(*wanted: tuple[int, str, str, int, int, int]) -> Records:
    """Records of (disk, operation, kind, sector, sectors, arrival)."""
    made = np.zeros(len(wanted), dtype=RECORD)
    for row, (disk, op, kind, sector, sectors, arrival_ns) in zip(made, wanted, strict=True):
        row["disk"], row["op"], row["kind"] = disk, OPS.index(op), KINDS.index(kind)
        row["sector"], row["sectors"], row["arrival_ns"] = sector, sectors, arrival_ns
    return made


def test_content_lies_where_most_data_was_read_on_the_first_disk_that_has_it() -> None:
    trace = Trace(
        records(
            (1, "read", "read_metadata", 0, 4096, 150),  # no data
            (1, "read", "read", 8192, 6400, 50),  # before the window
            (1, "read", "read", 1000, 8, 150),
            (2, "read", "read", 1512, 512, 160),
            (2, "read", "read", 1000, 512, 170),
            (3, "read", "read", 90000, 1024, 180),
            (2, "write", "write", 40000, 9000, 190),
        ),
        ("root", "disk0", "disk1", "disk2"),
    )

    assert content_extent(trace, (100, 200)) == Extent("disk1", 1000, 1024)


def test_without_data_there_is_no_content() -> None:
    trace = Trace(records((1, "read", "read_metadata", 0, 8, 1)), ("root", "disk0"))

    assert content_extent(trace, (0, 9)) is None


@pytest.fixture
def probe_plan(tmp_path: Path) -> ProbePlan:
    study = read(tmp_path, SOUND)
    return ProbePlan(study, study.stacks["btrfs"], "snapshot")


def output(probe_plan: ProbePlan, failed: str | None = None, *, moved_bytes: int = 0, **codes: int) -> Events:
    """The events of a boot in which every step did well, up to one that failed.

    Every step wrote ``moved_bytes`` to disk0.
    """
    events = Events(path=Path("events.jsonl"), sha256="0" * 64)
    for step in probe_plan.steps:
        code = codes.get(step.id.rsplit("-", 1)[0].replace("-", "_"), 1 if step.id == failed else 0)
        ending = Ending(step=step.id, outcome="ok", exit_code=code, duration_ns=1000)
        events.steps[step.id] = StepRun(step.id, step.phase, step.argv, 0, 1000, ending)
        for at, count in (("step_start", 7), ("step_end", 7 + moved_bytes)):
            events.accounts.append(
                AccountReading(step=step.id, at=at, name="disk0", account={"write_bytes": count})
            )
        if step.id == failed:
            break
    outcome = "failed" if failed else "ok"
    events.end = AgentEnd(outcome=outcome, failed_step=failed, reason="exit code 1" if failed else None)
    return events


def test_what_is_compared_decides(probe_plan: ProbePlan) -> None:
    probe = Snapshot()
    assert probe.prepare(probe_plan) is None

    good = cell_of(probe_plan, probe, output(probe_plan))
    bad = cell_of(probe_plan, probe, output(probe_plan, compare_b=1))

    assert (good.verdict, good.note) == ("yes", "by btrfs")
    assert bad.verdict == "no"
    assert good.duration_ns == 1000 * len(good.commands)
    assert all("snapshot" in command for command in good.commands)


def test_a_clone_that_copies_the_content_is_only_half_of_one(probe_plan: ProbePlan) -> None:
    probe = Clone()
    probe.prepare(probe_plan)

    cheap = cell_of(probe_plan, probe, output(probe_plan, moved_bytes=4096))
    dear = cell_of(probe_plan, probe, output(probe_plan, moved_bytes=CONTENT_BYTES))

    assert (cheap.verdict, cheap.write_bytes) == ("yes", 4096 * len(cheap.commands))
    assert dear.verdict == "partial"


def test_a_machine_that_is_started_anew_gets_the_same_content_to_compare(tmp_path: Path) -> None:
    study = read(tmp_path, SOUND)
    stack = study.stacks["btrfs"]
    layers = (Vm.model_validate({"layer": "vm"}), *stack.layers)
    plan = ProbePlan(study, replace(stack, name="vm", layers=layers), "probe")
    plan.begin("a", "b")
    plan.down(0)
    plan.up(0)

    made = [step for step in plan.steps if step.argv[0] == "openssl"]

    assert [step.argv[-1] for step in made] == ["${scratch}/a", "${scratch}/b"] * 2
    assert [step.argv for step in made[:2]] == [step.argv for step in made[2:]]
    assert all(step.machine for step in made)


def test_every_disk_is_lost_in_turn_and_the_worst_verdict_counts_and_names_it(tmp_path: Path) -> None:
    study = read(tmp_path, SOUND)
    stack = study.stacks["btrfs"]
    probes = DiskLoss.tries(stack)
    assert [probe.disk for probe in probes] == list(stack.all_devices)
    disks = ["disk0", "disk1", "ssd"]
    tried = [DiskLoss(disk) for disk in disks]

    def worst(*verdicts: Verdict) -> tuple[str, str]:
        cells = [Capability(stack="s", probe="disk-loss", verdict=each, note=each) for each in verdicts]
        found = worst_of(cells, tried)
        return found.verdict, found.note

    assert worst("yes", "yes", "no") == ("no", "ssd: no")
    assert worst("no", "yes", "no") == ("no", "disk0 or ssd: no")
    assert worst("partial", "failed", "yes") == ("failed", "disk1: failed")
    assert worst("yes", "yes", "yes") == ("yes", "any disk: yes")


def test_what_cannot_be_read_of_a_step_is_no_verdict(probe_plan: ProbePlan) -> None:
    probe = Send()
    probe.prepare(probe_plan)
    events = output(probe_plan)
    size = next(step for step in events.steps if step.startswith("size"))
    events._streams[size, "stdout"] = bytearray(b"?")

    assert cell_of(probe_plan, probe, events).verdict == "failed"


def test_an_operation_that_fails_is_a_no_and_anything_else_no_verdict(probe_plan: ProbePlan) -> None:
    probe = Snapshot()
    probe.prepare(probe_plan)

    assert cell_of(probe_plan, probe, output(probe_plan, failed=probe_plan.operations[0])).verdict == "no"
    assert cell_of(probe_plan, probe, output(probe_plan, failed="btrfs-make")).verdict == "failed"


def test_every_probe_is_a_plan_that_keeps_the_rules_or_says_why_not(tmp_path: Path, golden: Golden) -> None:
    study = read(tmp_path, SOUND)
    lines = []
    for probe, stack in product([*(kind() for kind in PROBES), DiskLoss("disk1")], ("ext4", "btrfs")):
        plan = probe.resized(ProbePlan(study, study.stacks[stack], probe.name))
        why = probe.prepare(plan)
        lines += ["", f"# {probe.name} on {stack}: {why or 'tried'}"]
        steps = () if why else plan.plan().steps  # checks it
        for step in steps:
            more = f" <<< {step.stdin.strip()!r}" if step.stdin else ""
            limit = f"{step.time_limit_ns // NS_PER_S} s"
            lines.append(f"{step.id} ({limit}): {shlex.join(step.argv)}{more}")
        lines.append(f"decisive: {', '.join(plan.decisive)}")
    golden("probes.txt", "\n".join([*lines, ""]))
    with pytest.raises(StudyError, match="there is no probe"):
        chosen_probes(["snapshoot"])


def test_the_matrix_has_a_row_for_every_probe_and_a_column_for_every_stack() -> None:
    cells = [
        Capability(
            stack=stack,
            probe=probe.name,
            verdict="yes",
            duration_ns=2_000_000,
            read_bytes=0,
            write_bytes=4096,
            commands=("true",),
        )
        for stack in ("a", "b")
        for probe in PROBES
    ]

    probes = tuple(ProbeTitle(name=each.name, title=each.title) for each in PROBES)
    found = Capabilities(study="made", probes=probes, stacks={"a": "", "b": ""}, cells=tuple(cells))
    text = markdown(capability_table(found, has_bytes=True))
    plain = json.loads(json_text(found))

    assert text.splitlines()[0] == "| capability | a | b |"
    assert len(text.strip().splitlines()) == 2 + len(PROBES)
    assert "yes (2 ms, 4 KiB)" in text
    assert plain["cells"][0]["write_bytes"] == 4096
