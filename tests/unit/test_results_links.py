# SPDX-License-Identifier: Apache-2.0
"""Links planted in a results folder are neither written to, nor deleted, nor read through."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from execution_factory import fake_runner, identity_of, run_tiny
from starlette.testclient import TestClient
from typer.testing import CliRunner

from strata.cli import app
from strata.errors import ResultError, StrataError
from strata.results.capabilities import Capabilities, Capability, ProbeTitle
from strata.results.findings import write_capabilities
from strata.results.store import ResultsFolder
from strata.serve.app import application

IDENTITY = identity_of("ext4.mix.s1")
TRIAL = f"records/{IDENTITY}"
ATTEMPT = f"{TRIAL}/attempt-001"
FOLDERS = ("records", TRIAL, ATTEMPT, "query", ".journal", "capabilities")
FILES = (".lock", "study.json", "findings.json", f"{ATTEMPT}/result.json")
QUERY = "select count(*) from trials"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make another user's folder")


def error_of(*words: str) -> StrataError | None:
    error = CliRunner().invoke(app, list(words)).exception
    if isinstance(error, SystemExit):
        return None
    assert error is None or isinstance(error, StrataError), error
    return error


def error_in(action: Callable[[], object]) -> StrataError | None:
    try:
        action()
    except StrataError as error:
        return error
    return None


def probed(results: Path) -> None:
    folder = ResultsFolder(results)
    cell = Capability(stack="ext4", probe="grow", verdict="yes")
    found = Capabilities(
        study="tiny", probes=(ProbeTitle(name="grow", title="Grow"),), stacks={"ext4": "ext4"}, cells=(cell,)
    )
    write_capabilities(folder, found)


def served(results: Path) -> None:
    client = TestClient(application([results]), base_url="http://127.0.0.1:8000")
    for page in ("", "results", "report", "trial/ext4.mix.s1"):
        client.get(f"/study/{results.name}/{page}")


WRITING: dict[str, Callable[[Path], StrataError | None]] = {
    "run": lambda results: error_in(lambda: run_tiny(results.parent, fake_runner(), fresh=True)),
    "clean": lambda results: error_of("lab", "clean", str(results)),
    "capabilities": lambda results: error_in(lambda: probed(results)),
    "report": lambda results: error_of("report", str(results)),
    "export": lambda results: error_of("export", str(results)),
}
READING: dict[str, Callable[[Path], StrataError | None]] = {
    "query": lambda results: error_of("query", str(results), QUERY),
    "show": lambda results: error_of("show", str(results)),
    "serve": lambda results: error_in(lambda: served(results)),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results, an unfinished attempt, a journal with a cut entry, derived tables."""
    folder = tmp_path_factory.mktemp("made")
    run_tiny(folder, fake_runner())
    results = folder / "results"
    probed(results)
    assert error_of("query", str(results), QUERY) is None
    ResultsFolder(results).store.begin(IDENTITY)
    for name in (".journal", "capabilities"):
        (results / name).mkdir()
    (results / ".journal" / ".cut.part").write_text("of value")
    return results


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "results"))


def planted(results: Path, name: str) -> Path:
    """Replace a name by a link to what it held, which lies elsewhere now; returns the folder there."""
    watched = results.parent / "watched"
    watched.mkdir()
    shutil.move(results / name, watched / "there")
    if name == "query":
        (watched / "there" / "state.json").write_text("out of date")
    (results / name).symlink_to(watched / "there")
    return watched


