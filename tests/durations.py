# SPDX-License-Identifier: Apache-2.0
"""How long the tests take, as `make durations` has recorded it in durations.md."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

RECORD: Final = Path(__file__).with_name("durations.md")
FILES_FROM_S: Final = 2.0
SLOWEST: Final = 10
_ROW: Final = re.compile(r"^\| `([^`]+)` \| ([\d.]+) \|(?: (.*) \|)?$", re.MULTILINE)
_HEAD: Final = """\
# How long the tests take

Seconds of `make test`; `make durations` measures them anew and keeps the reasons. {how}
`tests/conftest.py` begins with the files that take longest, so that the workers end at the same time.

## Files

{total:.0f} s in all, of which {others:.0f} s in files of less than {from_s:.0f} s.

| file | s |
|---|---|
{files}

## The slowest tests

The time of what tests share counts for the first of them.

| test | s | why it is worth its time |
|---|---|---|
{tests}
"""


def seconds(text: str | None = None) -> dict[str, float]:
    """The recorded seconds of each file and of each of the slowest tests."""
    return {name: float(value) for name, value, _ in _ROW.findall(text or RECORD.read_text())}


def reasons(text: str | None = None) -> dict[str, str]:
    """Why each of the slowest tests is worth its time."""
    return {name: why for name, _, why in _ROW.findall(text or RECORD.read_text()) if "::" in name}


def record(found: Iterable[tuple[str, float]], how: str, known: Mapping[str, str]) -> str:
    """The text of durations.md for the seconds of tests by their node ids, of which one may come again."""
    tests: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for test, duration_s in found:
        tests[test] += duration_s
        files[test.partition("::")[0]] += duration_s
    long = {name: total for name, total in files.items() if total >= FILES_FROM_S}
    slowest = sorted(tests, key=lambda name: (-tests[name], name))[:SLOWEST]
    return _HEAD.format(
        how=how,
        total=sum(files.values()),
        others=sum(files.values()) - sum(long.values()),
        from_s=FILES_FROM_S,
        files="\n".join(
            f"| `{name}` | {long[name]:.1f} |" for name in sorted(long, key=lambda name: -long[name])
        ),
        tests="\n".join(f"| `{name}` | {tests[name]:.1f} | {known.get(name, '')} |" for name in slowest),
    )
