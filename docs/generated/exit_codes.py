# SPDX-License-Identifier: Apache-2.0
"""What the exit status of `strata` says."""

from __future__ import annotations

from generated.markdown import code, prose, table
from strata.cli.reference import EXIT_CODES


def part() -> str:
    """A row for each."""
    return table(("Exit code", "Meaning"), [(code(each.code), prose(each.meaning)) for each in EXIT_CODES])
