# SPDX-License-Identifier: Apache-2.0
"""The commit of a kernel's tree at which a metric of one trial changed.

In the lab equal behaviour gives equal bytes, so one trial tells the sides apart. A commit between them
belongs to the end whose value is nearer to its own. Kernels and results are kept, so the same search,
repeated, goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path

from strata.diagnostics.names import nearest
from strata.errors import RunError, StudyError
from strata.experiment.experiment import Cells
from strata.lab.own_source import git
from strata.model.metric import Metric
from strata.model.trial import TrialKey
from strata.results.counts import every_metric
from strata.results.findings import Compared, Finding, Tried, Variation
from strata.statistics.study import StudyResults


@dataclass(frozen=True)
class Bisect:
    """The change between two revisions of a git tree, the older one first.

    Attributes:
        metric: None: the trial's first headline.
    """

    tree: Path
    good: str
    bad: str
    trial: TrialKey
    metric: str | None = None

    @property
    def cells(self) -> Cells:
        return Cells([self.trial.stack], [self.trial.workload], [self.trial.seed])

    @cached_property
    def _ends(self) -> tuple[str, str]:
        """Both commits.

        Raises LabError for an unknown revision, and StudyError if the older is no ancestor of the newer.
        """
        older, newer = (git(self.tree, "rev-parse", f"{each}^{{commit}}") for each in (self.good, self.bad))
        if older == newer or git(self.tree, "rev-list", "-1", older, f"^{newer}"):
            raise StudyError(
                f"{self.good} is no ancestor of {self.bad}",
                place="--good, --bad",
                remedy="name the older revision as --good, whichever of the two is faster",
            )
        return older, newer

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        """Both ends, and then the commit that halves the others.

        Raises StudyError for ends that do not differ, and RunError for one that cannot be measured.
        """
        if not tried:
            return [self._variation(commit) for commit in self._ends]
        for end in tried[:2]:
            if not end.verdict:
                raise RunError(f"{end.name} cannot be measured: {end.note}", place="--good, --bad")
        if tried[0].ratio == tried[1].ratio:
            raise StudyError(
                f"the ends do not differ: both measure {tried[0].ratio!r}",
                place="--good, --bad",
                remedy="name revisions further apart, or another --trial or --metric",
            )
        known = {each.name for each in tried}
        left = [commit for commit in self.unsure(tried) if commit not in known]
        return [self._variation(commit) for commit in left[:1]]

    def around(self, tried: Sequence[Tried]) -> tuple[Tried, Tried]:
        """The last commit with the value of the older end, and the first with the other one."""
        before, first = tried[:2]
        ends = before.ratio, first.ratio
        for each in tried[2:]:
            if each.verdict and abs(each.ratio - ends[0]) <= abs(each.ratio - ends[1]):
                before = each
            elif each.verdict:
                first = each
        return before, first

    def unsure(self, tried: Sequence[Tried]) -> list[str]:
        """The commits that may be the first with the other value, in the order to try them."""
        before, first = self.around(tried)
        listed = git(self.tree, "rev-list", "--bisect-all", first.name, f"^{before.name}")
        return [line.split()[0] for line in listed.splitlines() if not line.startswith(first.name)]

    def _variation(self, commit: str) -> Variation:
        subject = git(self.tree, "log", "-1", "--format=%s", commit)
        return Variation(name=commit, kernel=f"{self.tree.absolute()}@{commit}", why=subject)

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        """The metric with the kernel of a commit; the note is the folder of the results."""
        [reading] = results.readings
        if reading.record is None or not reading.usable:
            return variation.tried(note=f"{self.trial} failed: {reading.problem}")
        found = self.chosen(every_metric(reading.record))
        level = Compared(
            workload=self.trial.workload,
            metric=found.name,
            stack=self.trial.stack,
            unit=found.unit,
            level=found.value,
        )
        assert reading.attempt is not None, "a usable reading has one"
        return variation.tried("measured", str(reading.attempt.path.parents[2]), [level], 1)

    def chosen(self, metrics: Sequence[Metric]) -> Metric:
        """The metric to compare. Raises StudyError if it is not among them."""
        wanted = (each.headline if self.metric is None else each.name == self.metric for each in metrics)
        if (found := next(compress(metrics, wanted), None)) is None:
            named = "headline" if self.metric is None else f'metric "{self.metric}"'
            remedy = nearest(self.metric or "", [each.name for each in metrics])
            raise StudyError(f"{self.trial} has no {named}", place="--metric", remedy=remedy)
        return found

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        return Finding(kind="bisect", subject=str(self.trial), whole=whole, tried=tuple(tried))
