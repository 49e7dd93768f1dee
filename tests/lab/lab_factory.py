# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests on the real lab: `strata` as a process, small studies, a workload of any script."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import Field
from rich.console import Console

from left_behind import loops_under
from strata.devices.device import Device, find_device
from strata.diagnostics.registry import Registry
from strata.disks.machine import mounts_under
from strata.execution.display import LineDisplay
from strata.execution.schedule import RETRIES
from strata.experiment.run import RunSummary, run_study
from strata.experiment.survey import Survey, chosen_probes
from strata.lab import Lab
from strata.lab.boot import Power
from strata.lab.cache import Cache, Entry, Inputs
from strata.model.metric import Metric
from strata.model.step import Prerequisites, Step
from strata.model.study import Study
from strata.model.workload import Outputs, Workload, WorkloadContext
from strata.plan.catalogue import catalogue
from strata.plan.compile import ENVIRONMENT
from strata.plan.model import Monitors, Plan, PlanDevice, Trial
from strata.reading.entries import Catalogue
from strata.reading.load import load_study
from strata.results.capabilities import Capabilities
from strata.results.events import Events, read_events
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Runner, Task
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S, Duration
from study_texts import written

STRATA = [sys.executable, "-c", "from strata.program import main; main()"]
HEAD = """\
[study]
name = "{name}"
question = "Which?"
seeds = {seeds}
time_limit = "10m"
phases = "fixed"

[devices.disk0]
model = "wd-re4-500gb"
capacity = "{capacity}"
"""


def head(name: str, seeds: list[int], capacity: str = "100GiB") -> str:
    return HEAD.format(name=name, seeds=seeds, capacity=capacity)


def stacks(*names: str) -> str:
    return "".join(f'\n[stacks.{name}]\nlayers = [{{ layer = "{name}" }}]\n' for name in names)


def mix(*, duration: str = "1s", size: str = "16MiB") -> str:
    """One workload without a warm-up: the start of fio takes the lab more time than such a window."""
    return (
        '\n[workloads.mix]\nworkload = "fio"\npreset = "random-mix-4k"\n'
        f'size = "{size}"\nduration = "{duration}"\n'
    )


def copy(size: str = "16MiB") -> str:
    """One workload for tests that need just a trial: it takes the lab a fifth of `mix`'s processor time."""
    return f'\n[workloads.copy]\nworkload = "dd"\ncontent = "random"\nsize = "{size}"\n'


def oltp(clients: int, duration: str = "1s") -> str:
    keys = f'scale = 1\nclients = {clients}\nwarmup = "1s"\nduration = "{duration}"\n'
    return f'\n[workloads.oltp]\nworkload = "pgbench"\n{keys}'


TWO_DISKS = """\
[study]
name = "disks"
question = "Are the two disks alike?"
seeds = [1, 2, 3]
drives = "exact"
phases = "fixed"
cpu = "free"
memory = "256MiB"
[devices.one]
model = "one.toml"
[devices.two]
model = "two.toml"
[stacks.one]
devices = ["one"]
layers = []
[stacks.two]
devices = ["two"]
layers = []
[workloads.reads]
workload = "fio"
options = { rw = "randread", bs = "4k", ioengine = "psync", direct = 1 }
"""


def write_two_disks(folder: Path, load: str, overheads: Mapping[str, str]) -> None:
    """A study of two drives alike but for the time of a command, by their names, and of random reads."""
    plain = (Path(__file__).parents[2] / "devices/wd-re4-500gb.toml").read_text()
    line = re.compile(r"^command_overhead = .*$", re.MULTILINE)
    for name, value in overheads.items():
        stated = f'command_overhead = {{ {value}, unit = "ms", source = "a test" }}'
        (folder / f"{name}.toml").write_text(line.sub(stated, plain))
    (folder / "study.toml").write_text(TWO_DISKS + load)


