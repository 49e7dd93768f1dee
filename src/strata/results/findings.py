# SPDX-License-Identifier: Apache-2.0
"""findings.json: what varying a study found, one finding for each question that was asked of its results.

docs/reference/result-format.md describes it for readers of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from strata.errors import ResultError
from strata.files import explained, make_folder
from strata.plan.model import canonical_json, sha256_hex
from strata.printable import in_json
from strata.results.capabilities import Capabilities
from strata.results.reading import read_model, write_model
from strata.results.record import Frozen, StudySnapshot, TimeDomain
from strata.results.store import ResultsFolder
from strata.units import format_size, percent

FINDINGS_VERSION: Final = 1
FINDINGS_NAME: Final = "findings.json"
SEEDS: Final = 3
"""The seeds of a variation by default: the fewest with an interval."""
AS_MEASURED: Final = "as measured"
REPRODUCED: Final = "reproduced"
KEPT: Final = "kept"
DROPPED: Final = "dropped"
"""Of a drawn test bed: whether it meets the published levels."""
CONFIRMED_ZONE: Final = 0.15
"""A prediction that is as near is confirmed: as near as a calibrated drive's rates mostly are."""
UNTRIED: Final = "not tried within the budget"

Kind = Literal["sensitivity", "what-if", "bisect", "anchor", "confirm", "rebuild"]
QuantityKind = Literal["disk", "memory", "workload", "weight"]
Outcome = Literal["flips", "stays", "cannot say"]
Range = Literal["published", "estimated", "chosen"]
"""Where a range comes from: a device's published data, an estimate in its file, or Strata's judgement."""


class _Sparse(Frozen):
    """Fields that older findings lack are left out where they are empty."""

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {name: each for name, each in plain.items() if each or name not in _LATER}


_LATER: Final = ("time_domain", "confirmed")


class Variation(_Sparse):
    """A change of a study, as data.

    Attributes:
        name: Such as ``precondition = steady``.
        changes: Values by the key paths of the study's file; none: the study as it is.
        values: Values of uncertain quantities by their ids, at the scale of the results.
        kernel: The kernel of all stacks, as a study states it; None: their own.
        seeds: The number of seeds that it is measured with; 0: all.
        why: Why it is tried.
        time_domain: ``wall``: on the disks of this machine; None: in the lab.
    """

    name: str
    changes: dict[str, Any] = Field(default={})
    values: dict[str, float] = Field(default={})
    kernel: str | None = None
    seeds: int = 0
    why: str = ""
    time_domain: TimeDomain | None = None

    def tried(
        self, verdict: str = "", note: str = "", compared: Iterable[Compared] = (), seeds: int = 0
    ) -> Tried:
        what = self.model_dump(include=set(Variation.model_fields) - {"seeds"})
        return Tried(**what, seeds=seeds, verdict=verdict, note=note, compared=tuple(compared))


class Compared(Frozen):
    """A comparison under a variation; ``level`` is the ratio, or the value in ``unit``.

    Attributes:
        workload: Or the use, of a mean over workloads.
        low: Of the 95 % interval; null without one. So is ``high``.
    """

    workload: str
    metric: str = ""
    stack: str
    against: str | None = None
    verdict: str = ""
    unit: str = "1"
    level: float | None = None
    low: float | None = None
    high: float | None = None


class Tried(Variation):
    """A variation with its outcome.

    Attributes:
        seeds: The number of seeds that count; 0: computed from the results, or without a verdict.
        verdict: Empty where there is none; ``note`` says why.
        note: A remark on the verdict.
        compared: Of a quantity's value one comparison: the time that the use waits on the best rival over
            that on the best leader.
    """

    verdict: str = ""
    note: str = ""
    compared: tuple[Compared, ...] = ()

    @property
    def value(self) -> float:
        """The value of the one quantity that is varied."""
        [value] = self.values.values()
        return value

    @property
    def ratio(self) -> float:
        """The level of the first comparison; infinite without one."""
        level = self.compared[0].level if self.compared else None
        return math.inf if level is None else level


