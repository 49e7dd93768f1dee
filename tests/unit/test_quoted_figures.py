# SPDX-License-Identifier: Apache-2.0
"""README and tutorial quote the kept records' figures and no other ones: `make figures` renews them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from strata.units import format_value, percent, times

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {"quickstart": ROOT / "README.md", "cow": ROOT / "docs/tutorial/first-study.md"}
RENEW: Final = "not in tests/records; `make figures` measures and keeps them anew"
COLUMNS: Final = (("oltp", "transactions_per_s"), ("random-mix", "operations_per_s"))
TAIL: Final = ("oltp", "latency_ns_p99")


def kept(study: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((ROOT / f"tests/records/{study}.json").read_text())
    return record


def words(text: str) -> str:
    """The text without emphasis and line breaks."""
    return re.sub(r"\s+", " ", text.replace("**", "")).strip()


def cells(record: dict[str, Any], stack: str) -> Iterator[str]:
    """A stack's row of README's table, without emphasis."""
    shown = {(row["workload"], row["metric"], row["stack"]): row for row in record["shown"]}
    yield stack
    for workload, metric in COLUMNS:
        row = shown[workload, metric, stack]
        spread = (row["maximum"] - row["minimum"]) / 2 / row["estimate"]
        yield f"{format_value(row['estimate'], row['unit'])} ±{percent(spread)}"
        yield to_best(row)
        if workload == TAIL[0]:
            row = shown[*TAIL, stack]
            yield format_value(row["estimate"], row["unit"])


def to_best(row: dict[str, Any]) -> str:
    if row["verdict"] in ("best", "worse"):
        return "best" if row["verdict"] == "best" else times(row["ratio_to_best"])
    return f"no difference shown ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})"


def test_the_table_of_the_readme_is_the_quickstarts() -> None:
    record, readme = kept("quickstart"), words(PAGES["quickstart"].read_text())

    stacks = dict.fromkeys(row["stack"] for row in record["shown"])
    missing = [
        row for row in (f"| {' | '.join(cells(record, stack))} |" for stack in stacks) if row not in readme
    ]

    assert not missing, f"README.md's table lacks the rows of tests/records/quickstart.json: {missing}"


def test_what_commands_print_is_quoted_as_they_print_it() -> None:
    """Blocks of output line by line, and quotations piece by piece, where `[…]` leaves something out."""
    for study in PAGES:
        page = PAGES[study].read_text()
        printed = words(" ".join(line for lines in kept(study)["printed"].values() for line in lines))
        lines = [
            line
            for block in re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
            for line in block.splitlines()
        ]
        quoted = re.findall(r"(?:^> .*\n)+", page, re.MULTILINE) if study == "cow" else [quotation(page)]
        pieces = [
            piece.strip(" .")
            for each in quoted
            for piece in words(each.replace("\n> ", " ")[2:]).split("[…]")
        ]

        lost = [line for line in (words(each) for each in (*lines, *pieces)) if line and line not in printed]

        assert lines or pieces
        assert not lost, f"{PAGES[study].name} quotes lines that are {RENEW}: {lost}"


def quotation(page: str) -> str:
    """README's quotation of `strata explain`: the block below the sentence that names the command."""
    found = re.search(r"`strata explain` says why.*?\n\n((?:> .*\n)+)", page)
    assert found is not None
    return found[1]
