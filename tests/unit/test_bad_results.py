# SPDX-License-Identifier: Apache-2.0
"""Results that are damaged, half there, or not Strata's: every command that reads them says so in two lines.

The commands come from `strata --help`, so a new command is tested, too.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from results_factory import good_log, metrics_of, plan_of, snapshot_of, store_trial

from record_hashes import attempt_of, hashes
from strata.cli import main
from strata.cli.man import command_tree
from strata.results.record import ResultRecord, Validity
from strata.results.store import ResultsFolder

STACKS = {"ext4": 329.0, "xfs": 344.0}
SEEDS = (1, 2, 3)
TRIAL = "xfs.oltp.s2"
EXTRA = {
    "query": ["select * from trials"],
    "export": ["--format", "csv", "--output", "{out}"],
    "report": ["--output", "{out}.html"],
    "trace": ["--on", "same"],
    "claims": ["--claims", "{out}.claims.toml"],
}
CLAIMS = """
[[claims]]
id = "xfs"
claim = "XFS is faster than ext4"
source = "a test"
expect = [
    { workload = "oltp", metric = "transactions_per_s", stack = "xfs", against = "ext4", is = "better" },
    { workload = "oltp", metric = "latency_ns_p99", stack = "*", value = [1e6, inf] },
]
"""
LEFT_OUT = {
    "serve": "it runs until it is stopped",
}


def _commands() -> list[tuple[str, ...]]:
    """Every command that reads results, as words; RESULTS, TRIAL and GOOD are put in."""
    found: list[tuple[str, ...]] = []
    for command in command_tree().commands:
        name = command.words[-1]
        values = [each.value for each in command.arguments]
        if name in LEFT_OUT or command.commands:
            continue
        if values[:2] == ["RESULTS", "RESULTS"]:
            found += [(name, "GOOD", "RESULTS"), (name, "RESULTS", "GOOD")]
        elif values[:1] and values[0].split("|")[0] == "RESULTS":
            found.append((name, "RESULTS", *EXTRA.get(name, [])))
        elif values[:1] and values[0].startswith("TRIAL"):
            found.append((name, "TRIAL", *EXTRA.get(name, [])))
    return [*found, ("trace", "TRIAL")]


COMMANDS = _commands()


@dataclass(frozen=True)
class Ended:
    """The end of a `strata` command."""

    code: int
    out: str
    err: str

    def is_refusal(self) -> bool:
        """Whether it ended with cause and place in one line, and the remedy in a second one."""
        lines = self.err.rstrip("\n").split("\n")
        return len(lines) == 2 and lines[0].startswith("strata") and lines[1].startswith("  ")


class Ground:
    """A results folder to be spoiled, and a good one beside it."""

    def __init__(self, path: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.good, self.results = path, good, path / "results"
        self.monkeypatch = monkeypatch
        shutil.copytree(good, self.results)
        self.places = {trial: attempt_of(good, trial).relative_to(good) for trial in hashes(good)}
        (path / "out.claims.toml").write_text(CLAIMS)

    def attempt(self, trial: str = TRIAL) -> Path:
        return self.results / self.places[trial]

    def rewrite(self, trial: str, **changes: object) -> None:
        """Give a trial's result other values, with the hash that is right for them."""
        path = self.attempt(trial) / "result.json"
        content = json.loads(path.read_text())
        del content["record_sha256"]
        record = ResultRecord.model_validate_json(json.dumps(content)).model_copy(update=changes)
        path.write_text(json.dumps(record.to_plain()))

    def forbid(self, path: Path) -> None:
        """Let a file be unreadable, which no file is for root."""
        open_any = os.open

        def refuse(place: str | Path, *given: int, **named: int) -> int:
            if place == path:
                raise PermissionError(13, "Permission denied", str(place))
            return open_any(place, *given, **named)

        self.monkeypatch.setattr(os, "open", refuse)

    def run(self, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> Ended:
        named = {"RESULTS": str(self.results), "GOOD": str(self.good), "TRIAL": f"{self.results}/{TRIAL}"}
        words = [named.get(word, word).format(out=self.path / "out") for word in command]
        self.monkeypatch.setattr(sys, "argv", ["strata", *words])
        self.monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Ended(int(ended.value.code or 0), said.out, said.err)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = ResultsFolder.create(
        tmp_path_factory.mktemp("good") / "results", snapshot_of(STACKS, SEEDS, ("oltp",))
    )
    for stack, level in STACKS.items():
        for seed in SEEDS:
            plan = plan_of(stack, "oltp", seed)
            store_trial(folder, plan, metrics_of("oltp", level, seed), good_log(plan, level))
    return folder.path


@pytest.fixture
def ground(tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(tmp_path, good, monkeypatch)


def _empty(ground: Ground) -> None:
    shutil.rmtree(ground.results)
    ground.results.mkdir()


def _a_file(ground: Ground) -> None:
    shutil.rmtree(ground.results)
    ground.results.write_text("not a folder")


def _study(ground: Ground, **changes: object) -> None:
    path = ground.results / "study.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


Spoil = Callable[[Ground], object]

REFUSED: dict[str, tuple[Spoil, str]] = {
    "no folder": (lambda ground: shutil.rmtree(ground.results), "there is no such folder"),
    "an empty folder": (_empty, "holds no study.json"),
    "a file": (_a_file, "a file, not a folder"),
    "no study.json": (lambda ground: (ground.results / "study.json").unlink(), "its study.json is gone"),
    "a study.json cut short": (lambda ground: _cut(ground.results / "study.json"), "not JSON"),
    "an edited study.json": (lambda ground: _study(ground, seeds="all"), "seeds: "),
    "a stack that is none": (lambda ground: _study(ground, stacks={"ext4": 3}), "stacks.ext4: "),
    "a precision that is none": (lambda ground: _study(ground, precision=[]), "precision: "),
    "a search that is none": (
        lambda ground: _study(ground, workloads={"oltp": {"find": {"x": 1}}}),
        "workloads.oltp.find",
    ),
    "a newer study.json": (lambda ground: _study(ground, study_version=99), "of version 99"),
    "an unreadable study.json": (
        lambda ground: ground.forbid(ground.results / "study.json"),
        "Permission denied",
    ),
    "a foreign record": (
        lambda ground: ground.rewrite(TRIAL, time_domain="wall"),
        "a result in wall time lies among results in virtual time",
    ),
}

TOLD: dict[str, tuple[Spoil, str]] = {
    "a trial that was interrupted": (
        lambda ground: (ground.attempt() / "result.json").unlink(),
        "interrupted before its end",
    ),
    "a deleted trial": (lambda ground: shutil.rmtree(ground.attempt().parent), "not run yet"),
    "a deleted attempt": (lambda ground: shutil.rmtree(ground.attempt()), "not run yet"),
    "no trial at all": (lambda ground: shutil.rmtree(ground.results / "records"), "not run yet"),
    "a result cut short": (lambda ground: _cut(ground.attempt() / "result.json"), "not JSON"),
    "an edited result": (
        lambda ground: _replace(ground.attempt() / "result.json", '"syscall_ns":200', '"syscall_ns":201'),
        "does not match its own hash",
    ),
    "a newer result": (
        lambda ground: _replace(
            ground.attempt() / "result.json", '"result_version":3', '"result_version":99'
        ),
        "of version 99, this Strata reads version 3",
    ),
    "an unreadable result": (
        lambda ground: ground.forbid(ground.attempt() / "result.json"),
        "Permission denied",
    ),
    "no valid result": (
        lambda ground: _rewrite_all(ground, validity=Validity(valid=False, reasons=("the disk was full",))),
        "the disk was full",
    ),
    "a study that is none": (
        lambda ground: _study(ground, text="study = 3\nstacks = 4\ndevices = [1]\n"),
        "6 of 6 trials are valid",
    ),
    "files of an attempt deleted": (
        lambda ground: _delete(ground.attempt(), "plan.json", "events.jsonl", "console.log"),
        "6 of 6 trials are valid",
    ),
}


def _rewrite_all(ground: Ground, **changes: object) -> None:
    for trial in ground.places:
        ground.rewrite(trial, **changes)


def _delete(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink()


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_commands_that_read_results_are_known() -> None:
    known = {command[0] for command in COMMANDS}
    assert {"show", "report", "query", "compare", "advise", "explain", "claims"} <= known


# Every command meets these; the others differ for the reader of the folder, which `show` and `explain` use.
EVERYWHERE = {"no folder", "a newer study.json", "a foreign record", "a deleted trial", "no valid result"}
EVERYWHERE |= {"files of an attempt deleted"}


def _chosen(how: str) -> list[tuple[str, ...]]:
    return [each for each in COMMANDS if how in EVERYWHERE or each[0] in {"show", "explain"}]


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_no_results_folder_is_refused_in_two_lines(
    ground: Ground, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, cause = REFUSED[how]
    spoil(ground)
    for command in _chosen(how):
        if how == "a foreign record" and "TRIAL" in command:
            continue  # it is about one trial alone, whichever time that is in
        ended = ground.run(command, capsys)

        assert ended.code == 6, command
        assert ended.is_refusal(), ended.err
        assert str(ground.results) in ended.err
        if "TRIAL" not in command:
            assert cause in ended.err


@pytest.mark.parametrize("how", TOLD)
def test_what_is_missing_or_damaged_among_the_trials_is_no_reason_for_a_traceback(
    ground: Ground, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, said = TOLD[how]
    spoil(ground)
    for command in _chosen(how):
        ended = ground.run(command, capsys)

        assert ended.code in {0, 6}, command
        if ended.code:
            assert ended.is_refusal(), ended.err
        if command[0] == "show":
            assert (ended.code, said in ended.out) == (0, True)


@pytest.mark.parametrize("how", ["no trial at all", "no valid result"])
def test_compare_refuses_where_there_is_nothing_to_compare_and_says_why(
    ground: Ground, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, said = TOLD[how]
    spoil(ground)

    ended = ground.run(("compare", "GOOD", "RESULTS"), capsys)

    assert ended.code == 6
    assert f"there is nothing to compare: ext4 under oltp: no valid result in B ({said})" in ended.err


@pytest.mark.parametrize("how", ["a trial that was interrupted", "a deleted trial", "a result cut short"])
def test_compare_goes_on_with_the_seeds_that_both_have(
    ground: Ground, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    TOLD[how][0](ground)

    ended = ground.run(("compare", "GOOD", "RESULTS", "--json"), capsys)

    cells = {row["cell"]["stack"]: row["cell"] for row in json.loads(ended.out)["rows"]}
    assert cells["ext4"]["seeds"] == [1, 2, 3]
    assert cells["xfs"]["seeds"] == [1, 3]
    assert cells["xfs"]["first_seeds"] == [1, 2, 3]


def test_virtual_and_wall_time_are_never_compared(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    _study(ground, time_domain="wall")
    _rewrite_all(ground, time_domain="wall")

    for command in (("compare", "GOOD", "RESULTS"), ("compare", "RESULTS", "GOOD")):
        ended = ground.run(command, capsys)

        assert ended.code == 6
        assert ended.is_refusal()
        assert "which are never mixed" in ended.err
