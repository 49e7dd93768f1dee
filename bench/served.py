# SPDX-License-Identifier: Apache-2.0
"""A served disk against its own model: fio on the loop device, and the same loads outside of the kernel.

sudo .venv/bin/python -m bench.served wd-re4-500gb samsung-860-evo-500gb --size 64GiB --seconds 20
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from strata.calibration.script import fio_job
from strata.datasheet.cells import Modelling, modelled
from strata.datasheet.fio_results import MeasuredCell, read_fio
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Pattern, Subject
from strata.devices.device import Device, find_device
from strata.runners.served import ServedCounts, served_disk
from strata.units import format_value, parse_size

LOADS = (
    *(Pattern("randread", 4096, depth) for depth in (1, 4, 32)),
    *(Pattern(rw, 1 << 18, 4) for rw in ("read", "write")),
    *(Pattern("randwrite", 4096, 1, flush_every) for flush_every in (1, 0)),
)


def served_and_modelled(
    device: Device, size_bytes: int, loads: tuple[Pattern, ...], seconds: int, *, on_file: bool = False
) -> Iterator[tuple[MeasuredCell, MeasuredCell, ServedCounts]]:
    """Of each load what fio measures on a served disk, what the model says, and the served disk's counts."""
    subject = Subject(device, size_bytes)
    for load in loads:
        with (
            served_disk(device, size_bytes=size_bytes, as_file=on_file) as disk,
            TemporaryDirectory() as folder,
        ):
            job = Path(folder) / "job.fio"
            head = f"[global]\nfilename={disk.path}\nioengine=libaio\ndirect=1\ntime_based=1\n"
            job.write_text(head + fio_job(load, seconds))
            output = ("--output-format=json", f"--output={folder}/fio.json")
            subprocess.run(["chrt", "--fifo", "2", "fio", *output, job], check=True, capture_output=True)
            cells, notes = read_fio((Path(folder) / "fio.json").read_text(), "fio.json")
            counts = disk.counts()
        assert cells, notes
        requests = max(2_000, cells[0].requests)
        predicted = modelled(subject, subject, cells[:1], Modelling(requests=requests, before=0))
        yield cells[0], predicted[0], counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("devices", nargs="+")
    parser.add_argument("--size", default="64GiB")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--file", action="store_true")
    asked = parser.parse_args()
    print("| Disk | Load | Served, 1/s | Model, 1/s | Ratio | p50 | Model | p99 | Model | Late, p99 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in asked.devices:
        device = sheet_of(find_device(name)).readable().device
        for served, model, counts in served_and_modelled(
            device, parse_size(asked.size), LOADS, asked.seconds, on_file=asked.file
        ):
            asks = served.pattern
            flushed = ", each flushed" if asks.flush_every else ""
            load = f"{asks.rw} {asks.block_bytes >> 10}k, depth {asks.depth}{flushed}"
            times = [
                format_value(each.latencies_ns[p], "ns") for p in (50.0, 99.0) for each in (served, model)
            ]
            late = format_value(counts.late_ns["p99"], "ns")
            ratio = f"{served.iops / model.iops:.3f}"
            cells = (name, load, f"{served.iops:.1f}", f"{model.iops:.1f}", ratio, *times)
            print(f"| {' | '.join((*cells, late))} |", flush=True)


if __name__ == "__main__":
    main()
