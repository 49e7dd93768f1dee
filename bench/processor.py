# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.processor``: this machine against the lab with this machine's processor, as root.

`strata lab price` makes the processor's file; then bench/processor.toml runs on the host runner, with files
in memory, and in the lab. Of each cell there are two figures: the rate, which on a host is wall time, and the
processor time per operation, of all its processes and of the kernel's threads, which other work on the
machine disturbs less. The cheapest of a host's repetitions counts; its interval is over all of them.
Below each table stand the error of each workload, the rankings of stacks, and the verdict on the aims.
A last table has the lab's cost: its own processor time per operation beside the host's for the same work.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.agreement import Cell, Cost, rankings, show, show_costs, summary, verdicts
from bench.lab_time import TimedLab, lab_time
from strata.execution.display import LineDisplay
from strata.experiment.run import run_study
from strata.lab.lab import require_lab
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.record import COUNTS, ResultRecord
from strata.results.records import Attempt
from strata.results.store import ResultsFolder
from strata.runners.base import MACHINE_NAME
from strata.units import NS_PER_S

STUDY: Final = Path(__file__).with_name("processor.toml")
DEFAULT_CPU: Final = 'cpu = "generic-server-2024"'
DEFAULT_SEEDS: Final = "seeds = [1, 2, 3]"
# What encrypts, compresses or hashes is compared where it does so.
TRIALS: Final = (
    *("ext4.*", "xfs.*", "btrfs.*"),
    *(
        f"{stack}.{load}"
        for stack in ("btrfs-zstd", "ext4-crypt", "zfs")
        for load in ("storm", "tar", "append")
    ),
)
RATES: Final = (
    *("transactions_per_s", "operations_per_s"),
    *(f"{part}_files_per_s" for part in ("create", "stat", "read", "rename", "delete", "unpack")),
    *("write_sync_bytes_per_s", "read_bytes_per_s"),
)


def host_busy_ns(attempt: Attempt) -> float | None:
    """The processor time of a trial's measured window on a host: its own, and that of kernel threads."""
    window = json.loads((attempt.path / MACHINE_NAME).read_text())["window"]
    if window["own_cpus"] is None:
        return None
    return float((window["own_cpus"] + window["kernel_cpus"]) * window["seconds"] * NS_PER_S)


def figures(record: ResultRecord, busy_ns: float | None) -> dict[str, float]:
    """The rates of a trial, and its processor time per operation or in all."""
    found = {name: metric.value for name in RATES if (metric := record.metric(name)) is not None}
    is_dd = record.trial.workload == "append"
    if not is_dd:  # the bytes of files and requests say nothing new
        found = {name: value for name, value in found.items() if "bytes" not in name}
    if busy_ns is None:
        return found
    if is_dd:  # the same bytes on both sides
        return found | {"processor_ns": busy_ns}
    counts = (record.metric(name) for name in (*COUNTS, "files"))
    count = next(each.value for each in counts if each is not None)
    return found | {"processor_ns": busy_ns / count}


def _measured(folder: Path) -> Mapping[tuple[str, str], list[dict[str, float]]]:
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for reading in ResultsFolder.open(folder).readings():
        record, attempt = reading.record, reading.attempt
        if record is None or attempt is None or not record.validity.valid:
            continue
        used = record.processor
        busy_ns = host_busy_ns(attempt) if used is None else float(used.busy_ns)
        found.setdefault(reading.trial.cell, []).append(figures(record, busy_ns))
    return found


def compare(host: Path, lab: Path) -> Iterator[Cell]:
    """The cells that both results folders have."""
    modelled = _measured(lab)
    for (stack, workload), repeats in _measured(host).items():
        for said in modelled.get((stack, workload), [])[:1]:
            for figure in said:
                values = tuple(each[figure] for each in repeats if figure in each)
                if values:
                    yield Cell(stack, workload, figure, values, said[figure], figure != "processor_ns")


