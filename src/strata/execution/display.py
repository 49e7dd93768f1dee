# SPDX-License-Identifier: Apache-2.0
"""The progress of a running study: bars on a terminal, a line per trial elsewhere (a log, CI)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, geometric_mean
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from strata.execution.forecast import Countdown, Forecast
from strata.fitted import Fitted, Head
from strata.model.metric import Metric, headlines
from strata.model.trial import CellKey
from strata.plan.model import Trial
from strata.results.record import ResultRecord
from strata.runners.base import Progress
from strata.units import NS_PER_S, format_duration, format_value, times
from strata.words import counted, time_left

_NOTHING_YET: Final = Progress("", "", 0)
_LOOKED_AT_S: Final = 1e-4
"""For each waiting trial: the time left of 10,000 trials is estimated once a second."""

Clock = Callable[[], float]


@dataclass
class Running:
    """A trial that runs now."""

    trial: Trial
    started_s: float
    progress: Progress = _NOTHING_YET


@dataclass
class Tally:
    """The progress of a study, and its time left."""

    to_run: dict[str, Trial] = field(default_factory=dict)  # by id
    workers: int = 1
    kept: int = 0
    valid: int = 0
    invalid: int = 0
    running: dict[str, Running] = field(default_factory=dict)
    forecast: Forecast = field(default_factory=Forecast)
    countdown: Countdown = field(default_factory=Countdown)
    _next_s: float = 0.0  # when the time left is estimated again
    _left_s: float | None = None

    @property
    def done(self) -> int:
        """The number of trials that this run has finished."""
        return self.valid + self.invalid

    def take(self, trial: Trial, record: ResultRecord) -> None:
        self.running.pop(trial.id, None)
        self.forecast.learn(record)
        if record.validity.valid:
            self.valid += 1
        else:
            self.invalid += 1
        self.to_run.pop(trial.id, None)

    def left_s(self, now_s: float) -> float | None:
        """The displayed real seconds until the end; None before any trial is done."""
        if now_s < self._next_s:
            return self._left_s
        waiting = [each.key.cell for name, each in self.to_run.items() if name not in self.running]
        estimate_s = self.forecast.study_left_s(self._progress(), waiting, self.workers)
        self._left_s = self.countdown.left_s(estimate_s, now_s)
        self._next_s = now_s + len(waiting) * _LOOKED_AT_S
        return self._left_s

    def completed(self) -> float:
        """The number of trials done; a running one counts by the share of its own time."""
        return self.done + sum(self.forecast.share(*each) for each in self._progress())

    def _progress(self) -> list[tuple[CellKey, float]]:
        return [(each.trial.key.cell, each.progress.trial_ns) for each in self.running.values()]


def headline(record: ResultRecord) -> str:
    if not record.validity.valid:
        return f"INVALID: {record.validity.reasons[0]}"
    return headlines(record.metrics)


def _done(progress: Progress, forecast: Forecast, trial: Trial) -> str:
    """A trial's progress in its own time, and its expected duration."""
    done = format_duration(progress.trial_ns)
    expected_ns = forecast.expected_ns(trial.key.cell)
    return done if expected_ns is None else f"{done} of about {format_duration(expected_ns)}"


