# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from input_files import STUDY, plain_tar, plan_of, study

from strata.diagnostics.names import Diagnostic
from strata.errors import DiagnosticsError, LabError, StudyError
from strata.lab.inputs import (
    input_setting,
    input_variables,
    provide_inputs,
    provided_inputs,
    write_package_set,
)
from strata.lab.progress import SILENCE
from strata.model.inputs import read_input
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "tree.tar": lambda content: content,
    "tree.tar.gz": gzip.compress,
    "tree.tar.bz2": bz2.compress,
    "tree.tar.xz": lzma.compress,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("STRATA_SHARED_CACHE", str(tmp_path / "shared"))


@pytest.mark.parametrize("name", PACKED)
def test_an_archive_is_provided_as_a_plain_tar_however_it_is_packed(name: str, tmp_path: Path) -> None:
    read = study(tmp_path, name, PACKED[name](plain_tar()))
    plan = plan_of(read)

    provide_inputs(plan, read.inputs.values(), SILENCE)

    (found,) = provided_inputs(plan)
    assert found.path.read_bytes() == plain_tar()
    assert input_setting(plan) == {"inputs": {"archive": found.sha256}}
    assert input_variables(plan) == {"input-archive": "/dev/input0"}
    assert input_variables(plan, [str(found.path)]) == {"input-archive": str(found.path)}


def test_a_tar_of_odd_length_ends_in_zeros_to_the_end_of_a_sector(tmp_path: Path) -> None:
    read = study(tmp_path, "tree.tar", plain_tar() + b"x")

    provide_inputs(plan_of(read), read.inputs.values(), SILENCE)

    (found,) = provided_inputs(plan_of(read))
    assert found.path.read_bytes() == plain_tar() + b"x" + bytes(511)
    assert found.size_bytes % 512 == 0


def tar_of(**sizes: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, size in sizes.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = size
            tar.addfile(member, io.BytesIO(bytes(size)))
    return out.getvalue()


@pytest.mark.parametrize(
    ("members", "key"),
    [
        (None, "archive"),
        (["project/large"], "members"),
        (["*/large"], "members"),
        (["project/small"], None),
        (["*"], "members"),
        (["lar*"], None),
    ],
)
def test_an_archive_that_does_not_fit_is_refused(
    members: list[str] | None, key: str | None, tmp_path: Path
) -> None:
    content = gzip.compress(tar_of(project__large__main=70 << 20, project__small__main=1 << 20))
    (tmp_path / "tree.tar.gz").write_bytes(content)
    text = STUDY.replace("NAME", "tree.tar.gz").replace('500gb"', '500gb"\ncapacity = "64MiB"')
    chosen = "" if members is None else f"members = {members}\n"
    (tmp_path / "study.toml").write_text(text + chosen)

    if key is None:
        load_study(tmp_path / "study.toml", catalogue())
        return
    with pytest.raises(DiagnosticsError) as caught:
        load_study(tmp_path / "study.toml", catalogue())

    assert len(caught.value.diagnostics) == 1
    assert f"workloads.tree.{key}" in str(caught.value)
    assert "71MiB" in str(caught.value) or "70MiB" in str(caught.value)


def test_an_archive_is_known_by_its_content_wherever_it_lies(tmp_path: Path) -> None:
    read = study(tmp_path, "tree.tar.gz", gzip.compress(plain_tar(), mtime=0))
    provide_inputs(plan_of(read), read.inputs.values(), SILENCE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(tmp_path / "tree.tar.gz", elsewhere / "tree.tar.gz")

    moved = plan_of(study(elsewhere, "tree.tar.gz"))

    assert moved == plan_of(read)
    assert provided_inputs(moved)


def test_an_input_missing_from_the_cache_is_an_error(tmp_path: Path) -> None:
    plan = plan_of(study(tmp_path, "tree.tar", plain_tar()))

    with pytest.raises(LabError, match="not in the cache"):
        provided_inputs(plan)


@pytest.mark.parametrize("name", ["tree.tar.gz", "tree.tar.xz", "tree.tar.bz2"])
def test_a_damaged_archive_is_an_error_before_the_trial(name: str, tmp_path: Path) -> None:
    packed = PACKED[name](plain_tar(bytes(range(256)) * 4000))
    read = study(tmp_path, name, packed)
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])

    with pytest.raises(StudyError, match="damaged"):
        provide_inputs(plan_of(read), read.inputs.values(), SILENCE)
    assert not list((tmp_path / "cache" / "input").glob("*"))


def test_an_archive_that_has_changed_since_the_study_was_read_is_an_error(tmp_path: Path) -> None:
    read = study(tmp_path, "tree.tar", plain_tar())
    (tmp_path / "tree.tar").write_bytes(plain_tar(b"other"))

    with pytest.raises(StudyError, match="changed"):
        provide_inputs(plan_of(read), read.inputs.values(), SILENCE)


def test_a_plan_of_another_archive_is_an_error(tmp_path: Path) -> None:
    plan = plan_of(study(tmp_path, "tree.tar", plain_tar()))

    with pytest.raises(LabError, match="no file of the study has its content") as caught:
        provide_inputs(plan, [], SILENCE)
    assert caught.value.remedy


def test_too_little_space_is_an_error_before_anything_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = study(tmp_path, "tree.tar.xz", lzma.compress(plain_tar()))
    packed_bytes = read.inputs[next(iter(read.inputs))].path.stat().st_size
    free_bytes = 11 * packed_bytes  # as the kernel's sources need
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free_bytes))

    with pytest.raises(LabError, match=r"may take .* are free"):
        provide_inputs(plan_of(read), read.inputs.values(), SILENCE)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("missing.tar", "there is no file"),
        ("folder", "is no file, folder or link"),
        ("text.tar", "is no tar archive"),
        ("strata:linux", 'Strata has no "strata:linux"'),
    ],
)
def test_what_is_no_archive_is_refused_with_its_key(name: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "pipe")
    (tmp_path / "text.tar").write_text("this is a text\n" * 100)

    with pytest.raises(DiagnosticsError) as found:
        study(tmp_path, name)

    (mistake,) = found.value.diagnostics
    assert cause in mistake.cause
    assert (mistake.place or "").endswith("workloads.tree.archive")
    assert mistake.remedy


def test_what_strata_has_need_not_be_there_to_read_a_study(tmp_path: Path) -> None:
    read = study(tmp_path, "strata:linux-source")

    assert not read.inputs
    (wanted,) = plan_of(read).inputs
    assert (wanted.source, wanted.sha256) == ("strata:linux-source", None)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.tar").symlink_to("loop.tar")

    with pytest.raises(Diagnostic, match="cannot be read"):
        read_input("loop.tar", tmp_path)


def test_a_damaged_package_makes_no_package_set(tmp_path: Path) -> None:
    broken = tmp_path / "broken_1_all.deb"
    broken.write_bytes(b"!<arch>\nnothing")

    with pytest.raises(LabError, match="damaged"):
        write_package_set(
            tmp_path / "set.tar", {"essential": {"broken": "1"}, "rest": {}}, {"broken": broken}
        )
