# SPDX-License-Identifier: Apache-2.0
"""What a worker of a cluster does: it enlists for a run, takes parts of the lab, and works on items.

Everything that it keeps lies in its cache, which workers of one machine share: the parts of the lab, a lock
for each CPU, and the records that no client has taken yet. So a client that dies loses no finished trial.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from distributed import Worker, get_worker
from distributed.utils import sync

from strata import __version__
from strata.errors import LabError, StrataError
from strata.execution.pool import Work, WorkSite
from strata.lab.boot import check_tools
from strata.lab.cache import Cache, cache_root
from strata.lab.travel import LabPart, Listing, Made, sources_sha256
from strata.model.consent import Consent, give_consent
from strata.plan.model import Trial
from strata.results.records import RecordStore
from strata.results.shared import SharedStore
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled, Progress, Runner
from strata.units import format_size

LAB_BYTES: Final = "strata-lab-bytes"
"""Dask's resource of a worker: the memory that its labs may take."""
LAB_CPUS: Final = "strata-lab-cpus"
STRANGER: Final = "it has not enlisted"
"""Of a worker that was started again at its address."""
_REPORT_S: Final = 1.0


@dataclass(frozen=True)
class Order:
    """What a worker has to know of a run before its first item.

    Attributes:
        strata: The client's version, and the hash of its files.
        content: The packed work and runner.
        shared: The URL of the store that takes each record first, and whether it takes traces.
    """

    run: str
    strata: tuple[str, str]
    parts: tuple[LabPart, ...]
    lab_bytes: int
    consent: Consent
    content: bytes
    shared: tuple[str, bool] | None


@dataclass(frozen=True)
class WorkerMachine:
    """A worker's machine: workers with one cache share it, so they are on one machine."""

    host: str
    cache: str

    def __str__(self) -> str:
        return f"{self.host} ({self.cache})"


@dataclass(frozen=True)
class Enlisted:
    """A worker's answer.

    Attributes:
        unfit: Why it cannot take part; empty if it can.
        lacking: The parts that it must be given first.
        held: The identities of the finished trials that no client has taken.
    """

    machine: WorkerMachine
    labs: int = 0
    unfit: str = ""
    lacking: tuple[LabPart, ...] = ()
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Returned:
    """What came of an item: a finding, or why the worker could not work on it."""

    machine: WorkerMachine
    found: Any = None
    unfit: str = ""
    worker: str = ""  # its address


@dataclass(frozen=True)
class Offer:
    """What an item begins with, and the address of a worker that has it."""

    made: Made
    worker: str


@dataclass
class _Run:
    work: Work[Any, Any]
    runner: Runner
    shared: SharedStore | None
    cancel: threading.Event = field(default_factory=threading.Event)


_runs: dict[str, _Run] = {}


def this_strata() -> tuple[str, str]:
    return __version__, sources_sha256()


def _cache() -> Cache:
    return Cache(cache_root())


def this_machine() -> WorkerMachine:
    return WorkerMachine(socket.gethostname(), str(cache_root()))


def _store(shared: SharedStore | None = None) -> RecordStore:
    return RecordStore(cache_root() / "records", shared)


async def enlist(order: Order, dask_worker: Worker) -> Enlisted:
    """Take part in a run: the right Strata, memory for a lab, and its parts with the right hashes."""
    machine = WorkerMachine(socket.gethostname(), dask_worker.address)
    try:
        machine = this_machine()
        if (found := this_strata()) != order.strata:
            ours, theirs = (f"{number} ({sha[:12]})" for number, sha in (found, order.strata))
            raise StrataError(f"it has Strata {ours}, not {theirs}", remedy="install the same version there")
        threads, cpus = dask_worker.state.nthreads, len(os.sched_getaffinity(0))
        labs = min(threads, cpus)
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * labs // cpus
        if memory_bytes < order.lab_bytes:
            given, needed = format_size(memory_bytes), format_size(order.lab_bytes)
            raise StrataError(f"its share of memory is {given}, and a lab takes {needed}")
        await dask_worker.set_resources(**{LAB_BYTES: memory_bytes, LAB_CPUS: labs})
        check_tools()
        with _cache().locked(f"cluster-{os.getpid()}"):  # the cache can be written
            lacking = tuple(part for part in order.parts if not part.is_here())
        if not lacking and order.run not in _runs:
            give_consent(kernel_source=order.consent.kernel_source)
            shared = None if order.shared is None else SharedStore(*order.shared)
            work, runner = pickle.loads(order.content)  # noqa: S301  Dask trusts its client
            _runs[order.run] = _Run(work, runner, shared)
        return Enlisted(machine, labs, "", lacking, frozenset(_held()))
    except (StrataError, OSError) as error:
        return Enlisted(machine, unfit=_in_one(error))


