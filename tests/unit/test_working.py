# SPDX-License-Identifier: Apache-2.0
"""Nothing is silent for more than two seconds: the work is named, and gives way to what is printed."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from made_results import made_results
from strata import working
from strata.console import Terminal

STRATA = Path(sys.executable).with_name("strata")


class Stream(io.StringIO):
    """Standard error, with the instant of each text."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def said(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> Stream:
    stream = Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(working, "SILENT_S", 0.3)
    return stream


def wait_for(text: str, stream: Stream) -> None:
    end_s = time.monotonic() + 60
    while text not in stream.getvalue():
        assert time.monotonic() < end_s, stream.getvalue()
        time.sleep(0.05)


def test_in_a_pipe_silent_work_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = said(monkeypatch, is_terminal=False)

    with working.working("reading"):
        wait_for("reading …\n", stream)
        time.sleep(1)

    assert stream.getvalue() == "reading …\n"


def test_on_a_terminal_a_line_counts_and_gives_way_to_what_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = said(monkeypatch, is_terminal=True)

    with working.working("reading"):
        with working.working("drawing"):
            wait_for("drawing: 1 s", stream)
        wait_for("reading: ", stream)
        Terminal(file=stream).print("found")

    text = stream.getvalue()
    assert text.endswith("found\n")
    assert re.search(r"reading: \d+ s\x1b\[K\r\x1b\[K", text), "the line is erased before"


@pytest.mark.slow
def test_a_large_report_names_its_work_in_time(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "results", stacks=10, workloads=6, seeds=20)
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    begun_s = time.monotonic()
    running = subprocess.Popen(
        [STRATA, "report", folder.path], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert running.stderr is not None
    first = running.stderr.readline()
    waited_s = time.monotonic() - begun_s
    running.communicate()

    assert running.returncode == 0
    assert first.startswith(("strata report", "reading", "writing", "wrote"))
    assert waited_s < 10, "two seconds after the program has started"
