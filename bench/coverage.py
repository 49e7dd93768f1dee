# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.coverage``: the coverage of 95 % intervals, by simulation with seeded draws.

It prints the tables of docs/explanation/statistics.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from scipy import special

from strata.statistics.interval import (
    Floats,
    Interval,
    skewness_of_mean,
    standard_error,
    student,
    student_quantile,
)
from strata.statistics.level import (
    Distribution,
    Level,
    MeanLevel,
    PercentileLevel,
    Positions,
    influences,
    interval_between,
    interval_of,
    leave_one_out,
    once,
    resamples,
)
from strata.statistics.selftest import SHAPES, DistributionShape, interval_of_means

Ends = tuple[Floats, Floats]

SEEDS: Final = (6, 10, 20)
MEANS: Final = ("normal", "skewed", "very skewed", "heavy tails", "double exponential", "outliers", "uniform")
# Strata draws 10 000: five times as slow here, with the same figures within their errors.
DRAWS: Final = 2_000
_TAIL: Final = 0.025
_SEED: Final = 20_260_101
_BATCH: Final = 500


class Drawn:
    """Many samples, one per row, with their statistics; resampled once for all methods."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.n = values.shape[-1]
        self.mean = np.asarray(values.mean(axis=-1))
        self.error = standard_error(values)
        self.skewness = skewness_of_mean(values)
        known = resamples(self.n, DRAWS)
        self._shares = known.shares
        times = np.stack([(known.positions == seed).sum(axis=1) for seed in range(self.n)])
        self._means = values @ times / self.n
        deviations = values - self.mean[:, np.newaxis]
        squares = deviations**2 @ times / self.n
        variance = np.maximum(squares - (self._means - self.mean[:, np.newaxis]) ** 2, 0)
        self._errors = np.sqrt(variance / (self.n - 1))
        self._sorted = _Sorted(self._means, self._shares)

    def of_means(self, low: Floats | float, high: Floats | float) -> Ends:
        """The quantiles of the resampled means at these shares."""
        return self._sorted.quantiles(low), self._sorted.quantiles(high)

    def of_studentized(self, low: float, high: float) -> Ends:
        """The quantiles of the studentized resampled means at these shares."""
        away = self._means - self.mean[:, np.newaxis]
        known = self._errors > 1e-9 * self.error[:, np.newaxis]
        studentized = np.where(known, away / np.where(known, self._errors, 1), np.sign(away) * 1e9)
        ordered = _Sorted(studentized, self._shares)
        return ordered.quantiles(low), ordered.quantiles(high)

    def share_below(self) -> Floats:
        """The share of the resampled means below the mean; equal ones count half."""
        away = self._means - self.mean[:, np.newaxis]
        at = np.abs(away) <= 1e-12 * np.maximum(1, np.abs(self.mean))[:, np.newaxis]
        return np.asarray(((away < 0) & ~at) @ self._shares + at @ self._shares / 2)


class _Sorted:
    """Rows of levels with the probabilities of their columns, for quantiles."""

    def __init__(self, levels: Floats, shares: Floats) -> None:
        order = np.argsort(levels, axis=1)
        self._levels = np.take_along_axis(levels, order, 1)
        self._cumulative = np.cumsum(shares[order], axis=1)

    def quantiles(self, shares: Floats | float) -> Floats:
        """Each row's quantile at this share."""
        wanted = np.broadcast_to(shares, len(self._levels))[:, np.newaxis] - 1e-12
        places = np.minimum((self._cumulative < wanted).sum(axis=1), self._levels.shape[1] - 1)
        return np.asarray(self._levels[np.arange(len(self._levels)), places])


def percentile(drawn: Drawn) -> Ends:
    """Efron's percentile interval."""
    return drawn.of_means(_TAIL, 1 - _TAIL)


def expanded_percentile(drawn: Drawn) -> Ends:
    """Percentiles so far out that a normal bootstrap distribution would give Student's interval.

    T. Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69, 2015.
    """
    tail = float(special.ndtr(-_expanded(drawn.n)))
    return drawn.of_means(tail, 1 - tail)


def bca(drawn: Drawn) -> Ends:
    """Efron's bias-corrected and accelerated interval."""
    return _bca(drawn, special.ndtri(1 - _TAIL))


def expanded_bca(drawn: Drawn) -> Ends:
    """The same, as far out as Hesterberg's."""
    return _bca(drawn, _expanded(drawn.n))


def _expanded(n: int) -> float:
    return float(np.sqrt(n / (n - 1)) * student_quantile(n - 1))


