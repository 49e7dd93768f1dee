# SPDX-License-Identifier: Apache-2.0
"""Trials whose events are made up, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from execution_factory import TEXT, study_in
from results_factory import EventLog, S

from strata.execution.validity_checks import FinishedTrial, checks_of, throughput_of
from strata.model.metric import Metric
from strata.model.study import Study
from strata.model.warning import Check
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.results.events import read_events

LONG = TEXT.replace('duration = "2s"', 'duration = "12s"').replace('size = "1GiB"', 'size = "3GiB"')
LONG = LONG.replace("[study]", '[study]\nphases = "fixed"')  # the fake counts seconds from the trial's start
BUFFERED = f"{LONG}options = {{ direct = 0 }}\n"
SAVED = Path(__file__).parents[1] / "golden" / "outputs"
FIO = SAVED / "fio-3.39-random-mix.json"
ACCOUNT = {"reads": 0, "read_bytes": 0, "writes": 0, "write_bytes": 0}


class Log(EventLog):
    """Events of a trial whose disk reads at a rate that is a function of time."""

    tells_memory = True
    outputs: Mapping[str, str] = {}
    disk_busy_ns, computing_ns = 12 * S, 0
    counted: Mapping[str, int] = {}

    def __init__(self, plan: Plan, rate: Callable[[int], int], total_bytes: int | None = None) -> None:
        self.rate = rate
        self.total_bytes = total_bytes
        super().__init__(plan)

    def sample(self, at: str = "interval", step: str | None = None) -> None:
        reads = sum(self.rate(second) for second in range(self.now_ns // S))
        disk = {"reads": reads, "read_bytes": reads * 4096, "writes": 0, "write_bytes": 0}
        memory = {"total_bytes": 2 << 30, "available_bytes": 1 << 30} if self.tells_memory else {}
        self.add("sample", at=at, step=step, disks={"disk0": disk}, memory=memory, cpu={})

    def carry_out(self, window_bytes: int = 1 << 20) -> None:
        for step in self.plan.steps:
            measured = step.phase == "measure"
            read = 1 << 30 if self.total_bytes is None else 0
            if measured:
                self.account(step.id, "step_start", {**ACCOUNT, "write_bytes": read})
                self.processors(step.id, "step_start", 0)
            else:
                self.account(step.id, "step_start", ACCOUNT)
            self.step(step.id, 12 * S if measured else S, stdout=self.outputs.get(step.id, ""))
            if measured:
                moved = {**ACCOUNT, "write_bytes": read + window_bytes, "busy_ns": self.disk_busy_ns}
                self.account(step.id, "step_end", moved)
                self.processors(step.id, "step_end", self.computing_ns)
        self.finish()

    def processors(self, step: str, at: str, busy_ns: int) -> None:
        used = {"busy_ns": busy_ns, "queued_ns": 0, "processors": 1}
        used |= {name: count if busy_ns else 0 for name, count in self.counted.items()}
        self.add("processor_account", step=step, at=at, account=used)


def trial(folder: Path, text: str = LONG) -> tuple[Study, Plan]:
    study = study_in(folder, text)
    return study, compile_trial(study, "ext4", "mix", 1)


def judged(found: FinishedTrial, *metrics: Metric) -> list[Check]:
    return checks_of(found, throughput_of(found), metrics)


def finished(
    folder: Path, rate: Callable[[int], int] = lambda _: 100, *, text: str = LONG, **carrying: Any
) -> FinishedTrial:
    """A trial of which `Log` has these attributes, or `Log.carry_out` these arguments."""
    study, plan = trial(folder, text)
    log = Log(plan, rate, carrying.pop("total_bytes", None))
    for name in ("outputs", "tells_memory", "disk_busy_ns", "computing_ns", "counted"):
        setattr(log, name, carrying.pop(name, getattr(log, name)))
    log.carry_out(**carrying)
    return FinishedTrial(study, plan, read_events(log.written(folder)))


def checks(folder: Path, rate: Callable[[int], int] = lambda _: 100, **carrying: Any) -> dict[str, Check]:
    return {each.name: each for each in judged(finished(folder, rate, **carrying))}
