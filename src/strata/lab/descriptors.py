# SPDX-License-Identifier: Apache-2.0
"""The limit of open files: raised if that is allowed, else an error before anything begins."""

from __future__ import annotations

import resource
from typing import Final

from strata.errors import ToolError

# What Python, the console, DuckDB and the results take, and the numbers from which a lab's are copied.
_OWN: Final = 192
_PER_TRIAL: Final = 24
_PER_DISK: Final = 4


def provide_descriptors(trials: int, disks: int) -> None:
    """See that this many trials, each with this many disks, can run at once.

    The limit is inherited by what is measured, so it is raised only where it is too low.

    Raises:
        ToolError: If it is too low and may not be raised.
    """
    needed = _OWN + trials * (_PER_TRIAL + _PER_DISK * disks)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ToolError(
            f"at most {hard} files may be open at once, and this needs {needed}",
            place="ulimit -n",
            remedy="raise the limit in /etc/security/limits.conf, or where this shell was started; "
            "fewer --jobs need fewer",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