class Display:
    """Shows the events of a run, which come from several threads."""

    def __init__(self, console: Console, *, virtual: bool, clock: Clock = time.monotonic) -> None:
        self.console = console
        self.virtual = virtual
        self.clock = clock
        self.tally = Tally()
        self.so_far = TableSoFar()
        # The console's own: its refresh draws the display, which in turn writes lines to the console.
        self.lock = console._lock

    def begin(self, trials: Iterable[Trial], kept: int, workers: int) -> None:
        """These trials will be run, ``kept`` others have a result; called again when trials are added."""
        with self.lock:
            self.tally.to_run = {each.id: each for each in trials}
            self.tally.workers, self.tally.kept = workers, kept
            self.so_far.expect(self.tally.to_run.values())

    def started(self, trial: Trial) -> None:
        with self.lock:
            self.tally.running[trial.id] = Running(trial, self.clock())

    def progress(self, trial: Trial, progress: Progress) -> None:
        with self.lock:
            if trial.id in self.tally.running:
                self.tally.running[trial.id].progress = progress

    def finished(self, trial: Trial, record: ResultRecord) -> None:
        """The trial's result has been written."""
        with self.lock:
            self.tally.take(trial, record)
            number, total = self.tally.done, self.tally.done + len(self.tally.to_run)
            how_fast = ""
            if self.virtual and record.real_time.virtual_per_real:
                how_fast = f", {times(record.real_time.virtual_per_real)} real time"
            self.say(
                f"[{number:>{len(str(total))}}/{total}] {trial.id}  {headline(record)}"
                f"  ({format_duration(record.real_time.duration_s * NS_PER_S)}{how_fast}){self.aside()}"
            )
            if self.so_far.take(trial, record):
                self.block_completed()

    def block_completed(self) -> None:
        """All trials of a seed have their results."""

    def aside(self) -> str:
        """An addition to the line about a finished trial."""
        return ""

    def left(self) -> str:
        return time_left(self.tally.left_s(self.clock()))

    def abandoned(self, trial: Trial) -> None:
        """The trial was ended early, without a result."""
        with self.lock:
            self.tally.running.pop(trial.id, None)

    def at_once(self, workers: int) -> None:
        """From now on this many trials run at once."""
        with self.lock:
            self.tally.workers = workers

    def given_up(self, cell: CellKey, why: str) -> None:
        """The cell's trials that have not begun will not be run."""
        with self.lock:
            before, running = self.tally.to_run, self.tally.running
            self.tally.to_run = {
                name: each for name, each in before.items() if name in running or each.key.cell != cell
            }
            if self.tally.to_run != before:
                self.say(f"{cell}: two trials failed alike, so its further seeds are not run: {why}")

    def say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def end(self) -> None:
        """Nothing to draw remains."""


class LineDisplay(Display):
    """A line per finished trial, and a line for each running trial after 30 s without output."""

    INTERVAL_S = 30.0

    def __init__(self, console: Console, *, virtual: bool, clock: Clock = time.monotonic) -> None:
        super().__init__(console, virtual=virtual, clock=clock)
        self._next_line_s = clock() + self.INTERVAL_S
        self._said = ""

    def progress(self, trial: Trial, progress: Progress) -> None:
        with self.lock:
            super().progress(trial, progress)
            if self.clock() < self._next_line_s:
                return
            for running in self.tally.running.values():
                now = running.progress
                at = f"{_done(now, self.tally.forecast, running.trial)}{' virtual' if self.virtual else ''}"
                self.say(f"        {running.trial.id}: {now.step} ({at}){self.aside()}")
            self._next_line_s = self.clock() + self.INTERVAL_S

    def aside(self) -> str:
        """The time left, if it differs from the last one printed."""
        left = self.left()
        if not left or left == self._said or not self.tally.to_run:
            return ""
        self._said = left
        return f"; {left}"

    def say(self, text: str) -> None:
        super().say(text)
        self._next_line_s = self.clock() + self.INTERVAL_S

    def block_completed(self) -> None:
        """Print the first table; more of them would hide the lines between."""
        table = self.so_far.table()
        if self.so_far.blocks == 1 and self.tally.to_run and table is not None:
            self.console.print(table)


