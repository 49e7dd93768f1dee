# SPDX-License-Identifier: Apache-2.0
"""An advice as JSON types, and uses likewise."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from strata.advice.model import Advice, Coverage, MissingCapability, Part, Standing
from strata.advice.uses import Use
from strata.report.advice_text import recommendation
from strata.statistics.comparison import Comparison
from strata.statistics.summary import Summary


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
        "out": [asdict(each) for each in advice.out],
        "covered": advice.covered,
        "coverage": [_coverage(each) for each in advice.coverage],
        "parts": [
            {**_part(part), "measured": {stack: _summary(each) for stack, each in measured.items()}}
            for part, measured in zip(advice.parts, advice.measured, strict=True)
        ],
        "seeds": list(advice.seeds),
        "lacks": [_lack(each) for each in advice.lacks],
        "worse": [
            {"stack": each.comparison.stack, **_part(each.part), **_comparison(each.comparison)}
            for each in advice.worse
        ],
        "not_probed": [asdict(each) for each in advice.unprobed],
        "durability": dict(advice.durability) if advice.durability is not None else None,
        "relies_on": [asdict(each) for each in advice.reliance],
        "warnings": [asdict(each) for each in advice.warnings],
        "settling": [asdict(each) for each in advice.settling],
    }


def use_plain(use: Use) -> dict[str, Any]:
    """A use as it stands in a file of uses."""
    return {
        "name": use.name,
        "title": use.title,
        "about": use.about,
        "source": use.source,
        "weights": {
            each.name: {
                "weight": each.weight,
                "why": each.why,
                "fits": [dict(pattern.declared) for pattern in each.fits],
                "metrics": dict(each.metrics),
            }
            for each in use.weights
        },
        "needs": [asdict(each) for each in use.needs],
        "adjusted": list(use.adjusted),
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


def _comparison(score: Comparison) -> dict[str, Any]:
    """Above 1 is better, whatever the metric's direction."""
    interval = score.gain_interval
    return {
        "against": score.baseline,
        "gain": score.gain,
        "interval_low": interval.low if interval else None,
        "interval_high": interval.high if interval else None,
        "seeds": score.ratio.n,
        "verdict": score.verdict,
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "weight": part.weight,
        "workload": part.workload,
        "metric": part.kind.name,
        "unit": part.kind.unit,
        "better": part.kind.better,
        "share": part.share,
    }


def _summary(summary: Summary) -> dict[str, Any]:
    interval = summary.interval
    return {
        "estimate": summary.estimate,
        "interval_low": interval.low if interval else None,
        "interval_high": interval.high if interval else None,
        "seeds": summary.n,
    }


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "weight": coverage.weight.name,
        "share": coverage.share,
        "workloads": list(coverage.workloads),
        "without_results": list(coverage.lacking),
    }


def _lack(lack: MissingCapability) -> dict[str, Any]:
    return {
        "stack": lack.stack,
        "capability": lack.capability,
        "title": lack.title,
        "verdict": lack.verdict,
        "asked_for": lack.need.level if lack.need is not None else None,
        "held_by": list(lack.held_by),
    }
