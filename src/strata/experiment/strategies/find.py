# SPDX-License-Identifier: Apache-2.0
"""The next probes of a study's searches: bisection of the rate, of every stack with every seed by itself.

The first seed doubles or halves the declared rate until it has a rate that keeps the target and one that
misses it; the others begin at what the first one found and go in small steps, which grow. Then both halve
the ratio of the two. The probes follow from the results alone, so that an interrupted search goes on as if
it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from strata.model.find import RATE_MAX, OpenLoop, find_of
from strata.model.study import Study
from strata.model.trial import TrialKey
from strata.plan.compile import skipped
from strata.results.search import Search
from strata.statistics.study import StudyResults


def more_probes(
    study: Study, results: StudyResults, chosen: Container[TrialKey]
) -> tuple[Study, tuple[str, ...]] | None:
    """The next probe of each search that goes on; None if none does.

    A search whose probe failed has ended: another rate would not tell why.
    """
    known = {reading.trial for reading in results.readings if reading.usable}
    probes = dict(study.probes)
    for key in _searched(study):
        if not known.issuperset(study.trial_keys(*key.cell, key.seed)):
            continue
        begin = _begin(study, key, results.searches, known)
        rate = None if begin is None else next_rate(results.searches.get(key), *begin)
        if rate is not None:
            grown = replace(study, probes={key: (*study.probe_rates(key), rate)})
            if grown.trial_keys(*key.cell, key.seed)[-1] in chosen:
                probes[key] = (*study.probe_rates(key), rate)
    return None if probes == dict(study.probes) else (replace(study, probes=probes), ())


def _searched(study: Study) -> Iterator[TrialKey]:
    left_out = skipped(study)
    for workload, load in study.workloads.items():
        if find_of(load) is not None:
            for stack in study.stacks:
                for seed in study.seeds_of(workload) if (stack, workload) not in left_out else ():
                    yield TrialKey(stack, workload, seed)


def _begin(
    study: Study, key: TrialKey, found: Mapping[TrialKey, Search], known: Container[TrialKey]
) -> tuple[float, float] | None:
    """The rate at which a search begins, and its first step as a share of it; None: it has to wait."""
    load = study.workloads[key.workload]
    assert isinstance(load, OpenLoop)
    assert load.find is not None
    declared = (float(load.rate_per_s or 1), 1.0)
    first = key._replace(seed=study.seeds[0])
    if key == first:
        return declared
    ended = found.get(first)
    if ended is not None and ended.is_ended:
        return (float(ended.kept.rate), load.find.within) if ended.kept else declared
    has_failed = any(each not in known for each in study.trial_keys(*first.cell, first.seed))
    return declared if has_failed else None


def next_rate(search: Search | None, begin: float, step: float) -> int | None:
    """The next rate to try; None where the search has ended.

    The steps upwards from ``begin`` grow like 1, 3, 7 times ``step``, to a doubling at most; likewise down.
    """
    if search is None or not search.probes:
        return _whole(begin)
    if search.is_ended:
        return None
    kept, missed = search.kept, search.missed
    if kept is not None and missed is not None:
        return min(max(_whole(math.sqrt(kept.rate * missed.rate)), kept.rate + 1), missed.rate - 1)
    factor = min(2.0, (1 + step) ** (1 << min(len(search.probes) - 1, 8)))
    if kept is not None:
        return max(_whole(kept.rate * factor), kept.rate + 1)
    assert missed is not None
    return min(_whole(missed.rate / factor), missed.rate - 1)


def _whole(rate: float) -> int:
    return min(max(1, round(rate)), RATE_MAX)
