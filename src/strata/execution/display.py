# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a running study: bars on a terminal, a line per trial elsewhere (a log, CI)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from strata.plan.model import Trial
from strata.results.record import ResultRecord
from strata.runners.base import Progress
from strata.units import NS_PER_S, format_duration


class Display(Protocol):
    """Told of everything that happens, from several threads."""

    def begin(self, trials: Iterable[Trial], kept: int, workers: int) -> None:
        """These trials will be run; ``kept`` others have their result."""

    def started(self, trial: Trial) -> None:
        """A trial begins."""

    def progress(self, trial: Trial, progress: Progress) -> None:
        """A trial is so far."""

    def finished(self, trial: Trial, record: ResultRecord) -> None:
        """A trial has its result, which is written."""

    def abandoned(self, trial: Trial) -> None:
        """A trial was ended because the run is to end."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def end(self) -> None:
        """Nothing more will come."""


_NOTHING_YET: Final = Progress("", "", 0)
# Several tenants have a dozen; the table at the end shows all of them.
_HEADLINES_MAX: Final = 4


@dataclass
class Running:
    """One trial that runs now."""

    trial: Trial
    started_s: float
    progress: Progress = _NOTHING_YET

    @property
    def real_s(self) -> float:
        """Real seconds since its start."""
        return time.monotonic() - self.started_s


@dataclass
class Tally:
    """How far the study is, and how long the rest will take."""

    to_run: list[Trial] = field(default_factory=list)
    workers: int = 1
    kept: int = 0
    valid: int = 0
    invalid: int = 0
    running: dict[str, Running] = field(default_factory=dict)
    took_s: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """The trials that this run has finished."""
        return self.valid + self.invalid

    def take(self, trial: Trial, record: ResultRecord) -> None:
        """Count a result."""
        running = self.running.pop(trial.id, None)
        if running is not None:
            self.took_s.setdefault((trial.stack, trial.workload), []).append(running.real_s)
        if record.validity.valid:
            self.valid += 1
        else:
            self.invalid += 1
        self.to_run = [each for each in self.to_run if each.id != trial.id]

    def expected_s(self, trial: Trial) -> float | None:
        """Real seconds that a trial will take, from those that are done; None before the first is."""
        everything = [each for times in self.took_s.values() for each in times]
        like = self.took_s.get((trial.stack, trial.workload)) or everything
        return sum(like) / len(like) if like else None

    def remaining_s(self) -> float | None:
        """Real seconds until the end; None before the first trial is done."""
        left_s = longest_s = 0.0
        for trial in self.to_run:
            expected_s = self.expected_s(trial)
            if expected_s is None:
                return None
            if trial.id in self.running:
                expected_s = max(0.0, expected_s - self.running[trial.id].real_s)
            left_s += expected_s
            longest_s = max(longest_s, expected_s)
        return max(left_s / self.workers, longest_s)

    def completed(self) -> float:
        """How many trials' worth is done: one that runs counts for its share of the expected time."""
        running = 0.0
        for each in self.running.values():
            expected_s = self.expected_s(each.trial)
            if expected_s:
                running += min(0.95, each.real_s / expected_s)
        return self.done + running


def headline(record: ResultRecord) -> str:
    """A result in a few words."""
    if not record.validity.valid:
        return f"INVALID: {record.validity.reasons[0]}"
    found = [metric for metric in record.metrics if metric.headline] or list(record.metrics[:1])
    found = found[:_HEADLINES_MAX]
    return ", ".join(f"{metric.value:.4g} {metric.name}" for metric in found)


def _ratio(progress: Progress, real_s: float) -> str:
    return f"{progress.trial_ns / NS_PER_S / real_s:.1f}x" if real_s > 0.5 else ""


