# SPDX-License-Identifier: Apache-2.0
"""Attempts as an agent would leave them, for the tests of results, statistics and report.

Everything goes through the real path: an events.jsonl is written, read, built into a record and stored.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from strata.model.histogram import empty_histogram, latency_metrics, record
from strata.model.metric import Metric
from strata.model.step import Step
from strata.model.study_record import StackRecord, WorkloadRecord
from strata.plan.model import Monitors, Plan, PlanDevice, Trial, sha256_hex
from strata.results.build import build_record
from strata.results.events import read_events
from strata.results.record import (
    Charges,
    Fingerprint,
    RealTime,
    ResultRecord,
    StudySnapshot,
    Versions,
)
from strata.results.records import Attempt
from strata.results.store import ResultsFolder

S = 1_000_000_000
FINGERPRINT = Fingerprint(
    kernel_sha256=sha256_hex(b"kernel"), image_sha256=sha256_hex(b"image"), agent_sha256=sha256_hex(b"agent")
)
# A load's own runtime is shorter than the step of 60 s that measures it.
LOAD_S = 52
QUESTION = "Which filesystem should hold a small PostgreSQL and random I/O on one 7200 rpm disk?"
STACKS = {"ext4": 329.0, "xfs": 344.0, "btrfs": 75.0}
TITLES = {
    "ext4": "ext4 · mkfs -m 0 · noatime",
    "xfs": "xfs · noatime",
    "btrfs": "btrfs · CoW · data single, metadata dup",
    "oltp": "pgbench · scale 20 · 10 clients · 60 s",
    "random-mix": "fio · random-mix-4k · iodepth 16 · 30 s",
}
WORKLOADS = ("oltp", "random-mix")


def plan_of(stack: str, workload: str, seed: int) -> Plan:
    return Plan(
        trial=Trial(
            study="quickstart", stack=stack, workload=workload, seed=seed, id=f"{stack}.{workload}.s{seed}"
        ),
        devices=(PlanDevice(name="disk0", capacity_bytes=500_107_862_016),),
        variables=("disk0", "mount", "scratch"),
        environment={"LC_ALL": "C.UTF-8"},
        monitors=Monitors(interval_ns=S, disks=("disk0",)),
        time_limit_ns=1800 * S,
        steps=(
            Step(id="mkfs", phase="build", title="Make the filesystem", argv=(f"mkfs.{stack}", "${disk0}")),
            Step(
                id="load",
                phase="measure",
                title="Measure",
                argv=("pgbench", "-T", "60", workload),
                time_limit_ns=90 * S,
            ),
        ),
    )


def spec_sha256_of(plan: Plan) -> str:
    return sha256_hex(plan.to_json())


class EventLog:
    """Writes events as the agent does."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lines: list[str] = []
        self.now_ns = 400_000_000
        self.add(
            "agent_start",
            event_version=1,
            agent_version="0.1.0",
            plan_sha256=spec_sha256_of(plan),
            trial=plan.trial.id,
            runner="lab",
            kernel={"release": "7.2.12", "version": "#1", "machine": "x86_64"},
        )

    def add(self, kind: str, /, **fields: Any) -> None:
        event = {
            "seq": len(self.lines),
            "monotonic_ns": self.now_ns,
            "realtime_ns": self.now_ns,
            "type": kind,
        }
        self.lines.append(json.dumps({**event, **fields}))

    def account(self, step: str, at: str, account: dict[str, int]) -> None:
        self.add("disk_account", step=step, at=at, disk="disk0", account=account)

    def sample(self, at: str = "interval", step: str | None = None) -> None:
        seconds = self.now_ns // S
        disk = {"reads": 100 * seconds, "read_bytes": 409_600 * seconds, "writes": 300 * seconds}
        self.add(
            "sample",
            at=at,
            step=step,
            disks={
                "disk0": {**disk, "write_bytes": 300 * 8192 * seconds, "in_flight": 3, "busy_ns": self.now_ns}
            },
            memory={
                "dirty_bytes": (seconds % 7) << 20,
                "writeback_bytes": (seconds % 3) << 20,
                "cached_bytes": 300 << 20,
                "available_bytes": (500 - seconds % 7) << 20,
            },
            cpu={"user_ns": 0, "system_ns": 0, "idle_ns": self.now_ns, "iowait_ns": 0},
        )

    def step(
        self, step: str, duration_ns: int, outcome: str = "ok", stderr: str = "", stdout: str = ""
    ) -> None:
        spec = next(each for each in self.plan.steps if each.id == step)
        self.add("step_start", step=step, phase=spec.phase, argv=list(spec.argv))
        if stdout:
            self.add("output", step=step, stream="stdout", text=stdout)
        if stderr:
            self.add("output", step=step, stream="stderr", text=stderr)
        end_ns = self.now_ns + duration_ns
        while self.now_ns + S <= end_ns and duration_ns > 2 * S:
            self.now_ns += S
            self.sample()
        self.now_ns = end_ns
        self.end(step, outcome, duration_ns)

    def end(self, step: str, outcome: str, duration_ns: int) -> None:
        self.add(
            "step_end",
            step=step,
            outcome=outcome,
            exit_code={"ok": 0, "failed": 1}.get(outcome),
            signal="SIGKILL" if outcome == "signalled" else None,
            expected=[0],
            duration_ns=duration_ns,
            max_rss_bytes=9 << 20,
            user_ns=0,
            system_ns=0,
            output_truncated=False,
            error=None,
        )

    def finish(self, outcome: str = "ok", failed_step: str | None = None, reason: str | None = None) -> None:
        self.add("agent_end", outcome=outcome, failed_step=failed_step, reason=reason)

    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)

    def written(self, folder: Path) -> Path:
        """The file of the events, written into a folder."""
        path = folder / "events.jsonl"
        path.write_text(self.text())
        return path


