# SPDX-License-Identifier: Apache-2.0
"""Seeded signals at seeded moments into running studies: ``make signals``, or ``make signals SIGNALS=100``.

A study of short trials is run again and again into the same folder. Each run gets one signal: to strata, to
its process group, or to what carries out the trial (the agent on a host, the kernel of a lab). After each run
nothing may be left, no finished result may be lost or changed, and the same command has to go on. In the end
the results of the lab have to equal the results of an undisturbed run. Exits with 1 if any of this fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final, Literal

from lab_factory import STRATA, environment, head, mix, public_folder, shared_lab, stacks
from rich.console import Console
from rich.table import Table

from left_behind import loops_under
from strata.lab import Lab, require_lab

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a program it has no conftest

from watched_world import State, World, adopt_orphans, descendants, differences, reap

RunnerKind = Literal["lab", "host"]
Target = Literal["strata", "group", "trial"]

SEEDS: Final = (1, 2)
_STACKS: Final = ("ext4", "xfs")
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, signal.SIGQUIT)
_TARGETS: Final[tuple[Target, ...]] = ("strata", "strata", "group", "trial")
# Signals that no program can handle: `clean` or the next run then removes the unfinished attempt.
_SUDDEN: Final = (signal.SIGKILL, signal.SIGQUIT)
# `nohup` and `&` make programs ignore some of the signals.
_HEEDING: Final = ("env", "--default-signal=HUP,INT,QUIT,TERM")
_RUN_LIMIT_S: Final = 300.0
_PATIENCE_S: Final = 30.0
_NEVER: Final = Event()


@dataclass(frozen=True)
class Blow:
    """One signal: when, to whom, and whether it is sent after the target was stopped for a while."""

    share: float
    target: Target
    number: signal.Signals
    pause_s: float


def blows(seed: int) -> Iterator[Blow]:
    """Any number of them, the same for the same seed."""
    drawn = random.Random(seed)
    while True:
        pause_s = drawn.choice((0.0, 0.0, 0.0, drawn.uniform(0.05, 1.0)))
        yield Blow(drawn.uniform(0.0, 1.1), drawn.choice(_TARGETS), drawn.choice(_ENDING), pause_s)


@dataclass
class Storm:
    """A study, the folder that it is run in, and what was found wrong."""

    kind: RunnerKind
    path: Path
    env: dict[str, str]
    trials: int
    before: State = field(default_factory=dict)
    diagnostics: list[str] = field(default_factory=list)
    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    completed: int = 0

    @property
    def results(self) -> Path:
        return self.path / f"results-{self.kind}"

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"

    @property
    def world(self) -> World:
        return World(trees=(self.path / "beside",), own=(self.scratch,), listed=(), shared=())

    def words(self, results: Path) -> list[str]:
        more = ["--jobs", "1"]
        if self.kind == "host":  # others may be at work on it, and it does not matter here
            more = ["--runner", "host", "--scratch", str(self.scratch), "--retries-disturbed", "0"]
        return [*STRATA, "run", str(self.path / "study.toml"), "--results", str(results), *more]

    def start(self, results: Path) -> subprocess.Popen[bytes]:
        with (self.path / "said").open("wb") as said:
            return subprocess.Popen(
                [*_HEEDING, *self.words(results)],
                env=self.env,
                cwd=self.path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    def undisturbed(self, results: Path) -> float:
        """Run it to its end; returns how many seconds that took."""
        started_s = time.monotonic()
        process = self.start(results)
        status = process.wait(_RUN_LIMIT_S)
        said = (self.path / "said").read_text(errors="replace")
        if status != 0:
            self.diagnostics.append(f"undisturbed it ended with {status}: {said[-400:]}")
        return time.monotonic() - started_s

    def strike(self, blow: Blow, duration_s: float, *, cleaned: bool) -> str:
        """One run with one signal; returns how it ended."""
        kept, earlier = finished(self.results), set(self._found())
        process = self.start(self.results)
        # The rest of the study takes less time the more trials are finished; starting always takes the same.
        delay_s = blow.share * duration_s * (1 - 0.7 * min(len(kept) / self.trials, 1))
        time.sleep(delay_s)
        reached = self._send(process, blow)
        what = f"{blow.number.name} to {reached} after {delay_s:.2f} s"
        try:
            status = process.wait(_RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.diagnostics.append(f"{what}: it did not end within {_RUN_LIMIT_S:.0f} s")
            return "hung"
        said = (self.path / "said").read_text(errors="replace")
        if "Traceback" in said:
            self.diagnostics.append(f"{what}: it ended in a traceback: {said[-300:]}")
        sudden = status in {-number for number in _SUDDEN} or (status < 0 and cleaned)
        if sudden and cleaned:
            line = [*STRATA, "lab", "clean", str(self.results)]
            done = subprocess.run(line, env=self.env, cwd=self.path, capture_output=True, check=False)
            if done.returncode != 0 and (self.results / "study.json").exists():
                self.diagnostics.append(f"{what}: clean ended with {done.returncode}: {done.stderr[-300:]!r}")
        if status >= 0 or cleaned:  # else the next run has to remove it
            # One that ended before its first trial may not have come to removing what an earlier one left.
            unknown = set() if status == 0 or (sudden and cleaned) else earlier
            self.diagnostics += [f"{what}: {line}" for line in self._left(unknown)]
        self.diagnostics += [
            f"{what}: lost or changed: {each}" for each in lost(kept, finished(self.results))
        ]
        how = "done" if status == 0 else signal.Signals(-status).name if status < 0 else f"exit {status}"
        self.outcomes[blow.number.name, reached, how] += 1
        return how

    def _send(self, process: subprocess.Popen[bytes], blow: Blow) -> str:
        """Send the signal; returns to whom: to strata itself when there is no trial under way."""
        carrying = [pid for pid, words in descendants().items() if self._carries(words)]
        reached: Target = "strata" if blow.target == "trial" and not carrying else blow.target
        with suppress(ProcessLookupError):
            pids = {"strata": process.pid, "group": -process.pid, "trial": (carrying or [0])[0]}
            if blow.pause_s and process.poll() is None:
                os.kill(pids[reached], signal.SIGSTOP)
                time.sleep(blow.pause_s)
                os.kill(pids[reached], signal.SIGCONT)
            if process.poll() is None:
                os.kill(pids[reached], blow.number)
        return reached

    def _carries(self, words: str) -> bool:
        """Whether a process carries out the trial: the agent on a host, the kernel of a lab."""
        return "/agent" in words and " run --plan " in words if self.kind == "host" else "linux" in words

    def _left(self, earlier: Set[str] = frozenset()) -> list[str]:
        """Leftovers after a grace period, other than ``earlier`` ones."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while found := [line for line in self._found() if line not in earlier]:
            reap()
            if time.monotonic() > deadline_s:
                return found
            time.sleep(0.1)
        return []

    def _found(self) -> list[str]:
        return [*differences(self.before, self.world.record()), *self._remains()]

    def _remains(self) -> list[str]:
        folders = (self.scratch, self.path / "cache" / "run", self.results / ".journal")
        inside = [str(each) for folder in folders if folder.is_dir() for each in folder.iterdir()]
        return [f"left: {each}" for each in (*inside, *loops_under(self.path), *unfinished(self.results))]


