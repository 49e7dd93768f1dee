# SPDX-License-Identifier: Apache-2.0
"""Why a claim is not reproduced: its study is changed one thing at a time, and the claim judged anew.

Each variation is run on the claim's stacks and workloads alone, with the seeds of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from strata.advice.variations import variations
from strata.errors import ResultError, StrataError, StudyError
from strata.execution.agenda import PlannedTrial
from strata.execution.run import lab_bytes, memory_available_bytes
from strata.execution.varied import Ended, VariedTrials, mean_trial_s, narrowed
from strata.model.kernel import Kernel
from strata.model.study import Study
from strata.model.trial import TrialKey
from strata.reading.claims import Subject
from strata.results.declared import declared_study
from strata.results.tipping import identity_of
from strata.results.why import ClaimWhy, Compared, Outcome, Variation, write_why
from strata.statistics.claims import Finding, Judgement, cells_of, judge
from strata.statistics.study import StudyResults, gather
from strata.units import NS_PER_S, format_duration, format_size

_UNTRIED = "not tried within the budget"


@dataclass
class WhySearch:
    """The search for the reason of one claim's verdict.

    Attributes:
        judgement: Of the claim by the results.
        subject: The names that the claims of the results may use.
        file: The study's file, if it needs files beside it.
        seeds: The most seeds for each variation.
        say: Takes a sentence on the progress.
    """

    judgement: Judgement
    results: StudyResults
    subject: Subject
    trials: VariedTrials
    file: Path | None
    seeds: int
    say: Callable[[str], None]

    def run(self) -> ClaimWhy:
        """Try the variations within the budget; why.json keeps the findings after every step.

        Raises ResultError if the results have no numbers of the claim, and StudyError if the budget is less
        than one variation takes.
        """
        self._findings = self._measured()
        cells = [cell for each in self._findings for cell in cells_of(each)]
        self._stacks = [name for name in self.results.stacks if any(name == each.stack for each in cells)]
        self._workloads = list(dict.fromkeys(each.workload for each in cells))
        common = set.intersection(*(set(self.results.cells[each].records) for each in cells))
        if not common:
            cause = "no seed has a result of every stack and workload of the claim"
            raise ResultError(cause, place="--why", remedy="run the study again with `strata run`")
        self._seeds = sorted(common)[: self.seeds]
        self.trials.trial_s = mean_trial_s(self.results.records, self._stacks, self._workloads)
        self._as_it_is = self._narrowed({})
        self._specified = _specifications(self.trials.planned(self._as_it_is))
        full = declared_study(self.results.snapshot, full=True, file=self.file)
        wanted = variations(full, self.judgement.claim, self._stacks, self._workloads)
        found = self._search(wanted)
        is_judged = any(each.verdict for each in found.outcomes[1:])
        if not (is_judged or found.whole or self.trials.interrupted):
            self._refuse_budget()
        return found

    def _measured(self) -> list[Finding]:
        """The comparisons of which the results have numbers."""
        claim, cells = self.judgement.claim, self.results.cells
        found = [
            each
            for each in self.judgement.findings
            if each.verdict != "not testable" and all(cells[cell].records for cell in cells_of(each))
        ]
        if not found:
            why = self.judgement.why or "they have no results of its stacks and workloads"
            cause = f"these results say nothing of {claim.id}, so nothing can change it: {why}"
            raise ResultError(cause, place="--why", remedy="run its stacks and workloads with `strata run`")
        return found

    def _search(self, wanted: Sequence[Variation]) -> ClaimWhy:
        untried = [_outcome(each, note=_UNTRIED) for each in wanted]
        outcomes = list(untried)
        for number, each in enumerate(wanted):
            self.say(f"[{number + 1} of {len(wanted)}] {each.name}")
            try:
                outcomes[number] = self._tried(each)
            except Ended:
                pass  # another one may be there already, or need fewer trials
            except KeyboardInterrupt:
                self.trials.interrupted = True
            except StrataError as error:
                first = getattr(error, "diagnostics", [error])[0]
                outcomes[number] = _outcome(each, note=f"refused: {first.cause}")
            if self.trials.interrupted:
                break
            self._keep(outcomes, whole=False)
        return self._keep(outcomes, whole=not any(each.note == _UNTRIED for each in outcomes))

    def _keep(self, outcomes: Sequence[Outcome], *, whole: bool) -> ClaimWhy:
        identity = identity_of(self.results.snapshot)
        found = ClaimWhy(results_sha256=identity, whole=whole, outcomes=tuple(outcomes))
        write_why(self.trials.folder, self.judgement.claim.id, found)
        return found

    def _tried(self, variation: Variation) -> Outcome:
        """The outcome of a variation. Raises StrataError if the study cannot have it, and Ended."""
        varied = self._narrowed(variation.changes)
        if varied.kernel != self._as_it_is.kernel:
            self.trials.require_kernels(varied)
        planned = self.trials.planned(varied)
        if variation.changes and _specifications(planned) == self._specified:
            raise StudyError("it changes nothing in the claim's trials")
        needed_bytes = lab_bytes(varied)
        if needed_bytes > max(memory_available_bytes(), lab_bytes(self._as_it_is)):
            raise StudyError(f"its lab takes {format_size(needed_bytes)} of memory, more than is available")
        results = gather(self.trials.run(varied, variation.folder, planned))
        subject = replace(self.subject, stacks=self._stacks)
        wanted = [(each.expectation, each.stack, each.against) for each in self._findings]
        # Only comparisons with results: another workload may not have run at all.
        expected = [each for each in self.judgement.claim.expect if any(each == one for one, *_ in wanted)]
        claim = self.judgement.claim.model_copy(update={"expect": expected})
        [judged] = judge([claim], results, subject)
        mine = [each for each in judged.findings if (each.expectation, each.stack, each.against) in wanted]
        judged = replace(judged, findings=mine)
        return _outcome(
            variation,
            verdict=judged.verdict,
            note=judged.why,
            seeds=len(self._seeds),
            compared=tuple(map(_compared, mine)),
        )

    def _narrowed(self, changes: Mapping[str, object]) -> Study:
        study = declared_study(self.results.snapshot, file=self.file, changes=changes)
        for name in self._stacks:
            if name not in study.stacks:
                raise StudyError(f"it leaves no stack {name}")
        return narrowed(study, self._stacks, self._workloads, self._seeds)

    def _refuse_budget(self) -> None:
        count = len(self._stacks) * len(self._workloads) * len(self._seeds)
        seconds = (self.trials.budget_s, self.trials.cost_s(self._as_it_is, count))
        given, least = (format_duration(each * NS_PER_S) for each in seconds)
        raise StudyError(
            f"the budget of {given} is less than one variation takes: about {least}",
            place="--budget",
            remedy="give more, or fewer --seeds",
        )


def _specifications(planned: Iterable[PlannedTrial]) -> dict[TrialKey, tuple[str, Kernel]]:
    return {each.key: (each.spec_sha256, each.plan.kernel) for each in planned}


def _outcome(variation: Variation, **found: object) -> Outcome:
    return Outcome.model_validate({**variation.model_dump(), **found})


def _compared(finding: Finding) -> Compared:
    interval = finding.interval
    return Compared(
        workload=finding.expectation.workload,
        metric=finding.expectation.metric,
        stack=finding.stack,
        against=finding.against,
        verdict=finding.verdict,
        unit="1" if finding.against is not None else finding.unit or "1",
        level=finding.level,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )
