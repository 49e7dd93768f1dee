# SPDX-License-Identifier: Apache-2.0
"""From a volume in the network's parameters to the integers of ``kernel/disk/network.c``."""

from __future__ import annotations

from strata.spec.device import Device


def driver_lines(device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
    """The driver's keys of a volume in the network of which the first ``capacity_sectors`` are used."""
    return []
