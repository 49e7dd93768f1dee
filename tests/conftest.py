# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests: the lab, deterministic hypothesis, the option that rewrites golden files."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import durations
from command_line import Typed, strata
from examples import SHARE
from golden_text import Golden
from left_behind import undeclared
from strata import working
from strata.lab import Lab, require_lab
from strata.model.metric import Metric, MetricSpec
from strata.model.warning import Check
from strata.model.workload import Outputs, Workload
from strata.plan.catalogue import catalogue

Metrics = Callable[[Workload, Outputs], list[Metric]]
Checks = Callable[[Workload, Outputs], Iterable[Check]]

# The same examples in every run, however slow the machine: a failure can be looked at again.
settings.register_profile(
    "strata",
    max_examples=round(100 * SHARE),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("strata")
# What a command says while it computes depends on the machine; tests/unit/test_working.py lowers it again.
working.SILENT_S = 3600.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the folders of the lab and the browser; the files that take longest come first."""
    seconds = durations.seconds()
    for item in items:
        if (folder := item.path.relative_to(Path(__file__).parent).parts[0]) in ("lab", "browser"):
            item.add_marker(folder)
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden plans, to be reviewed as a diff"
    )
    parser.addoption("--record-durations", action="store_true", help="rewrite tests/durations.md")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Record how long the tests took, where that is asked for."""
    if config.getoption("--record-durations"):
        reports = [each for those in terminalreporter.stats.values() for each in those]
        found = [(each.nodeid, each.duration) for each in reports if isinstance(each, pytest.TestReport)]
        cpus = len(os.environ["STRATA_TEST_CPUS"].split(","))
        how = f"Measured {date.today():%d %B %Y} on {cpus} CPUs."
        durations.RECORD.write_text(durations.record(found, how, durations.reasons()))


def pytest_configure() -> None:
    """Give each of pytest-xdist's workers a CPU of its own: a lab stays on one, and two would share it.

    Workers beyond the number of CPUs may use all of them. Tests that are about CPUs find all of them in
    ``STRATA_TEST_CPUS``.
    """
    cpus = sorted(os.sched_getaffinity(0))
    os.environ.setdefault("STRATA_TEST_CPUS", ",".join(map(str, cpus)))
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker.startswith("gw") and int(worker[2:]) < len(cpus):
        os.sched_setaffinity(0, {cpus[int(worker[2:])]})


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector off the collected tests, which live as long as their process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with its file in tests/golden, which ``--update-golden`` rewrites."""

    def compare(name: str, text: str) -> None:
        file = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            file.write_text(text, encoding="utf-8")
        known = file.read_text(encoding="utf-8")
        assert text == known, f"{name}: review the change, then run pytest --update-golden"

    return compare


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return partial(strata, monkeypatch, capsys)


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The built lab. Without one the test fails, because `make test` builds it first."""
    if os.environ.get("STRATA_SKIP_LAB") == "1":
        pytest.skip("STRATA_SKIP_LAB=1 is set: nothing is booted")
    return require_lab()


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One such test at a time, of all workers: clearing up ends processes that see the same mounts."""
    with (tmp_path_factory.getbasetemp().parent / "alone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder for a host's trials: others can enter it and those above, which pytest's own do not allow."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o755)
    top = Path(tempfile.gettempdir())
    for folder in (tmp_path, *tmp_path.parents):
        if top in folder.parents:
            folder.chmod(0o755)
    return scratch


@pytest.fixture
def terminal_signals() -> Iterator[None]:
    """SIGHUP and SIGINT end a program as in a terminal, also when the tests run in the background."""
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGHUP, hangup)
    signal.signal(signal.SIGINT, interrupt)


@pytest.fixture(scope="session", autouse=True)
def metrics_are_declared() -> Iterator[None]:
    """In every test, a workload that declares its metrics yields no others."""
    originals = {kind: kind.metrics for kind in catalogue().workloads.values() if kind.metric_specs}
    for kind, original in originals.items():
        setattr(kind, "metrics", _held_against(kind.metric_specs, original))  # noqa: B010  a class attribute
    yield
    for kind, original in originals.items():
        setattr(kind, "metrics", original)  # noqa: B010


@pytest.fixture(scope="session", autouse=True)
def checks_are_declared() -> Iterator[None]:
    """In every test, a workload makes only checks that it declares."""
    originals = {kind: kind.checks for kind in catalogue().workloads.values()}
    for kind, original in originals.items():
        setattr(kind, "checks", _asked(kind.check_questions, original))  # noqa: B010  a class attribute
    yield
    for kind, original in originals.items():
        setattr(kind, "checks", original)  # noqa: B010


def _asked(check_questions: Mapping[str, str], original: Checks) -> Checks:
    def checks(self: Workload, outputs: Outputs) -> Iterable[Check]:
        found = [*original(self, outputs)]
        strange = {each.name for each in found if each.tenant is None} - set(check_questions)
        assert not strange, f"{self.workload} does not declare these in `check_questions`"
        return found

    return checks


def _held_against(metric_specs: Sequence[MetricSpec], original: Metrics) -> Metrics:
    def metrics(self: Workload, outputs: Outputs) -> list[Metric]:
        found = original(self, outputs)
        assert not [*undeclared(metric_specs, found)], (
            f"{self.workload} does not declare these in `metric_specs`"
        )
        return found

    return metrics
