# SPDX-License-Identifier: Apache-2.0
"""Keeps the figures of a study that README and documentation state, so that tests can check them.

    .venv/bin/python scripts/findings.py results/showcase [FOLDER]
    .venv/bin/python scripts/findings.py --quoted

The first writes tests/records/showcase.json (or into FOLDER): the value of each cell, the gain over the
reference, power cuts, tipping points, and the advice for those of the uses in USES that have an answer; of a
study in PRINTED, what these commands print, and what the first seed's trials measured. The second runs the
studies in PRINTED anew (ten minutes on two cores), and writes the records of both: `make figures`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
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
from strata.report.data import cells_table
from strata.report.findings import sensitivity_sentences
from strata.report.heat_map import heat_map
from strata.report.survival import survival_tables
from strata.report.table import objects
from strata.results.findings import findings_of, read_capabilities
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather

ROOT: Final = Path(__file__).resolve().parents[1]
TUTORIAL: Final = ROOT / "docs/tutorial/first-study.md"
STRATA: Final = str(ROOT / ".venv/bin/strata")
# By study: the commands whose output README or tutorial quote, their results folder standing as {}.
PRINTED: Final = {
    "quickstart": ("show {}", "explain {} ext4.oltp.s1 btrfs.oltp.s1"),
    "cow": (
        "show {}",
        "compare {0}:btrfs {0}:btrfs-nocow",
        "explain {} ext4.oltp.s1 btrfs.oltp.s1",
        "explain {} btrfs.oltp.s1 btrfs-nocow.oltp.s1",
        "advise {} --use postgresql-server --evidence",
    ),
}
PROBES: Final = ("--probe", "snapshot", "--probe", "corruption-detected")  # as in the tutorial
QUOTED_METRICS: Final = ("transactions_per_s", "operations_per_s", "latency_ns_p99")
USES: Final = ("home-server", "mail-server", "mysql-server", "postgresql-server", "web-server")


def main() -> int:
    """Write the record; 2 for a mistake in the command."""
    words = sys.argv[1:]
    if words == ["--quoted"]:
        return _measure_quoted()
    if not 1 <= len(words) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    _keep(Path(words[0]), Path(words[1]) if len(words) == 2 else ROOT / "tests/records")
    return 0


def _measure_quoted() -> int:
    """Run the studies that README and tutorial quote, in a folder for this, and keep their figures."""
    folder = ROOT / "build/quoted"
    folder.mkdir(parents=True, exist_ok=True)
    block = re.search(r"^```toml\n(# cow\.toml\n.*?)^```$", TUTORIAL.read_text(), re.DOTALL | re.MULTILINE)
    if block is None:
        print(f"no study cow.toml in {TUTORIAL}", file=sys.stderr)
        return 1
    (folder / "cow.toml").write_text(block[1])
    for study in (ROOT / "studies/quickstart.toml", folder / "cow.toml"):
        results = folder / study.stem
        place = [str(study), "--results", str(results)]
        subprocess.run([STRATA, "run", *place], check=True)
        if study.stem == "cow":
            subprocess.run([STRATA, "capabilities", *place, *PROBES], check=True)
        _keep(results, ROOT / "tests/records")
    return 0


def _keep(results: Path, into: Path) -> None:
    folder = ResultsFolder.open(results)
    into.mkdir(parents=True, exist_ok=True)
    record = kept(folder)
    lines = (f"{json.dumps(name)}: {_lines(value)}" for name, value in record.items())
    (into / f"{record['study']}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def kept(folder: ResultsFolder) -> dict[str, Any]:
    """The figures, as JSON types."""
    results, found = gather(folder), read_capabilities(folder)
    advices = advise(results, chosen_uses(bundled_uses(catalogue()), USES), found)
    uses = findings_of(folder, "sensitivity")
    return {
        "study": results.snapshot.name,
        "reference": results.reference,
        "seeds": len(results.snapshot.seeds),
        "trials": len(results.records),
        "virtual_s": round(sum(_virtual_s(each) for each in results.records)),
        "cells": [list(_cell(results, *place)) for place in product(results.stacks, results.workloads)],
        "survival": {table.name: objects(table) for table in survival_tables(found, results)},
        "tipping": {name: sensitivity_sentences(use) for name, use in uses.items()},
        "advice": {each.use.name: _in_short(each) for each in advices if each.leaders},
        **(_quoted(folder, results) if results.snapshot.name in PRINTED else {}),
    }


def _quoted(folder: ResultsFolder, results: StudyResults) -> dict[str, Any]:
    """The quoted metrics' cells, what the commands print, and the first seed's metrics by trial."""
    first = results.snapshot.seeds[0]
    measured = {
        reading.trial_id: {each.name: each.value for each in reading.record.metrics}
        for reading in results.readings
        if reading.record is not None and reading.trial.seed == first
    }
    return {
        "shown": objects(cells_table(results, QUOTED_METRICS)),
        "printed": {line: _printed(line, folder.path) for line in PRINTED[results.snapshot.name]},
        "first_seed": measured,
    }


def _printed(line: str, folder: Path) -> list[str]:
    command = [STRATA, *(word.format(folder.name) for word in line.split())]
    wide = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=folder.parent, env=wide, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


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
