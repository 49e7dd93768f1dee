# SPDX-License-Identifier: Apache-2.0
"""From a flash drive's parameters to the integers of ``kernel/disk/flash.c``."""

from __future__ import annotations

from strata.spec.device import Device


def driver_lines(device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
    """The driver's keys of a flash drive of which the first ``capacity_sectors`` are used."""
    return []