def account_of(rate_per_s: float, seconds: int, rng: np.random.Generator) -> dict[str, int]:
    window_ns = seconds * S
    requests = int(60 + rate_per_s * 0.35) * seconds
    crowd = 1.8 if rate_per_s < 100 else 1.0
    shares = {"seek": 0.33 * crowd, "rotation": 0.38 / crowd, "transfer": 0.035, "overhead": 0.05}
    account = {
        f"{part}_ns": int(window_ns * share * rng.uniform(0.95, 1.05)) for part, share in shares.items()
    }
    media_ns = account["seek_ns"] + account["rotation_ns"] + account["transfer_ns"]
    account |= {"queue_ns": int(media_ns * 4.2), "flush_ns": int(window_ns * 0.21)}
    account |= {"reads": requests // 4, "read_bytes": requests * 1024, "writes": 3 * requests // 4}
    account |= {"write_bytes": requests * 6144, "flushes": requests // 3}
    return account | {"busy_ns": min(window_ns, media_ns + int(window_ns * 0.02))}


def metrics_of(workload: str, level: float, seed: int) -> list[Metric]:
    rng = np.random.default_rng(seed * 1000 + int(level))
    rate = level * float(rng.normal(1, 0.012)) * (1.0 if workload == "oltp" else 0.55)
    latencies = rng.gamma(2.2, 10 / rate / 2.2 * 1e9, size=4000)
    histogram = empty_histogram()
    for value in latencies:
        record(histogram, int(value))
    noun = "transactions" if workload == "oltp" else "operations"
    return [
        Metric(name=f"{noun}_per_s", value=rate, unit="1/s", better="higher", headline=True),
        Metric(name=noun, value=float(round(rate * LOAD_S)), unit="1", better="higher"),
        *latency_metrics(
            histogram, latency_ns_mean=float(np.mean(latencies)), latency_ns_max=float(latencies.max())
        ),
    ]


def good_log(plan: Plan, level: float) -> EventLog:
    rng = np.random.default_rng(plan.trial.seed)
    log = EventLog(plan)
    log.step("mkfs", S // 2)
    log.account("load", "step_start", dict.fromkeys(account_of(level, 60, rng), 17))
    log.step("load", 60 * S, stdout="number of transactions: 19740\n")
    log.account("load", "step_end", {key: value + 17 for key, value in account_of(level, 60, rng).items()})
    log.finish()
    return log


def record_of(
    plan: Plan, events_path: Path, metrics: list[Metric] | None = None, console_log: Path | None = None
) -> ResultRecord:
    return build_record(
        plan,
        read_events(events_path),
        metrics=metrics if metrics is not None else metrics_of("oltp", 300, plan.trial.seed),
        spec_sha256=spec_sha256_of(plan),
        fingerprint=FINGERPRINT,
        runner="lab",
        time_domain="virtual",
        versions=Versions(
            strata="0.1.0",
            kernel="",
            agent="",
            packages={"postgresql-17": "17.6-0+deb13u1", "fio": "3.39-1", "btrfs-progs": "6.14-1"},
        ),
        charges=Charges(syscall_ns=200, yield_ns=1000, clock_read_ns=50),
        real_time=RealTime(started_at="2026-11-20T21:00:00Z", duration_s=12.5, host="test machine"),
        console_log=console_log,
    )


def store_trial(
    folder: ResultsFolder, plan: Plan, metrics: list[Metric], log: EventLog, console: str = ""
) -> Attempt:
    attempt = folder.store.begin(spec_sha256_of(plan))
    attempt.plan_path.write_bytes(plan.to_json())
    attempt.events_path.write_text(log.text())
    attempt.console_path.write_text(console)
    folder.store.put(attempt, record_of(plan, attempt.events_path, metrics, attempt.console_path))
    return attempt


def snapshot_of(
    stacks: dict[str, float], seeds: tuple[int, ...], workloads: tuple[str, ...] = WORKLOADS
) -> StudySnapshot:
    plans = [plan_of(stack, load, seed) for stack in stacks for load in workloads for seed in seeds]
    return StudySnapshot(
        name="quickstart",
        question=QUESTION,
        stacks={name: StackRecord(title=TITLES.get(name, name)) for name in stacks},
        workloads={name: WorkloadRecord(title=TITLES.get(name, name)) for name in workloads},
        seeds=seeds,
        trials={plan.trial.key: spec_sha256_of(plan) for plan in plans},
        time_domain="virtual",
        runner="lab",
        text='[study]\nname = "quickstart"\nseeds = [1, 2, 3]\n',
        file="quickstart.toml",
        command="strata run studies/quickstart.toml",
    )


def make_study(
    path: Path, stacks: dict[str, float] = STACKS, seeds: tuple[int, ...] = (1, 2, 3)
) -> ResultsFolder:
    """A finished study with a valid result for every trial; equal ones are copies of one."""
    made = Path(_MADE.name) / sha256_hex(repr((stacks, seeds)).encode())
    if not made.exists():
        _make_study(made, stacks, seeds)
    shutil.copytree(made, path)
    return ResultsFolder.open(path)


_MADE = TemporaryDirectory(prefix="strata-made-")


def _make_study(path: Path, stacks: dict[str, float], seeds: tuple[int, ...]) -> None:
    folder = ResultsFolder.create(path, snapshot_of(stacks, seeds))
    for stack, level in stacks.items():
        for workload in WORKLOADS:
            for seed in seeds:
                plan = plan_of(stack, workload, seed)
                store_trial(folder, plan, metrics_of(workload, level, seed), good_log(plan, level))