class Uncertain(Frozen):
    """A quantity that an answer rests on, with the range of its values.

    Attributes:
        quantity: Its id: ``MODEL.PARAMETER``, ``memory``, ``WORKLOAD.KEY`` or ``weights.NAME``.
        words: Its meaning.
        unit: As in the device's file; ``B``, ``share`` or ``1``.
        stated: The value that the answer assumes.
        low: Of the range of its values. So is ``high``.
        known: What kind of range that is; ``source`` says more.
    """

    quantity: str
    kind: QuantityKind
    words: str
    unit: str
    stated: float
    low: float
    high: float
    known: Range
    source: str

    @property
    def ends(self) -> list[float]:
        return [end for end in (self.low, self.high) if end != self.stated]

    def shown(self, value: float) -> str:
        """One of its values: ``2.1 ms``, ``512 MiB``, ``34 %``."""
        if self.unit == "share":
            return percent(value)
        if self.unit == "B":
            return format_size(value)
        return f"{value:,.4g} {self.unit}".removesuffix(" 1").rstrip()

    def varied(self, value: float, seeds: int = 0) -> Variation:
        name = f"{self.quantity} = {self.shown(value)}"
        return Variation(name=name, values={self.quantity: value}, seeds=seeds, why=self.words)

    def towards(self, end: float, tried: Iterable[Tried]) -> BreakEven:
        """The outcome of the variations from the stated value to one end: those with the most seeds."""
        mine = self.on_side(end, tried)
        most = max((each.seeds for each in mine if each.value == end), default=0)
        kept = tuple(each for each in mine if each.seeds == most or not each.verdict)
        return BreakEven(**self.plain, end=end, every=kept)

    def on_side(self, end: float, tried: Iterable[Tried]) -> list[Tried]:
        """The outcomes of the values from the stated one to an end."""
        mine = (each for each in tried if self.quantity in each.values)
        return [each for each in mine if (each.value > self.stated) is (end > self.stated)]

    @property
    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Uncertain.model_fields}