def _bca(drawn: Drawn, reach: float) -> Ends:
    bias = special.ndtri(np.clip(drawn.share_below(), 1e-9, 1 - 1e-9))
    acceleration = drawn.skewness * np.sqrt((drawn.n - 1) / drawn.n) / 6

    def share(end: float) -> Floats:
        return np.asarray(special.ndtr(bias + (bias + end) / (1 - acceleration * (bias + end))))

    return drawn.of_means(share(-reach), share(reach))


def bootstrap_t(drawn: Drawn) -> Ends:
    """The studentized bootstrap."""
    low, high = drawn.of_studentized(_TAIL, 1 - _TAIL)
    return drawn.mean - drawn.error * high, drawn.mean - drawn.error * low


def students_t(drawn: Drawn) -> Ends:
    """Student's interval."""
    return student(drawn.mean, drawn.error, drawn.n - 1)


def johnsons_t(drawn: Drawn) -> Ends:
    """Student's interval, moved: N. Johnson, "Modified t tests and confidence intervals for asymmetrical
    populations", Journal of the American Statistical Association 73, 1978.
    """
    moved = drawn.mean + drawn.error * drawn.skewness / 6
    return student(moved, drawn.error, drawn.n - 1)


def halls_t(drawn: Drawn) -> Ends:
    """Hall's transformation with Student's quantiles, the drawn-in end not held back."""
    quantile, skewness = student_quantile(drawn.n - 1), drawn.skewness
    skewness = np.where(np.abs(skewness) < 1e-6, 1e-6, skewness)

    def moved(end: float) -> Floats:
        return np.asarray(3 / skewness * (np.cbrt(1 + skewness * (end - skewness / 6)) - 1))

    return drawn.mean - drawn.error * moved(quantile), drawn.mean - drawn.error * moved(-quantile)


def chosen(drawn: Drawn) -> Ends:
    """Strata's interval."""
    return interval_of_means(drawn.values)


METHODS: Final[Mapping[str, Callable[[Drawn], Ends]]] = {
    "percentile": percentile,
    "BCa": bca,
    "expanded percentile": expanded_percentile,
    "expanded BCa": expanded_bca,
    "bootstrap-t": bootstrap_t,
    "Student's t": students_t,
    "Johnson's t": johnsons_t,
    "Hall's": halls_t,
    "**Strata's**": chosen,
}


def coverage_of_means(
    shape: DistributionShape,
    n: int,
    repetitions: int,
    methods: Mapping[str, Callable[[Drawn], Ends]] = METHODS,
) -> dict[str, tuple[float, float]]:
    """By method, the interval's coverage of the mean, and its median width over that of Student's."""
    rng = np.random.default_rng(_SEED)
    held = dict.fromkeys(methods, 0)
    widths: dict[str, list[Floats]] = {name: [] for name in methods}
    for begun in range(0, repetitions, _BATCH):
        drawn = Drawn(shape.draw(rng, (min(_BATCH, repetitions - begun), n)))
        reach = 2 * drawn.error * student_quantile(n - 1)
        for name, method in methods.items():
            low, high = method(drawn)
            held[name] += int(((low <= shape.mean) & (shape.mean <= high)).sum())
            widths[name].append((high - low) / reach)
    return {
        name: (held[name] / repetitions, float(np.median(np.concatenate(widths[name])))) for name in methods
    }


# The spread between seeds: factors of a seed's gamma-distributed latencies.
APART: Final[Mapping[str, Callable[[np.random.Generator, int], Floats]]] = {
    "±5 %": lambda rng, n: np.exp(0.05 * rng.standard_normal(n)),
    "±20 %": lambda rng, n: np.exp(0.20 * rng.standard_normal(n)),
    "heavy tails, ±10 %": lambda rng, n: np.exp(0.10 * rng.standard_t(3, n)),
    "skewed, 20 %": lambda rng, n: np.exp(0.20 * rng.exponential(1.0, n)),
}
_LATENCIES: Final = 500
_EDGES: Final = np.geomspace(1e-3, 1e4, 1600)


def _distribution(rng: np.random.Generator, factors: Floats) -> Distribution:
    latencies = rng.gamma(2, 1, (len(factors), _LATENCIES)) * factors[:, np.newaxis]
    bins = np.minimum(np.searchsorted(_EDGES, latencies), len(_EDGES) - 1)
    counts = np.stack([np.bincount(row, minlength=len(_EDGES)) for row in bins])
    used = np.flatnonzero(counts.sum(axis=0))
    return Distribution(_EDGES[used], counts[:, used])


