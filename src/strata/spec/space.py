# SPDX-License-Identifier: Apache-2.0
"""Whether a workload's data set fits on a stack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from strata.spec.names import Refusal
from strata.units import describe_size

USABLE_TENTHS: Final = 9
"""How much of a stack's capacity data may take: an estimate of what metadata leave, in tenths."""


def space_refusals(what: str, needed_bytes: int, capacity_bytes: int, *, key: str) -> Iterable[Refusal]:
    """Refuse data that do not fit: ``what`` of ``needed_bytes``, on stacks of ``capacity_bytes`` at least."""
    if needed_bytes * 10 > capacity_bytes * USABLE_TENTHS:
        yield Refusal(
            f"{what} of {describe_size(needed_bytes)} do not fit: "
            f"the smallest stack holds {describe_size(capacity_bytes)}",
            remedy=f"shrink {key}, or raise the `capacity` of the devices",
            key=key,
        )
