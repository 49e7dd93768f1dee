# SPDX-License-Identifier: Apache-2.0
"""The studies behind the golden plans: each layer and each workload alone, and their variants."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from study_texts import read

_LAYERS: Final = {
    "layer-ext4": (1, '{ layer = "ext4", mkfs = ["-E", "stride=16"], mount = ["noatime"] }'),
    "layer-xfs": (1, '{ layer = "xfs", mkfs = ["-i", "maxpct=5"], mount = ["noatime"] }'),
    "layer-btrfs": (1, '{ layer = "btrfs" }'),
    "layer-btrfs-nocow-raid1": (2, '{ layer = "btrfs", cow = false, data = "raid1" }'),
}
_WORKLOADS: Final = {
    "workload-fio": 'workload = "fio"\npreset = "random-mix-4k"\nwarmup = "5s"\nduration = "10s"',
    "workload-fio-verify": 'workload = "fio"\npreset = "verify-random-write-4k"\nsize = "32MiB"',
    "workload-pgbench": (
        'workload = "pgbench"\nscale = 10\nclients = 10\nwarmup = "5s"\nduration = "20s"\n'
        "settings = { synchronous_commit = false }"
    ),
}
_FIO: Final = 'workload = "fio"\npreset = "random-mix-4k"\nduration = "10s"'
CASES: Final = [*_LAYERS, *_WORKLOADS]


def compile_case(name: str, folder: Path) -> Plan:
    """The plan of a case, for seed 1."""
    disks, layer = _LAYERS.get(name, (1, '{ layer = "ext4" }'))
    workload = _WORKLOADS.get(name, _FIO)
    devices = "\n".join(f'[devices.disk{index}]\nmodel = "wd-re4-500gb"' for index in range(disks))
    head = '[study]\nname = "golden"\nquestion = "Is the plan the same?"\nseeds = [1]'
    text = f"{head}\n{devices}\n[stacks.stack]\nlayers = [{layer}]\n[workloads.load]\n{workload}\n"
    return compile_trial(read(folder, text), "stack", "load", 1)
