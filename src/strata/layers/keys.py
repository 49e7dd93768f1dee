# SPDX-License-Identifier: Apache-2.0
"""Validators of keys that several layers have, and the check of spare disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import AfterValidator

from strata.spec.names import Diagnostic
from strata.units import describe_size, is_power_of_two


def power_of_two(least_bytes: int, most_bytes: int | None = None) -> AfterValidator:

    def check(size_bytes: int) -> int:
        if not is_power_of_two(size_bytes) or not least_bytes <= size_bytes <= (most_bytes or size_bytes):
            bounds = f"from {describe_size(least_bytes)} " + (
                "on" if most_bytes is None else f"to {describe_size(most_bytes)}"
            )
            raise Diagnostic(
                f"{describe_size(size_bytes)} is not a power of two {bounds}",
                remedy="leave it out for the default",
            )
        return size_bytes

    return AfterValidator(check)


def multiple_of(unit_bytes: int, least_bytes: int = 0, most_bytes: int | None = None) -> AfterValidator:
    bounds = f", {describe_size(least_bytes)} at least" if least_bytes else ""
    bounds += f", {describe_size(most_bytes)} at most" if most_bytes else ""

    def check(size_bytes: int) -> int:
        if size_bytes % unit_bytes or not least_bytes <= size_bytes <= (most_bytes or size_bytes):
            raise Diagnostic(
                f"{describe_size(size_bytes)} is not a multiple of {describe_size(unit_bytes)}{bounds}",
                remedy=f'write for example "{describe_size(max(least_bytes, 4 * unit_bytes))}"',
            )
        return size_bytes

    return AfterValidator(check)


def whole(unit_ns: int, units: str) -> AfterValidator:
    """A duration in whole units, which the kernel takes."""

    def check(duration_ns: int) -> int:
        if duration_ns % unit_ns:
            raise Diagnostic(f"the kernel takes whole {units}", remedy='write for example "30s"')
        return duration_ns

    return AfterValidator(check)


def spare_diagnostics(
    spares: Sequence[str], named: Mapping[str, int], least_bytes: int
) -> Iterable[Diagnostic]:
    """Refuse spares, of the capacities ``named``, that are smaller than a disk that they may replace."""
    for name in spares:
        if named[name] < least_bytes:
            yield Diagnostic(
                f"the spare {name} is smaller than a disk whose place it may take",
                remedy=f"name one of {describe_size(least_bytes)} at least",
                key="spares",
            )
