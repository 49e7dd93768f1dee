# SPDX-License-Identifier: Apache-2.0
"""``strata lab remove``: delete outdated parts of the lab from the caches."""

from __future__ import annotations

from typing import Annotated

from strata.cli.output import print_json
from strata.cli.parameters import AsJson, option
from strata.lab.upkeep import clean_caches
from strata.units import format_size


def remove(
    everything: Annotated[bool, option("Also current parts, kernel source and logs.", "--all")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete outdated parts and build leftovers from the caches.

    Examples:
        strata lab remove
        strata lab remove --all
    """
    freed_bytes = clean_caches(everything=everything)
    if as_json:
        print_json(freed_bytes=freed_bytes)
    else:
        print(f"freed {format_size(freed_bytes)}")
