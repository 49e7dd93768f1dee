# SPDX-License-Identifier: Apache-2.0
"""Seeds whose values lie far from those of the others: labelled, never dropped."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strata.statistics.interval import PRACTICAL_ZONE

SEEDS_MIN: Final = 5
# J. Tukey, "Exploratory Data Analysis", 1977: beyond three interquartile ranges a value is "far out".
FENCE: Final = 3.0
# B. Iglewicz, D. Hoaglin, "How to Detect and Handle Outliers", 1993. Of few values it is exceeded by chance:
# of six normal ones in 15 % of the cases, so that there the limit is that of hyperfine: 14.826 deviations.
MODIFIED_Z: Final = 3.5
MODIFIED_Z_OF_FEW: Final = 10.0
FEW: Final = 10

_NORMAL_QUARTILE: Final = 0.6745


@dataclass(frozen=True)
class Outlier:
    """One seed's value that lies far from the others.

    Attributes:
        modified_z: Its distance from the median, in median absolute deviations, times 0.6745; infinite where
            at least half of the values are the same.
        ratio: To the median; None where this is 0.
    """

    seed: int
    value: float
    modified_z: float
    ratio: float | None


def outliers(values: Mapping[int, float]) -> tuple[Outlier, ...]:
    """The seeds that are outliers by both Tukey's and Iglewicz and Hoaglin's rule, in order of seeds.

    Positive values are judged by their logarithms; fewer than five values have no outliers.
    """
    if len(values) < SEEDS_MIN:
        return ()
    positive = min(values.values()) > 0
    scaled = {seed: math.log(value) if positive else value for seed, value in values.items()}
    median = statistics.median(scaled.values())
    away = {seed: abs(value - median) for seed, value in scaled.items()}
    practical = PRACTICAL_ZONE if positive else PRACTICAL_ZONE * abs(median)
    if max(away.values()) <= practical:
        return ()
    deviation = statistics.median(away.values())
    first, _, third = statistics.quantiles(scaled.values(), n=4, method="inclusive")
    limit = MODIFIED_Z_OF_FEW if len(values) < FEW else MODIFIED_Z
    middle = statistics.median(values.values())
    found = []
    for seed in sorted(values):
        score = _NORMAL_QUARTILE * away[seed] / deviation if deviation > 0 else math.inf
        beyond = max(first - scaled[seed], scaled[seed] - third)
        if away[seed] > practical and beyond > FENCE * (third - first) and score > limit:
            ratio = values[seed] / middle if middle else None
            found.append(Outlier(seed, values[seed], score, ratio))
    return tuple(found)
