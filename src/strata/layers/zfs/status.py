# SPDX-License-Identifier: Apache-2.0
"""The output of ``zpool``: damage, scrubs, free space."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from strata.model.step import literal

# Prints `zpool status`; exits 1 if a device counts wrong checksums, in its last column, or files are damaged.
# A disk that is rebuilt lacks blocks, which ZFS may read from it, mends, and counts. It is marked, or below
# the group that it makes with the lost disk.
FIND_ERRORS: Final = literal(
    "open my $s, '-|', qw(zpool status -p), @ARGV or die $!; my ($bad, $group) = 0; "
    r"while (<$s>) { print; $bad = 1 if /^errors: (?!No known)/; "
    r"my ($in, $name, $wrong) = /^(\s+)(\S+)\s+[A-Z]+(?:\s+\d+){2}\s+(\d+)/ or next; $in = length $in; "
    r"undef $group if defined $group and $in <= $group; "
    r"$group //= $in if $name =~ /^(?:spare|replacing)-\d+$/; "
    r"$bad = 1 if $wrong and not defined $group and not /\(resilvering\)/ } "
    "close $s or die; exit $bad"
)
_REBUILT_GROUP: Final = re.compile(r"(?:spare|replacing)-\d+")

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
    """The counts of the devices in the table of ``zpool status``: the leaves of its indented tree.

    A disk that is rebuilt is left out, as by ``FIND_ERRORS``.
    """
    table = re.split(r"\n\s+NAME\s+STATE\s+READ\s+WRITE\s+CKSUM.*\n", status)[-1].split("\n\n")[0]
    rows = [(len(row) - len(row.lstrip()), row.split()) for row in table.splitlines()]
    group: int | None = None
    for (indent, columns), (following, _) in zip(rows, [*rows[1:], (0, [])], strict=True):
        if group is not None and indent <= group:
            group = None
        if group is None and columns and _REBUILT_GROUP.fullmatch(columns[0]):
            group = indent
        counts = len(columns) >= _COLUMNS and columns[_COLUMNS - 1].isdigit()
        if counts and following <= indent and group is None and "(resilvering)" not in columns:
            yield int(columns[_COLUMNS - 1])
