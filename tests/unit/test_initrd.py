# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from strata.lab.initrd import Member, cpio, lab_initrd

pytestmark = pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio, the other reader, is missing")


def names(archive: bytes) -> list[str]:
    listing = subprocess.run(["cpio", "-t", "--quiet"], input=archive, capture_output=True, check=True)
    return listing.stdout.decode().splitlines()


def test_another_program_reads_the_archive_as_it_was_meant(tmp_path: Path) -> None:
    padded = [Member("a" * (length + 1), stat.S_IFREG | 0o644, b"y" * length) for length in range(9)]
    archive = cpio(
        [
            *padded,
            Member("folder", stat.S_IFDIR | 0o755),
            Member("folder/three", stat.S_IFREG | 0o644, b"abc"),
            Member("folder/empty", stat.S_IFREG | 0o600),
            Member("folder/program", stat.S_IFREG | 0o755, b"x" * 4097),
        ]
    )

    subprocess.run(["cpio", "-i", "--quiet"], input=archive, cwd=tmp_path, check=True, capture_output=True)

    assert (tmp_path / "folder/three").read_bytes() == b"abc"
    assert (tmp_path / "folder/empty").read_bytes() == b""
    assert (tmp_path / "folder/program").read_bytes() == b"x" * 4097
    for member in padded:
        assert (tmp_path / member.path).read_bytes() == member.content
    assert stat.S_IMODE((tmp_path / "folder/program").stat().st_mode) == 0o755


def test_the_lab_finds_agent_plan_and_bindings_at_their_places() -> None:
    archive = lab_initrd(b"agent", b"plan", b"bindings")

    assert {"init", "strata/plan.json", "strata/bindings.json", "dev/console"} <= set(names(archive))


def test_a_folder_precedes_what_is_in_it() -> None:
    listed = names(lab_initrd(b"agent", b"plan", b"bindings"))

    for index, name in enumerate(listed):
        if "/" in name:
            assert name.rpartition("/")[0] in listed[:index]


def test_equal_content_gives_equal_bytes_and_other_content_others() -> None:
    first = lab_initrd(b"agent", b"plan", b"bindings")

    assert first == lab_initrd(b"agent", b"plan", b"bindings")
    assert first != lab_initrd(b"agent", b"another", b"bindings")


def test_kernel_modules_are_in_a_folder_of_their_own_and_only_where_there_are_some() -> None:
    listed = names(lab_initrd(b"agent", b"plan", b"bindings", {"strata/modules/00-spl.ko": b"module"}))

    assert listed[-2:] == ["strata/modules", "strata/modules/00-spl.ko"]
    assert "strata/modules" not in names(lab_initrd(b"agent", b"plan", b"bindings"))