def missing(trials: Sequence[str], cells: Sequence[Cell]) -> list[str]:
    """Name the patterns of trials, such as ``zfs.tar`` or ``ext4.*``, that no cell fits."""
    found = {f"{each.stack}.{each.workload}" for each in cells}
    return [each for each in trials if not fnmatch.filter(found, each)]


def costs(host: Path, lab: Path) -> Iterator[Cost]:
    """Of each cell that was run in the lab."""
    cheapest = {
        key: min(found)
        for key, repeats in _measured(host).items()
        if (found := [each["processor_ns"] for each in repeats if "processor_ns" in each])
    }
    for reading in ResultsFolder.open(lab).readings():
        record, attempt = reading.record, reading.attempt
        if record is None or attempt is None or not record.validity.valid:
            continue
        spent, used = lab_time(attempt.path), record.processor
        if not spent or used is None:
            continue
        own_ns = figures(record, spent * used.window_ns)["processor_ns"]
        on_host = cheapest.get(reading.trial.cell)
        yield Cost(*reading.trial.cell, 1 / spent, own_ns / on_host if on_host else None)


def _strata(*words: str) -> None:
    program = str(Path(sys.executable).parent / "strata")
    # A higher priority, since other work on the machine is not to be measured.
    line = ["nice", "-n", "-20", program, "--quiet", *words]
    subprocess.run(line, check=False, stdout=subprocess.DEVNULL)


def measure(folder: Path, trials: Sequence[str], repeats: int) -> None:
    """Measure what is missing of the folder."""
    cpu, study = folder / "this-machine.toml", folder / STUDY.name
    if not cpu.exists():
        _strata("lab", "price", "--output", str(cpu))
    if not cpu.exists():
        raise SystemExit("bench: the processor was not measured")
    text = STUDY.read_text().replace(DEFAULT_CPU, f'cpu = "{cpu.name}"')
    study.write_text(text.replace(DEFAULT_SEEDS, f"seeds = {[*range(1, repeats + 1)]}"))
    with tempfile.TemporaryDirectory(prefix="strata-bench-", dir="/run") as scratch:
        Path(scratch).chmod(0o755)
        on_host = ("--runner", "host", "--scratch", scratch, "--retries-disturbed", "0")
        for each in trials:
            _strata("run", str(study), "--trial", f"{each}.s*", "--results", str(folder / "host"), *on_host)
    if not _measured(folder / "host"):
        raise SystemExit(f"bench: this machine ran no cell; `strata run {STUDY.name} --runner host` says why")
    read, lab = load_study(study, catalogue()), TimedLab(require_lab())
    for each in trials:  # one seed is enough: they differ less than a host's repetitions
        display = LineDisplay(Console(stderr=True), virtual=True)
        done = run_study(read, folder / "lab", lab, display, jobs=1, only=f"{each}.s1")
        if done.signal_number is not None:
            raise SystemExit(done.exit_code)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.processor", description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep processor and results here, and go on with them")
    parser.add_argument("--trial", action="append", help="only these cells, such as 'ext4.select-*'")
    parser.add_argument("--repeats", type=int, default=3, help="how often the host runs each cell")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    asked = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench: the host runner needs root")
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as temporary:
        folder: Path = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        measure(folder, asked.trial or TRIALS, asked.repeats)
        cells = list(compare(folder / "host", folder / "lab"))
        spent = list(costs(folder / "host", folder / "lab"))
        for each in missing(asked.trial or TRIALS, cells):
            print(f"bench: no cell of {each} was measured on both sides", file=sys.stderr)
    if asked.json:
        parts = {
            name: [each for each in cells if each.is_rate is rate]
            for name, rate in (("rates", True), ("processor_time", False))
        }
        said = {
            name: {
                "summary": asdict(summary(part)),
                "rankings": [asdict(each) for each in rankings(part)],
                "verdicts": [asdict(each) for each in verdicts(part)],
            }
            for name, part in parts.items()
            if part
        }
        plain = {"cells": [asdict(each) for each in cells], "costs": [asdict(each) for each in spent]}
        print(json.dumps({**plain, **said}, indent=1))
    else:
        show(cells)
        show_costs(spent)


if __name__ == "__main__":
    main()
