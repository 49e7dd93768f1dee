# SPDX-License-Identifier: Apache-2.0
"""The client's side of a cluster: which workers take part, what each is given, and what comes back.

Dask runs the items, and runs those of a dead worker elsewhere. A worker that cannot run any is left out.
A drawn share of the trials is run again on another machine: a lab is deterministic, so that a difference is a
fault of one of the two.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from distributed import Client, Future, KilledWorker

from strata.errors import LabError, RunError
from strata.execution.cluster.worker import (
    LAB_BYTES,
    LAB_CPUS,
    STRANGER,
    Enlisted,
    Order,
    Returned,
    WorkerMachine,
    end,
    enlist,
    forget,
    receive,
    this_strata,
    work_on,
)
from strata.execution.pool import Stop, Work, WorkSite
from strata.lab.travel import LabPart, lab_parts_of, packed
from strata.model.consent import consent
from strata.plan.model import Trial
from strata.runners.base import Cancelled, Progress
from strata.runners.lab import LabRunner
from strata.words import counted

_POLL_S: Final = 0.1
_LOOK_S: Final = 2.0
_WAITING_FOR_EACH: Final = 2  # items beside each that runs, so that no worker waits for the client
Handle = Future[Any]
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass
class _Flight:
    """An item that was handed to Dask, and the workers that may take it."""

    item: Any
    workers: frozenset[str]
    first: Any = None  # the finding to compare with
    machine: WorkerMachine | None = None  # the one that made it; or that a part is on its way to
    part: LabPart | None = None

    def give_back(self, waiting: deque[Any]) -> None:
        """It is done elsewhere, unless nothing depends on it."""
        if self.part is None and self.first is None:
            waiting.appendleft(self.item)


@dataclass
class _Run:
    order: Order
    work: Work[Any, Any]
    waiting: deque[Any]
    finished: Callable[[Any, Any], None]
    wanted: Callable[[Any], bool]


@dataclass
class ClusterPool:
    """Workers of a cluster as a pool.

    Attributes:
        left_out: The machines that cannot run a trial, with the reason.
    """

    client: Client
    address: str
    site: WorkSite
    lab_bytes: int
    left_out: dict[WorkerMachine, str] = field(default_factory=dict)
    _fit: dict[str, Enlisted] = field(default_factory=dict)  # by a worker's address
    _seen: set[str] = field(default_factory=set)
    _flying: dict[Handle, _Flight] = field(default_factory=dict)
    _landed: SimpleQueue[Handle] = field(default_factory=SimpleQueue)
    _held: dict[str, str] = field(default_factory=dict)  # the worker that has a finished trial, by identity
    _blocks: dict[str, WorkerMachine] = field(default_factory=dict)
    _started: set[str] = field(default_factory=set)
    _chunks: dict[LabPart, list[Handle]] = field(default_factory=dict)
    _taken: list[str] = field(default_factory=list)
    _looked_s: float = 0.0
    _reports: SimpleQueue[dict[str, Any]] = field(default_factory=SimpleQueue)

    @property
    def labs(self) -> int:
        return max(1, sum(self._present().values()))

    def _present(self) -> dict[str, int]:
        """The threads of each worker."""
        try:
            found: dict[str, int] = self.client.nthreads()
        except OSError as error:
            raise self._scheduler_gone() from error
        return found

    def run(
        self,
        work: Work[_Item, _Found],
        items: Sequence[_Item],
        stop: Stop,
        finished: Callable[[_Item, _Found], None],
        wanted: Callable[[_Item], bool] = lambda item: True,
    ) -> None:
        if not items:
            return
        order = self._make_order(work, items)
        run = _Run(order, work, deque(items), finished, wanted)
        self.client.subscribe_topic(order.run, lambda event: self._reports.put(event[1]))
        try:
            while run.waiting or self._flying:
                if stop.event.is_set():
                    raise Cancelled
                self._look(run)
                self._hand_out(run)
                self._pass_reports_on()
                with suppress(Empty):
                    self._land(self._landed.get(timeout=_POLL_S), run)
        finally:
            self._end(order.run)

    def _make_order(self, work: Work[Any, Any], items: Sequence[Any]) -> Order:
        runner, parts = self.site.runner, []
        if isinstance(runner, LabRunner):
            parts = lab_parts_of(runner.lab_for, (plan for item in items for plan in work.plans(item)))
        run = f"strata-{uuid.uuid4().hex}"
        content = packed(work, runner)
        shared = self.site.folder.store.shared
        store = None if shared is None else (shared.url, shared.traces)
        return Order(run, this_strata(), tuple(parts), self.lab_bytes, consent(), content, store)

    def _look(self, run: _Run) -> None:
        """Notice, now and then, workers that have come or gone, and the end of the scheduler."""
        if (now_s := time.monotonic()) - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        if self.client.status != "running":
            raise self._scheduler_gone()
        present = set(self._present())
        for address in self._fit.keys() - present:
            machine = self._fit.pop(address).machine
            self.site.display.say(f"worker {address} of {machine} is gone; its trials are run elsewhere")
        self._enlist(present - self._seen, run.order)
        for future, flight in list(self._flying.items()):
            if not flight.workers & (present if flight.part else self._fit.keys()):
                self._flying.pop(future).give_back(run.waiting)
                future.cancel()
        if self._seen >= present and not self._fit and self.left_out and not self._flying:
            said = "; ".join(f"{machine}: {why}" for machine, why in self.left_out.items())
            raise LabError(f"no worker can run a trial: {said}", place=self.address)
        if not present:
            self.site.display.say(f"{self.address} has no worker yet; waiting for one")
        if self._taken:
            self.client.run(forget, self._taken, workers=[*self._fit], wait=False, on_error="ignore")
            self._taken = []

    def _scheduler_gone(self) -> LabError:
        return LabError(
            "the scheduler is gone; every finished trial is kept",
            place=self.address,
            remedy="start it again, or name another one with --cluster: the same command goes on",
        )

    def _enlist(self, addresses: set[str], order: Order) -> None:
        self._seen |= addresses
        if not addresses:
            return
        answers = self.client.run(enlist, order, workers=[*addresses], on_error="return")
        for address, answer in answers.items():
            if not isinstance(answer, Enlisted):
                self._leave_out(WorkerMachine(address, "?"), f"it is no worker of Strata: {answer!r}")
            elif answer.unfit:
                self._leave_out(answer.machine, answer.unfit)
            elif answer.lacking:
                self._seen.discard(address)  # it is asked again
                sent = {(flight.machine, flight.part) for flight in self._flying.values()}
                for part in answer.lacking:
                    if answer.machine not in self.left_out and (answer.machine, part) not in sent:
                        self._send(part, answer.machine, address)
            elif answer.machine not in self.left_out:
                self._fit[address] = answer
                self._held |= dict.fromkeys(answer.held, address)

    def _send(self, part: LabPart, machine: WorkerMachine, address: str) -> None:
        """Send a part of the lab to a machine; its chunks go from worker to worker."""
        self.site.display.say(f"{machine} is sent the lab's {part.kind}")
        if part not in self._chunks:
            self._chunks[part] = [self.client.scatter(chunk, hash=False) for chunk in part.chunks()]
        key = f"strata-part-{uuid.uuid4().hex}"
        future = self.client.submit(
            receive, part, part.entry(), part.files(), self._chunks[part], workers=[address], key=key
        )
        self._fly(future, _Flight(None, frozenset((address,)), machine=machine, part=part))

    def _leave_out(self, machine: WorkerMachine, why: str) -> None:
        if machine not in self.left_out:
            self.left_out[machine] = why
            self.site.display.say(f"{machine} is left out: {why}")
        for address in [each for each, known in self._fit.items() if known.machine == machine]:
            del self._fit[address]

    def _hand_out(self, run: _Run) -> None:
        most = (1 + _WAITING_FOR_EACH) * sum(each.labs for each in self._fit.values())
        while run.waiting and len(self._flying) < most:
            item = run.waiting.popleft()
            if run.wanted(item):
                self._submit(item, run, self._workers_for(item, run.work))

    def _workers_for(self, item: Any, work: Work[Any, Any]) -> frozenset[str]:
        """The workers that may take an item: where it is already, where its block is, or any."""
        if (holder := self._held.get(work.identity(item))) in self._fit:
            return frozenset({holder})
        if (block := work.block(item)) is not None:
            fit, chosen = {each.machine for each in self._fit.values()}, Counter(self._blocks.values())
            if self._blocks.get(block) not in fit:
                self._blocks[block] = min(fit, key=lambda each: (chosen[each], str(each)))
            machine = self._blocks[block]
            return frozenset(address for address, each in self._fit.items() if each.machine == machine)
        return frozenset(self._fit)

    def _submit(self, item: Any, run: _Run, workers: frozenset[str], **more: Any) -> None:
        future = self.client.submit(
            *(work_on, run.order.run, item, run.work.identity(item)),
            key=f"strata-trial-{uuid.uuid4().hex}",
            workers=[*workers],
            resources={LAB_BYTES: self.lab_bytes, LAB_CPUS: 1},
        )
        self._fly(future, _Flight(item, workers, **more))

    def _fly(self, future: Handle, flight: _Flight) -> None:
        self._flying[future] = flight
        future.add_done_callback(self._landed.put)

    def _land(self, future: Handle, run: _Run) -> None:
        """Take what has come back."""
        if (flight := self._flying.pop(future, None)) is None:
            return  # recalled
        if future.status == "error":
            self._lost(future.exception(), flight, run)
            return
        try:
            outcome: Returned = future.result(timeout=_LOOK_S)
        except TimeoutError:  # its worker died before it was fetched: it is run again
            self._fly(future, flight)
            return
        except CancelledError:  # with the scheduler, which is looked at next
            flight.give_back(run.waiting)
            self._looked_s = 0.0
            return
        if outcome.unfit == STRANGER:
            self._fit.pop(outcome.worker, None)
            self._seen.discard(outcome.worker)
        elif outcome.unfit:
            self._leave_out(outcome.machine, outcome.unfit)
        if outcome.found is None:
            flight.give_back(run.waiting)
        elif flight.first is not None:
            self._compare(outcome, flight, run.work)
        else:
            self._take(outcome, flight.item, run)

    def _take(self, outcome: Returned, item: Any, run: _Run) -> None:
        run.finished(item, outcome.found)
        self._taken.append(run.work.identity(item))
        if run.work.is_drawn(item):
            others = frozenset(a for a, each in self._fit.items() if each.machine != outcome.machine)
            if others:
                self._submit(item, run, others, first=outcome.found, machine=outcome.machine)

    def _compare(self, outcome: Returned, flight: _Flight, work: Work[Any, Any]) -> None:
        if (what := work.difference(flight.first, outcome.found)) is not None:
            raise RunError(
                f"{what} differs between {flight.machine} and {outcome.machine}, and a lab is deterministic",
                place=str(flight.item.key),
                remedy="one of the two machines is faulty: compare each with a third one",
            )

    def _lost(self, error: BaseException | None, flight: _Flight, run: _Run) -> None:
        if not isinstance(error, KilledWorker):
            raise error or RunError("a trial was lost", place=self.address)
        if flight.part is None and flight.first is None:
            why = f"every worker that was to run it died, {counted(error.allowed_failures + 1, 'time')}"
            run.finished(flight.item, run.work.lost(flight.item, self.site, RunError(why)))

    def _pass_reports_on(self) -> None:
        with suppress(Empty):
            while True:
                said = self._reports.get_nowait()
                if said["what"] == "say":
                    self.site.display.say(**said["values"])
                    continue
                trial = Trial(**said["trial"])
                if said["what"] == "abandoned":
                    self.site.display.abandoned(trial)
                    continue
                if trial.id not in self._started:
                    self._started.add(trial.id)
                    self.site.display.started(trial)
                self.site.display.progress(trial, Progress(**said["values"]))

    def _end(self, run: str) -> None:
        """End what still runs; the records that were not taken stay where they are."""
        for future in self._flying:
            future.cancel()
        self._flying.clear()
        with suppress(Exception):  # what is not reached ends without us
            self.client.unsubscribe_topic(run)
            if self.client.status == "running":
                self.client.run(forget, self._taken, on_error="ignore")
                self.client.run(end, run, on_error="ignore")
