# SPDX-License-Identifier: Apache-2.0
"""Programs that read the processor's counter see virtual time: fio by default, C, Go and Rust."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from lab_factory import head, records, run_text, stacks

from record_hashes import attempt_of, hashes
from strata.lab import Lab
from strata.results.events import read_events
from strata.runners.base import EVENTS_NAME
from strata.runners.lab import LabRunner

SOURCES: Final = Path(__file__).parent / "counters"
COMPILERS: Final = {
    "c": ("gcc", "-static", "-O2", "-o"),
    "rust": ("rustc", "-O", "-C", "target-feature=+crt-static", "-o"),
    "go": ("go", "build", "-o"),
}
FILES: Final = {"c": "counters.c", "rust": "counters.rs", "go": "."}
FIO: Final = "fio --rw=write --ioengine=sync --fdatasync=1 --directory=${data} --size=512k --bs=4k --name=t"
FIO_METRICS: Final = """
metrics = [
    { name = "sync_mean_ns", json = "jobs.0.sync.lat_ns.mean" },
    { name = "runtime_ns", json = "jobs.0.write.runtime", factor = 1e6 },
]
"""
CLOCKS: Final = {"default-clock": FIO, "clock-gettime": f"{FIO} --clocksource=clock_gettime"}


def workloads(names: list[str]) -> str:
    text = "".join(
        f'\n[workloads.{name}]\nworkload = "command"\narchive = "programs"\n'
        f'load = [{{ name = "{name}", run = "${{files}}/{name} ${{data}}/file" }}]\n'
        for name in names
    )
    for name, fio in CLOCKS.items():
        run = f'load = [{{ name = "fio", run = "{fio} --output-format=json" }}]'
        text += f'\n[workloads.{name}]\nworkload = "command"\n{run}{FIO_METRICS}'
    return text


@pytest.mark.parametrize("cpu", ["generic-server-2024", pytest.param("free", marks=pytest.mark.slow)])
def test_the_counter_of_a_processor_shows_virtual_time_and_the_same_twice(
    lab: Lab, tmp_path: Path, cpu: str
) -> None:
    found = [name for name, argv in COMPILERS.items() if shutil.which(argv[0])]
    text = head("counters", [1], "4GiB").replace("\n[devices", f'cpu = "{cpu}"\n\n[devices', 1)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in found:
        argv = (*COMPILERS[name], str(programs / name), FILES[name])
        subprocess.run(argv, cwd=SOURCES, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    for run in ("first", "again"):
        shutil.copytree(programs, tmp_path / run / "programs")
        run_text(text + stacks("ext4") + workloads(found), tmp_path / run, LabRunner(lab), jobs=1)

    first, again = (tmp_path / run / "results" for run in ("first", "again"))
    assert hashes(first) == hashes(again)
    for name in found:
        events = attempt_of(first, f"ext4.{name}.s1") / EVENTS_NAME
        said = read_events(events).output(f"run-{name}")
        numbers = {word: int(number) for word, number in re.findall(r"([a-z]+) (\d+)", said)}
        assert numbers["clock"] > 20_000_000, said  # twenty flushes of a rotating disk
        assert numbers["rdtsc"] == pytest.approx(numbers["clock"], rel=0.001), said
        assert numbers.get("rdtscp", numbers["rdtsc"]) == pytest.approx(numbers["clock"], rel=0.001), said
        assert numbers.get("processors", 0) == 0
    metrics = {
        name: {each.name: each.value for each in records(first)[f"ext4.{name}.s1"].metrics} for name in CLOCKS
    }
    for name in ("sync_mean_ns", "runtime_ns"):
        expected = metrics["clock-gettime"][name]
        assert metrics["default-clock"][name] == pytest.approx(expected, rel=0.05), metrics
    if missing := COMPILERS.keys() - set(found):
        pytest.skip(f"no compiler here for {', '.join(sorted(missing))}; the others agree")
