# SPDX-License-Identifier: Apache-2.0
"""The mixes of sysbench 0.4.12 as our script issues them: statements, ranges, distribution of the ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from lab_factory import bare_task, carried_out

from strata.lab import Lab
from strata.model.step import Step
from strata.model.workload import WorkloadContext
from strata.results.events import Events
from strata.workloads.sysbench.oltp import SysbenchOltp

ROWS = 10_000
EVENTS = 20
SAMPLES = 20_000
# Reads, writes and others of one transaction, but for the extra UPDATE.
MIXES = {
    "complex": (14, 4, 2),
    "read-only": (14, 0, 2),
    "simple": (1, 0, 0),
    "nontrx-select": (1, 0, 0),
    "nontrx-update-key": (0, 1, 0),
    "nontrx-update-nokey": (0, 1, 0),
    "nontrx-delete": (0, 1, 0),
}
TOTALS = re.compile(r"^ +(read|write|other): +(\d+)$", re.MULTILINE)
# As PostgreSQL logs a prepared statement, and below it its parameters.
EXECUTED = re.compile(r"execute \S+: (.*?)\n(?:.*DETAIL:  Parameters: (.*))?")
PARAMETER = re.compile(r"\$\d+ = '([^']*)'")


def boot(lab: Lab, folder: Path, steps: Sequence[Step]) -> Events:
    task = bare_task(folder / "attempt", "wd-re4-500gb", steps, capacity_bytes=1 << 30)
    return carried_out(lab, task)


def run_steps(server: str, settings: dict[str, Any], extra: Sequence[tuple[str, str, str]]) -> list[Step]:
    """Server and table as a trial has them, on a filesystem in memory; then each mix, and ids."""
    workload = SysbenchOltp.model_validate(
        {"server": server, "script": "legacy-complex", "duration": "1s", "settings": settings}
    )
    context = WorkloadContext(name="mixes", seed=1, target="${scratch}/stack")
    steps = {step.id: step for step in workload.steps(context)}
    measured = steps["sysbench-load"]
    prepared = [step for step in steps.values() if step.phase == "prepare"]
    driver = [word for word in measured.argv if word.startswith(("--db", "--mysql", "--pgsql"))]

    def sysbench(name: str, *words: str, command: str = "run") -> Step:
        argv = ("sysbench", measured.argv[1], *driver, f"--table-size={ROWS}", *words, command)
        alone = {"background": False, "ready": None}
        return measured.model_copy(update={"id": name, "phase": "measure", "argv": argv, **alone})

    # Mixes that delete or truncate come last, so that all others find every row.
    mixes = [*extra, *((f"mix-{mix}", mix, "auto") for mix in [*MIXES, "nontrx-insert"])]
    runs = [
        sysbench(
            name,
            f"--mix={mix}",
            f"--extra-update={update}",
            f"--events={EVENTS}",
            "--time=0",
            f"--rand-seed={seed}",
        )
        for seed, (name, mix, update) in enumerate(mixes, start=1)
    ]
    sample = sysbench("sample", f"--samples={SAMPLES}", "--rand-seed=1", command="sample")
    return [*prepared, *runs, sample]


def totals(events: Events, step_id: str) -> tuple[int, ...]:
    """Reads, writes and others, as sysbench counted them."""
    found = {kind: int(count) for kind, count in TOTALS.findall(events.output(step_id))}
    return found["read"], found["write"], found["other"]


def special_probabilities() -> np.ndarray[Any, np.dtype[np.float64]]:
    """The probability of each id from 0 on, by the definition of the distribution."""
    die = np.zeros(ROWS + 1)
    die[1:] = 1 / ROWS
    length = 12 * ROWS + 1
    # The sum of twelve: the power of the transform.
    total = np.fft.irfft(np.fft.rfft(die, n=length + 1) ** 12, n=length + 1)[:length]
    gaussian = np.bincount(np.arange(len(total)) // 12, weights=np.clip(total, 0, None), minlength=ROWS + 1)
    # The upper 30000 of 40000 numbers, by their remainder of 100, from 4950 on.
    few = np.bincount(np.arange(ROWS + 1, 4 * ROWS + 1) % 100 + 4950, minlength=ROWS + 1)
    return gaussian[: ROWS + 1] / 4 + few / (4 * ROWS)


def test_each_mix_issues_its_statements_on_postgresql(lab: Lab, tmp_path: Path) -> None:
    events = boot(
        lab, tmp_path, run_steps("postgresql", {"log_statement": "all"}, [("without", "complex", "off")])
    )

    for mix, (reads, writes, others) in MIXES.items():
        extra = 1 if mix == "complex" else 0
        assert totals(events, f"mix-{mix}") == (EVENTS * reads, EVENTS * (writes + extra), EVENTS * others)
    # The one other statement is TRUNCATE.
    assert totals(events, "mix-nontrx-insert") == (0, EVENTS, 1)
    assert totals(events, "without") == (EVENTS * 14, EVENTS * 4, EVENTS * 2)
    check_ids(events.output("sample"))
    check_transactions(events.output("sysbench-server", "stderr"))


def check_transactions(log: str) -> None:
    """The transactions of the mix ``complex`` one by one; those before lack the extra update."""
    statements = [
        (re.sub(r"\s+", " ", text).upper(), [*PARAMETER.findall(parameters)])
        for text, parameters in EXECUTED.findall(log)
    ]
    begins = [index for index, (text, _) in enumerate(statements) if text == "BEGIN"][EVENTS : 2 * EVENTS]
    assert len(begins) == EVENTS
    for begin in begins:
        one = statements[begin : begin + 21]
        kinds = [re.sub(r" (FROM|INTO)? ?SBTEST.*", "", text) for text, _ in one]
        assert Counter(kinds) == Counter(
            {"BEGIN": 1, "SELECT C": 12, "SELECT SUM(K)": 1, "SELECT DISTINCT C": 1, "UPDATE": 3, "DELETE": 1,
             "INSERT": 1, "COMMIT": 1}
        )  # fmt: skip
        assert [text.count("ORDER BY") for text, _ in one[11:15]] == [0, 0, 1, 1]
        for (_, (first, last)), width in zip(one[11:15], (99, 99, 99, 100), strict=True):
            assert int(last) - int(first) == width
            assert 1 <= int(first) <= ROWS - 100
        extra, delete, insert = (parameters for _, parameters in one[17:20])
        assert extra == delete == insert[:1]
        assert re.fullmatch(r"\d+(-\d+){9}", one[16][1][0])


def check_ids(printed: str) -> None:
    """Ids are special, and ranges end within the table."""
    pairs = [line.split() for line in printed.splitlines() if re.fullmatch(r"\d+ \d+", line)]
    ids = np.array([int(number) for number, _ in pairs])
    starts = np.array([int(start) for _, start in pairs])
    assert len(ids) == SAMPLES
    assert starts.min() >= 1
    assert starts.max() <= ROWS - 100

    probabilities = special_probabilities()
    low, high = (0, 3000, 3500, 4000, 4300, 4600, 4800, 4950), (5200, 5400, 5700, 6000, 6500, 7000, ROWS + 1)
    bounds = np.array([*low, *range(4960, 5051, 10), *high])
    observed = np.histogram(ids, bounds)[0]
    expected = np.array([probabilities[low:high].sum() for low, high in pairwise(bounds)])
    assert scipy.stats.chisquare(observed, expected / expected.sum() * SAMPLES).pvalue > 0.001
