# SPDX-License-Identifier: Apache-2.0
"""Study files for tests: a sound one, and how to read a text as one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from strata.errors import DiagnosticsError, StrataError
from strata.plan.catalogue import catalogue
from strata.spec.load import load_study
from strata.spec.study import Study

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


def read(folder: Path, text: str) -> Study:
    file = folder / "study.toml"
    file.write_text(text)
    return load_study(file, catalogue())


def mistakes(folder: Path, text: str) -> dict[str, str]:
    """The mistakes found in a text: by key path, each as it is shown to the user."""
    try:
        read(folder, text)
    except DiagnosticsError as error:
        return {str(getattr(mistake, "key", "")): str(mistake) for mistake in error.diagnostics}
    except StrataError as error:
        return {"": str(error)}
    return {}
