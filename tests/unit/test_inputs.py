# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from execution_factory import TRIALS, RecordingDisplay, fake_runner, study_in
from typer.testing import CliRunner

from strata.cli import app
from strata.errors import DiagnosticsError, LabError, StudyError
from strata.execution.run import run_study
from strata.lab.inputs import (
    input_setting,
    input_variables,
    provide_inputs,
    provided_inputs,
    write_package_set,
)
from strata.lab.progress import SILENCE
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Plan, PlanInput
from strata.results.store import ResultsFolder
from strata.spec.consent import Consent, consent, give_consent, withdraw_consent
from strata.spec.inputs import InputFile, read_input
from strata.spec.load import load_study
from strata.spec.names import Diagnostic
from strata.spec.study import Study
from strata.spec.workload import InputKind
from study_texts import HEAD, disk

STUDY = f"{HEAD}time_limit = '1h'\n{disk('disk0')}"
STUDY += (
    '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n[workloads.tree]\nworkload = "tree"\narchive = "NAME"\n'
)
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


def test_an_input_file_is_found_relative_to_the_study(tmp_path: Path) -> None:
    (tmp_path / "tree.tar").write_bytes(plain_tar())

    found = read_input("tree.tar", tmp_path)

    assert isinstance(found, InputFile)
    assert found.path == tmp_path / "tree.tar"


def test_a_damaged_package_makes_no_package_set(tmp_path: Path) -> None:
    broken = tmp_path / "broken_1_all.deb"
    broken.write_bytes(b"!<arch>\nnothing")

    with pytest.raises(LabError, match="damaged"):
        write_package_set(
            tmp_path / "set.tar", {"essential": {"broken": "1"}, "rest": {}}, {"broken": broken}
        )


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The folder of a study, and a file that does not lie beside it."""
    folder = tmp_path / "study"
    folder.mkdir()
    other = tmp_path / "other" / "secret.tar"
    other.parent.mkdir()
    other.write_bytes(plain_tar())
    yield folder, other
    withdraw_consent()


@pytest.mark.parametrize("kind", ["archive", "file", "trace"])
@pytest.mark.parametrize(
    "source", ["../other/secret.tar", "OTHER", "link.tar", "sub/../../other/secret.tar", "linked/secret.tar"]
)
def test_a_study_reads_no_file_outside_its_folder(
    source: str, kind: InputKind, elsewhere: tuple[Path, Path]
) -> None:
    folder, other = elsewhere
    (folder / "sub").mkdir()
    (folder / "link.tar").symlink_to(other)
    (folder / "linked").symlink_to(other.parent)

    with pytest.raises(Diagnostic, match="outside the study's folder") as caught:
        read_input(source.replace("OTHER", str(other)), folder, kind)

    assert f"--allow-input {other}" in (caught.value.remedy or "")


@pytest.mark.parametrize("source", ["/etc", "/proc/self/environ", "..", "/"])
def test_nor_a_folder_of_the_machine(source: str, elsewhere: tuple[Path, Path]) -> None:
    with pytest.raises(Diagnostic, match="outside the study's folder"):
        read_input(source, elsewhere[0])


@pytest.mark.parametrize("permitted", ["file", "folder"])
def test_what_the_caller_names_is_read(permitted: str, elsewhere: tuple[Path, Path]) -> None:
    folder, other = elsewhere

    give_consent([other if permitted == "file" else other.parent])

    assert read_input(str(other), folder) is not None
    assert consent().words() == ["--allow-input", str(other if permitted == "file" else other.parent)]
    with pytest.raises(Diagnostic, match="outside the study's folder"):
        read_input("/etc", folder)


def test_a_link_within_the_folder_and_a_study_behind_a_link_are_read(elsewhere: tuple[Path, Path]) -> None:
    folder, _ = elsewhere
    (folder / "data").mkdir()
    (folder / "data" / "tree.tar").write_bytes(plain_tar())
    (folder / "tree.tar").symlink_to("data/tree.tar")
    (folder.parent / "studies").symlink_to("study")

    assert read_input("tree.tar", folder) is not None
    assert read_input("tree.tar", folder.parent / "studies") is not None


def test_permissions_add_up(elsewhere: tuple[Path, Path]) -> None:
    give_consent([Path("/a")])
    give_consent(None, kernel_source=True)

    assert consent() == Consent((Path("/a"),), kernel_source=True)
    assert consent().words() == ["--allow-input", "/a", "--allow-kernel-source"]


@pytest.mark.parametrize("form", ["archive", "plain", "file", "folder", "trace"])
def test_a_copy_of_a_private_file_is_private(form: str, tmp_path: Path) -> None:
    source = tmp_path / "study" / ("tree.tar.gz" if form == "archive" else "tree.tar")
    source.parent.mkdir()
    kind: InputKind = "archive"
    if form == "folder":
        source = source.parent / "tree"
        source.mkdir()
        (source / "secret").write_text("secret")
        (source / "secret").chmod(0o600)
    elif form == "trace":
        kind = "trace"
        source.write_text("fio version 2 iolog\n/dev/sda add\n/dev/sda read 0 4096\n")
    else:
        kind = "file" if form == "file" else "archive"
        source.write_bytes(gzip.compress(plain_tar()) if form == "archive" else plain_tar())
    if form != "folder":
        source.chmod(0o600)
    found = read_input(source.name, source.parent, kind)
    assert found is not None
    assert found.private
    plan = SimpleNamespace(
        inputs=[PlanInput(name="archive", source=source.name, sha256=found.sha256, kind=kind)], variables=()
    )

    provide_inputs(plan, [found], SILENCE)  # type: ignore[arg-type]

    [provided] = provided_inputs(plan)  # type: ignore[arg-type]
    assert provided.path.stat().st_mode & 0o777 == 0o600


def test_the_command_line_permits_a_file(elsewhere: tuple[Path, Path]) -> None:
    folder, other = elsewhere
    (folder / "study.toml").write_text(STUDY.replace("NAME", str(other)))
    words = ["check", str(folder / "study.toml")]

    refused = CliRunner().invoke(app, words)
    permitted = CliRunner().invoke(app, [*words, "--allow-input", str(other)])

    assert isinstance(refused.exception, DiagnosticsError)
    assert "workloads.tree.archive" in str(refused.exception)
    assert permitted.exit_code == 0


@pytest.mark.parametrize("private", [True, False])
def test_results_with_a_private_input_are_readable_for_their_owner_alone(
    private: bool, tmp_path: Path
) -> None:
    own = study_in(tmp_path)
    file = InputFile(tmp_path / "secret.tar", "0" * 64, private=private)
    own = replace(own, inputs={"secret.tar": file})

    summary = run_study(own, tmp_path / "results", fake_runner(), RecordingDisplay(), jobs=1)

    assert set(summary.valid) == TRIALS
    results = ResultsFolder.open(tmp_path / "results")
    found = [each.path for trial in results.trials() for each in results.attempts(trial)]
    assert {bool(path.stat().st_mode & 0o077) for path in found} == {not private}
