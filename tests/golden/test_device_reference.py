# SPDX-License-Identifier: Apache-2.0
"""The reference of device files has every parameter as the code has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from strata.spec.device import PARAMETERS
from strata.spec.device_kinds.parameter import Expected
from strata.spec.device_kinds.published import PUBLISHED

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "device-file.md"
MARK = "--update-golden` from the kinds' PARAMETERS. -->\n"

INTRODUCTIONS = {
    "rotating": "A disk with one mechanism: seek, rotation, queue, caches; optionally shingled.",
    "flash": "Dies behind channels behind a link, a write buffer, a map and its cleaning.",
    "controller": "A write cache that a battery keeps, before member disks. `member` names another device,"
    " as a study does; `capacity` follows from level and members.",
    "network": "A volume in the network: token buckets, then a latency that is drawn.",
    "null": "A disk that takes no time: what remains is the software above it.",
}


def number(value: float) -> str:
    """As a person would write it: powers of two of sizes as such, no exponents for what is short."""
    if value >= 1 << 20 and value == int(value) and int(value) & (int(value) - 1) == 0:
        return f"2^{int(value).bit_length() - 1}"
    return f"{value:,.12g}".replace(",", " ")


def values(expected: Expected) -> str:
    if expected.text:
        return ", ".join(f"`{choice}`" for choice in expected.choices) or "a text"
    whole = ", whole" if expected.whole else ""
    return f"{number(expected.minimum)} to {number(expected.maximum)}{whole}"


def default(expected: Expected) -> str:
    if expected.default is None:
        return ""
    return number(expected.default) if not isinstance(expected.default, str) else "none"


def table(parameters: Mapping[str, Expected]) -> str:
    """One row for each parameter; the column of defaults only where there is one."""
    optional = any(expected.default is not None for expected in parameters.values())
    head = ["Parameter", "Meaning", "Unit", "Values"] + ["Default"] * optional
    rows = [head, ["---"] * len(head)]
    for name, expected in parameters.items():
        row = [f"`{name}`", expected.meaning, expected.unit, values(expected)]
        rows.append(row + [default(expected)] * optional)
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def reference() -> str:
    """All that is generated of the page."""
    kinds = [f"\n## `{kind}`\n\n{INTRODUCTIONS[kind]}\n\n{table(PARAMETERS[kind])}" for kind in PARAMETERS]
    return "".join(kinds) + f"\n## `[published]`\n\nAll are optional.\n\n{table(PUBLISHED)}"


def test_the_reference_of_device_files_has_every_parameter(request: pytest.FixtureRequest) -> None:
    page, mark, generated = REFERENCE.read_text().partition(MARK)
    assert mark, f"{REFERENCE.name} has lost the line above its generated part"
    if request.config.getoption("--update-golden"):
        REFERENCE.write_text(page + mark + reference())
        return
    assert generated == reference(), "pytest tests/golden/test_device_reference.py --update-golden"


def test_every_kind_is_introduced() -> None:
    assert set(INTRODUCTIONS) == set(PARAMETERS)
