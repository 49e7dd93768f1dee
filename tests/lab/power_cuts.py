# SPDX-License-Identifier: Apache-2.0
"""Seeded power cuts: the engine of ``make power-cuts`` and of ``test_power_cuts.py``.

A chain is one disk image that is cut again and again: boot, recover, check, verify everything that was
acknowledged, work on, cut. So there is one boot for each cut, and filesystems grow old. A cut counts as
survived when a later boot of its chain has verified everything; a chain that is damaged begins anew.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from power_cut_subjects import Subject

from strata.errors import RunError
from strata.lab.boot import Power
from strata.lab.disk_image import DiskImage, PowerCut, PowerCutDamage
from strata.plan.model import Plan
from strata.results.events import read_events
from strata.runners.base import CONSOLE_NAME, EVENTS_NAME, PLAN_NAME, Task
from strata.runners.lab import LabRunner
from strata.seeds import derive_seed

CHAIN_CUTS: Final = 28
# A rotating disk needs longer for the same number of operations.
_WORK_US_MAX: Final = {"rotating": 1_500_000, "flash": 400_000}
_IOS_MAX: Final = 1500
# One in this many cuts is at an I/O count, which may also be reached while the filesystem recovers.
_BY_IOS_EVERY: Final = 4
_SAID_LINES: Final = 6
_PANIC: Final = re.compile(r"Kernel panic - .*")
# A disk whose host file fails may bring down a kernel, too: nothing that the stack did.
_HOST_FAILED: Final = re.compile(r": host (read|write) failed")


@dataclass(frozen=True)
class Chain:
    """One image and its cuts.

    Attributes:
        subject: What is on it.
        seed: Of the work, the cuts' places and what survives them.
        cuts: How many.
        repeat: Make the first cut twice; it must leave the same image.
        until_damaged: No more cuts once there is damage.
    """

    subject: Subject
    seed: int
    cuts: int
    repeat: bool = False
    until_damaged: bool = False

    @property
    def name(self) -> str:
        return f"{self.subject.name}.{self.seed}"


@dataclass
class Outcome:
    """The outcome of the cuts of one chain or of several."""

    cuts: int = 0
    survived: int = 0
    damage: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    operations: int = 0
    in_recovery: int = 0
    lost: int = 0
    torn: int = 0
    lost_acknowledged: int = 0
    virtual_ns: int = 0

    @property
    def damaged(self) -> int:
        return len(self.damage)

    def add(self, other: Outcome) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def count(self, losses: Sequence[PowerCutDamage]) -> None:
        self.cuts += 1
        self.lost += losses[0].lost
        self.torn += losses[0].torn
        self.lost_acknowledged += losses[0].lost_acknowledged
        self.virtual_ns += losses[0].at_ns


@dataclass(frozen=True)
class Boot:
    """The outcome of one boot of a chain.

    Attributes:
        losses: None if the power was not cut.
        verified: Operations whose outcome was verified; None if the boot did not reach the verifier.
        damage: The damage found, or None.
        remarks: Findings that are no damage.
    """

    losses: list[PowerCutDamage] | None
    verified: int | None
    damage: str | None
    virtual_ns: int = 0
    remarks: tuple[str, ...] = ()


class Rack:
    """Boots labs, one on each CPU, and keeps what has been prepared.

    Args:
        runner: Boots the labs.
        folder: Where images and attempts' folders are put.
    """

    def __init__(self, runner: LabRunner, folder: Path) -> None:
        self._runner = runner
        self._folder = folder
        self._prepared: dict[str, DiskImage] = {}
        self._lock = threading.Lock()
        self._being_prepared: dict[str, threading.Lock] = {}

    def close(self) -> None:
        for image in self._prepared.values():
            image.close()

    def __enter__(self) -> Rack:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def prepared(self, subject: Subject, cpu: int | None) -> DiskImage:
        """An image with the subject's filesystem and content, made on a sound drive."""
        subject = replace(subject, lies=False, mount=())
        with self._lock:
            mine = self._being_prepared.setdefault(subject.name, threading.Lock())
        with mine:
            if subject.name not in self._prepared:
                image = DiskImage(self._folder)
                with DiskImage(self._folder) as notes:
                    chain = Chain(subject, seed=0, cuts=0)
                    boot = self.boot(chain, subject.preparation(), [image, notes], cpu)
                assert boot.damage is None, boot.damage
                self._prepared[subject.name] = image
            return self._prepared[subject.name]

    def run(self, chain: Chain, cpu: int | None, done: Callable[[], None] = lambda: None) -> Outcome:
        """Cut the power of one chain so often; ``done`` is called after each cut."""
        outcome = Outcome()
        epoch, open_cuts = 0, 0
        with ExitStack() as opened:
            images = self._fresh(chain, cpu, opened)
            while outcome.cuts < chain.cuts or open_cuts:
                last = outcome.cuts == chain.cuts
                plan, cut = _plan_and_cut(chain, epoch, last)
                if chain.repeat and epoch == 0:
                    boot, different = self._boot_twice(chain, plan, images, cpu, cut)
                    outcome.different += different
                else:
                    boot = self.boot(chain, plan, images, cpu, cut)
                outcome.virtual_ns += boot.virtual_ns
                outcome.remarks += [each for each in boot.remarks if each not in outcome.remarks]
                if boot.damage is not None:
                    outcome.damage.append(f"{chain.name}, epoch {epoch}: {boot.damage}")
                    outcome.survived += max(0, open_cuts - 1)
                    open_cuts = 0
                    if chain.until_damaged:
                        break
                    images = self._fresh(chain, cpu, opened)
                if boot.verified is not None:
                    outcome.operations += boot.verified
                    outcome.survived += open_cuts
                    open_cuts = 0
                if boot.losses is not None:
                    outcome.in_recovery += boot.verified is None
                    outcome.count(boot.losses)
                    open_cuts += 1
                    done()
                if last and boot.damage is None:
                    closing = self.boot(chain, chain.subject.closing(), images, cpu)
                    if closing.damage is not None:
                        outcome.damage.append(f"{chain.name}, after the last boot: {closing.damage}")
                        outcome.survived -= 1
                epoch += 1
                if epoch > 4 * chain.cuts + 4:
                    raise AssertionError(f"{chain.name} does not come to its end")
        return outcome

    def _fresh(self, chain: Chain, cpu: int | None, opened: ExitStack) -> list[DiskImage]:
        prepared = self.prepared(chain.subject, cpu)
        return [opened.enter_context(prepared.copy()), opened.enter_context(DiskImage(self._folder))]

    def _boot_twice(
        self, chain: Chain, plan: Plan, images: Sequence[DiskImage], cpu: int | None, cut: PowerCut | None
    ) -> tuple[Boot, list[str]]:
        """Boot on the images, and on copies of them: what it came to, and what was not the same."""
        with ExitStack() as opened:
            copies = [opened.enter_context(image.copy()) for image in images]
            one, other = (self.boot(chain, plan, each, cpu, cut) for each in (images, copies))
            hashes = [[image.sha256() for image in each] for each in (images, copies)]
        different = []
        # Two boots that both fail at their start leave the same, too.
        if one.losses is None or other.losses is None:
            different.append(f"{chain.name}: the cut did not come both times")
        elif one.losses != other.losses:
            different.append(f"{chain.name}: the same cut took other writes")
        if hashes[0] != hashes[1]:
            different.append(f"{chain.name}: the same cut left another image")
        return one, different

    def boot(
        self,
        chain: Chain,
        plan: Plan,
        images: Sequence[DiskImage],
        cpu: int | None,
        cut: PowerCut | None = None,
    ) -> Boot:
        """Boot a lab once on a chain's two images, the drive's and the notes'.

        Raises:
            LabError, ToolError, ResultError: If the lab could not be started, or its files not be written.
            RunError: If the lab ended otherwise than by its plan, the cut or its own panic.
        """
        subject, name = chain.subject, chain.name
        folder = self._folder / f"{name}.{threading.get_ident()}"
        folder.mkdir(exist_ok=True)
        (folder / PLAN_NAME).write_bytes(plan.to_json())
        task = Task(plan, subject.devices(), folder, trace=False, cpu=cpu)
        try:
            losses = self._runner.boot(task, Power(images, cut))
        except RunError:
            said = (folder / CONSOLE_NAME).read_text(errors="replace")
            panic = _PANIC.search(said)
            if panic is None or _HOST_FAILED.search(said):
                raise
            return Boot(None, None, panic.group())
        events = read_events(folder / EVENTS_NAME)
        verified = events.steps.get("verify")
        found = None
        if verified is not None and verified.ending is not None and verified.ending.exit_code == 0:
            found = int(events.output("verify").split()[1])
        damage = None
        if events.end is not None and events.end.outcome != "ok":
            step = events.end.failed_step or ""
            output = events.output(step) + events.output(step, "stderr")
            lines = [line for line in output.splitlines() if line.strip()][-_SAID_LINES:]
            damage = "\n    ".join([f"step {step}: {events.end.reason}", *lines])
        remarks = tuple(line for line in events.output("verify").splitlines() if line.startswith("remark: "))
        return Boot(losses, found, damage, events.last_ns if losses is None else 0, remarks)


def _plan_and_cut(chain: Chain, epoch: int, last: bool) -> tuple[Plan, PowerCut | None]:
    """The next boot, and where its power is cut: in the work at an instant, or anywhere at an I/O count."""
    subject = chain.subject
    if last:
        return subject.boot(chain.seed, epoch, None), None
    names = (subject.name, "cut", str(epoch))
    # Whoever does not wait for flushes needs less time.
    work_us_max = _WORK_US_MAX[subject.devices()["disk0"].kind] // (1 if subject.expected != "damaged" else 4)
    cut_after_us = derive_seed(chain.seed, *names, "at") % work_us_max
    seed = derive_seed(chain.seed, *names, "what") >> 1
    ios = None
    if epoch % _BY_IOS_EVERY == _BY_IOS_EVERY - 1:
        ios = 1 + derive_seed(chain.seed, *names, "ios") % _IOS_MAX
        cut_after_us = 2 * work_us_max
    return subject.boot(chain.seed, epoch, cut_after_us), PowerCut(after_ios=ios, seed=seed)


def chains(subjects: Sequence[Subject], cuts: int, seed: int = 1) -> list[Chain]:
    """So many cuts, dealt out to the subjects as evenly as can be, in chains of at most `CHAIN_CUTS`."""
    found = []
    for index, subject in enumerate(subjects):
        left = cuts * (index + 1) // len(subjects) - cuts * index // len(subjects)
        number = 0
        while left > 0:
            length = min(CHAIN_CUTS, left)
            found.append(Chain(subject, seed + number, length, repeat=number == 0))
            left -= length
            number += 1
    # The chains of a subject wait for its preparation: alternate between subjects.
    return sorted(found, key=lambda chain: chain.seed)


def run_chains(
    rack: Rack,
    wanted: Sequence[Chain],
    cpus: Sequence[int],
    done: Callable[[Chain], None] = lambda chain: None,
    finished: Callable[[Chain, Outcome], None] = lambda chain, outcome: None,
) -> dict[Subject, Outcome]:
    """Run chains, one lab on each CPU; what became of each subject."""
    waiting: queue.SimpleQueue[Chain] = queue.SimpleQueue()
    for chain in wanted:
        waiting.put(chain)
    outcomes = {chain.subject: Outcome() for chain in wanted}
    failures: list[BaseException] = []
    lock = threading.Lock()

    def serve(cpu: int) -> None:
        try:
            while not failures:
                chain = waiting.get_nowait()
                outcome = rack.run(chain, cpu, partial(done, chain))
                with lock:
                    outcomes[chain.subject].add(outcome)
                    finished(chain, outcome)
        except queue.Empty:
            pass
        except BaseException as error:  # the caller's thread raises it
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(cpu,)) for cpu in cpus]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return outcomes
