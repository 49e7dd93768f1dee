# SPDX-License-Identifier: Apache-2.0
"""The client's side of a cluster: which workers take part, what each is given, and what comes back.

Dask runs the items, and runs those of a dead worker elsewhere. A worker that cannot run any is left out.
A drawn share of the trials is run again on another machine: a lab is deterministic, so that a difference is a
fault of one of the two.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from distributed import Client, Future, KilledWorker
from pydantic import TypeAdapter
from tornado.ioloop import IOLoop

from strata.errors import LabError, RunError
from strata.execution.cluster.worker import (
    LAB_BYTES,
    LAB_CPUS,
    STRANGER,
    Enlisted,
    Offer,
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
from strata.execution.pool import ClusterNow, MachineTally, Stop, Work, WorkSite
from strata.files import write_durably
from strata.lab.travel import LabPart, Listing, lab_parts_of, packed
from strata.model.consent import consent
from strata.plan.model import Trial
from strata.results.store import CLUSTER_NAME
from strata.runners.base import Cancelled, Progress
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S, format_duration
from strata.words import counted

_POLL_S: Final = 0.1
_LOOK_S: Final = 2.0
_END_S: Final = 10.0
_FETCHED: Final = 16  # findings that are fetched and not taken yet: each may have a trace of many MiB
_WAITING_FOR_EACH: Final = 2  # items beside each that runs, so that no worker waits for the client
_OF_BLOCKS: Final = 2  # items for each lab of a machine that a block keeps to, one of which waits
Handle = Future[Any]
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass
class _Flight:
    """An item that was handed to Dask, and the workers that may take it."""

    item: Any
    workers: frozenset[str]
    first: Any = None  # the finding to compare with
    machine: WorkerMachine | None = None  # that made ``first``, that has its block, that gets the part
    part: LabPart | None = None

    @property
    def is_of_block(self) -> bool:
        return self.part is None and self.first is None and self.machine is not None

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
        wait_s: The time without a worker after which the run ends.
    """

    client: Client
    address: str
    site: WorkSite
    lab_bytes: int
    wait_s: float
    dashboard: str | None = None
    machines: dict[str, MachineTally] = field(default_factory=dict)
    _fit: dict[str, Enlisted] = field(default_factory=dict)  # by a worker's address
    _seen: set[str] = field(default_factory=set)
    _flying: dict[Handle, _Flight] = field(default_factory=dict)
    _landed: SimpleQueue[tuple[Handle, Returned | Exception | None]] = field(default_factory=SimpleQueue)
    _fetched: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_FETCHED))
    _held: dict[str, str] = field(default_factory=dict)  # the worker that has a finished trial, by identity
    _homes: dict[str, list[WorkerMachine]] = field(default_factory=dict)  # by block
    _offers: dict[str, Offer] = field(default_factory=dict)  # by block
    _block_of: dict[str, str] = field(default_factory=dict)  # by identity
    _running: dict[str, Progress | None] = field(default_factory=dict)  # None: it has ended
    _chunks: dict[LabPart, tuple[Listing, list[Handle]]] = field(default_factory=dict)
    _taken: list[str] = field(default_factory=list)
    _looked_s: float = 0.0
    _alone_since_s: float | None = None  # without a worker
    _said: bool = False
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
        self._fit, self._seen, self._looked_s = {}, set(), 0.0  # of an earlier run
        self.client.subscribe_topic(order.run, lambda event: self._reports.put(event[1]))
        try:
            while run.waiting or self._flying:
                if stop.event.is_set():
                    raise Cancelled
                self._look(run)
                self._hand_out(run)
                self._pass_reports_on()
                with suppress(Empty):
                    self._land(*self._landed.get(timeout=_POLL_S), run)
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
            self._tally(machine).workers_lost += 1
            self.site.display.say(f"worker {address} of {machine} is gone; its trials are run elsewhere")
        self._seen &= present  # another worker may come at an address
        self._enlist(present - self._seen, run.order)
        for future, flight in list(self._flying.items()):
            if not flight.workers & (present if flight.part else self._fit.keys()):
                self._flying.pop(future).give_back(run.waiting)
                future.cancel()
        left_out = [f"{name}: {each.left_out}" for name, each in self.machines.items() if each.left_out]
        if self._seen >= present and not self._fit and left_out and not self._flying:
            raise LabError(f"no worker can run a trial: {'; '.join(left_out)}", place=self.address)
        self._wait(now_s, alone=not present)
        self._show()
        if self._taken:
            self.client.run(forget, self._taken, workers=[*self._fit], wait=False, on_error="ignore")
            self._taken = []

    def _wait(self, now_s: float, *, alone: bool) -> None:
        """Wait for a worker: say so at the second look, and give up in the end."""
        if not alone:
            self._alone_since_s, self._said = None, False
            return
        since_s = self._alone_since_s = self._alone_since_s or now_s
        limit = format_duration(self.wait_s * NS_PER_S)
        if now_s - since_s >= self.wait_s:
            raise LabError(
                f"no worker came within {limit}; every finished trial is kept",
                place=self.address,
                remedy='start one with `dask worker`; a TOML of the cluster may say for example wait = "2h"',
            )
        if now_s > since_s and not self._said:
            self._said = True
            self.site.display.say(f"{self.address} has no worker; waiting for one, {limit} at most")

    def _show(self) -> None:
        """State how it goes, also for those who watch the results folder."""
        labs = max(1, sum(each.labs for each in self._fit.values()))
        self.site.display.at_once(labs)
        running = {name: each for name, each in self._running.items() if each is not None}
        now = ClusterNow(labs, self.dashboard, running, self.machines)
        write_durably(self.site.folder.path / CLUSTER_NAME, TypeAdapter(ClusterNow).dump_json(now))

    def _tally(self, machine: WorkerMachine) -> MachineTally:
        return self.machines.setdefault(str(machine), MachineTally())

    def _scheduler_gone(self) -> LabError:
        return LabError(
            "the scheduler is gone; every finished trial is kept",
            place=self.address,
            remedy="start it again, or name another one with --cluster: the same command goes on",
        )

    def _enlist(self, addresses: set[str], order: Order) -> None:
        self._offers = {block: each for block, each in self._offers.items() if each.worker in self._fit}
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
                    if not self._tally(answer.machine).left_out and (answer.machine, part) not in sent:
                        self._send(part, answer.machine, address)
            elif not self._tally(answer.machine).left_out:
                self._fit[address] = answer
                self._held |= dict.fromkeys(answer.held, address)

    def _send(self, part: LabPart, machine: WorkerMachine, address: str) -> None:
        """Send a part of the lab to a machine; its chunks go from worker to worker."""
        self.site.display.say(f"{machine} is sent the lab's {part.kind}")
        if part not in self._chunks:
            listing = part.listing()
            chunks = [self.client.scatter(part.content(each), hash=False) for each in listing.pieces]
            self._chunks[part] = listing, chunks
        key = f"strata-part-{uuid.uuid4().hex}"
        future = self.client.submit(receive, part, *self._chunks[part], workers=[address], key=key)
        self._fly(future, _Flight(None, frozenset((address,)), machine=machine, part=part))

    def _leave_out(self, machine: WorkerMachine, why: str) -> None:
        if not self._tally(machine).left_out:
            self._tally(machine).left_out = why
            self.site.display.say(f"{machine} is left out: {why}")
        for address in [each for each, known in self._fit.items() if known.machine == machine]:
            del self._fit[address]

    def _hand_out(self, run: _Run) -> None:
        """Hand out items while there is room; one whose block has none at its machines waits."""
        labs: Counter[WorkerMachine] = Counter()
        for each in self._fit.values():
            labs[each.machine] += each.labs
        load = Counter(each.machine for each in self._flying.values() if each.is_of_block)
        most, passed_over = (1 + _WAITING_FOR_EACH) * labs.total(), deque[Any]()
        for may_fetch in (False, True):
            while (
                run.waiting
                and len(self._flying) < most
                and (not passed_over or any(load[each] < _OF_BLOCKS * labs[each] for each in labs))
            ):
                item = run.waiting.popleft()
                if not run.wanted(item):
                    continue
                if (block := self._block(item, run.work)) is None:
                    self._submit(item, run, frozenset(self._fit))
                elif (machine := self._home(block, load, labs, may_fetch=may_fetch)) is not None:
                    load[machine] += 1
                    here = frozenset(a for a, each in self._fit.items() if each.machine == machine)
                    self._submit(item, run, here, self._offers.get(block), machine=machine)
                else:
                    passed_over.append(item)
            run.waiting.extendleft(reversed(passed_over))
            passed_over.clear()

    def _block(self, item: Any, work: Work[Any, Any]) -> str | None:
        identity = work.identity(item)
        if identity not in self._block_of and (block := work.block(item)) is not None:
            self._block_of[identity] = block
        return self._block_of.get(identity)

    def _home(
        self, block: str, load: Mapping[Any, int], labs: Mapping[WorkerMachine, int], *, may_fetch: bool
    ) -> WorkerMachine | None:
        """A machine with room that has a block; of a new one any; with ``may_fetch`` one without work."""
        homes = [each for each in self._homes.get(block, ()) if each in labs]
        room = [each for each in homes or labs if load[each] < _OF_BLOCKS * labs[each]]
        if not room and may_fetch and block in self._offers:
            room = [each for each in labs if load[each] < labs[each]]
        found = min(room, key=lambda each: (load[each] / labs[each], str(each)), default=None)
        if found is not None and found not in homes:
            self._homes[block] = [*homes, found]
        return found

    def _submit(
        self, item: Any, run: _Run, workers: frozenset[str], offer: Offer | None = None, **more: Any
    ) -> None:
        identity = run.work.identity(item)
        if more.get("first") is None and (holder := self._held.get(identity)) in self._fit:
            workers = frozenset({holder})
        future = self.client.submit(
            *(work_on, run.order.run, item, identity, offer),
            key=f"strata-trial-{uuid.uuid4().hex}",
            workers=[*workers],
            resources={LAB_BYTES: self.lab_bytes, LAB_CPUS: 1},
        )
        self._fly(future, _Flight(item, workers, **more))

    def _fly(self, future: Handle, flight: _Flight) -> None:
        self._flying[future] = flight
        future.add_done_callback(lambda done: self._loop.add_callback(self._fetch, done))

    @property
    def _loop(self) -> IOLoop:
        assert self.client.loop is not None, "the client is connected"
        return self.client.loop

    async def _fetch(self, future: Handle) -> None:
        """Fetch a finding; Dask fetches several at once. If its worker has died, it is run again first."""
        await self._fetched.acquire()
        found: Returned | Exception | None = None  # it failed, or was cancelled with the scheduler
        try:
            for each in await self.client.gather([future], errors="skip", asynchronous=True):
                found = each
        except Exception as error:  # for the other thread
            found = None if isinstance(error, OSError) else error
        self._landed.put((future, found))

    def _land(self, future: Handle, outcome: Returned | Exception | None, run: _Run) -> None:
        """Take what has come back."""
        self._loop.add_callback(self._fetched.release)
        if (flight := self._flying.pop(future, None)) is None:
            return  # recalled
        if future.status == "error":
            self._lost(future.exception(), flight, run)
            return
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:  # the scheduler may be gone, which is looked at next
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
        self._running[str(getattr(item, "key", ""))] = None
        tally = self._tally(outcome.machine)
        tally.finished += 1
        tally.failed += run.work.is_failure(outcome.found)
        if (made := run.work.beginning(outcome.found)) and (block := self._block(item, run.work)):
            self._offers[block] = Offer(made, outcome.worker)
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
                    self._running.pop(trial.id, None)
                    self.site.display.abandoned(trial)
                    continue
                if trial.id not in self._running:
                    self.site.display.started(trial)
                elif self._running[trial.id] is None:
                    continue  # a late one
                progress = self._running[trial.id] = Progress(**said["values"])
                self.site.display.progress(trial, progress)

    def _end(self, run: str) -> None:
        """End what still runs; the records that were not taken stay where they are."""
        for future in self._flying:
            future.cancel()
        self._flying.clear()
        (self.site.folder.path / CLUSTER_NAME).unlink(missing_ok=True)
        with suppress(Exception):  # what is not reached ends without us
            self.client.unsubscribe_topic(run)
            if self.client.status == "running":
                for what, about in ((end, run), (forget, self._taken)):  # not longer than a stopped machine
                    asked = partial(self.client._run, what, about, on_error="ignore")
                    self.client.sync(asked, callback_timeout=_END_S)
