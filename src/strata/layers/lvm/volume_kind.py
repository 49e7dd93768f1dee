# SPDX-License-Identifier: Apache-2.0
"""The kinds of LVM's volumes: how many devices each needs, and what it can hold of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from strata.layers.lvm.volume_group import EXTENT_BYTES, extents_bytes, stripe_diagnostics
from strata.spec.layer import Provided
from strata.spec.names import Diagnostic

Kind = Literal["linear", "striped", "raid1", "raid10", "raid5"]
"""The type of a volume, as ``lvcreate --type`` takes it."""

_DISKS_MIN: Final = {"linear": 1, "striped": 2, "raid1": 2, "raid10": 4, "raid5": 3}


def device_diagnostics(kind: Kind, devices: int, stripes: int | None) -> Iterable[Diagnostic]:
    least = _DISKS_MIN[kind]
    if devices < least:
        yield Diagnostic(
            f"the type {kind} needs {least} devices, and it stands on {devices}",
            remedy='take type = "linear", or name more disks in `devices`',
            key="type",
        )
    elif kind == "raid10" and devices % 2:
        yield Diagnostic(
            f"raid10 needs pairs of devices, and it stands on {devices}",
            remedy="leave one out of the stack's `devices`",
            key="type",
        )
    elif kind == "striped":
        yield from stripe_diagnostics(stripes, devices)


def room_of(kind: Kind, lower: Provided) -> int:
    """The bytes that volumes of this kind can hold in a group on these devices."""
    smallest = extents_bytes(lower.of(lower.smallest_bytes))
    if kind == "linear":
        return extents_bytes(lower)
    if kind == "striped":
        return smallest * lower.count
    # Each device also holds an extent of metadata.
    data = {"raid1": 1, "raid10": lower.count // 2, "raid5": lower.count - 1}[kind]
    return max(0, smallest - EXTENT_BYTES) * data


def stripes_of(kind: Kind, stripes: int | None, devices: int) -> int | None:
    """Over how many devices data are striped, copies and parities not counted; None: over none.

    Args:
        kind: The volume's.
        stripes: What the study says for a striped one; None: all.
        devices: How many there are.
    """
    if kind == "striped":
        return stripes or devices
    return {"raid10": devices // 2, "raid5": devices - 1}.get(kind)
