# SPDX-License-Identifier: Apache-2.0
"""Network block devices for a trial on a host: each free one is taken by one trial only."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from strata.errors import LabError
from strata.plan.model import Plan

_NAME = re.compile(r"nbd[0-9]+")


def wanted_devices(plan: Plan) -> list[str]:
    """The variables of a plan that stand for a network block device."""
    return [name for name in plan.variables if name.startswith("nbd-")]


@contextmanager
def network_devices(wanted: Sequence[str], root: Path = Path("/")) -> Iterator[dict[str, str]]:
    """A free device for each variable, kept from other trials on this machine while the context lasts.

    Raises:
        LabError: If there are too few.
    """
    with ExitStack() as taken:
        found: list[str] = []
        for device in _devices(root):
            if len(found) == len(wanted):
                break
            if _is_free(root, device) and (lock := _lock(device)) is not None:
                taken.enter_context(lock)
                if _is_free(root, device):  # still, now that nobody of Strata's can take it
                    found.append(device)
        if len(found) < len(wanted):
            raise LabError(
                f"{len(wanted)} network block devices are needed, and only {len(found)} are free",
                place="/sys/block/nbd*",
                remedy="load the driver with more: `modprobe -r nbd; modprobe nbd nbds_max=64`",
            )
        yield {name: f"/dev/{device}" for name, device in zip(wanted, found, strict=True)}


def _devices(root: Path) -> list[str]:
    names = [path.name for path in (root / "sys/block").glob("nbd*") if _NAME.fullmatch(path.name)]
    return sorted(names, key=lambda name: int(name.removeprefix("nbd")))


def _is_free(root: Path, device: str) -> bool:
    return not (root / "sys/block" / device / "pid").exists()


def _lock(device: str) -> socket.socket | None:
    """An abstract address can be bound once, and is free again when its owner ends, however it ends."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0strata/{device}")
    except OSError:
        lock.close()
        return None
    return lock
