# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.verdicts``: how often verdicts are wrong, and how often they find what there is.

It prints the tables of docs/explanation/statistics.md, by simulation with seeded draws.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from strata.model.steadiness import steadiness
from strata.statistics.interval import HALF_WIDTH_TARGET, SEEDS_WANTED
from strata.statistics.selftest import SHAPES as SHAPES_DRAWN
from strata.statistics.selftest import interval_of_means, synthetic_best_of
from strata.units import percent

SHAPES: Final = ("normal", "very skewed", "outliers")
SEEDS_MAX: Final = 40
SCATTER: Final[dict[str, Callable[[int], list[float]]]] = {
    "alike": lambda stacks: [0.05] * stacks,
    "one five times": lambda stacks: [0.25, *[0.05] * (stacks - 1)],
    "half four times": lambda stacks: [0.2] * (stacks // 2) + [0.05] * (stacks - stacks // 2),
}


def false_verdicts(studies: int) -> Iterator[str]:
    """By seeds, stacks and how they scatter: workloads with an interval or a verdict that is wrong."""
    yield f"| n | stacks | they scatter | {' | '.join(SHAPES)} |"
    yield "|---" * (3 + len(SHAPES)) + "|"
    for n in (3, 6, 12):
        for stacks in (2, 3, 8):
            for name, spreads in SCATTER.items():
                each = (
                    synthetic_best_of(shape, n, stacks, studies=studies, spreads=spreads(stacks))
                    for shape in SHAPES
                )
                cells = [
                    f"{percent(one.by_interval.share)} · {percent(one.by_verdict.share)}" for one in each
                ]
                yield f"| {n} | {stacks} | {name} | {' | '.join(cells)} |"


def whole_studies(studies: int) -> Iterator[str]:
    """Studies of alike stacks with any false verdict, a quarter as many."""
    yield "| stacks | workloads | n | ±2 % | ±5 % | ±10 % | ±20 % |"
    yield "|---|---|---|---|---|---|---|"
    for stacks, workloads, n in ((3, 6, 6), (8, 6, 6), (44, 6, 6), (44, 6, 3)):
        each = [
            synthetic_best_of("normal", n, stacks, workloads, studies // 4, spread=spread).by_verdict
            for spread in (0.02, 0.05, 0.1, 0.2)
        ]
        yield f"| {stacks} | {workloads} | {n} | {' | '.join(percent(one.share) for one in each)} |"


def power(studies: int) -> Iterator[str]:
    """Studies that find the stack which is really slower."""
    yield "| slower by | scatter | stacks | n = 3 | 6 | 12 | 20 |"
    yield "|---|---|---|---|---|---|---|"
    for slower in (0.05, 0.1):
        for spread in (0.02, 0.05):
            for stacks in (2, 8):
                found = [
                    synthetic_best_of(
                        "normal", n, stacks, studies=studies, spread=spread, slower=slower
                    ).found
                    for n in (3, 6, 12, 20)
                ]
                cells = " | ".join(percent(each.share) for each in found if each is not None)
                yield f"| {percent(slower)} | ±{percent(spread)} | {stacks} | {cells} |"


def stopping(studies: int) -> Iterator[str]:
    """Intervals of a ratio that hold the truth after stopping at ±1.5 % (from 6 seeds on, at 40 at most)."""
    shapes = ("normal", "skewed", "very skewed", "outliers")
    yield f"| scatter of the ratio | {' | '.join(shapes)} |"
    yield "|---" * (1 + len(shapes)) + "|"
    for spread in (0.02, 0.03, 0.04):
        yield f"| ±{percent(spread)} | {' | '.join(_stopped(shape, spread, studies) for shape in shapes)} |"


def _stopped(name: str, spread: float, studies: int) -> str:
    shape, target = SHAPES_DRAWN[name], math.log1p(HALF_WIDTH_TARGET)
    drawn = shape.draw(np.random.default_rng(3), (studies, SEEDS_MAX))
    values = (drawn - shape.mean) / shape.deviation * spread
    held = seeds = stopped = 0
    for row in values:
        for n in range(SEEDS_WANTED, SEEDS_MAX + 1):
            low, high = interval_of_means(row[:n])
            if high - low <= 2 * target:
                held, seeds, stopped = held + bool(low <= 0 <= high), seeds + n, stopped + 1
                break
    return f"{held / stopped:.1%}, {seeds / stopped:.0f} seeds, {stopped / studies:.0%} stopped"


def steady(studies: int) -> Iterator[str]:
    """Windows of noise: called not steady, called steady; with a fall of a tenth: not steady, steady."""
    by_scatter = (f"{scatter}: no · yes | with a fall: no · yes" for scatter in ("±2 %", "±10 %"))
    yield f"| seconds | correlation | {' | '.join(by_scatter)} |"
    yield "|---" * 6 + "|"
    for seconds in (5, 10, 60):
        for correlation in (0.0, 0.3, 0.7, 0.9):
            cells = (
                _windows(seconds, correlation, scatter, fall, studies)
                for scatter in (0.02, 0.1)
                for fall in (0.0, 0.1)
            )
            yield f"| {seconds} | {correlation:g} | {' | '.join(cells)} |"


def _windows(seconds: int, correlation: float, scatter: float, fall: float, studies: int) -> str:
    noise = np.random.default_rng(1).standard_normal((studies, seconds + 50))
    for at in range(1, seconds + 50):
        noise[:, at] += correlation * noise[:, at - 1]
    rates = 1 + noise[:, 50:] * scatter * math.sqrt(1 - correlation**2)
    rates *= 1 + fall * (0.5 - np.arange(seconds) / (seconds - 1))
    found = [judged.verdict for row in rates.tolist() if (judged := steadiness(row)) is not None]
    return " · ".join(percent(found.count(verdict) / studies) for verdict in ("no", "yes"))


TABLES: Final = {each.__name__: each for each in (power, whole_studies, false_verdicts, stopping, steady)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400, help="of each kind")
    parser.add_argument("--table", choices=TABLES, action="append", help="not all of them")
    asked = parser.parse_args()
    for table in (TABLES[name] for name in asked.table or TABLES):
        print(f"{table.__doc__}\n", *table(asked.studies), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
