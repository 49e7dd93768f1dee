# SPDX-License-Identifier: Apache-2.0
"""Archives beside a study, for the tests of inputs."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.reading.load import load_study
from study_texts import HEAD, disk

STUDY = f"{HEAD}time_limit = '1h'\n{disk('disk0')}"
STUDY += (
    '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n[workloads.tree]\nworkload = "tree"\narchive = "NAME"\n'
)


def plain_tar(text: bytes = b"int main;\n" * 5000) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("project/main.c")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    return out.getvalue()


def study(folder: Path, name: str, content: bytes | None = None) -> Study:
    if content is not None:
        (folder / name).write_bytes(content)
    (folder / "study.toml").write_text(STUDY.replace("NAME", name))
    return load_study(folder / "study.toml", catalogue())


def plan_of(read: Study) -> Plan:
    return compile_trial(read, "ext4", "tree", 1)
