# SPDX-License-Identifier: Apache-2.0
"""One trial at a time on a machine, over all runs: two would disturb each other's wall time.

Two trials of one seed also make filesystems with the same UUID, which btrfs refuses.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.files import explained
from strata.runners.base import Cancelled, Progress, Task

_LOCK: Final = Path("/run/strata-host.lock")  # only root may write to its folder
_POLL_S: Final = 0.2


@contextmanager
def turn(task: Task, lock: Path = _LOCK) -> Iterator[None]:
    """Wait until no other run has a trial on this machine, then keep others waiting.

    Raises Cancelled, LabError.
    """
    with explained(lock, "take turns with other runs", LabError):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while not try_lock(descriptor):
            task.report(Progress("waiting for another run's trial on this machine", "", 0))
            if task.cancel.wait(_POLL_S):
                raise Cancelled
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file unless it is locked already."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
