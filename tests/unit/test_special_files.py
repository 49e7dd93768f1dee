# SPDX-License-Identifier: Apache-2.0
"""Pipes, devices, sockets, folders and huge files: refused at once where a file is expected."""

from __future__ import annotations

import os
import signal
import socket
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from results_factory import make_study

from command_line import Typed
from for_all import for_all
from record_hashes import attempt_of
from strata.results.findings import FINDINGS_NAME
from study_texts import SOUND

PATIENCE_S = 60


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            listening.bind(path.name)
        finally:
            os.chdir(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "a pipe"),
    "zeros without end": (lambda path: path.symlink_to("/dev/zero"), "a character device"),
    "a terminal": (lambda path: path.symlink_to("/dev/tty"), "a character device"),
    "a folder": (Path.mkdir, "a folder"),
    "a socket": (_socket, "a socket"),
    "a sparse file of 10 GiB": (_sparse, "larger than"),
}


@pytest.fixture
def typed(typed: Typed) -> Iterator[Typed]:
    """Type a command, and end it when it waits for a pipe."""

    def give_up(number: int, frame: object) -> None:
        raise AssertionError("it waits")

    def patiently(*words: object) -> tuple[int, str, str]:
        signal.alarm(PATIENCE_S)
        try:
            return typed(*words)
        finally:
            signal.alarm(0)

    before = signal.signal(signal.SIGALRM, give_up)
    yield patiently
    signal.signal(signal.SIGALRM, before)


COMMANDS = {
    "check": ("check", "{}"),
    "plan": ("plan", "{}"),
    "stacks": ("plan", "{}", "--stacks"),
    "run": ("run", "{}"),
    "capabilities": ("capabilities", "{}"),
    "devices": ("list", "devices", "{}"),
    "uses": ("list", "uses", "--uses", "{}"),
    "measurement": ("lab", "validate", "--measured", "{}", "--device", "null"),
}


@for_all("how", SPECIAL)
@for_all("command", COMMANDS)
def test_a_special_file_as_an_argument_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed, command: str, how: str
) -> None:
    make, kind = SPECIAL[how]
    path = tmp_path / "given.toml"
    make(path)
    monkeypatch.chdir(tmp_path)

    code, _, said = typed(*(word.format(path) for word in COMMANDS[command]))

    assert code in {2, 3, 6}
    assert kind in said
    assert "given.toml" in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize("how", SPECIAL)
def test_a_special_file_as_the_device_or_the_archive_of_a_study_is_a_mistake_of_its_key(
    tmp_path: Path, typed: Typed, how: str
) -> None:
    make, kind = SPECIAL[how]
    make(tmp_path / "disk.toml")
    if how != "a sparse file of 10 GiB":  # which is a tar, though an empty one
        make(tmp_path / "tree.tar")
    else:
        with tarfile.open(tmp_path / "tree.tar", "w"):
            pass
    study = tmp_path / "study.toml"
    text = SOUND.replace('model = "wd-re4-500gb"', 'model = "./disk.toml"')
    study.write_text(f'{text}\n[workloads.unpack]\nworkload = "tree"\narchive = "tree.tar"\n')

    code, _, said = typed("check", study)

    assert code == 2
    assert kind in said
    assert "devices." in said
    if how not in {"a sparse file of 10 GiB", "a folder"}:  # a folder is packed
        assert "workloads.unpack.archive" in said


OF_RESULTS = {
    "study.json": "study.json",
    "result": "{attempt}/result.json",
    "events": "{attempt}/events.jsonl",
    "plan": "{attempt}/plan.json",
    "capabilities": FINDINGS_NAME,
}


@for_all("how", ["a pipe", "zeros without end", "a sparse file of 10 GiB"])
@for_all("name", OF_RESULTS)
@for_all("command", ["show", "report", "query", "explain"])
def test_a_special_file_among_results_is_no_reason_to_wait(
    tmp_path: Path, typed: Typed, name: str, how: str, command: str
) -> None:
    folder = make_study(tmp_path / "results", seeds=(1,)).path
    path = folder / OF_RESULTS[name].format(attempt=attempt_of(folder, "xfs.oltp.s1"))
    path.unlink(missing_ok=True)
    SPECIAL[how][0](path)
    more: dict[str, list[object]] = {
        "report": ["--output", tmp_path / "report.html"],
        "query": ["select count(*) from samples"],
        "explain": ["xfs.oltp.s1"],
    }

    words: list[object] = more.get(command, [])
    code, _, said = typed(command, folder, *words)

    assert code in {0, 6}, said
    assert "Traceback" not in said


def test_an_archive_that_swells_is_refused_before_it_is_unpacked(tmp_path: Path, typed: Typed) -> None:
    with tarfile.open(tmp_path / "tree.tar.gz", "w:gz", compresslevel=1) as tar:
        header = tarfile.TarInfo("zeros")
        header.size = 1 << 40
        tar.addfile(header)  # what follows is never looked at
    study = tmp_path / "study.toml"
    study.write_text(f'{SOUND}\n[workloads.unpack]\nworkload = "tree"\narchive = "tree.tar.gz"\n')

    code, _, said = typed("check", study)

    assert code == 2
    assert "holds more than any tree of files" in said
