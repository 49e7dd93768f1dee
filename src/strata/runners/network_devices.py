# SPDX-License-Identifier: Apache-2.0
"""Network block devices for a trial on a host; each free device serves one trial.

Numbers are soon reused. A trial recognises its own connection by the process that made it, which is noted in
its folder while it runs.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.files import explained
from strata.machine.reading import SystemFiles

CONNECTIONS_NAME: Final = "connections.json"
"""The file of a private folder that holds the process that connected each of the trial's devices."""

_NAME = re.compile(r"nbd[0-9]+")


@contextmanager
def network_devices(wanted: Sequence[str], root: Path = Path("/")) -> Iterator[dict[str, str]]:
    """A free device for each variable, kept from other trials inside the context.

    Raises LabError if too few are free.
    """
    with ExitStack() as taken:
        found: list[str] = []
        for device in _devices(root):
            if len(found) == len(wanted):
                break
            if _is_free(root, device) and (lock := take(device)) is not None:
                taken.enter_context(lock)
                if _is_free(root, device):  # check again, now that it is reserved
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


def take(device: str) -> socket.socket | None:
    """Reserve a device until the returned socket is closed; None if another trial has it.

    An abstract address can be bound once, and becomes free whenever its owner ends.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0strata/{device}")
    except OSError:
        lock.close()
        return None
    return lock


@dataclass
class Connections:
    """The connections of a trial's devices, noted in its private folder."""

    folder: Path
    devices: Sequence[str]
    root: Path = Path("/")
    _recorded: dict[str, str] = field(default_factory=dict)

    def record(self) -> None:
        """Note who has connected them; not durably, since a restart ends the connections. Raises LabError."""
        names = [device.removeprefix("/dev/") for device in self.devices]
        now = {name: pid for name in names if (pid := _connected_by(self.root, name))}
        if now == self._recorded:
            return
        part = self.folder / f"{CONNECTIONS_NAME}.part"
        with explained(part, "note the network block devices", LabError):
            part.write_text(json.dumps(now))
            part.replace(self.folder / CONNECTIONS_NAME)
        self._recorded = now


def connections_left(folder: Path, root: Path) -> set[str]:
    """The devices that are still connected as noted in a trial's folder."""
    with suppress(OSError, ValueError, AttributeError):
        recorded = json.loads((folder / CONNECTIONS_NAME).read_text())
        return {name for name, pid in recorded.items() if pid and pid == _connected_by(root, name)}
    return set()


def _connected_by(root: Path, device: str) -> str:
    return SystemFiles(root).text(f"sys/block/{device}/pid")
