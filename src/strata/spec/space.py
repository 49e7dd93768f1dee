# SPDX-License-Identifier: Apache-2.0
"""Whether a workload's data set fits on a stack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from strata.spec.names import Diagnostic
from strata.units import describe_size

_MIB: Final = 1 << 20

USABLE_TENTHS: Final = 9
"""How much of a stack's capacity data may take: an estimate of what metadata leave, in tenths."""


def space_diagnostics(what: str, needed_bytes: int, capacity_bytes: int, *, key: str) -> Iterable[Diagnostic]:
    """Refuse data that do not fit: ``what`` of ``needed_bytes``, on stacks of ``capacity_bytes`` at least."""
    if needed_bytes * 10 > capacity_bytes * USABLE_TENTHS:
        yield Diagnostic(
            f"{what} of {_rounded(needed_bytes, up=True)} do not fit: "
            f"the smallest stack (or a tenant's part of it) holds {_rounded(capacity_bytes)}",
            remedy=f"shrink {key}, or raise the `capacity` of the devices",
            key=key,
        )


def _rounded(size_bytes: int, *, up: bool = False) -> str:
    """A size in whole MiB, if it is one at least: what a part of a stack holds is an odd number of bytes."""
    if size_bytes < _MIB:
        return describe_size(size_bytes)
    return describe_size((-(-size_bytes // _MIB) if up else size_bytes // _MIB) * _MIB)