class Script(Workload):
    """A shell script as a workload, for what no real workload should do."""

    rationale: ClassVar[str] = "What no real use would do, so that a test can see what comes of it."
    tools: ClassVar[tuple[str, ...]] = ("sh",)

    workload: Literal["script"] = "script"
    script: str
    program: str = "sh"
    limit_ns: Duration = Field(default=60 * NS_PER_S, alias="limit")
    duration_ns: Duration = Field(default=1, alias="duration")

    @property
    def duration_ns_min(self) -> int:
        return self.duration_ns

    def steps(self, context: WorkloadContext) -> list[Step]:
        script = self.script.replace("MOUNT", context.mount_path)
        return [
            Step(
                id="script",
                phase="measure",
                title="Run the script",
                argv=(self.program, "-c", script),
                time_limit_ns=self.limit_ns,
            )
        ]

    def metrics(self, outputs: Outputs) -> list[Metric]:
        length = len(outputs.step("script").stdout)
        return [Metric(name="output_bytes", value=float(length), unit="B", better="higher", headline=True)]


def script_catalogue() -> Catalogue:
    known = catalogue()
    # mypy cannot take an abstract class as a type[T]; nothing here is instantiated.
    workloads = Registry[Workload]("workload", [*known.workloads.values(), Script])
    return Catalogue(layers=known.layers, workloads=workloads)


def run_text(
    text: str,
    folder: Path,
    runner: Runner,
    *,
    scripts: bool = False,
    jobs: int | None = None,
    retries: int = RETRIES,
) -> RunSummary:
    """Make the folder, and run a study in this process; its results are in ``folder/results``."""
    folder.mkdir(exist_ok=True)
    file = written(folder / "study.toml", text)
    study = load_study(file, script_catalogue() if scripts else catalogue())
    display = LineDisplay(Console(stderr=True), virtual=runner.time_domain == "virtual")
    results = folder / "results"
    return run_study(study, results, runner, display, jobs=jobs, retries=retries)


def records(results: Path) -> dict[str, ResultRecord]:
    """The record of every trial of a results folder that has one."""
    return {
        reading.trial_id: reading.record
        for reading in ResultsFolder.open(results).readings()
        if reading.record is not None
    }


def valid_record(text: str, folder: Path, runner: Runner, **options: Any) -> ResultRecord:
    """Run a study of one trial, which must be valid; ``options`` are those of `run_text`."""
    run_text(text, folder, runner, **options)
    (record,) = records(folder / "results").values()
    assert record.validity.valid, record.validity.reasons
    return record


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that every user can enter, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="strata-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def host_ground(study: str = "") -> Iterator[Path]:
    """A folder for trials on this machine's kernel, which leave no loop device and no mount; needs root."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices")
    with public_folder() as path:
        (path / "study.toml").write_text(study)
        (path / "scratch").mkdir(mode=0o755)
        yield path
        assert loops_under(path) == {}
        assert mounts_under(path) == []


def on_host(scratch: Path, results: Path) -> tuple[str, ...]:
    """The words for a run on this machine's kernel. Other tests run at the same time, and disturb it."""
    places = ("--scratch", str(scratch), "--results", str(results))
    return ("--runner", "host", "--retries-disturbed", "0", *places)


def surveyed(
    lab: Lab, study: Study, folder: Path, probes: Sequence[str] = (), stacks: Sequence[str] = ()
) -> Capabilities:
    """The findings of probes on stacks (none: on all); without probes, of the power cuts of a study."""
    runner, results = LabRunner(lab), ResultsFolder(folder / "found")
    if probes:
        chosen = stacks or list(study.stacks)
        return Survey(study, runner, results, chosen, chosen_probes(probes)).run()
    return replace(Survey.of_survival(study, runner, results), probes=()).run(jobs=1)


