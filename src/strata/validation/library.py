# SPDX-License-Identifier: Apache-2.0
"""The devices that subjects are examined on."""

from __future__ import annotations

import functools

from strata.spec.device import Device, bundled_devices, find_device

RE4 = "wd-re4-500gb"
"""The drive of the examples: of the most ordinary kind, with every mechanism."""


@functools.cache
def devices(*kinds: str) -> tuple[Device, ...]:
    """The bundled devices of these kinds, or all."""
    every = (find_device(name) for name in bundled_devices())
    return tuple(device for device in every if not kinds or device.kind in kinds)


def conventional() -> tuple[Device, ...]:
    """The rotating disks that are not shingled: for those, the closed forms hold."""
    return tuple(d for d in devices("rotating") if not d.number("shingle_cache"))
