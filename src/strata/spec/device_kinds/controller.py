# SPDX-License-Identifier: Apache-2.0
"""A RAID controller with a battery-backed write cache in front of member disks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.spec.device_kinds.parameter import QUEUE_DEPTH, Expected, Parameter, Parameters, Require, number

LEVELS: Final = ("single", "raid0", "raid10", "raid5", "raid6")
_MEMBERS_MIN: Final = {"single": 1, "raid0": 1, "raid10": 2, "raid5": 3, "raid6": 4}
_RATE_MB: Final = 17_000.0  # of the driver's link, 2^34 bytes/s

PARAMETERS: Final[Mapping[str, Expected]] = {
    "capacity": Expected(
        "addressable bytes; by default what the members give", "B", 0, 1 << 60, whole=True, default=0
    ),
    "member": Expected("device file of each member disk", "", text=True),
    "members": Expected("member disks", "1", 1, 32, whole=True),
    "level": Expected("how data lie on the members", "", text=True, choices=LEVELS),
    "stripe_size": Expected("data of one member in a row (strip, chunk)", "KiB", 4, 65_536, whole=True),
    "cache_size": Expected("write cache that the battery keeps", "MiB", 0, 1 << 20),
    "battery": Expected(
        "whether the battery is good; 0: writes go through", "1", 0, 1, whole=True, default=1
    ),
    "command_overhead": Expected("time of a command in the controller, overlapping", "us", 0, 1e6),
    "command_interval": Expected("least time between two commands' starts", "us", 0, 1e6),
    "link_rate": Expected("host to controller; 0: takes no time", "MB/s", 0, _RATE_MB),
    "high_water": Expected("dirty part of the cache at which destaging starts", "%", 1, 100, whole=True),
    "low_water": Expected("dirty part of the cache at which it stops", "%", 0, 100, whole=True),
    "destage_depth": Expected("destages at once, for each member", "1", 1, 64, whole=True),
    "destage_size": Expected("largest destage, for each member", "KiB", 4, 1 << 20, whole=True),
    "idle_time": Expected("pause of the host after which all is destaged", "ms", 0, 1e6),
    "queue_depth": QUEUE_DEPTH,
}


def check(parameters: Parameters, require: Require) -> None:
    """Level and members, and the water marks."""
    level, members = str(parameters["level"].value), int(number(parameters, "members"))
    require(
        members >= _MEMBERS_MIN[level],
        "members",
        f"{level} needs at least {_MEMBERS_MIN[level]} members",
        "add some, or choose another level",
    )
    require(
        level != "raid10" or members % 2 == 0,
        "members",
        "raid10 needs an even number of members",
        "they are pairs of mirrors",
    )
    require(
        number(parameters, "low_water") <= number(parameters, "high_water"),
        "low_water",
        "the low water mark is above the high one",
        "destaging goes from high_water down to low_water",
    )


def array_bytes(parameters: Parameters, member_bytes: int) -> int:
    """What the members hold together: whole strips of each, less mirrors and parity."""
    level, members = parameters["level"].value, int(number(parameters, "members"))
    stripe_bytes = int(number(parameters, "stripe_size")) * 1024
    used = {"raid10": members // 2, "raid5": members - 1, "raid6": members - 2}.get(str(level), members)
    return member_bytes // stripe_bytes * stripe_bytes * used


def with_capacity(parameters: Parameters, member: Parameter, require: Require) -> dict[str, Parameter]:
    """The parameters with the capacity that members of this one give, which a stated one must equal."""
    given, derived = parameters["capacity"].value, array_bytes(parameters, int(member.value))
    require(
        given in (0, derived),
        "capacity",
        f"the capacity is {given} bytes, but the members hold {derived}",
        "leave it out: it follows from level, members, stripe_size and the member's capacity",
    )
    members = int(number(parameters, "members"))
    capacity = Parameter(
        value=derived,
        unit="B",
        source=f"derived: {parameters['level'].value} over {members} x {parameters['member'].value}",
        estimate=member.estimate,
    )
    return {**parameters, "capacity": capacity}
