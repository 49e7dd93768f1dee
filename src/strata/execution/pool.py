# SPDX-License-Identifier: Apache-2.0
"""One pool of workers: how many labs run at once, on which CPUs, and how a signal ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from strata.model.step import MEMORY_BYTES
from strata.model.study import Study
from strata.model.workload import loads_of
from strata.runners.base import Cancelled, Runner

# The most of the host's memory that a lab takes beside its machine's own.
LAB_OVERHEAD_BYTES: Final = 276 << 20
_BLOCK_BYTES: Final = 4096
_ENTRY_BYTES: Final = 11  # of a block in the modelled disk's index (kernel/disk/blocks.h)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Found = TypeVar("_Found")


@dataclass
class Stop:
    """Whether the run is to end early, and the signal that asked for it."""

    event: threading.Event = field(default_factory=threading.Event)
    signal_number: int | None = None


def over_cpus(
    calls: Sequence[Callable[[int | None], _Found]],
    cpus: Sequence[int | None],
    stop: Stop,
    finished: Callable[[_Found], None] = lambda found: None,
) -> list[_Found]:
    """Make calls, each on a free CPU of ``cpus``; the results are in the order of the calls.

    Raises the first error of a call, after the running ones have ended, and Cancelled once it is to stop.
    """
    free: SimpleQueue[int | None] = SimpleQueue()
    for cpu in cpus:
        free.put(cpu)

    def carry_out(call: Callable[[int | None], _Found]) -> _Found:
        if stop.event.is_set():
            raise Cancelled
        cpu = free.get()
        try:
            return call(cpu)
        except BaseException:
            stop.event.set()
            raise
        finally:
            free.put(cpu)

    # A lab ends with the thread that started it, so each thread waits for its own labs.
    with ThreadPoolExecutor(max(1, len(cpus))) as pool:
        futures = [pool.submit(carry_out, call) for call in calls]
        errors = []
        try:
            for future in as_completed(futures):
                if (error := future.exception()) is not None:
                    errors.append(error)
                else:
                    finished(future.result())
        except BaseException:
            stop.event.set()
            raise
    for error in sorted(errors, key=lambda each: isinstance(each, Cancelled)):
        raise error
    return [future.result() for future in futures]


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
