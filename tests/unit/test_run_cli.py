# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import shlex
import sys
from pathlib import Path

import pytest
from execution_factory import TEXT, TRIALS, fake_runner
from typer.testing import CliRunner

from command_line import refusal, shown, shown_json
from strata.actions import run as running
from strata.cli import app, main
from strata.errors import LabError, ResultError, RunError, StrataError, StudyError, ToolError
from strata.lab.folder import PREFIX, run_root
from strata.results.store import ResultsFolder


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("STRATA_SHARED_CACHE", str(tmp_path / "shared"))
    file = tmp_path / "tiny.toml"
    file.write_text(TEXT)
    return file


def test_without_a_lab_the_command_that_builds_it_is_named(study: Path) -> None:
    error = refusal("run", study)

    assert isinstance(error, LabError)
    assert "strata lab build" in str(error)


@pytest.mark.parametrize("command", ["run", "lab selftest"])
def test_programs_of_a_study_are_run_on_a_host_only_if_one_says_so(study: Path, command: str) -> None:
    own = '\n[workloads.own]\nworkload = "command"\nload = ["sync"]\n'
    before = 'before = { workload = "command", load = ["sync"] }'
    load = 'load = { workload = "fio", preset = "random-mix-4k", duration = "5s", size = "1MiB" }'
    tenants = f'tenants = [{{ name = "a", {before}, {load} }}]'
    study.write_text(f'{TEXT}{own}[workloads.two]\nworkload = "tenants"\n{tenants}\n')

    chosen = () if command == "run" else ("--workload", "own")
    refused = refusal(*command.split(), study, *chosen, "--runner", "host")
    allowed = refusal(*command.split(), study, *chosen, "--runner", "host", "--allow-commands")

    assert isinstance(refused, ToolError)
    assert ("workloads own and two" if command == "run" else "workloads own") in refused.cause
    assert "--allow-commands" in (refused.remedy or "")
    assert allowed.place == "--scratch"


@pytest.mark.parametrize("command", ["run", "lab selftest"])
def test_containers_are_started_on_a_host_only_if_one_says_so(study: Path, command: str) -> None:
    study.write_text(f'{TEXT}\n[stacks.contained]\nlayers = [{{ layer = "xfs" }}, {{ layer = "nspawn" }}]\n')

    chosen = () if command == "run" else ("--stack", "contained")
    refused = refusal(*command.split(), study, *chosen, "--runner", "host")
    allowed = refusal(*command.split(), study, *chosen, "--runner", "host", "--allow-containers")

    assert "stacks contained" in refused.cause
    assert "--allow-containers" in (refused.remedy or "")
    assert allowed.place == "--scratch"


@pytest.mark.parametrize("words", [("--disk", "disk0=/dev/sdz"), ("--erase", "S1")])
def test_a_real_disk_is_none_of_the_labs(study: Path, words: tuple[str, str]) -> None:
    error = refusal("run", study, *words)

    assert isinstance(error, ToolError)
    assert error.place == words[0]
    assert "add --runner host" in str(error)


def test_nothing_is_erased_without_a_disk_that_is_named(study: Path) -> None:
    error = refusal("run", study, "--runner", "host", "--erase", "S1")

    assert "no disk is named" in str(error)


def test_a_scratch_folder_without_the_host_runner_is_a_mistake(study: Path) -> None:
    error = refusal("run", study, "--scratch", "/srv")

    assert "host runner" in str(error)


def test_a_limit_without_a_unit_is_a_mistake(study: Path) -> None:
    error = refusal("run", study, "--stall-limit", "120")

    assert isinstance(error, StudyError)
    assert error.place == "--stall-limit"


def test_the_command_to_go_on_is_the_same_as_typed_and_the_one_for_reports_names_no_place(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = {str(each): "fail" for each in TRIALS if each.stack == "xfs"}
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *given, **more: fake_runner(**failing))
    results = study.parent / "my results"
    words = ["--results", str(results), "--jobs", "1", "--trial", "*.s1", "--stall-limit", "90s"]

    result = CliRunner().invoke(app, ["run", str(study), "--build", *words])

    assert result.exit_code == RunError.exit_code
    again = shlex.join(["strata", "run", str(study), *words])
    assert f"Try the failed trials again: {again}" in result.output
    assert ResultsFolder.open(results).study().command == "strata run tiny.toml"


def test_what_the_operating_system_refuses_is_two_lines_and_no_traceback(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_space(*given: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full/file")

    monkeypatch.setattr("strata.actions.run.run_study", no_space)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *given, **more: fake_runner())
    monkeypatch.setattr(sys, "argv", ["strata", "run", str(study)])

    with pytest.raises(SystemExit) as ended:
        main()

    said = capsys.readouterr().err
    assert ended.value.code == StrataError.exit_code
    assert "strata: /full/file: cannot go on: No space left on device" in said
    assert "make room" in said


def test_mistakes_in_the_study_come_before_anything_is_made(study: Path) -> None:
    study.write_text(TEXT.replace('layer = "xfs"', 'layer = "zfs9"'))

    error = refusal("run", study)

    assert "zfs9" in str(error)
    assert not (study.parent / "results").exists()


def test_cleaning_removes_the_folder_of_a_killed_lab(study: Path) -> None:
    left = run_root() / f"{PREFIX}abc"
    left.mkdir(parents=True)
    (left / ".owner").touch()

    assert str(left) in shown("lab", "clean")
    assert not left.exists()


def test_cleaning_a_folder_that_holds_no_results_is_an_error(study: Path) -> None:
    assert isinstance(refusal("lab", "clean", study.parent), ResultError)


class Asked(Exception):  # noqa: N818  no error
    """Ends the command once the test knows what would be built."""


def test_a_load_generator_that_alone_is_missing_is_built_for_a_host(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a change of its sources: everything else is there."""

    def build(progress: object, only: tuple[str, ...] = ("load",)) -> None:
        raise Asked(only)

    monkeypatch.setattr(running, "find_entry", lambda part, root: None if part == "load" else object())
    monkeypatch.setattr(running, "ensure_lab", build)

    result = CliRunner().invoke(app, ["run", str(study), "--build", "--runner", "host", "--scratch", "."])

    assert isinstance(result.exception, Asked), result.output
    assert "load" in result.exception.args[0]


def test_cleaning_where_nothing_was_left_says_so(study: Path) -> None:
    assert shown_json("lab", "clean") == {"removed": []}
