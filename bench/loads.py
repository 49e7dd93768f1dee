# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.loads``: virtual seconds for a core-second under loads of many calls, in one run.

Each of bench/loads.toml runs call by call and by lists on a machine of four processors, and by lists in a
guest of one. PostgreSQL makes its calls itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.lab_time import TimedLab, lab_time
from bench.report import Figure, show
from strata.execution.display import LineDisplay
from strata.experiment.run import run_study
from strata.lab.lab import require_lab
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.store import ResultsFolder

STUDY: Final = Path(__file__).with_name("loads.toml")
LISTED: Final = ("webserver", "blogbench", "fileserver", "varmail")
WAYS: Final = {
    "call by call": ("machine", False),
    "lists": ("machine", True),
    "lists, a guest": ("guest", True),
}


def measured(folder: Path) -> list[Figure]:
    display = LineDisplay(Console(stderr=True, quiet=True), virtual=True)
    figures: list[Figure] = []
    for way, (stack, has_lists) in WAYS.items():
        file = folder / f"{len(figures)}.toml"
        text = STUDY.read_text()
        for name in LISTED:
            text = text.replace(
                f"[workloads.{name}]", f"[workloads.{name}]\nlists = {str(has_lists).lower()}"
            )
        file.write_text(text)
        results = folder / way
        run_study(
            load_study(file, catalogue()),
            results,
            TimedLab(require_lab()),
            display,
            jobs=1,
            only=f"{stack}.*",
        )
        for reading in ResultsFolder.open(results).readings():
            if not reading.trial_id.startswith(f"{stack}."):
                continue
            attempt = reading.attempt
            cost = attempt and lab_time(attempt.path)
            if reading.record is None or not reading.record.validity.valid or not cost:
                print(f"{reading.trial_id}: no valid result", file=sys.stderr)
                continue
            load = reading.trial_id.split(".")[1]
            figures.append(Figure(f"{load}, {way}", 1 / cost, "virtual s/core s", ""))
    return sorted(figures, key=lambda figure: figure.name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.loads", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json: bool = parser.parse_args().json
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        show(measured(Path(folder)), "The lab under loads of many calls", as_json=as_json)


if __name__ == "__main__":
    main()
