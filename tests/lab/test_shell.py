# SPDX-License-Identifier: Apache-2.0
"""`strata lab enter` at a terminal: what a person types reaches the lab, and the terminal survives it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import STRATA, environment, head, labs_of, left_in, mix, public_folder, shared_lab, stacks

from strata.lab import Lab

RETYPED_S = 10
PATIENCE_S = 60.0
PROMPT = "root@lab"


class Terminal:
    """A `strata` at a terminal of its own."""

    def __init__(self, words: list[str], env: dict[str, str], cwd: Path) -> None:
        self.keyboard, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [*STRATA, *words], env=env, cwd=cwd, stdin=self.slave, stdout=self.slave, stderr=self.slave
        )
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def wait_for(self, text: str, count: int = 1) -> None:
        """Read until ``text`` was shown ``count`` times since the start."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.shown.count(text) < count:
            assert time.monotonic() < deadline_s, f"no {text!r} in:\n{self.shown}"
            self.read()

    def ask(self, line: str, answer: str) -> None:
        """Type a line until it is answered: one that comes before bash has its terminal again is lost."""
        deadline_s = time.monotonic() + PATIENCE_S
        while answer not in self.shown:
            assert time.monotonic() < deadline_s, f"no {answer!r} in:\n{self.shown}"
            self.type(f"{line}\r")
            again_s = time.monotonic() + RETYPED_S
            while answer not in self.shown and time.monotonic() < again_s:
                self.read()

    def read(self) -> None:
        if select.select([self.keyboard], [], [], 0.1)[0]:
            self.shown += os.read(self.keyboard, 65536).decode(errors="replace")

    def wait(self) -> int:
        deadline_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, self.shown
            self.read()
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.keyboard)
        os.close(self.slave)


@pytest.fixture(scope="module")
def ground(lab: Lab) -> Iterator[Path]:
    with public_folder() as path:
        shared_lab(lab, path / "shared")
        (path / "study.toml").write_text(head("shell", [1], "8GiB") + stacks("xfs") + mix())
        yield path


@pytest.fixture(params=[[], ["--virtual"]], ids=["real", "virtual"])
def terminal(ground: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    words = ["lab", "enter", str(ground / "study.toml"), "--stack", "xfs", *request.param]
    opened = Terminal(words, environment(ground / "cache", ground / "shared"), ground)
    yield opened
    opened.close()
    assert labs_of(ground / "cache") == []


def test_a_person_works_on_the_stack_and_leaves(terminal: Terminal, ground: Path) -> None:
    terminal.wait_for(PROMPT)
    terminal.type("findmnt -no FSTYPE,SOURCE /mnt/stack; echo $((6 * 7))\r")
    terminal.wait_for("42")
    terminal.type("exit\r")

    assert terminal.wait() == 0
    assert "xfs /dev/sda" in terminal.shown
    assert termios.tcgetattr(terminal.slave) == terminal.before
    assert left_in(ground / "cache") == []


def test_ctrl_c_interrupts_what_runs_in_the_lab_and_not_the_lab(terminal: Terminal) -> None:
    terminal.wait_for(PROMPT)
    terminal.type("cat\r")
    time.sleep(1)
    terminal.type("\x03")
    terminal.wait_for(PROMPT, 2)
    terminal.ask("echo still $((6 * 7))", "still 42")
    # Ctrl-D that comes before bash has its terminal in its own mode again is kept as a NUL and means nothing.
    terminal.wait_for(PROMPT, 3)
    terminal.type("\x04")

    assert terminal.wait() == 0


def test_ended_from_outside_it_restores_the_terminal_and_leaves_nothing(
    terminal: Terminal, ground: Path
) -> None:
    terminal.wait_for(PROMPT)

    terminal.process.send_signal(signal.SIGTERM)

    assert terminal.wait() == 128 + signal.SIGTERM
    assert termios.tcgetattr(terminal.slave) == terminal.before
    assert left_in(ground / "cache") == []


def test_without_a_terminal_it_says_so(ground: Path) -> None:
    done = subprocess.run(
        [*STRATA, "lab", "enter"],
        env=environment(ground / "cache", ground / "shared"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "needs a terminal" in done.stderr
