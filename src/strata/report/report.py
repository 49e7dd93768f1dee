# SPDX-License-Identifier: Apache-2.0
"""What a report is made of: a study's results with everything else that was found of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from strata.advice.asked import advise_on_all, the_answer
from strata.advice.model import Advice
from strata.errors import ResultError
from strata.model.study import Study
from strata.model.study_record import WorkloadRecord
from strata.model.warning import NOT_DURABLE
from strata.report.answer import Answer, MetricStanding, answer, chosen_metrics, objections, standings
from strata.report.origin import origin
from strata.results.capabilities import Capabilities
from strata.results.declared import declared_study
from strata.results.findings import Finding, findings_of, read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather


@dataclass(frozen=True)
class Report:
    """Results, capabilities and advice; every section is made of one. Standings are computed once.

    Attributes:
        advice: On what the study asks, and on other uses.
        sensitivity: By use, what would change the advice.
        confirmed: By use or workload, predictions beside measurements on real disks.
        rebuilt: By stacks, how long the rebuild of a lost disk takes.
        reference: The stack to compare all cells with; None: the study's own.
        metrics: The metrics to show, by default each workload's leading ones.
        has_counts: Whether a terminal shows what one operation cost.
    """

    results: StudyResults
    capabilities: Capabilities | None = None
    advice: Sequence[Advice] = ()
    reference: str | None = None
    sensitivity: Mapping[str, Finding] = field(default_factory=dict)
    metrics: Sequence[str] = ()
    has_counts: bool = False
    confirmed: Mapping[str, Finding] = field(default_factory=dict)
    rebuilt: Mapping[str, Finding] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: ResultsFolder, reference: str | None = None) -> Report:
        """A results folder with its capabilities and advice. Raises ResultError."""
        results, capabilities = gather(folder), read_capabilities(folder)
        check_reportable(results, reference)
        advice = advise_on_all(results, capabilities)
        sensitivity, confirmed = (findings_of(folder, kind) for kind in ("sensitivity", "confirm"))
        rebuilt = findings_of(folder, "rebuild")
        return cls(
            results, capabilities, advice, reference, sensitivity, confirmed=confirmed, rebuilt=rebuilt
        )

    @cached_property
    def asked(self) -> Advice | None:
        """The answer to what the study asks."""
        return the_answer(self.advice)

    @cached_property
    def objections(self) -> dict[str, str]:
        """What speaks against stacks, wherever they lead: settings that lose data, and unmet requirements."""
        results = self.results
        risky = {
            stack: warning.denial
            for stack in results.stacks
            for workload in results.workloads
            for warning in results.warnings(stack, workload)
            if warning.code == NOT_DURABLE
        }
        return {**risky, **objections(self.asked)}

    @cached_property
    def standings(self) -> dict[str, list[MetricStanding]]:
        """The stacks' standings by the shown metrics, for each workload."""
        return {
            workload: standings(self.results, workload, chosen_metrics(self.results, workload, self.metrics))
            for workload in self.results.workloads
        }

    @cached_property
    def answers(self) -> list[Answer]:
        return [
            answer(self.results, workload, found, self.objections)
            for workload, found in self.standings.items()
        ]

    @cached_property
    def origin(self) -> dict[str, Any]:
        return origin(self.results)

    @cached_property
    def study(self) -> Study | None:
        """The study of the results; None if files that it needs are not there any more."""
        try:
            return declared_study(self.results.snapshot, has_inputs=False)
        except ResultError:
            return None

    @property
    def is_virtual(self) -> bool:
        return self.results.snapshot.time_domain == "virtual"

    def declared(self, workload: str) -> WorkloadRecord:
        return self.results.snapshot.workloads[workload]


def check_reportable(results: StudyResults, reference: str | None = None) -> None:
    """Raise ResultError if there is no valid result, or no stack named ``reference``."""
    if not results.records:
        raise ResultError(
            "there is no valid result to report",
            place=results.snapshot.name,
            remedy="`strata show RESULTS` says of each trial what is wrong with it",
        )
    if reference is not None and reference not in results.stacks:
        raise ResultError(
            f'the study has no stack "{reference}"',
            place="--reference",
            remedy=f"there are: {', '.join(results.stacks)}",
        )
