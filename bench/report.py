# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.report``: time, size and first paint of a report of 500 cells.

Its results are made (tests/made_results.py), 25 workloads × 20 stacks × 6 seeds, and read from the page
cache. The time is of the whole command, Python's start included; on a busy machine the processor time
estimates it for an idle one. A first, uncounted run compiles Python's files.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

WORKLOADS: Final = 25
STACKS: Final = 20
SEEDS: Final = 6
_WIDTH_PX: Final = 1024
_HEIGHT_PX: Final = 900


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it should be at least (or at most)."""

    name: str
    value: float
    unit: str
    aim: str


def show(figures: Sequence[Figure], title: str, *, as_json: bool) -> None:
    """Print the figures as a table, or as JSON."""
    if as_json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
        return
    table = Table("figure", "measured", "unit", "aim", title=title)
    for figure in figures:
        value = f"{figure.value:,.3g}" if figure.value < 1000 else f"{figure.value:,.0f}"
        table.add_row(figure.name, value, figure.unit, figure.aim)
    Console().print(table)


def report_figures(results: Path | None = None) -> list[Figure]:
    """Generate and open one report, of given results or of new ones."""
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as place:
        folder = results if results is not None else Path(place) / "results"
        if not folder.exists():
            _make(folder)
        page = Path(place) / "report.html"
        command = ("report", str(folder), "-o", str(page))
        timed(*command)
        real_s, processor_s = timed(*command)
        cells = f"{WORKLOADS * STACKS} cells, {WORKLOADS * STACKS * SEEDS:,} trials"
        figures = [
            Figure(f"strata report, {cells}", real_s, "s", "< 5"),
            Figure(f"strata report, {cells}: processor time", processor_s, "s", ""),
            Figure(f"the report's size, {cells}", page.stat().st_size / 1e6, "MB", "< 5"),
        ]
        paint_ms = _first_paint_ms(page)
        if paint_ms is not None:
            figures.append(Figure(f"first paint in Chromium, {cells}", paint_ms / 1000, "s", "< 1"))
    return figures


def _make(folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from made_results import made_results  # noqa: PLC0415 - the tests' folder is no package

    made_results(folder, stacks=STACKS, workloads=WORKLOADS, seeds=SEEDS)


def timed(*arguments: str) -> tuple[float, float]:
    """The real and the processor time of a command of Strata, in seconds."""
    command = [str(Path(sys.executable).parent / "strata"), "--quiet", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    real_s = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return real_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_paint_ms(page: Path) -> float | None:
    """From the start of the navigation to the first paint of anything; None without Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("bench: no chromium is installed, so that the first paint is not measured", file=sys.stderr)
        return None
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - nothing else here needs it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": _WIDTH_PX, "height": _HEIGHT_PX})
        opened.goto(page.resolve().as_uri(), wait_until="load", timeout=120_000)
        opened.wait_for_function("performance.getEntriesByType('paint').length > 0", timeout=120_000)
        found: float = opened.evaluate("performance.getEntriesByType('paint')[0].startTime")
        browser.close()
    return found


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--results", type=Path, help="results to report; made anew without it")
    asked = parser.parse_args()
    show(report_figures(asked.results), "The report", as_json=asked.json)


if __name__ == "__main__":
    main()
