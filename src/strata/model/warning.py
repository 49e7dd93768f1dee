# SPDX-License-Identifier: Apache-2.0
"""Reasons to doubt a number: one registry of all, and the answers that trials give to its questions.

A *check* answers a question about one trial and stands in its result. A *warning* is said of the numbers
that users read: because checks say "no" or cannot tell, or because of what the statistics find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from strata.model.step import BEFORE_LOAD, Phase
from strata.words import grouped

Verdict = Literal["yes", "no", "unknown"]

FINISHED: Final = "finished"
DID_IO: Final = "did-io"
DID_IO_IN_WINDOW: Final = "did-io-in-window"
DIRECT_IO: Final = "direct-io"
LARGER_THAN_MEMORY: Final = "larger-than-memory"
COVERS_PERIODS: Final = "covers-periods"
LIMITED: Final = "limited"
PRICED: Final = "priced"
KNOWN: Final = "known"
STEADY: Final = "steady"
AGED: Final = "aged"
UNDISTURBED: Final = "undisturbed"
PRECONDITIONED: Final = "preconditioned"
DURABLE: Final = "durable-by-settings"
NOT_DURABLE: Final = "not-durable"
OWN_PROCESSOR: Final = "own-processor"
KNOWN_SYSTEM: Final = "known-system"

_SEE_TRIAL: Final = "see what the check says of each trial: `strata show RESULTS --trial`"


@dataclass(frozen=True)
class WarningKind:
    """A question about numbers whose answer can be a reason to doubt them."""

    code: str  # in kebab case, for programs, such as ``few-seeds``
    question: str  # in lower case
    denial: str  # a "no" in a few words
    remedy: str = _SEE_TRIAL  # with figures as ``{NAME}``
    grave: bool = False  # whether the reader of an answer must know it; others can stand with the numbers
    check: str | None = None  # that answers the question in each trial; None: the statistics answer it
    excludes_from_ranking: bool = False  # whether such a cell is shown without a rank
    doubts: bool = False  # whether what is said of such a cell against others is doubtful
    of_window: bool = False  # whether it says nothing of what was timed before the load
    unknown_remedy: str = "look at the trial's own figures: `strata show RESULTS --trial`"

    def warning(self, text: str, **figures: object) -> ResultWarning:
        """A warning of this kind; ``figures`` complete the remedy."""
        return ResultWarning(self.code, text, self.remedy.format(**figures), self.grave)


@dataclass(frozen=True)
class ResultWarning:
    """A reason to doubt the numbers of a stack under a workload, or of a table."""

    code: str  # its `WarningKind`'s
    text: str  # a sentence with figures
    remedy: str
    grave: bool = False
    stack: str = ""
    workload: str = ""
    denial: str = ""  # the same in a few words, if a check says "no"
    share: str = ""  # the affected seeds, such as ``1 of 2 seeds``; empty if all are


_KINDS: Final = (
    WarningKind(
        "not-finished",
        "did every step come to its end?",
        "a step did not come to its end",
        check=FINISHED,
    ),
    WarningKind("no-io", "did the disks move data?", "no data reached the disks", check=DID_IO),
    WarningKind(
        "cached-window",
        "did the measured window reach the disks?",
        "cached: the measured window did not reach the disks",
        "use a larger data set, less memory or a workload that synchronises; or read the numbers as those "
        "of the page cache",
        grave=True,
        check=DID_IO_IN_WINDOW,
        doubts=True,
        of_window=True,
    ),
    WarningKind(
        "nothing-busy",
        "did the load wait for the disks or the processors?",
        "neither disks nor processors were busy",
        "give it more clients or jobs, or less think time: its numbers are of timers, not of the stack",
        grave=True,
        check=LIMITED,
        excludes_from_ranking=True,
    ),
    WarningKind(
        "default-price",
        "had the programs that computed prices of their own?",
        "programs without a price of their own computed",
        "price the program on a host, as root (`strata lab price --program NAME -- COMMAND`), and put the "
        "entry into the study's processor file, or under `prices` of a workload `command`",
        check=PRICED,
    ),
    WarningKind(
        "data-fits-in-memory",
        "was the data set larger than the memory that could cache it?",
        "the data set fits into memory",
        "make the data set at least twice as large as memory, or give less memory (`memory` under [study])",
        check=LARGER_THAN_MEMORY,
    ),
    WarningKind(
        "buffered-direct-io",
        "did direct I/O bypass the page cache and the ARC?",
        "direct I/O that is not direct",
        "read its numbers as buffered I/O that waits for the disk; on btrfs cow = false makes it "
        "direct, on ZFS requests of whole records do",
        check=DIRECT_IO,
    ),
    WarningKind(
        "short-window",
        "was the measured window longer than the periods of the kernel and the server?",
        "the window is shorter than a period of the kernel or the server",
        "lengthen `duration` to several times the period; until then some seeds meet that work and others do "
        "not, and the mean holds only a part of it",
        check=COVERS_PERIODS,
    ),
    WarningKind(
        "less-precise",
        "with until: was the result known as precisely as asked?",
        "the window is over before the result is as precise as asked",
        "lengthen `duration`, or ask for less precision; the number itself is that of the whole window",
        check=KNOWN,
        of_window=True,
    ),
    WarningKind(
        "not-steady",
        "was the steady state reached?",
        "not steady",
        "lengthen the warm-up or the window, or precondition the disks, until the check says yes",
        grave=True,
        check=STEADY,
        doubts=True,
        of_window=True,
        unknown_remedy="give the workload a window of a given length, or a longer one; or judge by the "
        "spread of the seeds",
    ),
    WarningKind(
        "not-aged",
        "was the filesystem aged as the study asks?",
        "ageing did not come to its end",
        check=AGED,
    ),
    WarningKind(
        "disturbed",
        "was the machine quiet while it was measured?",
        "disturbed",
        "end what disturbs the machine and measure it again: `strata run --fresh --trial ID`",
        grave=True,
        check=UNDISTURBED,
        doubts=True,
    ),
    WarningKind(
        "not-preconditioned",
        "were the flash drives in the state that the study asks for?",
        "a flash drive was not in the state that the study asks for",
        "ask for another state (`precondition`): a drive without TRIM is never fresh; one that does not "
        "become steady can be measured as filled",
        grave=True,
        check=PRECONDITIONED,
        doubts=True,
    ),
    WarningKind(
        NOT_DURABLE,
        "do disks, layers and servers keep what they acknowledged as durable when the power fails, by their "
        "settings?",
        "not durable when the power fails",
        "compare its speed with stacks that give the same away, or take the setting back",
        grave=True,
        check=DURABLE,
    ),
    WarningKind(
        "emulated-processor",
        "did virtual machines run on the machine's own processor?",
        "QEMU emulated the processor of virtual machines",
        "compare such stacks only with one another: computing takes many times as long as under KVM on a "
        "host, and a nanosecond for each instruction in the lab; use a host whose processor has KVM",
        grave=True,
        check=OWN_PROCESSOR,
    ),
    WarningKind(
        "foreign-system",
        "did the load run on a system that Strata knows?",
        "the load ran on a system from the user's own image",
        "a difference from other stacks can come from its kernel, its settings, the versions of its programs "
        "or the virtual machine: compare it with a stack in a machine of the same memory and processors, and "
        "read the versions in `strata show RESULTS --trial`",
        grave=True,
        check=KNOWN_SYSTEM,
    ),
    WarningKind(
        "too-small-study",
        "do the data touch enough of each structure in which the stacks differ?",
        "the data touch too little of what the stacks differ in",
        "the stacks may differ far more, or less, with data of the real size: enlarge the data, leave the "
        "`capacity` of the devices out, or make the structure smaller",
        grave=True,
    ),
    WarningKind(
        "unknown-check",
        "can every check tell?",
        "a check cannot tell",
        "see the check's own remedy",
    ),
    WarningKind(
        "missing-trials",
        "has every trial a result that counts?",
        "trials have no result that counts",
        "run the study again: trials that have no valid result are measured anew",
        grave=True,
    ),
    WarningKind(
        "single-point-of-failure",
        "does the stack survive the loss of any disk, if it survives that of one?",
        "a single point of failure",
        "give it a copy on another disk, or do without the redundancy of the others",
    ),
    WarningKind(
        "mixed-members",
        "are the devices that a layer joins of one kind?",
        "a layer joins devices of different kinds",
        "the slowest sets the pace: name the stack's `devices`, which are all disks by default; a flash "
        "drive can be a cache, a log or a special device",
    ),
    WarningKind(
        "layer-exhausted",
        "does every layer have room for what it keeps of the data?",
        "a layer has too little room for what it keeps of the data",
        "give it more (`metadata_size`), or take larger chunks; unless it is meant to run full",
    ),
    WarningKind(
        "unused-capacity",
        "does the lowest layer use nine tenths of its devices' capacity?",
        "more than a tenth of the disks' capacity is unused",
        "name the stack's `devices`, which are all disks by default; or give disks of one size",
    ),
    WarningKind(
        "several-labs",
        "were all trials measured with the same kernel, image, agent and settings?",
        "the study's results come from different kernels, images, agents or settings",
        "measure everything in one lab: `strata run --fresh`",
        grave=True,
    ),
    WarningKind(
        "few-seeds",
        "are there at least six seeds?",
        "fewer than six seeds",
        "use at least {WANTED} seeds: seeds = [{SEEDS}]",
    ),
    WarningKind(
        "not-converged",
        "is the ratio to the best stack as precise as the study asks, or within 1.5 % where it does not ask?",
        "the interval of the ratio to the best stack is too wide",
        "about {WANTED} seeds would do; or let the study add them: {KEY} under [study]",
    ),
    WarningKind(
        "wide-interval",
        "is the interval of the mean within 10 %?",
        "the interval of the mean is wide",
        "look at what differs between the seeds (`strata show RESULTS --trial`), and use more of them",
    ),
    WarningKind(
        "outlier",
        "are the seeds close to one another?",
        "a seed is far from the others",
        "see what happened: `strata explain`, or `strata show RESULTS --trial {TRIAL}`; it is counted, not "
        "dropped",
    ),
    WarningKind(
        "open-loop-behind",
        "did the stack carry the rate that an open loop asked for?",
        "more than half of an open loop's mean latency is waiting to begin",
        "ask for a lower rate: 50, 70 and 90 % of what a closed loop reaches tell the most",
        grave=True,
    ),
    WarningKind(
        "coordinated-omission",
        "does a percentile count the requests that a slow one kept from being sent?",
        "a percentile is that of a closed loop",
        "compare stacks by it, but promise it to nobody; for that, measure with a rate (open loop), which "
        "counts from when a request was due",
    ),
    WarningKind(
        "few-values",
        "do at least ten values lie above a percentile?",
        "too few values lie above a percentile",
        "lengthen the window or use more seeds, or read a lower percentile",
    ),
    WarningKind(
        "percentile-interval-too-narrow",
        "do the seeds' own percentiles differ by less than 10 %?",
        "the slowest seeds decide the merged percentile",
        "decide by the ratio to another stack, by the median or by the throughput",
    ),
    WarningKind(
        "alike-seeds",
        "does the seed reach the metric?",
        "the seed does not reach the metric",
        "its values are one observation: read them as such, or vary what the seed decides (drives, phases, "
        "accesses)",
    ),
)

WARNINGS: Final = {kind.code: kind for kind in _KINDS}
"""All reasons to doubt a number, by code."""

_OF_CHECKS: Final = {kind.check: kind for kind in _KINDS if kind.check}

QUESTIONS: Final = {name: kind.question for name, kind in _OF_CHECKS.items()}
"""The checks of every trial as questions (of ageing where a study asks for it, of disturbances and real
flash drives on a host). A workload's own checks are questions by their names."""