def _bca_of(n: int, upper: Level, lower: Level | None = None) -> Interval:
    """Efron's bias-corrected and accelerated interval of a level, or of the ratio of two."""
    drawn = resamples(n, DRAWS)

    def at(positions: Positions) -> Floats:
        below = 1.0 if lower is None else lower.at(positions)
        return np.asarray(np.log(upper.at(positions) / below))

    levels, estimate, moved = at(drawn.positions), float(at(once(n))[0]), influences(at(leave_one_out(n)))
    slack, spread = 1e-12 * max(1.0, abs(estimate)), float((moved**2).sum())
    ties = np.abs(levels - estimate) <= slack
    below = float(drawn.shares[levels < estimate - slack].sum() + drawn.shares[ties].sum() / 2)
    if spread == 0 or not 0 < below < 1:
        return Interval(np.exp(estimate), np.exp(estimate))
    bias, acceleration = float(special.ndtri(below)), float((moved**3).sum()) / (6 * spread**1.5)
    ends = bias + special.ndtri(np.array([_TAIL, 1 - _TAIL]))
    ordered = _Sorted(np.tile(levels, (2, 1)), drawn.shares)
    low, high = np.exp(ordered.quantiles(special.ndtr(bias + ends / (1 - acceleration * ends))))
    return Interval(float(low), float(high))


def coverage_of_percentiles(apart: str, n: int, repetitions: int) -> dict[str, float]:
    """The coverage of the 99th percentile of all possible seeds, and of the ratio of two stacks'.

    The stacks share the seeds' factors; one is 1.2 times as slow as the other.
    """
    rng = np.random.default_rng(_SEED)
    draw = APART[apart]
    everything = _distribution(rng, draw(rng, 20_000))
    truth = everything.percentile(99, np.ones(len(everything.counts), dtype=np.int64))
    held = dict.fromkeys(("BCa", "Strata's", "ratio, BCa", "ratio, Strata's"), 0)
    for _ in range(repetitions):
        factors = draw(rng, n)
        lower = PercentileLevel(_distribution(rng, factors), 99)
        upper = PercentileLevel(_distribution(rng, 1.2 * factors), 99)
        found = {
            "BCa": (_bca_of(n, lower), truth),
            "Strata's": (interval_of(n, lower), truth),
            "ratio, BCa": (_bca_of(n, upper, lower), 1.2),
            "ratio, Strata's": (interval_of(n, upper, lower), 1.2),
        }
        for name, (interval, value) in found.items():
            held[name] += _holds(interval, value)
    return {name: count / repetitions for name, count in held.items()}


def coverage_without_pairs(shape: DistributionShape, sizes: tuple[int, int], repetitions: int) -> float:
    """The coverage of the ratio of two stacks that share no seeds."""
    rng = np.random.default_rng(_SEED)

    def held() -> bool:
        sides = [(size, MeanLevel(np.exp(0.1 * shape.draw(rng, (size,))))) for size in sizes]
        return _holds(interval_between(*sides), 1.0)

    return sum(held() for _ in range(repetitions)) / repetitions


def _holds(interval: Interval | None, value: float) -> bool:
    # Found levels are bins' upper ends, exact within a bin's width.
    return interval is not None and interval.low * (1 - 1e-9) <= value <= interval.high * (1 + 1e-9)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _head(*titles: str) -> str:
    return _row(*titles) + "\n|" + "---|" * len(titles)


def _rows(repetitions: int, seeds: Sequence[int]) -> Iterator[str]:
    yield _head("n", "shape", *METHODS)
    for n in seeds:
        for name in MEANS:
            found = coverage_of_means(SHAPES[name], n, repetitions)
            yield _row(n, name, *(f"{100 * share:.1f} ({_width(width)})" for share, width in found.values()))


def _width(width: float) -> str:
    # Of three values a resample is often one value three times, whose standard error is 0.
    return f"{width:.2f}" if width < 1000 else "∞"


def _percentile_rows(repetitions: int) -> Iterator[str]:
    yield _head("n", "seeds differ by", "BCa", "Strata's", "ratio, BCa", "ratio, Strata's")
    for n in SEEDS:
        for apart in APART:
            found = coverage_of_percentiles(apart, n, repetitions)
            yield _row(n, apart, *(f"{100 * share:.1f}" for share in found.values()))


def _rows_without_pairs(repetitions: int) -> Iterator[str]:
    sizes = ((6, 6), (10, 10), (20, 20), (6, 20))
    yield _head("shape", *(f"{one} and {other}" for one, other in sizes))
    for name in MEANS:
        shares = (coverage_without_pairs(SHAPES[name], each, repetitions) for each in sizes)
        yield _row(name, *(f"{100 * share:.1f}" for share in shares))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.coverage", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10_000, help="samples of each size and shape")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS), help="sizes of samples")
    arguments = parser.parse_args()
    fewer = max(1, arguments.repetitions // 5)
    titles = ["\n99th percentiles of merged histograms\n"], ["\nWithout pairs\n"]
    rows = _rows(arguments.repetitions, arguments.seeds)
    for line in chain(rows, titles[0], _percentile_rows(fewer), titles[1], _rows_without_pairs(fewer)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
