# SPDX-License-Identifier: Apache-2.0
"""Spare disks: what the layers that have them ask of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from strata.spec.names import Diagnostic
from strata.units import describe_size


def spare_diagnostics(
    spares: Sequence[str], named: Mapping[str, int], least_bytes: int
) -> Iterable[Diagnostic]:
    """Refuse spares that are smaller than what they may have to replace.

    Args:
        spares: The study's devices that stand by.
        named: The capacity in bytes of each.
        least_bytes: What a spare must hold.
    """
    for name in spares:
        if named[name] < least_bytes:
            yield Diagnostic(
                f"the spare {name} is smaller than a disk whose place it may take",
                remedy=f"name one of {describe_size(least_bytes)} at least",
                key="spares",
            )
