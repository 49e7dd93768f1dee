# SPDX-License-Identifier: Apache-2.0
"""Rounding for the driver's integers.

Only ``+ - * / sqrt`` on floats are used, which IEEE 754 rounds correctly everywhere, and everything is
rounded to integers here: so the text is the same on every machine.
"""

from __future__ import annotations

import math


def nearest(value: float) -> int:
    """The nearest integer, halves upwards."""
    return math.floor(value + 0.5)