class LiveDisplay(Display):
    """A bar for the study and a row for each running trial, redrawn in place."""

    def __init__(self, console: Console, *, virtual: bool, clock: Clock = time.monotonic) -> None:
        super().__init__(console, virtual=virtual, clock=clock)
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def begin(self, trials: Iterable[Trial], kept: int, workers: int) -> None:
        super().begin(trials, kept, workers)
        self._live.start()

    def end(self) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by Rich four times a second."""
        with self.lock:
            yield self._overall()
            if self.tally.running:
                yield self._rows()
            if (table := self.so_far.table()) is not None:
                yield table

    def _overall(self) -> Table:
        total = self.tally.done + len(self.tally.to_run)
        grid = Table.grid(padding=(0, 1))
        failed = f"[red]{self.tally.invalid} invalid[/red]" if self.tally.invalid else ""
        grid.add_row(
            f"[bold]{self.tally.done}/{total}[/bold] trials",
            ProgressBar(total=max(total, 1), completed=self.tally.completed(), width=30),
            self.left(),
            failed,
        )
        return grid

    def _rows(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        heads = ["stack", "workload", "seed", "step", "virtual time" if self.virtual else "time"]
        for name in (*heads, *(["speed"] if self.virtual else [])):
            table.add_column(name, no_wrap=True, overflow="ellipsis")
        for running in list(self.tally.running.values()):
            trial, now = running.trial, running.progress
            done = _done(now, self.tally.forecast, trial)
            cells = [trial.stack, trial.key.named_workload, str(trial.seed), now.step, done]
            if self.virtual:
                real_s = self.clock() - running.started_s
                speed = f"{times(now.trial_ns / NS_PER_S / real_s)} real time" if real_s > 0.5 else ""
                cells.append(speed)
            table.add_row(*cells)
        return table


def display_for(console: Console, *, virtual: bool, known: Iterable[ResultRecord] = ()) -> Display:
    """The display that suits the console; it estimates durations by the ``known`` results."""
    kind = LiveDisplay if console.is_terminal else LineDisplay
    display = kind(console, virtual=virtual)
    for record in known:
        display.tally.forecast.learn(record)
    return display


# A wider or longer table would push everything else off the screen; the final one has all.
_WORKLOADS_MAX = 4
_STACKS_MAX = 12


class TableSoFar:
    """The first headline of each workload, averaged over the seeds whose blocks are complete.

    Only whole blocks count, so that all stacks are averaged over the same seeds: neither the rest of a block
    that an earlier run began nor a block with an invalid trial.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self._block_size = 0
        self._missing: dict[int, set[str]] = {}
        self._waiting: dict[int, list[tuple[Trial, Metric]]] = {}
        self._found: dict[tuple[str, str], list[Metric]] = {}

    def expect(self, trials: Iterable[Trial]) -> None:
        """These trials will be run; trials of the same seed are a block."""
        for trial in trials:
            self._missing.setdefault(trial.seed, set()).add(trial.id)
        self._block_size = max(self._block_size, *map(len, self._missing.values()), 0)

    def take(self, trial: Trial, record: ResultRecord) -> bool:
        """Add a result; true if it completes a whole block."""
        headlines = [metric for metric in record.metrics if metric.headline]
        if record.validity.valid and headlines:
            self._waiting.setdefault(trial.seed, []).append((trial, headlines[0]))
        missing = self._missing.get(trial.seed, set())
        missing.discard(trial.id)
        if missing:
            return False
        block = self._waiting.pop(trial.seed, [])
        if len(block) < self._block_size:
            return False
        for measured, metric in block:
            self._found.setdefault((measured.stack, measured.workload), []).append(metric)
        self.blocks += 1
        return True

    def table(self) -> Fitted | None:
        """The table; None before a block is complete, for a single stack, or if it is too large to watch."""
        stacks = sorted({stack for stack, _ in self._found})
        workloads = sorted({workload for _, workload in self._found})
        if not 1 < len(stacks) <= _STACKS_MAX or len(workloads) > _WORKLOADS_MAX:
            return None
        means = {stack: [_mean(self._found.get((stack, each), ())) for each in workloads] for stack in stacks}
        return Fitted(
            [
                Head(f"{counted(self.blocks, 'seed')} so far"),
                *(Head(each, is_left=False, is_whole=True) for each in workloads),
            ],
            [list(map(Text, (stack, *shown))) for stack, shown in means.items()],
        )


def _mean(metrics: Sequence[Metric]) -> str:
    if not metrics:
        return "–"
    values = [metric.value for metric in metrics]
    mean = geometric_mean(values) if min(values) > 0 else fmean(values)
    return format_value(mean, metrics[0].unit)
