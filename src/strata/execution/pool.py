# SPDX-License-Identifier: Apache-2.0
"""Pools that work through like items, such as trials: the seam between work and where it is done.

`LocalPool` has a thread for each of this machine's CPUs; `strata.execution.cluster` has workers elsewhere.
Both take the next item when one of them is free, and end early by the same signals.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from strata.errors import RunError
from strata.lab.travel import Made
from strata.model.step import MEMORY_BYTES
from strata.model.study import Study
from strata.model.workload import loads_of
from strata.plan.model import Plan, Trial
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled, Progress, Runner
from strata.words import counted

# The most of the host's memory that a lab takes beside its machine's own.
LAB_OVERHEAD_BYTES: Final = 276 << 20
_BLOCK_BYTES: Final = 4096
_ENTRY_BYTES: Final = 11  # of a block in the modelled disk's index (kernel/disk/blocks.h)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass
class Stop:
    """Whether the run is to end early, and the signal that asked for it."""

    event: threading.Event = field(default_factory=threading.Event)
    signal_number: int | None = None


@dataclass(frozen=True)
class WorkSite:
    """Where an item is worked on.

    Attributes:
        folder: Where its files go: among the results, or on another machine its own folder.
        is_away: The files are on another machine than the results.
    """

    runner: Runner
    folder: ResultsFolder
    display: Follower
    cancel: threading.Event
    cpu: int | None = None
    is_away: bool = False


class Follower(Protocol):
    """Who follows trials; a `Display` does."""

    def started(self, trial: Trial) -> None: ...

    def progress(self, trial: Trial, progress: Progress) -> None: ...

    def abandoned(self, trial: Trial) -> None: ...

    def at_once(self, workers: int) -> None: ...

    def say(self, text: str) -> None: ...


class Work(ABC, Generic[_Item, _Found]):
    """Work on items. It travels to other machines, and so do items and findings: all are values."""

    @abstractmethod
    def __call__(self, item: _Item, site: WorkSite) -> _Found:
        """Work on an item; the finding has all that is needed of a site that is away.

        Raises Cancelled, and other errors if the machine cannot.
        """

    @abstractmethod
    def lost(self, item: _Item, site: WorkSite, error: RunError) -> _Found:
        """The finding where no machine could work on an item to its end."""

    def is_failure(self, found: _Found) -> bool:
        """Whether a finding is that of an item that failed, which counts against its machine."""
        return False

    @abstractmethod
    def plans(self, item: _Item) -> Iterable[Plan]:
        """The plans of the labs that an item needs."""

    @abstractmethod
    def identity(self, item: _Item) -> str:
        """What is worked on, by its hash."""

    def block(self, item: _Item) -> str | None:
        """Items of one block begin with the same thing, which the first one makes on its machine."""
        return None

    def beginning(self, found: _Found) -> Made | None:
        """That thing, once it is made: another machine may fetch it."""
        return None

    def is_drawn(self, item: _Item) -> bool:
        """Whether it is worked on twice, on two machines, and the findings compared."""
        return False

    def difference(self, first: _Found, second: _Found) -> str | None:
        """What differs between two findings of one item; None for nothing."""
        return None


@dataclass
class MachineTally:
    """What a machine of a cluster did in a run, and why it was left out, if it was."""

    finished: int = 0
    failed: int = 0  # of the finished ones
    workers_lost: int = 0
    left_out: str = ""

    @property
    def trouble(self) -> str:
        """``2 of its 41 trials failed; it lost 1 worker; left out: its disk is full``; empty for none."""
        parts = [f"{self.failed} of its {counted(self.finished, 'trial')} failed"] if self.failed else []
        parts += [f"it lost {counted(self.workers_lost, 'worker')}"] if self.workers_lost else []
        return "; ".join([*parts, f"left out: {self.left_out}"] if self.left_out else parts)


@dataclass(frozen=True)
class ClusterNow:
    """A cluster at work, as `CLUSTER_NAME` has it; ``running`` are the trials that workers report on."""

    labs: int
    dashboard: str | None
    running: dict[str, Progress]
    machines: dict[str, MachineTally]


class Pool(Protocol):
    @property
    def machines(self) -> Mapping[str, MachineTally]:
        """What each machine of a cluster did, by its name; nothing of this one."""

    @property
    def labs(self) -> int:
        """How many items are worked on at once."""

    def run(
        self,
        work: Work[_Item, _Found],
        items: Sequence[_Item],
        stop: Stop,
        finished: Callable[[_Item, _Found], None],
        wanted: Callable[[_Item], bool] = lambda item: True,
    ) -> None:
        """Work on the items in their order, but for those not ``wanted`` when their turn comes.

        ``finished`` is called with each finding, one at a time. Raises the first error, after what runs has
        ended, and Cancelled if ``stop`` is set before the end.
        """


class Elsewhere(Protocol):
    """Other machines."""

    def labs(self, each_bytes: int) -> int:
        """How many labs they run at once."""

    def pool(self, runner: Runner, folder: ResultsFolder, display: Follower, each_bytes: int) -> Pool:
        """A pool of their workers, each of whose labs takes ``each_bytes`` of memory."""


Labs = int | Elsewhere | None
"""Where labs run: this many on this machine, on other machines, or as many as this machine allows."""


def labs_at_once(labs: Labs, runner: Runner, each_bytes: int) -> int:
    if labs is None or isinstance(labs, int):
        return len(worker_cpus(runner, labs, each_bytes))
    return labs.labs(each_bytes)


def pool_of(labs: Labs, runner: Runner, folder: ResultsFolder, display: Follower, each_bytes: int) -> Pool:
    if labs is None or isinstance(labs, int):
        site = WorkSite(runner, folder, display, threading.Event())
        return LocalPool(worker_cpus(runner, labs, each_bytes), site)
    return labs.pool(runner, folder, display, each_bytes)


@dataclass(frozen=True)
class LocalPool:
    """A thread for each of some CPUs: a lab ends with the thread that started it."""

    cpus: Sequence[int | None]
    site: WorkSite
    machines: Mapping[str, MachineTally] = field(default_factory=dict)

    @property
    def labs(self) -> int:
        return len(self.cpus)

    def run(
        self,
        work: Work[_Item, _Found],
        items: Sequence[_Item],
        stop: Stop,
        finished: Callable[[_Item, _Found], None],
        wanted: Callable[[_Item], bool] = lambda item: True,
    ) -> None:
        waiting, lock = iter(items), threading.Lock()

        def labour(cpu: int | None) -> None:
            site = replace(self.site, cpu=cpu, cancel=stop.event)
            try:
                while True:
                    with lock:
                        item = next(filter(wanted, waiting), None)
                    if item is None:
                        return
                    if stop.event.is_set():
                        raise Cancelled
                    found = work(item, site)
                    with lock:
                        finished(item, found)
            except BaseException:
                stop.event.set()
                raise

        threads = self.cpus[: max(1, len(items))]
        with ThreadPoolExecutor(len(threads)) as pool:
            futures = [pool.submit(labour, cpu) for cpu in threads]
            try:
                wait(futures)
            except BaseException:
                stop.event.set()
                raise
        errors = [error for each in futures if (error := each.exception()) is not None]
        for error in sorted(errors, key=lambda each: isinstance(each, Cancelled)):
            raise error


def worker_cpus(
    runner: Runner, jobs: int | None, each_bytes: int = MEMORY_BYTES + LAB_OVERHEAD_BYTES
) -> list[int | None]:
    """The CPU of each worker: one each in the lab; any on a host, where a trial has the machine to itself.

    Without ``jobs`` there are as many as the CPUs and the memory allow, at ``each_bytes`` for a lab.
    """
    if runner.time_domain == "wall":
        return [None]
    cpus = sorted(os.sched_getaffinity(0))
    if jobs is None:
        jobs = lab_jobs(each_bytes, len(cpus))
    # Of several programs with one lab each, not every one takes the first CPU.
    first = os.getpid() if jobs < len(cpus) else 0
    return [cpus[(first + index) % len(cpus)] for index in range(jobs)]


def lab_bytes(study: Study) -> int:
    """The host's memory that a lab of this study takes, with the index of the largest data set's blocks."""
    data_bytes = max(
        (sum(load.data_bytes or 0 for load in loads_of(each)) for each in study.workloads.values()), default=0
    )
    return study.memory_bytes_max + LAB_OVERHEAD_BYTES + data_bytes // _BLOCK_BYTES * _ENTRY_BYTES


def lab_jobs(each_bytes: int, cpus: int) -> int:
    """The labs that CPUs and memory allow at once, at least one."""
    return max(1, min(cpus, memory_available_bytes() // each_bytes))


def memory_available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Turn the signals that end a program into a request to stop, while the context lasts."""
    stop = Stop()

    def ask(number: int, frame: object) -> None:
        stop.signal_number = stop.signal_number or number
        stop.event.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may handle signals; a caller in another thread handles them
        return
    before = {
        number: signal.signal(number, ask)
        for number in _SIGNALS
        # A program started by `nohup` outlives its terminal. (A shell without job control ignores SIGINT for
        # programs in the background; a user who sends it by hand wants the end.)
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
