# SPDX-License-Identifier: Apache-2.0
"""Common to the keys of several layers: validators of sizes and durations, forms of options, spare disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StrictInt

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.model.allowed import FLAG, INTEGER, SWITCH, form, given, named, one_of
from strata.model.layer import Provided
from strata.units import describe_size, is_power_of_two

flags: Final = partial(named, value=FLAG)
numbers: Final = partial(named, value=INTEGER)
switches: Final = partial(named, value=SWITCH)

# A machine may look for its own disks by their labels, and its udev sees these.
LABEL: Final = form(
    r"strata[A-Za-z0-9._-]{0,6}", 'a label that begins with "strata", of 12 characters at most'
)
ON_OFF: Final = one_of("on", "off")
OPTIONAL_INTEGER: Final = form(r"\d{1,9}", "a whole number", optional=True)
OPTIONAL_SWITCH: Final = one_of("0", "1", optional=True)
UUID: Final = given("the UUID derives from the trial's seed: leave it out")
HERE_ALREADY: Final = given("it is given already: leave it out")
NOTHING_MADE: Final = given("it would make nothing: leave it out")
CAPACITY: Final = given("give the device less `capacity` instead")
PROJECT_QUOTA: Final = named("pquota prjquota pqnoenforce", given("write project_quota = true instead"))

MOUNT: Final = flags(
    "async sync dirsync atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime "
    "lazytime nolazytime iversion noiversion nodev noexec nosuid nosymfollow defaults"
)
"""The options of mount(8) that every filesystem takes."""

ReadAhead = Annotated[
    Annotated[StrictInt, Field(ge=0, le=1 << 20)] | None,
    Field(examples=[4096], exclude_if=lambda value: value is None),
]
"""The most that a layer's device reads ahead, in KiB; None for its own default."""


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


def cache_structures(sizes_bytes: Iterable[int], what: str) -> Iterable[Structure]:
    """The cache of a layer, on devices of these sizes."""
    if cache_bytes := sum(sizes_bytes):
        why = "the devices below are hardly read, and writes reach them at leisure"
        yield Structure(what, cache_bytes, why, is_purpose=True)


def aligned_bytes(size_bytes: int, lower: Provided) -> int:
    """The size rounded up to full stripes, so that what follows is aligned to the layers below."""
    stripe_bytes = lower.geometry.stripe_bytes if lower.geometry else 1
    return -(-size_bytes // stripe_bytes) * stripe_bytes
