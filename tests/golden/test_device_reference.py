# SPDX-License-Identifier: Apache-2.0
"""The reference of device files has every parameter as the code has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from strata.devices.kind import PUBLISHED, ParameterSpec, Spread
from strata.devices.kinds import KINDS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "device-file.md"
MARK = "--update-golden` from the kinds' PARAMETERS. -->\n"


def number(value: float) -> str:
    """As a person would write it: powers of two of sizes as such, no exponents for what is short."""
    if value >= 1 << 20 and value == int(value) and int(value) & (int(value) - 1) == 0:
        return f"2^{int(value).bit_length() - 1}"
    return f"{value:,.12g}".replace(",", " ")


def values(spec: ParameterSpec) -> str:
    if spec.text:
        return ", ".join(f"`{choice}`" for choice in spec.choices) or "a text"
    whole = ", whole" if spec.whole else ""
    return f"{number(spec.minimum)} to {number(spec.maximum)}{whole}"


def default(spec: ParameterSpec) -> str:
    if spec.default is None:
        return ""
    return number(spec.default) if not isinstance(spec.default, str) else "none"


def plausible(spread: Spread | None) -> str:
    if spread is None:
        return ""
    factors = "fixed" if spread.low is None else f"× {spread.low:g} to {spread.high:g}"
    return f"{factors}: {spread.reason}"


def table(parameters: Mapping[str, ParameterSpec], spreads: Mapping[str, Spread] = {}) -> str:
    """One row for each parameter; the columns of defaults and of ranges only where there are any."""
    optional = any(spec.default is not None for spec in parameters.values())
    head = ["Parameter", "Meaning", "Unit", "Values"] + ["Default"] * optional
    head += ["An estimate's range without a stated one"] * bool(spreads)
    rows = [head, ["---"] * len(head)]
    for name, spec in parameters.items():
        row = [f"`{name}`", spec.meaning, spec.unit, values(spec)]
        row += [default(spec)] * optional + [plausible(spreads.get(name))] * bool(spreads)
        rows.append(row)
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def reference() -> str:
    """All that is generated of the page."""
    kinds = [
        f"\n## `{k.name}`\n\n{k.introduction}\n\n{table(k.parameters, k.spreads)}" for k in KINDS.values()
    ]
    return "".join(kinds) + f"\n## `[published]`\n\nAll are optional.\n\n{table(PUBLISHED)}"


def test_the_reference_of_device_files_has_every_parameter(request: pytest.FixtureRequest) -> None:
    page, mark, generated = REFERENCE.read_text().partition(MARK)
    assert mark, f"{REFERENCE.name} has lost the line above its generated part"
    if request.config.getoption("--update-golden"):
        REFERENCE.write_text(page + mark + reference())
        return
    assert generated == reference(), "pytest tests/golden/test_device_reference.py --update-golden"
