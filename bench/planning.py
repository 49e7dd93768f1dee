# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.planning``: the time to check a study of 5,000 trials, and to compile all of them.

The times are of whole commands, Python's start included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.report import Figure, show, timed

STUDY: Final = Path(__file__).with_name("matrix.toml")


def planning_figures() -> list[Figure]:
    """Check and plan the study, each after an uncounted check that compiles Python's files."""
    check, plan = ("check", str(STUDY)), ("plan", str(STUDY), "--list", "--json")
    timed(*check)
    figures = []
    for command, aim in ((check, "< 5"), (plan, "< 30")):
        real_s, processor_s = timed(*command)
        name = f"strata {command[0]}, 5,000 trials of a matrix"
        figures.append(Figure(name, real_s, "s", aim))
        figures.append(Figure(f"{name}: processor time", processor_s, "s", ""))
    return figures


if __name__ == "__main__":
    show(planning_figures(), "A study of 5,000 trials", as_json=False)
