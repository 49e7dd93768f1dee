# SPDX-License-Identifier: Apache-2.0
"""Distributions that measured values may have, by which intervals and tests are tried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from strata.statistics.interval import Floats

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


@dataclass(frozen=True)
class Shape:
    """A distribution of logarithms of values, or of ratios, up to place and scale.

    Attributes:
        draw: Draws an array of a size.
        mean: What the draws' mean tends to.
        means: What it stands for.
    """

    draw: Draw
    mean: float
    means: str


def _contaminated(rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
    return np.asarray(rng.standard_normal(size) * np.where(rng.random(size) < 0.1, 5.0, 1.0))


SHAPES: Final[Mapping[str, Shape]] = {
    "normal": Shape(lambda rng, size: rng.standard_normal(size), 0.0, "values are log-normal"),
    "skewed": Shape(
        lambda rng, size: np.exp(0.5 * rng.standard_normal(size)),
        float(np.exp(0.125)),
        "log-normal, sigma 0.5: skewness 1.75",
    ),
    "very skewed": Shape(lambda rng, size: rng.exponential(1.0, size), 1.0, "exponential: skewness 2"),
    "heavy tails": Shape(lambda rng, size: rng.standard_t(3, size), 0.0, "Student's t with 3 degrees"),
    "double exponential": Shape(lambda rng, size: rng.laplace(0.0, 1.0, size), 0.0, "Laplace's: kurtosis 6"),
    "outliers": Shape(_contaminated, 0.0, "normal, one in ten five times as wide"),
    "uniform": Shape(lambda rng, size: rng.uniform(-1.0, 1.0, size), 0.0, "no tails"),
}
