# SPDX-License-Identifier: Apache-2.0
"""``strata lab lock``, of `make lock`."""

from __future__ import annotations

from typing import Annotated

from strata.cli.parameters import option
from strata.lab.progress import console_progress
from strata.lab.upkeep import refresh_lock


def lock(
    keep: Annotated[bool, option("Keep the locked versions that the mirror still has.", "--keep")] = False,
) -> None:
    """Rewrite image/packages.lock from what the Debian mirror has now."""
    print(f"wrote {refresh_lock(console_progress(), keep=keep)}")
