# SPDX-License-Identifier: Apache-2.0
"""The jobs of fio that tell most of a drive: for a machine without Strata, and as a study of the lab."""

from __future__ import annotations

from typing import Final

from strata.datasheet.measure import Pattern
from strata.devices.device import find_device
from strata.toml import toml_value

READS: Final = (
    *((Pattern("randread", 4096, depth), 20) for depth in (1, 2, 4, 8, 16, 32, 64)),
    (Pattern("randread", 65536, 1), 10),
    (Pattern("randread", 4096, 1, span_bytes=8 << 30), 15),
    (Pattern("read", 1 << 20, 4), 10),
    (Pattern("read", 4096, 1), 10),
)
"""Loads and seconds. Depths show the queue, a part of the disk its seeks, sizes the link."""
WRITES: Final = (
    *((Pattern("randwrite", 4096, depth), 30) for depth in (1, 4, 32)),
    (Pattern("randwrite", 4096, 1, flush_every=1), 15),
    (Pattern("randwrite", 4096, 1, flush_every=32), 15),
    (Pattern("write", 1 << 20, 4), 20),
)
_HEAD: Final = """\
; Measure a drive for `strata calibrate`, in about {minutes} minutes{harm}.
;   DISK=/dev/disk/by-id/... fio{guard} --output-format=json --output=results.json THIS-FILE
; Nothing else should use the disk. Then: strata calibrate --fio results.json
[global]
filename=${{DISK}}
ioengine=libaio
direct=1
time_based=1
group_reporting=1
"""


def fio_script(*, writes: bool) -> str:
    """A job file: it only reads, unless ``writes`` are wanted, too."""
    loads = [*READS, *(WRITES if writes else ())]
    minutes = -(-sum(seconds for _, seconds in loads) // 60)
    harm = "; IT OVERWRITES ITS CONTENT" if writes else "; it only reads"
    text = _HEAD.format(minutes=minutes, harm=harm, guard="" if writes else " --readonly")
    return text + "".join(fio_job(pattern, seconds) for pattern, seconds in loads)


_STUDY: Final = """\
# Measure a modelled disk in the lab, as `strata calibrate` measures a real one:
#   strata run THIS-FILE; strata calibrate --fio results/measure-{name}
[study]
name = "measure-{name}"
question = "What do the jobs of `strata calibrate --script` show of it?"
seeds = [1]
drives = "exact" # "plausible": each seed draws one

[devices.disk0]
model = {model}{past}

[stacks.raw]
layers = []

[workloads.jobs]
workload = "fio"
variables = {{ DISK = "/dev/sda" }}
job_text = \"""
{jobs}\"""
"""


def measuring_study(model: str, *, writes: bool) -> str:
    """The jobs as a study of a modelled disk, whose true values are known; raises as `find_device`.

    Reads are of data, as on a disk that was in use.
    """
    device = find_device(model)
    past = '\nprecondition = "filled"' * (device.kind == "flash")
    jobs = fio_script(writes=writes)
    return _STUDY.format(name=device.name, model=toml_value(model), past=past, jobs=jobs)


def fio_job(load: Pattern, seconds: int) -> str:
    """The section of one load in a job file."""
    flush = f"-flush{load.flush_every}" * bool(load.flush_every)
    part = "-part" * bool(load.span_bytes)
    lines = [
        f"[{load.rw}-{load.block_bytes >> 10}k-{load.depth}{flush}{part}]",
        "stonewall=1",
        f"rw={load.rw}",
        f"bs={load.block_bytes >> 10}k",
        f"iodepth={load.depth}",
        f"runtime={seconds}",
        *([f"size={load.span_bytes >> 30}g"] if load.span_bytes else []),
        *([f"fsync={load.flush_every}"] if load.flush_every else []),
    ]
    return "\n" + "\n".join(lines) + "\n"
