# SPDX-License-Identifier: Apache-2.0
"""A flash drive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.spec.device_kinds.parameter import CAPACITY, QUEUE_DEPTH, Expected, Parameters, Require

PARAMETERS: Final[Mapping[str, Expected]] = {"capacity": CAPACITY, "queue_depth": QUEUE_DEPTH}


def check(parameters: Parameters, require: Require) -> None:
    """No relations between the parameters."""
