# SPDX-License-Identifier: Apache-2.0
"""What would never end by itself ends at the first signal."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from strata.cli.application import ended_by_signals
from strata.errors import LabError
from strata.files import read_plain
from strata.lab.cache import Cache
from strata.lab.lab import _at_once
from strata.lab.process import begin_running, end_running, run_logged

QUERY = """
import sys
from strata.cli.application import ended_by_signals
from strata.database import interruptible, offline_connection
with ended_by_signals(), offline_connection() as connection:
    print("begun", flush=True)
    endless = "select count(*) from range(100000000) a, range(100000000) b where a.range * b.range = 7"
    interruptible(connection, lambda: connection.execute(endless).fetchall())
"""
LOOP = """
from strata.cli.application import ended_by_signals
with ended_by_signals():
    print("begun", flush=True)
    while True:
        pass
"""

TABLES = """
from strata.cli.application import ended_by_signals
from strata.database import offline_connection
try:
    with ended_by_signals(), offline_connection(threads=1) as connection:
        print("begun", flush=True)
        while True:
            connection.execute("select count(*) from range(1000000000)").fetchall()
except (KeyboardInterrupt, SystemExit):
    print("ended")
"""


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("program", [QUERY, LOOP], ids=["query", "loop"])
def test_an_endless_work_ends_at_the_first_signal(program: str, number: signal.Signals) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"
    time.sleep(0.3)

    running.send_signal(number)

    try:
        _, said = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode in {-signal.SIGINT, 128 + number}
    assert number == signal.SIGINT or not said


def test_a_signal_is_no_error_of_a_query() -> None:
    running = subprocess.Popen([sys.executable, "-c", TABLES], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"
    time.sleep(0.5)

    running.terminate()

    try:
        assert running.communicate(timeout=30)[0] == "ended\n"
    finally:
        running.kill()


def test_a_signal_while_an_extension_is_loaded_ends_the_command_afterwards() -> None:
    """DuckDB's loading forgets an exception, or aborts the process with a traceback."""
    loaded: list[str] = []

    class Loading(ExtensionFileLoader):
        def exec_module(self, module: ModuleType) -> None:
            signal.raise_signal(signal.SIGTERM)
            loaded.append(module.__name__)

    def load() -> None:
        with ended_by_signals():
            Loading("name", "file").exec_module(ModuleType("extension"))
            time.sleep(30)

    with pytest.raises(SystemExit) as ended:
        load()

    assert loaded == ["extension"]
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_build_between_two_programs_ends_with_the_others(tmp_path: Path) -> None:
    """As at a signal: whoever starts one program after the other must not go on to the end."""

    def endless() -> None:
        while True:
            run_logged(["true"], log=tmp_path / "log", title="a step", remedy="")

    def interrupted() -> None:
        time.sleep(0.2)
        raise LabError("a signal came")

    with pytest.raises(LabError, match=r"a signal came|interrupted"):
        _at_once(endless, interrupted)

    begin_running()
    run_logged(["true"], log=tmp_path / "log", title="a step", remedy="")


def test_a_build_that_waits_for_a_lock_of_another_program_ends_with_the_others(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def waiting() -> None:
        with cache.locked("tree"):
            raise AssertionError("the lock is another's")

    def interrupted() -> None:
        time.sleep(0.2)
        raise LabError("a signal came")

    with cache.locked("tree"), pytest.raises(LabError, match=r"a signal came|interrupted"):
        _at_once(waiting, interrupted)

    with cache.locked("tree"):
        pass


def test_nothing_is_started_after_the_end(tmp_path: Path) -> None:
    end_running()
    try:
        with pytest.raises(LabError, match="the build was interrupted"):
            run_logged(["touch", str(tmp_path / "made")], log=tmp_path / "log", title="a step", remedy="")
    finally:
        begin_running()

    assert not (tmp_path / "made").exists()


def test_a_small_file_is_read_in_small_memory(tmp_path: Path) -> None:
    """A limit of 64 MiB for a file is no reason to ask for as much."""
    (tmp_path / "small.json").write_text("{}")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (32 << 20), hard))
    try:
        assert read_plain(tmp_path / "small.json") == b"{}"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