def shared_lab(lab: Lab, folder: Path) -> Path:
    """The lab's parts as root publishes them, in a folder that every user can read."""
    target = Cache(folder)
    paths = {
        "kernel": lab.kernel.path,
        "image": lab.image.path,
        "agent": lab.agent.path,
        **({"load": lab.load.path} if lab.load else {}),
    }
    modules = (("modules", each.path) for each in lab.modules.values())
    for kind, path in (*paths.items(), *modules):
        place = path.parent
        inputs = json.loads((place / "inputs.json").read_text())
        manifest = json.loads((place / "manifest.json").read_text())
        target.publish(Entry(kind, place.name, place, Inputs(inputs["wanted"], inputs["found"]), manifest))
    return folder


def environment(cache: Path, shared: Path, **more: str) -> dict[str, str]:
    """For a `strata` that works in a cache of its own and takes the lab from the shared one."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "STRATA_CACHE": str(cache), "STRATA_SHARED_CACHE": str(shared), **more}


def strata(
    *words: str, env: Mapping[str, str], cwd: Path, prefix: list[str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run the command line and wait for it; ``prefix`` is put before it."""
    done = subprocess.run(
        [*(prefix or []), *STRATA, *words],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def labs_of(cache: Path) -> list[int]:
    """Processes whose working folder is, or was, one of a cache's run folders."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                place = (entry / "cwd").readlink()
            except OSError:
                continue
            if str(place).startswith(f"{cache}/"):
                found.append(int(entry.name))
    return found


def outlived(cache: Path) -> list[str]:
    """The processes of `labs_of`, each with what says why it is still there."""
    found = []
    for pid in labs_of(cache):
        with suppress(OSError):  # it has just ended
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            state, parent, *_ = rest.split()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append(f"{pid} ({name}), state {state}, parent {parent}: {words.strip()[:200]}")
    return found


def left_in(cache: Path) -> list[Path]:
    """The entries in a cache's folder of running labs."""
    place = cache / "run"
    return sorted(place.iterdir()) if place.is_dir() else []


def shell_step(name: str, script: str, *, expect: tuple[int, ...] = (0,)) -> Step:
    """A step of a plan that is a line of shell."""
    return Step(
        id=name,
        phase="measure",
        title=name,
        argv=("sh", "-c", script),
        time_limit_ns=3600 * NS_PER_S,
        expect_exit=expect,
    )


def bare_task(
    folder: Path,
    device: str | Device | Mapping[str, Device],
    steps: Sequence[Step],
    *,
    capacity_bytes: int | None = None,
    trace: bool = False,
    disks: int = 1,
    modules: tuple[str, ...] = (),
    features: tuple[str, ...] = (),
) -> Task:
    """A plan of these steps on modelled disks, by name or ``${disk0}`` and so on, in an attempt folder.

    Without ``capacity_bytes`` the disks are as large as their models.
    """
    folder.mkdir(exist_ok=True)
    if not isinstance(device, Mapping):
        model = find_device(device) if isinstance(device, str) else device
        device = {f"disk{index}": model for index in range(disks)}
    names = tuple(device)
    plan = Plan(
        trial=Trial(study="bare", stack="none", workload="steps", seed=1, id="none.steps.s1"),
        prerequisites=Prerequisites(modules=modules, features=features),
        devices=tuple(
            PlanDevice(name=name, capacity_bytes=capacity_bytes or each.capacity_bytes)
            for name, each in device.items()
        ),
        variables=(*names, "mount", "mounts", "scratch", "stack"),
        environment=dict(ENVIRONMENT),
        monitors=Monitors(interval_ns=60 * NS_PER_S, disks=names),
        time_limit_ns=24 * 3600 * NS_PER_S,
        steps=tuple(steps),
    )
    (folder / PLAN_NAME).write_bytes(plan.to_json())
    return Task(plan=plan, devices=device, folder=folder, trace=trace)


def carried_out(lab: Lab, task: Task, power: Power | None = None) -> Events:
    """What the agent says of a task in the lab, which must come to its end."""
    LabRunner(lab).boot(task, power or Power())
    events = read_events(task.folder / EVENTS_NAME)
    assert events.end is not None
    assert events.end.outcome == "ok", events.end
    return events