class _Common:
    """What both displays share: the tally, and one thread at a time."""

    def __init__(self, console: Console, *, virtual: bool) -> None:
        self.console = console
        self.virtual = virtual
        self.tally = Tally()
        self.lock = threading.RLock()

    def begin(self, trials: Iterable[Trial], kept: int, workers: int) -> None:
        with self.lock:
            self.tally = Tally(to_run=list(trials), workers=workers, kept=kept)

    def started(self, trial: Trial) -> None:
        with self.lock:
            self.tally.running[trial.id] = Running(trial, time.monotonic())

    def progress(self, trial: Trial, progress: Progress) -> None:
        with self.lock:
            if trial.id in self.tally.running:
                self.tally.running[trial.id].progress = progress

    def finished(self, trial: Trial, record: ResultRecord) -> None:
        with self.lock:
            running = self.tally.running.get(trial.id)
            real_s = running.real_s if running else record.real_time.duration_s
            self.tally.take(trial, record)
            number, total = self.tally.done, self.tally.done + len(self.tally.to_run)
            how_fast = ""
            if self.virtual and record.real_time.virtual_per_real:
                how_fast = f", {record.real_time.virtual_per_real:.1f}x real time"
            self.say(
                f"[{number:>{len(str(total))}}/{total}] {trial.id}  {headline(record)}"
                f"  ({format_duration(real_s * NS_PER_S)}{how_fast})"
            )

    def abandoned(self, trial: Trial) -> None:
        with self.lock:
            self.tally.running.pop(trial.id, None)

    def say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def end(self) -> None:
        """Nothing is left to draw."""


class LineDisplay(_Common):
    """A line per finished trial, and one now and then while nothing ends."""

    INTERVAL_S = 30.0

    def __init__(self, console: Console, *, virtual: bool) -> None:
        super().__init__(console, virtual=virtual)
        self._next_line_s = time.monotonic() + self.INTERVAL_S

    def progress(self, trial: Trial, progress: Progress) -> None:
        with self.lock:
            super().progress(trial, progress)
            if time.monotonic() < self._next_line_s:
                return
            for running in self.tally.running.values():
                now = running.progress
                at = f"{format_duration(now.trial_ns)} {'virtual' if self.virtual else 'passed'}"
                self.say(f"        {running.trial.id}: {now.step} ({at})")
            self._next_line_s = time.monotonic() + self.INTERVAL_S

    def say(self, text: str) -> None:
        super().say(text)
        self._next_line_s = time.monotonic() + self.INTERVAL_S


class LiveDisplay(_Common):
    """A bar for the study and a row for each running trial, redrawn in place."""

    def __init__(self, console: Console, *, virtual: bool) -> None:
        super().__init__(console, virtual=virtual)
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def begin(self, trials: Iterable[Trial], kept: int, workers: int) -> None:
        super().begin(trials, kept, workers)
        self._live.start()

    def end(self) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich asks for this four times a second."""
        with self.lock:
            yield self._overall()
            if self.tally.running:
                yield self._rows()

    def _overall(self) -> Table:
        total = self.tally.done + len(self.tally.to_run)
        grid = Table.grid(padding=(0, 1))
        left_s = self.tally.remaining_s()
        eta = f"about {format_duration(left_s * NS_PER_S)} left" if left_s and left_s >= 1 else ""
        failed = f"[red]{self.tally.invalid} invalid[/red]" if self.tally.invalid else ""
        grid.add_row(
            f"[bold]{self.tally.done}/{total}[/bold] trials",
            ProgressBar(total=max(total, 1), completed=self.tally.completed(), width=30),
            eta,
            failed,
        )
        return grid

    def _rows(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        heads = ["stack", "workload", "seed", "step", "virtual" if self.virtual else "time"]
        for name in (*heads, *(["real", "ratio"] if self.virtual else [])):
            table.add_column(name, no_wrap=True, overflow="ellipsis")
        for running in list(self.tally.running.values()):
            trial, now = running.trial, running.progress
            cells = [trial.stack, trial.workload, str(trial.seed), now.step, format_duration(now.trial_ns)]
            if self.virtual:
                real_s = running.real_s
                cells += [format_duration(real_s * NS_PER_S), _ratio(now, real_s)]
            table.add_row(*cells)
        return table


def display_for(console: Console, *, virtual: bool) -> Display:
    """The display that suits the console."""
    kind = LiveDisplay if console.is_terminal else LineDisplay
    return kind(console, virtual=virtual)