class BreakEven(Uncertain):
    """What becomes of the answer between the stated value of a quantity and one end of its range.

    Attributes:
        end: The end of the range.
        every: The variations on this side, in the order of trying; some may have failed.
    """

    end: float
    every: tuple[Tried, ...] = ()

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The values that have a comparison."""
        return tuple(each for each in self.every if each.verdict)

    @property
    @in_json
    def outcome(self) -> Outcome:
        """``cannot say``: not everything was tried, or a trial failed; `note` says why."""
        if self.note:
            return "cannot say"
        return "flips" if self._at_end[0].ratio < 1 else "stays"

    @property
    @in_json
    def note(self) -> str:
        notes = (each.note for each in self.every if not each.verdict and each.note != UNTRIED)
        return next(notes, "" if self._at_end else UNTRIED)

    @property
    def _at_end(self) -> list[Tried]:
        return [each for each in self.tried if each.value == self.end]

    @property
    def is_above(self) -> bool:
        return self.end > self.stated

    @property
    @in_json
    def between(self) -> tuple[float, float] | None:
        """The last value at which the answer stays, and the nearest at which another stack is best."""
        flipped = [each.value for each in self.tried if each.ratio < 1]
        if self.outcome != "flips" or not flipped:
            return None
        first = min(flipped, key=self._distance)
        nearer = [
            each.value
            for each in self.tried
            if each.ratio >= 1 and self._distance(each.value) < self._distance(first)
        ]
        return max(nearer, key=self._distance, default=self.stated), first

    def _distance(self, value: float) -> float:
        return abs(value - self.stated)

    @property
    @in_json
    def at(self) -> float | None:
        """About where the answer changes: the middle of the two."""
        ends = self.between
        if ends is None:
            return None
        return math.sqrt(ends[0] * ends[1]) if min(ends) > 0 else sum(ends) / 2

    @property
    @in_json
    def rival(self) -> str | None:
        """The stack that becomes best."""
        ends = self.between
        return next((each.compared[0].stack for each in self.tried if ends and each.value == ends[1]), None)

    @property
    @in_json
    def is_shown(self) -> bool:
        """Whether an interval shows the other stack to be better somewhere beyond the point."""
        highs = (each.compared[0].high for each in self.tried)
        return any(high is not None and high < 1 for high in highs)

    @property
    def distance(self) -> float:
        """How far the point lies, as the logarithm of the ratio to the stated value; infinite without one."""
        at = self.at
        if at is None or min(at, self.stated) <= 0:
            return math.inf if at is None else abs(at - self.stated)
        return abs(math.log(at / self.stated))

    @property
    def nearest(self) -> Tried | None:
        """The value at which the rival comes nearest."""
        return min(self.tried, key=lambda each: each.ratio, default=None)


class Confirmed(Frozen):
    """A cell's prediction in virtual time beside its measurement in wall time; they are never pooled.

    Attributes:
        metric: The workload's first headline, in ``unit``; ``predicted`` and ``measured`` are its levels.
        ratio: Measured over predicted.
        low: Of its 95 % interval; null without one. So is ``high``.
        doubt: The reasons to doubt the two numbers.
        operation: The unit of work that times and counts are divided by.
        times_ns: The measured window, predicted and measured.
        shares_ns: The difference of the two times by ``disk``, ``processor`` and ``counts``.
        counts: Requests, bytes and flushes, predicted and measured.
        disk: The one that was busiest; empty: none had a request.
        load: What it had to do, as an option of fio each.
    """

    stack: str
    workload: str
    metric: str
    unit: str
    predicted: float
    measured: float
    ratio: float
    low: float | None = None
    high: float | None = None
    doubt: str = ""
    operation: str
    times_ns: tuple[float, float]
    shares_ns: dict[str, float]
    counts: dict[str, tuple[float, float]]
    disk: str = ""
    load: dict[str, str | int] = Field(default={})

    @property
    @in_json
    def outcome(self) -> Literal["holds", "fails", "open"]:
        """Whether the ratio lies within ±15 % or beyond; open: the interval reaches across."""
        near = math.log1p(CONFIRMED_ZONE)
        low, high = (math.log(end if end and end > 0 else self.ratio) for end in (self.low, self.high))
        if max(-low, high) <= near:
            return "holds"
        return "fails" if low > near or high < -near else "open"

    @property
    @in_json
    def cause(self) -> str:
        """The largest share of the difference."""
        return max(self.shares_ns, key=lambda share: abs(self.shares_ns[share]))


class Finding(_Sparse):
    """What varying a study found about one answer of its results.

    Attributes:
        kind: The question. ``sensitivity``: the break-even points of the answer for a use. ``what-if``: the
            changes of the study that flip a claim's verdict. ``anchor``: drawn test beds, and of a claim its
            verdict on the kept ones. ``bisect``: the commit that changed a metric. ``confirm``: the
            prediction and the measurement on real disks, which compare the stacks pair by pair.
            ``rebuild``: the time to rebuild a lost disk at full size.
        subject: The use, the claim or the trial.
        results_sha256: Of the trials of these results; findings of others are not shown. Empty: of a rebuild
            that was asked for before there were any.
        whole: Whether everything that was asked for was tried; otherwise the budget ended, or the user.
        tried: In the order of trying.
        leaders: The stacks that lead by the results, and in ``conclusion`` how sure that was.
        quantities: Those that were varied.
        confirmed: Of a ``confirm`` its cells.
    """

    kind: Kind
    subject: str
    results_sha256: str = ""
    whole: bool = True
    tried: tuple[Tried, ...] = ()
    leaders: tuple[str, ...] = ()
    conclusion: str = ""
    quantities: tuple[Uncertain, ...] = ()
    confirmed: tuple[Confirmed, ...] = ()

    def joined(self, before: Finding | None) -> Finding:
        """With what an earlier search found of the same leaders: of other quantities, or with more budget."""
        if before is None or before.leaders != self.leaders:
            return self
        kept = [each for each in before.tried if each.verdict]
        judged = {name for each in kept for name in each.values}
        known = [each for each in before.quantities if each.quantity in judged]
        tried = {(*each.values.items(), each.seeds): each for each in (*kept, *self.tried)}
        quantities = {each.quantity: each for each in (*known, *self.quantities)}
        return self.model_copy(
            update={"tried": tuple(tried.values()), "quantities": tuple(quantities.values())}
        )

    @property
    @in_json
    def points(self) -> list[BreakEven]:
        """The nearest break-even point first, then by how near the rival came, last what nobody can say."""
        rank = {"flips": 0, "stays": 1, "cannot say": 2}
        found = [each.towards(end, self.tried) for each in self.quantities for end in each.ends]

        def place(point: BreakEven) -> tuple[int, float, float]:
            return rank[point.outcome], point.distance, point.nearest.ratio if point.nearest else math.inf

        return sorted(found, key=place)

    @property
    def as_measured(self) -> Tried:
        return self.tried[0]

    @property
    @in_json
    def flipping(self) -> list[Tried]:
        """The variations with which the claim is reproduced though it is not without them."""
        if not self.tried or self.as_measured.verdict == REPRODUCED:
            return []
        return [each for each in self.tried[1:] if each.verdict == REPRODUCED]

    @property
    def changing(self) -> list[Tried]:
        """The variations with another verdict than the study as it is."""
        return [each for each in self.tried[1:] if each.verdict not in ("", self.as_measured.verdict)]


class Findings(Frozen):
    """The content of findings.json."""

    findings_version: Literal[1] = FINDINGS_VERSION
    findings: tuple[Finding, ...] = ()
    capabilities: Capabilities | None = None


def identity_of(snapshot: StudySnapshot) -> str:
    """The results that findings belong to: those of these specifications."""
    return sha256_hex(canonical_json({str(trial): sha256 for trial, sha256 in snapshot.trials.items()}))


def findings_of(folder: ResultsFolder, kind: Kind) -> dict[str, Finding]:
    """The findings of a kind by subject, without those of earlier specifications.

    Raises ResultError if the file is damaged or of another version.
    """
    every = _read(folder).findings
    present = identity_of(folder.study()) if every else ""
    of_now = ("", present) if kind == "rebuild" else (present,)  # a rebuild needs no results
    return {each.subject: each for each in every if each.kind == kind and each.results_sha256 in of_now}


def keep_finding(folder: ResultsFolder, found: Finding) -> None:
    """Keep a finding beside those of other questions."""
    before = _read(folder)
    place = (found.kind, found.subject)
    others = [each for each in before.findings if (each.kind, each.subject) != place]
    _write(folder, before.model_copy(update={"findings": (*others, found)}))


def merge_findings(sources: Iterable[ResultsFolder], into: ResultsFolder, *, keep: bool) -> None:
    """Add the findings of other folders of a study; of two on one question the first found stays."""
    before = _read(into)
    content = before if keep else Findings()
    for each in map(_read, sources):
        known = {(one.kind, one.subject, one.results_sha256) for one in content.findings}
        new = (one for one in each.findings if (one.kind, one.subject, one.results_sha256) not in known)
        probed = (content.capabilities, each.capabilities)
        both = probed[0].joined(probed[1]) if probed[0] and probed[1] else probed[0] or probed[1]
        content = Findings(findings=(*content.findings, *new), capabilities=both)
    if content != before:
        _write(into, content)


def read_capabilities(folder: ResultsFolder) -> Capabilities | None:
    """The capabilities of a results folder's stacks, without stacks changed since; None if none is left.

    Raises ResultError if the file is damaged or of another version.
    """
    found = _read(folder).capabilities
    if found is None or not folder.study_path.is_file():
        return found
    found = found.limited_to({name: stack.title for name, stack in folder.study().stacks.items()})
    return found if found.cells or found.cuts else None


def write_capabilities(folder: ResultsFolder, found: Capabilities) -> Capabilities:
    """Add to the findings for the same stacks in the same lab, and return all of them.

    Raises ResultError if they cannot be written, the folder holds another study, or the present file is
    damaged.
    """
    refuse_other_study(folder, found.study)
    before = _read(folder)
    found = found if before.capabilities is None else found.joined(before.capabilities)
    _write(folder, before.model_copy(update={"capabilities": found}))
    return found


def refuse_other_study(folder: ResultsFolder, study: str) -> None:
    """Refuse a folder of another study, or an unsafe one, before minutes are spent on probes."""
    folder.refuse_unsafe()
    if folder.study_path.is_file() and (name := folder.study().name) != study:
        cause = f'the folder holds the study "{name}", not "{study}"'
        raise ResultError(cause, place=str(folder.path), remedy="choose another folder with --results")


def _read(folder: ResultsFolder) -> Findings:
    path = folder.path / FINDINGS_NAME
    with explained(path, "read the file"):
        if not path.exists():
            return Findings()
    anew = "remove the file and ask again; what was measured is kept beside it"
    older = f"use the Strata that wrote it, or {anew}"
    return read_model(Findings, path, ("findings_version", FINDINGS_VERSION), damaged=anew, older=older)


def _write(folder: ResultsFolder, content: Findings) -> None:
    folder.refuse_unsafe()
    make_folder(folder.path)
    write_model(folder.path / FINDINGS_NAME, content)