def tree(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """Every path below a folder with its time, its mode and its content."""
    found = []
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found.append((str(path.relative_to(folder)), state.st_mtime_ns, state.st_mode, content))
    return found


@pytest.mark.parametrize("name", [*FOLDERS, *FILES])
@pytest.mark.parametrize("command", [*WRITING, *READING])
def test_no_command_follows_a_link_of_a_results_folder(results: Path, command: str, name: str) -> None:
    watched = planted(results, name)
    before = tree(watched)

    error = (WRITING | READING)[command](results)

    assert tree(watched) == before
    if command in WRITING:
        assert str(results / name) in str(error)
        assert "symbolic link" in str(error)
        assert error is not None
        assert error.remedy


def test_a_temporary_name_that_is_a_link_is_not_written_through(results: Path) -> None:
    watched = results.parent / "watched"
    watched.write_text("of value")
    for name in (".study.json.part", ".findings.json.part", "export/.trials.csv.part"):
        (results / name).parent.mkdir(exist_ok=True)
        (results / name).symlink_to(watched)
    (results / "export" / "export.json").write_text('{"export_version": 1, "files": {}}')

    run_tiny(results.parent, fake_runner())
    probed(results)
    assert error_of("export", str(results)) is None

    assert watched.read_text() == "of value"


def test_an_export_goes_through_no_link_in_its_folder(results: Path) -> None:
    watched = results.parent / "watched"
    (watched / "figures").mkdir(parents=True)
    (watched / "trials.csv").write_text("of value")
    export = results.parent / "exported"
    export.mkdir()
    (export / "export.json").write_text('{"export_version": 1, "files": {}}')
    (export / "trials.csv").symlink_to(watched / "trials.csv")
    (export / "figures").symlink_to(watched / "figures")
    before = tree(watched)

    error = error_of("export", str(results), "--output", str(export))

    assert tree(watched) == before
    assert "figures: cannot create the folder: it is a symbolic link" in str(error)


@pytest.mark.parametrize("name", ["events.jsonl", "console.log", "result.json"])
def test_what_only_root_may_read_is_not_shown_through_a_link(results: Path, name: str) -> None:
    secret = results.parent / "secret"
    secret.write_text("the password\n" * 3)
    (results / ATTEMPT / name).unlink()
    (results / ATTEMPT / name).symlink_to(secret)
    client = TestClient(application([results]), base_url="http://127.0.0.1:8000")

    shown = [client.get(f"/study/results/{page}").text for page in ("results", "trial/ext4.mix.s1")]
    shown.append(CliRunner().invoke(app, ["show", str(results), "ext4.mix.s1"]).output)

    assert not any("password" in text for text in shown)


def test_a_lock_file_with_a_second_name_keeps_its_content(results: Path) -> None:
    watched = results.parent / "watched"
    watched.write_text("of value, and longer than any process number")
    (results / ".lock").unlink()
    (results / ".lock").hardlink_to(watched)

    with pytest.raises(ResultError, match="hard link"), ResultsFolder(results).lock():
        pass

    assert watched.read_text() == "of value, and longer than any process number"


@pytest.mark.parametrize("name", [".lock", "study.json", f"{ATTEMPT}/result.json"])
def test_a_pipe_in_a_results_folder_is_not_waited_for(results: Path, name: str) -> None:
    (results / name).unlink()
    os.mkfifo(results / name)

    for command in (*WRITING.values(), *READING.values()):
        command(results)


def test_a_results_folder_that_the_user_names_by_a_link_is_used(results: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    results.rename(elsewhere)
    results.symlink_to(elsewhere)

    assert error_of("lab", "clean", str(results)) is None
    assert run_tiny(tmp_path, fake_runner()).kept
    assert error_of("report", str(results)) is None

    assert (elsewhere / "report.html").is_file()


@needs_root
@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("where", ["", "..", "records", ATTEMPT])
def test_root_writes_nothing_into_another_users_results(results: Path, command: str, where: str) -> None:
    if where == "..":
        outer = results.parent / "outer"
        outer.mkdir()
        results = results.rename(outer / "results")
    theirs = (results / where).resolve()
    os.chown(theirs, 65534, 65534)
    before = tree(results)

    error = WRITING[command](results)

    assert tree(results) == before
    assert "it belongs to nobody" in str(error)
    assert f"chown root {theirs}" in str(error)


@needs_root
@pytest.mark.parametrize("command", READING)
def test_root_reads_another_users_results_and_writes_nothing(results: Path, command: str) -> None:
    shutil.rmtree(results / "query")
    os.chown(results, 65534, 65534)
    before = tree(results)

    assert READING[command](results) is None

    assert tree(results) == before


@needs_root
@pytest.mark.parametrize("where", [".", "..", "records"])
def test_root_writes_nothing_where_others_may_write(results: Path, where: str) -> None:
    open_to_all = (results / where).resolve()
    open_to_all.chmod(0o777)

    error = WRITING["clean"](results)

    assert f"chmod go-w {open_to_all}" in str(error)
    assert (results / TRIAL / "attempt-002").exists()


@needs_root
def test_the_sticky_bit_makes_a_folder_above_safe_and_the_folder_itself_not(results: Path) -> None:
    results.parent.chmod(0o1777)
    assert WRITING["clean"](results) is None

    results.chmod(0o1777)
    assert "make a folder of your own in it" in str(WRITING["clean"](results))


@needs_root
def test_a_link_of_another_user_on_the_way_is_not_followed(results: Path) -> None:
    results.parent.chmod(0o1777)
    link = results.parent / "link"
    link.symlink_to(results)
    os.chown(link, 65534, 65534, follow_symlinks=False)

    error = WRITING["clean"](link)

    assert f"{link}: it belongs to nobody" in str(error)


@needs_root
def test_who_called_sudo_owns_their_results(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(results, 65534, 65534)
    monkeypatch.setenv("SUDO_UID", "65534")

    assert WRITING["clean"](results) is None
