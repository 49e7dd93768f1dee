# SPDX-License-Identifier: Apache-2.0
"""The answer to what a study asks: for which use, and what a stack must have. Every view begins with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from strata.advice.advise import advise
from strata.advice.model import Advice
from strata.advice.uses import HEADLINE, Use, Weight, WorkloadPattern, bundled_uses, requiring
from strata.model.study_record import WorkloadRecord
from strata.plan.catalogue import catalogue
from strata.results.capabilities import Capabilities
from strata.results.record import StudySnapshot
from strata.statistics.study import StudyResults


def asked_use(snapshot: StudySnapshot) -> Use | None:
    """The study's use with what it requires; None if it asks for neither.

    Requirements without a use are of a use that counts each workload alike.
    """
    if snapshot.use is None and not snapshot.must:
        return None
    use = bundled_uses(catalogue())[snapshot.use] if snapshot.use is not None else _every_workload(snapshot)
    return replace(requiring(use, snapshot.must), is_asked=True)


def posed(snapshot: StudySnapshot, uses: Iterable[Use], *, chosen: bool = False) -> list[Use]:
    """These uses with the study's requirements, first the one that the study asks for.

    Of uses that the user has ``chosen`` it may be none.
    """
    asked = asked_use(snapshot)
    every = [requiring(each, snapshot.must) for each in uses]
    if asked is None:
        return every
    own = [replace(each, is_asked=True) for each in every if each.name == asked.name]
    own = own or ([] if chosen else [asked])
    return [*own, *(each for each in every if each.name != asked.name)]


def answer_of(results: StudyResults, capabilities: Capabilities | None) -> Advice | None:
    """The answer to what the study asks; None if it asks for no use and requires nothing."""
    use = asked_use(results.snapshot)
    return None if use is None else advise(results, [use], capabilities, evidence=False)[0]


def advise_on_all(results: StudyResults, capabilities: Capabilities | None) -> list[Advice]:
    """The answer to what the study asks, then the advice on every other use, as reports have them."""
    return advise(
        results, posed(results.snapshot, bundled_uses(catalogue()).values()), capabilities, evidence=False
    )


def the_answer(advices: Sequence[Advice]) -> Advice | None:
    """Of several advices the one that answers what the study asks."""
    return next((each for each in advices if each.use.is_asked), None)


def _every_workload(snapshot: StudySnapshot) -> Use:
    return Use(
        name="every-workload",
        title="All workloads alike",
        about="Each workload of the study counts the same.",
        source="the study asks for no use, so none of its workloads counts more than another",
        weights=tuple(
            Weight(name, 1.0, (_pattern(load),), {HEADLINE: 1.0}, "it is a workload of the study")
            for name, load in snapshot.workloads.items()
            if not load.loses_disk
        ),
    )


def _pattern(load: WorkloadRecord) -> WorkloadPattern:
    wanted = {key: (value,) for key, value in load.keys.items() if key != "workload"}
    return WorkloadPattern(load.workload, {"workload": load.workload}, wanted)