def kind_of_check(name: str) -> WarningKind:
    """The kind of warning that a check's "no" gives; a workload's own check is a question by its name."""
    words = name.replace("-", " ")
    own = WarningKind(f"check-{name}", f"{words}?", f"check failed: {words}", check=name)
    return _OF_CHECKS.get(name, own)


class Check(BaseModel):
    """The answer to one question about a trial's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # the question in kebab case, such as ``larger-than-memory``
    verdict: Verdict
    detail: str  # the reason, as a sentence with figures
    required: bool = False  # whether a "no" makes the result invalid
    tenant: str | None = None

    @property
    def question(self) -> str:
        return self._of_tenant(kind_of_check(self.name).question)

    @property
    def denial(self) -> str:
        return self._of_tenant(kind_of_check(self.name).denial)

    def _of_tenant(self, words: str) -> str:
        return words if self.tenant is None else f"{self.tenant}: {words}"


def unranked_by(trials: Iterable[Iterable[Check]]) -> str:
    """The reason for which a cell has no rank, in a few words: a check denies it in half of its trials."""
    return next(iter(_denials(trials, lambda kind: kind.excludes_from_ranking)), "")


def doubted_by(trials: Iterable[Iterable[Check]], phase: Phase = "measure", *, cached: bool = False) -> str:
    """The reasons to doubt a cell's numbers of a phase, in a few words: half of its trials deny a check.

    For ``cached`` data, a window that does not reach the disks is no reason.
    """
    before = phase in BEFORE_LOAD

    def counts(kind: WarningKind) -> bool:
        is_moot = (before and kind.of_window) or (cached and kind.check == DID_IO_IN_WINDOW)
        return kind.doubts and not is_moot

    return "; ".join(_denials(trials, counts))


def _denials(trials: Iterable[Iterable[Check]], counts: Callable[[WarningKind], bool]) -> list[str]:
    seeds = [[check for check in checks if check.verdict == "no"] for checks in trials]
    denied = Counter(no.denial for checks in seeds for no in checks if counts(kind_of_check(no.name)))
    return [why for why, count in denied.items() if 2 * count >= len(seeds)]


def warnings_of_checks(trials: Iterable[Iterable[Check]]) -> list[ResultWarning]:
    """The warnings of a cell's checks that say "no" or cannot tell, with the share of the seeds."""
    seeds = [list(checks) for checks in trials]
    doubts = (check for checks in seeds for check in checks if check.verdict != "yes")
    warnings = []
    for alike in grouped(((check.name, check.tenant, check.verdict), check) for check in doubts).values():
        first, kind = alike[0], kind_of_check(alike[0].name)
        share = "" if len(alike) == len(seeds) else f"{len(alike)} of {len(seeds)} seeds"
        where = share and f" in {share}"
        text = f"{first.question.rstrip('?')}: the check cannot tell{where}: {first.detail}"
        found = ResultWarning("unknown-check", text, kind.unknown_remedy, share=share)
        if first.verdict == "no":
            text = f"{first.denial}{where}: {first.detail}"
            found = ResultWarning(kind.code, text, kind.remedy, kind.grave, denial=first.denial, share=share)
        warnings.append(found)
    return warnings
