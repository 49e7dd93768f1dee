# SPDX-License-Identifier: Apache-2.0
"""The commit of a kernel's tree at which a metric of one trial changed.

In the lab equal behaviour gives equal bytes, so one trial tells the sides apart. A commit between them
belongs to the end whose value is nearer to its own. Kernels and results are kept, so the same search,
repeated, goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

from strata.diagnostics.names import nearest
from strata.errors import LabError, RunError, StudyError
from strata.execution.display import Display
from strata.execution.run import run_study
from strata.lab.own_source import git
from strata.model.kernel import Kernel
from strata.model.metric import Metric
from strata.model.study import Study
from strata.model.trial import TrialKey
from strata.plan.compile import compile_trial
from strata.results.counts import every_metric
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled, Runner


@dataclass(frozen=True)
class Measured:
    """A commit, the trial's value with its kernel, and the folder of the result."""

    commit: str
    subject: str
    value: float
    folder: Path


@dataclass(frozen=True)
class Found:
    """The first commit with the other value, the last one before it, and everything that was measured.

    Attributes:
        unsure: Commits just before ``first`` that cannot be built or run: it may be one of them, too.
    """

    before: Measured
    first: Measured
    steps: tuple[Measured, ...]
    unsure: tuple[str, ...] = ()


@dataclass
class Bisection:
    """The search in a git tree; ``measure`` gives a commit's value and the folder of its result."""

    tree: Path
    measure: Callable[[str], tuple[float, Path]]
    said: Callable[[str], None] = print
    steps: list[Measured] = field(default_factory=list)

    def search(self, good: str, bad: str) -> Found:
        """Find the change between two revisions, the older one first.

        Raises LabError for an unknown revision, and StudyError for ends of which the older is no ancestor of
        the newer, or that do not differ.
        """
        older, newer = (git(self.tree, "rev-parse", f"{each}^{{commit}}") for each in (good, bad))
        if older == newer or git(self.tree, "rev-list", "-1", older, f"^{newer}"):
            raise StudyError(
                f"{good} is no ancestor of {bad}",
                place="--good, --bad",
                remedy="name the older revision as --good, whichever of the two is faster",
            )
        before, first = self._at(older), self._at(newer)
        if before.value == first.value:
            raise StudyError(
                f"the ends do not differ: both measure {first.value!r}",
                place="--good, --bad",
                remedy="name revisions further apart, or another --trial or --metric",
            )
        ends, broken = (before.value, first.value), set[str]()
        while (rest := self._between(before, first)) and (untried := [c for c in rest if c not in broken]):
            self.said(f"{len(rest)} commits are left")
            try:
                found = self._at(untried[0])
            except (LabError, RunError) as error:
                self.said(f"{untried[0][:12]} is left out: {error.cause.splitlines()[0]}")
                broken.add(untried[0])
                continue
            if abs(found.value - ends[0]) <= abs(found.value - ends[1]):
                before = found
            else:
                first = found
        return Found(before, first, tuple(self.steps), tuple(rest))

    def _between(self, before: Measured, first: Measured) -> list[str]:
        """The commits that may be the first with the other value, in the order to try them."""
        listed = git(self.tree, "rev-list", "--bisect-all", first.commit, f"^{before.commit}")
        return [line.split()[0] for line in listed.splitlines() if not line.startswith(first.commit)]

    def _at(self, commit: str) -> Measured:
        subject = git(self.tree, "log", "-1", "--format=%s", commit)
        value, folder = self.measure(commit)
        found = Measured(commit, subject, value, folder)
        self.steps.append(found)
        self.said(f"{commit[:12]} {value:.12g}  {subject}")
        return found


@dataclass(frozen=True)
class TrialOfCommits:
    """One trial of a study, with the kernels of a tree's commits; equal kernels share a result."""

    study: Study
    trial: TrialKey
    metric: str | None  # None: the trial's first headline
    tree: Path
    place: Path
    runner: Runner
    display: Callable[[Path], Display]

    def measure(self, commit: str) -> tuple[float, Path]:
        """The metric with the kernel of a commit; the kernel and the result are made unless they are kept."""
        kernel = Kernel(f"{self.tree}@{commit[:12]}", self.tree.absolute(), commit)
        own = {name: {**each, "kernel": kernel} for name, each in self.study.own.items()}
        study = replace(self.study, kernel=kernel, own=own)
        plan = compile_trial(study, *self.trial)
        self.runner.provide(plan, study.inputs.values())
        sha256 = self.runner.identity_of(plan).kernel_sha256
        assert sha256 is not None
        folder = self.place / sha256[:12]
        summary = run_study(study, folder, self.runner, self.display(folder), jobs=1, only=str(self.trial))
        if summary.signal_number is not None:
            raise Cancelled
        reading = ResultsFolder.open(folder).read_trial(self.trial)
        if reading.record is None or not reading.usable:
            raise RunError(f"{self.trial} failed: {reading.problem}", place=str(folder))
        return self.chosen(every_metric(reading.record)).value, folder

    def chosen(self, metrics: Sequence[Metric]) -> Metric:
        """The metric to compare. Raises StudyError if it is not among them."""
        wanted = (each.headline if self.metric is None else each.name == self.metric for each in metrics)
        if (found := next(compress(metrics, wanted), None)) is None:
            named = "headline" if self.metric is None else f'metric "{self.metric}"'
            remedy = nearest(self.metric or "", [each.name for each in metrics])
            raise StudyError(f"{self.trial} has no {named}", place="--metric", remedy=remedy)
        return found
