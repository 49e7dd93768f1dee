# SPDX-License-Identifier: Apache-2.0
"""Study files for tests: a sound one, one of any layers on like disks, and how to read a text as one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from strata.errors import DiagnosticsError, StrataError
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study

SOUND: Final = """\
[study]
name = "small"
question = "Which?"
seeds = [1, 2]

[devices.disk0]
model = "wd-re4-500gb"

[devices.disk1]
model = "null"

[stacks.ext4]
devices = ["disk0"]
layers = [{ layer = "ext4", mount = ["noatime"] }]

[stacks.btrfs]
layers = [{ layer = "btrfs", data = "raid1" }]

[workloads.oltp]
workload = "pgbench"
scale = 10
clients = 10
duration = "60s"

[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
duration = "10s"
"""


TRACE: Final = "disk.iolog"
"""The file that examples of the workload `trace` name."""
_REQUESTS: Final = """fio version 3 iolog
0 /dev/sda add
0 /dev/sda open
0 /dev/sda write 0 65536
300 /dev/sda sync 0 0
1000 /dev/sda read 8388608 4096
90000 /dev/sda write 8392704 4096
200000 /dev/sda trim 0 65536
"""


CALLS: Final = "app.strata-calls"
"""The file that examples of the workload `calls` name."""
_CALLS: Final = """\
strata-calls 1 {"calls": 7, "threads": 2, "span_ns": 9000000, "bytes_before": 65536, "bytes_most": 131072, \
"tracing_ns": 20000, "unseen": {}}
folder .
file 65536 1f3ab02c.db
later 77ab02c1-journal
0 90000 0 0 - open 0 1 rw
100000 9000 1000 0 - pread 0 4096 8192
200000 60000 91000 0 - open 1 2 rwc
300000 9000 40000 1 2 pwrite 1 65536 0
400000 7000000 91000 1 - fsync 1
7600000 20000 200000 0 4 pwrite 0 4096 4096
8000000 900000 380000 0 - fdatasync 0
"""


HEAD: Final = '[study]\nname = "small"\nquestion = "Which?"\nseeds = [1]\n'
SSD: Final = "samsung-870-evo-1tb"


def disk(name: str, model: str = "wd-re4-500gb", capacity: str = "") -> str:
    """The table of a device, which ends in a line of its own."""
    return f'[devices.{name}]\nmodel = "{model}"\n' + (f'capacity = "{capacity}"\n' if capacity else "")


EXT4_AND_XFS: Final = (
    disk("disk0")
    + '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n[stacks.xfs]\nlayers = [{ layer = "xfs" }]\n'
)
"""Two stacks on one disk."""


def fio(name: str, size: str = "64MiB") -> str:
    """The table of a workload."""
    keys = f'preset = "random-mix-4k"\nsize = "{size}"\nduration = "10s"\n'
    return f'[workloads.{name}]\nworkload = "fio"\n{keys}'


def pgbench_log(latency_us: int, rate_per_s: float, *, window_s: int, lag: str = "") -> str:
    """pgbench's log of transactions that end evenly over a window, which begins at the epoch."""
    times_us = (
        round((number + 0.5) * 1_000_000 / rate_per_s) for number in range(round(rate_per_s * window_s))
    )
    return "".join(f"0 1 {latency_us} 0 {us // 1_000_000} {us % 1_000_000}{lag}\n" for us in times_us)


def pgbench(name: str) -> str:
    keys = 'scale = 1\nclients = 1\nduration = "10s"\n'
    return f'[workloads.{name}]\nworkload = "pgbench"\n{keys}'


def written(file: Path, text: str) -> Path:
    """A study's file, with the trace or the recording beside it that its example names."""
    file.write_text(text)
    for name, content in ((TRACE, _REQUESTS), (CALLS, _CALLS)):
        if f'"{name}"' in text:
            (file.parent / name).write_text(content)
    return file


def read(folder: Path, text: str) -> Study:
    return load_study(written(folder / "study.toml", text), catalogue())


def mistakes(folder: Path, text: str) -> dict[str, str]:
    """The mistakes found in a text: by key path, each as it is shown to the user."""
    try:
        read(folder, text)
    except DiagnosticsError as error:
        return {str(getattr(mistake, "key", "")): str(mistake) for mistake in error.diagnostics}
    except StrataError as error:
        return {"": str(error)}
    return {}


_HEAD: Final = '[study]\nname = "golden"\nquestion = "Is the plan the same?"\nseeds = [1]\n'


def toml(value: object) -> str:
    """A value as it stands in a study file."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key)


def stack_text(
    layers: str, disks: int, workload: str, *, model: str, capacity: str | None = None, each: str = ""
) -> str:
    """A study of one stack of ``layers`` (TOML tables, joined by commas) and one workload.

    The disks are called disk0, disk1, …; the stack stands on the disks that no layer names. ``each`` are the
    layers that every tenant has of its own.
    """
    size = f'capacity = "{capacity}"\n' if capacity else ""
    devices = "".join(f'\n[devices.disk{index}]\nmodel = "{model}"\n{size}' for index in range(disks))
    own = f"each = [{each}]\n" if each else ""
    return f"{_HEAD}{devices}\n[stacks.stack]\nlayers = [{layers}]\n{own}\n[workloads.load]\n{workload}\n"
