# SPDX-License-Identifier: Apache-2.0
"""Keeps the figures of a study that docs/explanation/findings.md states, so that a test can check them.

    .venv/bin/python scripts/findings.py results/showcase [FOLDER]

writes tests/records/showcase.json (or into FOLDER): the value of each cell, the gain over the reference,
power cuts, tipping points, and the advice for those of the uses in USES that have an answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

from strata.advice.advise import advise
from strata.advice.model import Advice
from strata.advice.uses import bundled_uses, chosen_uses
from strata.plan.catalogue import catalogue
from strata.report.advice_text import headline, reasons
from strata.report.heat_map import heat_map
from strata.report.survival import survival_tables
from strata.report.table import objects
from strata.report.tipping_text import tipping_words
from strata.results.capabilities import read_capabilities
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.results.tipping import read_tipping
from strata.statistics.study import StudyResults, gather

ROOT: Final = Path(__file__).resolve().parents[1]
USES: Final = ("home-server", "mail-server", "mysql-server", "postgresql-server", "web-server")


def main() -> int:
    """Write the record; 2 for a mistake in the command."""
    words = sys.argv[1:]
    if not 1 <= len(words) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = ResultsFolder.open(Path(words[0]))
    into = Path(words[1]) if len(words) == 2 else ROOT / "tests/records"
    into.mkdir(parents=True, exist_ok=True)
    record = kept(folder)
    lines = (f"{json.dumps(name)}: {_lines(value)}" for name, value in record.items())
    (into / f"{record['study']}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


def kept(folder: ResultsFolder) -> dict[str, Any]:
    """The figures, as JSON types."""
    results, found = gather(folder), read_capabilities(folder)
    advices = advise(results, chosen_uses(bundled_uses(catalogue()), USES), found)
    tipping = read_tipping(folder)
    uses = {} if tipping is None else tipping.uses
    return {
        "study": results.snapshot.name,
        "reference": results.reference,
        "seeds": len(results.snapshot.seeds),
        "trials": len(results.records),
        "virtual_s": round(sum(_virtual_s(each) for each in results.records)),
        "cells": [list(_cell(results, *place)) for place in product(results.stacks, results.workloads)],
        "survival": {table.name: objects(table) for table in survival_tables(found, results)},
        "tipping": {name: tipping_words(use) for name, use in uses.items()},
        "advice": {each.use.name: _in_short(each) for each in advices if each.leaders},
    }


def _in_short(advice: Advice) -> dict[str, str]:
    said = {title: text for title, text in reasons(advice) if title in ("How sure", "Ruled out")}
    return {"use": advice.use.title, "headline": headline(advice), **said}


def _virtual_s(record: ResultRecord) -> float:
    return record.real_time.duration_s * (record.real_time.virtual_per_real or 0)


def _cell(results: StudyResults, stack: str, workload: str) -> Iterator[object]:
    """The workload, the stack, its value, the gain over the reference with its interval, and the verdict."""
    found = heat_map(results, results.reference).cells[stack, workload]
    yield from (workload, stack, found.value)
    if found.comparison is not None:
        interval = found.comparison.gain_interval
        ends = (None, None) if interval is None else (interval.low, interval.high)
        yield from (None if each is None else round(each, 4) for each in (found.comparison.gain, *ends))
        yield found.verdict


def _lines(value: object) -> str:
    """A list with an element a line."""
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in value) + "\n]"


if __name__ == "__main__":
    sys.exit(main())
