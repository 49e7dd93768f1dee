# SPDX-License-Identifier: Apache-2.0
"""A virtual machine from a user's own disk image, on this machine: QEMU in the sandbox, and ssh into it.

``STRATA_FOREIGN_IMAGE`` names an image with Debian 13, cloud-init and PostgreSQL for the slow test; emulated
on an idle machine it takes some minutes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import head, host_ground, oltp, records, run_text

from present import present
from strata.lab import Lab
from strata.layers import own_image
from strata.plan.compile import ENVIRONMENT
from strata.results.record import ResultRecord
from strata.runners.host import HostRunner
from strata.units import NS_PER_S

pytestmark = pytest.mark.root

IMAGE = os.environ.get("STRATA_FOREIGN_IMAGE", "")
STACK = """
[stacks.own]
layers = [{ layer = "vm", image = "system.KIND", memory = "1GiB" }, { layer = "ext4" }]
"""


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    for tool in ("qemu-system-x86_64", "ssh"):
        if not shutil.which(tool, path=ENVIRONMENT["PATH"]):
            pytest.skip(f"this machine lacks {tool}")
    with host_ground() as path:
        yield path


def run(lab: Lab, folder: Path, scratch: Path, kind: str) -> ResultRecord:
    runner = HostRunner(lab.agent, scratch=scratch, journal=folder / "results", load=lab.load)
    text = head("own", [1], capacity="2GiB").replace('"10m"', '"2h"\nmemory = "3GiB"')
    run_text(text + STACK.replace("KIND", kind) + oltp(1), folder, runner, retries=0)
    (record,) = records(folder / "results").values()
    assert list(scratch.iterdir()) == []
    return record


def test_an_image_that_does_not_boot_is_told_and_leaves_nothing(
    lab: Lab, ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_image, "_BOOT_LIMIT_NS", 5 * NS_PER_S)
    folder = ground / "blank"
    folder.mkdir()
    (folder / "system.raw").write_bytes(b"\xeb\xfe" + bytes(508) + b"\x55\xaa" + bytes(1 << 20))

    record = run(lab, folder, ground / "scratch", "raw")

    assert not record.validity.valid
    assert "not ready within" in record.validity.reasons[0], record.validity.reasons


@pytest.mark.slow
@pytest.mark.skipif(not IMAGE, reason="STRATA_FOREIGN_IMAGE names no image")
def test_postgresql_of_another_release_runs_in_its_own_system(lab: Lab, ground: Path) -> None:
    folder = ground / "debian"
    folder.mkdir()
    kind = Path(IMAGE).suffix[1:]
    shutil.copyfile(IMAGE, folder / f"system.{kind}")

    record = run(lab, folder, ground / "scratch", kind)

    checks = {check.name: check for check in record.checks}
    assert record.validity.valid, record.validity.reasons
    assert {metric.name: metric.value for metric in record.metrics}["transactions_per_s"] > 0
    assert checks["known-system"].verdict == "no"
    assert "(trixie), Linux 6.12" in record.versions.packages["system of vm"]
    assert present(record.disks)["disk0"]["write_bytes"] > 0
