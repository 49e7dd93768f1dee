# SPDX-License-Identifier: Apache-2.0
"""The output of ``zpool``: damage, scrubs, free space."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from strata.spec.step import literal

# Prints `zpool status`; exits 1 if a device counts wrong checksums, in its last column, or files are damaged.
FIND_ERRORS: Final = literal(
    "open my $s, '-|', qw(zpool status -p), @ARGV or die $!; "
    r"while (<$s>) { print; $bad = 1 if /^\s+\S+\s+[A-Z]+(\s+\d+){2}\s+[1-9]/ or /^errors: (?!No known)/ } "
    "close $s or die; exit $bad"
)

# The end of the scrub's line, and the columns of the table of devices.
_UNMENDED: Final = re.compile(r"scan: .* with (\d+) errors")
_CLEAN: Final = re.compile(r"scan: scrub repaired 0B? in .* with 0 errors")
_COLUMNS: Final = 5


def scrub_errors(status: str) -> int:
    """The wrong checksums of all devices, and the uncorrected errors.

    The devices' counts include earlier errors, so a scrub that repaired nothing and left nothing found none.
    """
    unmended = _UNMENDED.search(status)
    if _CLEAN.search(status):
        return 0
    return sum(_wrong_checksums(status)) + int(unmended[1] if unmended else 0)


def _wrong_checksums(status: str) -> Iterator[int]:
    """The counts of the devices in the table of ``zpool status``: the leaves of its indented tree."""
    table = re.split(r"\n\s+NAME\s+STATE\s+READ\s+WRITE\s+CKSUM.*\n", status)[-1].split("\n\n")[0]
    rows = table.splitlines()
    for row, following in zip(rows, [*rows[1:], ""], strict=True):
        columns = row.split()
        is_leaf = len(following) - len(following.lstrip()) <= len(row) - len(row.lstrip())
        if is_leaf and len(columns) >= _COLUMNS and columns[_COLUMNS - 1].isdigit():
            yield int(columns[_COLUMNS - 1])