def finished(results: Path) -> dict[str, bytes]:
    """The record of every attempt that has one."""
    return {str(each): each.read_bytes() for each in results.glob("records/*/attempt-*/result.json")}


def lost(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    return [each for each, content in before.items() if after.get(each) != content]


def unfinished(results: Path) -> list[str]:
    if not (results / "study.json").exists():  # the first run did not come to it: the next one begins anew
        return []
    parts = [str(each) for each in results.rglob("*.part")]
    attempts = results.glob("records/*/attempt-*")
    return parts + [str(each) for each in attempts if not (each / "result.json").is_file()]


def hashes_of(results: Path) -> dict[str, str]:
    """The stated hash of every trial's newest valid record."""
    found = {}
    for path in sorted(results.glob("records/*/attempt-*/result.json")):
        record = json.loads(path.read_text())
        if record["validity"]["valid"]:
            found[path.parent.parent.name] = record["record_sha256"]
    return found


def run_storm(
    kind: RunnerKind,
    lab: Lab,
    count: int,
    *,
    seed: int,
    console: Console,
    enough: Event = _NEVER,
    seeds: Sequence[int] = SEEDS,
) -> Storm:
    """Send ``count`` signals, fewer once there are enough; the findings say what went wrong.

    The study has two trials for each of its own ``seeds``.
    """
    adopt_orphans()
    with public_folder() as path:
        for name in ("scratch", "beside"):
            (path / name).mkdir(mode=0o755)
        (path / "beside" / "file").write_text("beside\n")
        study = head("storm", [*seeds], "1GiB") + stacks(*_STACKS) + mix(duration="500ms", size="4MiB")
        (path / "study.toml").write_text(study)
        env = environment(path / "cache", shared_lab(lab, path / "shared"))
        storm = Storm(kind, path, env, len(_STACKS) * len(seeds))
        storm.before = storm.world.record()
        duration_s = storm.undisturbed(path / "undisturbed")
        expected = hashes_of(path / "undisturbed")
        drawn = random.Random(seed + 1)
        for index, blow in zip(range(count), blows(seed), strict=False):
            if enough.is_set():
                break
            known = len(storm.diagnostics)
            how = storm.strike(blow, duration_s, cleaned=drawn.random() < 0.5)
            if how == "done":
                _compare(storm, expected)
            for line in storm.diagnostics[known:]:
                console.print(f"{kind} {index + 1}: {line}", markup=False, highlight=False)
            if index % 10 == 9 or index == count - 1:
                console.print(
                    f"{kind}: {index + 1} of {count}, {len(storm.diagnostics)} findings", highlight=False
                )
        storm.undisturbed(storm.results)
        _compare(storm, expected)
        storm.diagnostics += storm._left()
    return storm


def _compare(storm: Storm, expected: dict[str, str]) -> None:
    """Compare the results of a finished study with an undisturbed run's, then begin anew."""
    found = hashes_of(storm.results)
    if storm.kind == "lab" and found != expected:
        storm.diagnostics.append(f"other hashes than undisturbed: {found} instead of {expected}")
    if found.keys() != expected.keys():
        storm.diagnostics.append(f"not all trials have a result: {sorted(found)}")
    storm.completed += 1
    storm.results.rename(storm.path / f"completed-{storm.kind}-{storm.completed}")


def table_of(storms: list[Storm]) -> Table:
    table = Table("runner", "signal", "to", "it ended", "times", box=None, pad_edge=False)
    for storm in storms:
        for (name, target, how), times in sorted(storm.outcomes.items()):
            table.add_row(storm.kind, name, target, how, str(times))
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=1000, help="how many in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=["lab", "host", "both"], default="both")
    given = parser.parse_args()
    console, enough = Console(), Event()
    signal.signal(signal.SIGTERM, lambda *_: enough.set())  # ends it early, with the table of what was sent
    kinds: tuple[RunnerKind, ...] = ("lab", "host") if given.runner == "both" else (given.runner,)
    storms = [
        run_storm(
            each, require_lab(), given.signals // len(kinds), seed=given.seed, console=console, enough=enough
        )
        for each in kinds
    ]
    console.print(table_of(storms))
    diagnostics = [f"{storm.kind}: {line}" for storm in storms for line in storm.diagnostics]
    for line in diagnostics:
        console.print(line, markup=False, highlight=False)
    sent = sum(sum(storm.outcomes.values()) for storm in storms)
    console.print(
        f"{sent} signals, {sum(s.completed for s in storms)} studies completed, {len(diagnostics)} findings"
    )
    return 1 if diagnostics else 0


if __name__ == "__main__":
    sys.exit(main())
