# SPDX-License-Identifier: Apache-2.0
"""Inputs of strangers' studies: files elsewhere, private files, archives that swell."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from execution_factory import TRIALS, RecordingDisplay, fake_runner, study_in
from input_files import STUDY, plain_tar, plan_of, study
from typer.testing import CliRunner

from strata.cli import app
from strata.diagnostics.names import Diagnostic
from strata.errors import DiagnosticsError, StudyError
from strata.experiment.run import run_study
from strata.lab.inputs import (
    provide_inputs,
    provided_inputs,
)
from strata.lab.progress import SILENCE
from strata.model import inputs as archives
from strata.model.consent import Consent, consent, give_consent, withdraw_consent
from strata.model.inputs import InputFile, read_input
from strata.model.workload import InputKind
from strata.plan.model import PlanInput
from strata.results.store import ResultsFolder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("STRATA_SHARED_CACHE", str(tmp_path / "shared"))


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


@pytest.mark.parametrize("kind", ["archive", "file", "trace", "calls"])
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
    found = [each.path for trial in results.study().trials for each in results.attempts(trial)]
    assert {bool(path.stat().st_mode & 0o077) for path in found} == {not private}


def bombs() -> dict[str, bytes]:
    """Small files that unpack to gigabytes, each in a way of its own."""
    zeros = gzip.compress(bytes(8 << 20), 9)  # two such streams in a row are one file
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 32
    long_name = tarfile.TarInfo("././@LongLink")
    long_name.type, long_name.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
    stated = tarfile.TarInfo("large")
    stated.size = 1 << 40
    return {
        "after the end": gzip.compress(plain_tar()) + zeros + zeros,
        "in a member": gzip.compress(stated.tobuf()) + zeros + zeros,
        "in a header of pax": gzip.compress(header.tobuf(tarfile.GNU_FORMAT)) + zeros,
        "in a long name": gzip.compress(long_name.tobuf(tarfile.GNU_FORMAT)) + zeros,
        "in a plain header": header.tobuf(tarfile.GNU_FORMAT) + bytes(10240),
    }


BOMBS = bombs()


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that a test reaches sooner than a gibibyte."""
    monkeypatch.setattr(archives, "_SWOLLEN_BYTES_MIN", 4 << 20)


@pytest.mark.parametrize("form", BOMBS)
@pytest.mark.usefixtures("small_limit")
def test_an_archive_that_swells_is_refused_whatever_part_of_it_does(form: str, tmp_path: Path) -> None:
    (tmp_path / "tree.tar").write_bytes(BOMBS[form])

    tracemalloc.start()
    with pytest.raises(Diagnostic, match="more than any tree of files"):
        read_input("tree.tar", tmp_path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak_bytes < 4 << 20


@pytest.mark.usefixtures("small_limit")
def test_an_archive_that_swells_after_the_check_fills_no_disk(tmp_path: Path) -> None:
    read = study(tmp_path, "tree.tar", plain_tar())
    plan = plan_of(read)
    (tmp_path / "tree.tar").write_bytes(BOMBS["after the end"])

    with pytest.raises(StudyError, match="more than any tree of files"):
        provide_inputs(plan, read.inputs.values(), SILENCE)

    assert not [path for path in (tmp_path / "cache").rglob("content.tar") if path.stat().st_size]


def test_many_members_take_little_memory(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in range(8000):
            tar.addfile(tarfile.TarInfo(f"{number}"))
    (tmp_path / "tree.tar.gz").write_bytes(gzip.compress(out.getvalue()))
    del out
    read_input("tree.tar.gz", tmp_path)  # whatever is loaded once

    tracemalloc.start()
    found = read_input("tree.tar.gz", tmp_path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found is not None
    assert len(found.sizes_bytes) == 8000
    assert peak_bytes < 4 << 20