def _held() -> Iterator[str]:
    """The finished trials; the leftovers of killed workers are removed."""
    store = _store()
    for identity in store.identities():
        if not _cache().is_locked(_lock(identity)):
            store.discard_unfinished(identity)
        if any(attempt.complete for attempt in store.attempts(identity)):
            yield identity


def _lock(identity: str) -> str:
    return f"record-{identity[:4]}"  # a lock's file stays: 65,536 at most


def receive(part: LabPart, listing: Listing, chunks: list[bytes]) -> Returned:
    """Take a part of the lab, whose content comes from other workers or the client."""
    try:
        part.receive(listing, chunks)
    except (StrataError, OSError) as error:
        return Returned(this_machine(), unfit=_in_one(error))
    return Returned(this_machine())


class _TakesLonger(Exception):  # noqa: N818  no error: it is made here
    """Fetching takes longer than making."""


def _fetch(offer: Offer, cancel: threading.Event) -> None:
    """Fetch what another worker has, unless it is here, or making it takes less time; then it is made."""
    part, here = offer.made.part, get_worker()

    def ask(function: Callable[..., Any], *about: Any) -> Any:
        async def answered() -> Any:
            words = pickle.dumps(function), pickle.dumps(about)
            return await here.rpc(offer.worker).run(function=words[0], args=words[1])

        if (answer := sync(here.loop, answered))["status"] != "OK":
            raise OSError("the other worker does not have it any more")
        return answer["result"]

    def arriving(listing: Listing) -> Iterator[bytes]:
        began_s, of = time.monotonic(), len(listing.pieces)
        takes_s = offer.made.size_bytes / here.bandwidth
        for done, piece in enumerate(listing.pieces, start=1):
            if cancel.is_set():
                raise Cancelled
            if takes_s > offer.made.seconds:
                raise _TakesLonger
            yield ask(LabPart.content, part, piece)
            takes_s = (time.monotonic() - began_s) / done * of

    if not part.folder.is_dir():
        with suppress(_TakesLonger, LabError, OSError):
            listing = ask(LabPart.listing, part)
            part.receive(listing, arriving(listing))


def work_on(run: str, item: Any, identity: str, offer: Offer | None = None) -> Returned:
    """Work on an item, on a CPU of its own; one with an ``identity`` is not worked on twice at once."""
    machine, here, cache = this_machine(), _runs.get(run), _cache()
    if here is None:
        return Returned(machine, unfit=STRANGER, worker=get_worker().address)
    cpus = sorted(os.sched_getaffinity(0))
    display = _Reports(run)
    try:
        with (
            cache.locked(_lock(identity)),
            cache.locked(*(f"cpu-{machine.host}-{cpu}" for cpu in cpus)) as index,
        ):
            if here.cancel.is_set():
                raise Cancelled
            if offer is not None:
                _fetch(offer, here.cancel)
            folder = ResultsFolder(cache_root() / "cluster" / f"{run}-{os.getpid()}", _store(here.shared))
            site = WorkSite(here.runner, folder, display, here.cancel, cpus[index], is_away=True)
            return Returned(machine, here.work(item, site), worker=get_worker().address)
    except Cancelled:
        return Returned(machine)
    except (StrataError, OSError) as error:
        return Returned(machine, unfit=_in_one(error))


def end(run: str) -> None:
    """End a run: its labs are ended without a result."""
    if (here := _runs.pop(run, None)) is not None:
        here.cancel.set()
    shutil.rmtree(cache_root() / "cluster" / f"{run}-{os.getpid()}", ignore_errors=True)


async def forget(identities: Iterable[str]) -> None:
    """Delete records that a client has taken."""
    for identity in identities:
        if not _cache().is_locked(_lock(identity)):
            shutil.rmtree(_store().path / identity, ignore_errors=True)


class _Reports:
    """Hands the progress of a trial on to the client, once a second at most."""

    def __init__(self, run: str) -> None:
        self._topic, self._worker = run, get_worker()
        self._last_s = time.monotonic()

    def started(self, trial: Trial) -> None:
        """The first report says it, if the trial lasts so long."""

    def progress(self, trial: Trial, progress: Progress) -> None:
        if time.monotonic() - self._last_s >= _REPORT_S:
            self._last_s = time.monotonic()
            self._report("progress", trial.model_dump(), vars(progress))

    def abandoned(self, trial: Trial) -> None:
        self._report("abandoned", trial.model_dump(), {})

    def at_once(self, workers: int) -> None:
        """The client counts them."""

    def say(self, text: str) -> None:
        self._report("say", {}, {"text": text})

    def _report(self, what: str, trial: dict[str, Any], values: dict[str, Any]) -> None:
        with suppress(Exception):  # a report that is lost costs nothing
            message = {"what": what, "trial": trial, "values": values, "worker": self._worker.address}
            self._worker.log_event(self._topic, message)


def _in_one(error: Exception) -> str:
    said = str(error) if isinstance(error, StrataError) else f"{error}"
    return said.replace("\n  ", "; ")
