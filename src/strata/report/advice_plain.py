# SPDX-License-Identifier: Apache-2.0
"""An advice as JSON types, and uses likewise."""

from __future__ import annotations

from typing import Any

from strata.advice.model import Advice, Part, Standing
from strata.advice.uses import Use
from strata.printable import plain
from strata.report.advice_text import recommendation
from strata.statistics.comparison import Comparison
from strata.statistics.interval import Interval


def advice_plain(advice: Advice) -> dict[str, Any]:
    """Everything that an advice says."""
    return {
        "use": use_plain(advice.use),
        "study": advice.study,
        "time_domain": advice.time_domain,
        "conclusion": advice.conclusion,
        "candidates": list(advice.candidates),
        "leaders": list(advice.leaders),
        "take_either": advice.take_either,
        "recommendation": recommendation(advice),
        "ranking": [_standing(each, advice) for each in advice.standings],
        "out": plain(advice.out),
        "covered": advice.covered,
        "coverage": [
            {
                "weight": each.weight.name,
                "share": each.share,
                "workloads": list(each.workloads),
                "without_results": list(each.lacking),
            }
            for each in advice.coverage
        ],
        "parts": [
            {
                **_part(part),
                "measured": {
                    stack: {"estimate": each.estimate, **_ends(each.interval), "seeds": each.n}
                    for stack, each in measured.items()
                },
            }
            for part, measured in zip(advice.parts, advice.measured, strict=True)
        ],
        "seeds": list(advice.seeds),
        "lacks": [
            {
                "stack": each.stack,
                "capability": each.capability,
                "title": each.title,
                "verdict": each.verdict,
                "asked_for": each.need.level if each.need is not None else None,
                "held_by": list(each.held_by),
            }
            for each in advice.lacks
        ],
        "worse": [
            {"stack": each.comparison.stack, **_part(each.part), **_comparison(each.comparison)}
            for each in advice.worse
        ],
        "not_probed": plain(advice.unprobed),
        "durability": plain(advice.durability),
        "relies_on": plain(advice.reliance),
        "warnings": plain(advice.warnings),
        "settling": plain(advice.settling),
    }


def _standing(standing: Standing, advice: Advice) -> dict[str, Any]:
    return {
        "stack": standing.stack,
        "in_front": standing.stack in advice.leaders,
        "best_share": standing.best_share,
        "score": _comparison(standing.score) if standing.score is not None else None,
        "evidence": [
            {"workload": each.workload, "metric": each.kind.name, **_comparison(each)}
            for each in standing.evidence
        ],
    }


def use_plain(use: Use) -> dict[str, Any]:
    """A use as it stands in a file of uses."""
    weights = {
        each.name: {
            "weight": each.weight,
            "why": each.why,
            "fits": [dict(pattern.declared) for pattern in each.fits],
            "metrics": dict(each.metrics),
        }
        for each in use.weights
    }
    return {
        "name": use.name,
        "title": use.title,
        "about": use.about,
        "source": use.source,
        "weights": weights,
        "needs": plain(use.needs),
        "adjusted": list(use.adjusted),
    }


def _comparison(score: Comparison) -> dict[str, Any]:
    """Above 1 is better, whatever the metric's direction."""
    ends = _ends(score.gain_interval)
    head = {"against": score.baseline, "gain": score.gain}
    return {**head, **ends, "seeds": score.ratio.n, "verdict": score.verdict}


def _ends(interval: Interval | None) -> dict[str, float | None]:
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {"interval_low": low, "interval_high": high}


def _part(part: Part) -> dict[str, Any]:
    return {
        "weight": part.weight,
        "workload": part.workload,
        "metric": part.kind.name,
        "unit": part.kind.unit,
        "better": part.kind.better,
        "share": part.share,
    }
