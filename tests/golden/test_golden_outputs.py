# SPDX-License-Identifier: Apache-2.0
"""What each workload reads from its programs' output, as recorded in the lab, is what was reviewed.

Reviewed against the programs' own summaries, such as pgbench's "rate limit schedule lag: avg 56.044 ms".
``pytest tests/golden --update-golden`` rewrites the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata.errors import RunError
from strata.model.histogram import decode
from strata.model.metric import Metric
from strata.model.workload import Outputs, StepOutput
from strata.plan.catalogue import catalogue

FOLDER = Path(__file__).parent / "outputs"
S = 1_000_000_000
# Four in the window of 2 s; one of before it, one of after it, one that failed.
TRANSACTIONS = """\
0 0 90000 0 1795209650 999999
0 1 7000 0 1795209651 729000
1 1 8000 0 1795209651 730000
0 2 9000 0 1795209651 738000
1 2 6000 0 1795209651 736000
1 3 serialization 0 1795209651 741000
0 9 80000 0 1795209653 0
"""


def printed(prefix: str, **files: str) -> dict[str, StepOutput]:
    """The recorded standard output of steps, by their names without the prefix."""
    return {
        f"{prefix}-{step.replace('_', '-')}": StepOutput((FOLDER / file).read_text(), duration_ns=10 * S)
        for step, file in files.items()
    }


def copied(name: str) -> StepOutput:
    return StepOutput(stderr=(FOLDER / "dd" / f"coreutils-9.7-{name}.txt").read_text())


def pgbench(begin_ns: int, log: str) -> dict[str, StepOutput]:
    return {
        "pgbench-initialise": StepOutput(duration_ns=474_230_000),
        "pgbench-begin": StepOutput(f"{begin_ns}\n"),
        "pgbench-load": StepOutput(files={"transactions": log}),
    }


def timed(prefix: str, **seconds: float) -> dict[str, StepOutput]:
    return {
        f"{prefix}-{step.replace('_', '-')}": StepOutput(duration_ns=int(each * S))
        for step, each in seconds.items()
    }


BLOG = {"readers": 10, "intervals": 3, "interval": "1s", "reader_pause": "10ms"}
OLTP = {"threads": 8, "warmup": "4s", "duration": "6s"}
FILEIO = {"duration": "5s", "size": "128MiB"}
OPEN = {"scale": 10, "clients": 10, "duration": "3s", "rate": 700, "latency_limit": "60ms"}
STORMS = {part: f"load/0.1-btrfs-storm-{part}.json" for part in ("create", "stat", "read", "delete")}
FRAGMENTS = {
    part.replace("-", "_"): f"load/0.1-btrfs-fragment-{part}.json"
    for part in ("fill", "extents-before", "read-before", "rewrite", "read-after", "extents-after")
}
UNTOLD = "load/0.1-zfs-fragment-extents-after.json"
SUITE = {
    part.replace("-", "_"): f"mariadb/11.8.6-sql-suite-{part}.txt"
    for part in ("write", "read-keys", "read-ranges", "change")
}
MIX = {"preset": "random-mix-4k", "duration": "10s"}

# A workload, its keys, and the outputs of its steps.
CASES: tuple[tuple[str, dict[str, Any], dict[str, StepOutput]], ...] = (
    ("fio", MIX, printed("fio", measure="fio-3.33-random-mix.json")),
    ("fio", MIX, printed("fio", measure="fio-3.39-random-mix.json")),
    ("fio", {"preset": "verify-random-write-4k"}, printed("fio", measure="fio-3.39-verify-fsync.json")),
    (
        *("pgbench", {"scale": 10, "clients": 10, "duration": "2s"}),
        pgbench(1_795_209_651 * S, TRANSACTIONS),
    ),
    (
        *("pgbench", {**OPEN, "script_text": "SELECT 1;"}),
        pgbench(1798761603361000000, (FOLDER / "pgbench" / "17.11-open-loop.log").read_text()),
    ),
    (
        *("sysbench-oltp", {**OLTP, "server": "postgresql"}),
        printed("sysbench", prepare="sysbench/1.0.20-postgresql.txt", load="sysbench/1.0.20-postgresql.txt"),
    ),
    (
        *("sysbench-oltp", {**OLTP, "server": "mariadb", "rate": 100}),
        printed(
            *("sysbench",),
            prepare="sysbench/1.0.20-postgresql.txt",
            load="sysbench/1.0.20-mariadb-open-loop.txt",
        ),
    ),
    (
        *("sysbench-fileio", {**FILEIO, "mode": "rndrw"}),
        printed("fileio", measure="sysbench-fileio/sysbench-1.0.20-rndrw.txt") | timed("fileio", prepare=4),
    ),
    (
        *("sysbench-fileio", {"preset": "sequential-write-2m", "size": "256MiB"}),
        printed("fileio", measure="sysbench-fileio/sysbench-1.0.20-seqwr.txt"),
    ),
    ("bonnie", {"size": "256MiB"}, printed("bonnie", measure="bonnie/2.00a-ext4.csv")),
    ("bonnie", {"size": "256MiB"}, printed("bonnie", measure="bonnie/2.00a-btrfs-synchronous.csv")),
    (
        *("dd", {"content": "random", "size": "128MiB"}),
        {"dd-write": copied("write"), "dd-read": copied("read"), **timed("dd", sync=1)},
    ),
    (
        *("load", {"personality": "varmail", "duration": "3s"}),
        printed("load", prepare="load/0.1-varmail-prepare.json", measure="load/0.1-varmail-measure.json"),
    ),
    ("blog", BLOG, printed("blog", measure="load/0.1-btrfs-blog-measure.json")),
    ("file-storm", {"files": 2000, "folders": 20}, printed("storm", **STORMS)),
    ("file-storm", {"files": 2000, "size": "5000B", "zeros": True}, printed("storm", **STORMS)),
    (
        *("fill-and-fragment", {"writers": 4, "size": "32MiB", "extents": 1000}),
        printed("fragment", **FRAGMENTS),
    ),
    (
        *("fill-and-fragment", {"writers": 4, "size": "32MiB", "extents": 1000}),
        printed("fragment", **FRAGMENTS | dict.fromkeys(("extents_before", "extents_after"), UNTOLD)),
    ),
    ("sql-suite", {"rows": 4000, "commits": 200}, printed("sql-suite", **SUITE)),
    (
        *("os-installation", {}),
        timed("install", unpack=0.02, essential=32, rest=10, clean=0.001, sync=0.1)
        | printed("install", status="dpkg/1.22.22-status.txt"),
    ),
    (
        *("tree", {}),
        {"tree-count": StepOutput("26 entries, 20 files, 4000000 bytes\n")}
        | timed("tree", unpack=1, sync=3, read=2, delete=1, delete_sync=1),
    ),
)


def line(metric: Metric) -> str:
    marks = " headline" * metric.headline + f" {metric.phase}" * (metric.phase != "measure")
    held = f" of {decode(metric.histogram).get_total_count()}" if metric.histogram else ""
    return f"  {metric.name} {metric.value:.9g} {metric.unit} {metric.better}{marks}{held}\n"


def lines() -> Iterator[str]:
    for name, keys, steps in CASES:
        workload, outputs = catalogue().workloads[name].model_validate(keys), Outputs(steps)
        metrics = workload.metrics(outputs)
        assert len({each.name for each in metrics}) == len(metrics)
        yield f"{name} {keys}: {workload.data_bytes} B\n"
        yield from map(line, metrics)
        for check in workload.checks(outputs):
            yield f"  {check.name}? {check.verdict}{' required' * check.required}: {check.detail}\n"
        for told in ("rates_per_s", "spans_ns"):
            if hasattr(workload, told):
                yield f"  {told} {getattr(workload, told)(outputs)}\n"


def test_the_numbers_of_recorded_outputs_are_those_that_were_reviewed(request: pytest.FixtureRequest) -> None:
    file, text = FOLDER.with_name("numbers.txt"), "".join(lines())
    if request.config.getoption("--update-golden"):
        file.write_text(text)

    assert file.read_text() == text, "review the change, then run: pytest tests/golden --update-golden"


def test_output_of_another_form_is_an_error_that_shows_it() -> None:
    for name, keys, steps in CASES:
        workload = catalogue().workloads[name].model_validate(keys)
        broken = {step: StepOutput("killed: 9\n", "killed: 9\n", files={}) for step in steps}
        with pytest.raises(RunError) as caught:
            workload.metrics(Outputs(broken))
        assert "killed: 9" in str(caught.value) or "file" in str(caught.value), name
        with pytest.raises(RunError):
            workload.metrics(Outputs({}))
