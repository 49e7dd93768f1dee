# SPDX-License-Identifier: Apache-2.0
"""``strata claims --what-if``, on results of stacks whose responses to a change are planted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from execution_factory import RecordingDisplay
from typer.testing import CliRunner
from varied_studies import TEXT, Response, measured, planted

from command_line import refusal, shown, shown_json
from record_hashes import forget
from strata.cli import app
from strata.cli.application import INTERRUPTED_EXIT
from strata.results.findings import UNTRIED, findings_of, keep_finding
from strata.results.store import ResultsFolder
from strata.runners.base import Task
from strata.runners.fake import FakeRunner

CLAIM = """
[[claims]]
id = "oltp.ext4"
claim = "ext4 commits twice as many transactions as XFS"
source = "a test"
expect = [
    { workload = "oltp", metric = "transactions_per_s", stack = "ext4", against = "xfs", ratio = [1.9, 2.1] },
]
suspect = [
    { key = "workloads.oltp.clients", value = 40, why = "the page does not say how many clients" },
    { key = "stacks.ext4.layers.ext4.nonsense", value = 1, why = "a mistake" },
    { key = "stacks.ext3.layers.ext4.mount", value = [], why = "another mistake" },
    { key = "study.trace", value = true, why = "changes nothing" },
]

[[claims]]
id = "bsd"
claim = "UFS is faster"
source = "a test"
untestable = "the lab has no FreeBSD"
"""
ALIKE = 9.92  # with the planted scatter the stacks are equal on average
FLASH = TEXT.replace('model = "wd-re4-500gb"', 'model = "generic-sata-ssd"')


def by_clients(stack: str, values: dict[str, float]) -> float:
    """ext4 is twice as fast as XFS with 40 clients only."""
    if stack == "xfs":
        return 10.0
    return 5.0 if values["clients"] == 40 else ALIKE


def by_state(stack: str, values: dict[str, float]) -> float:
    """ext4 is twice as fast on a drive in the steady state (1) only, and slower than XFS on a fresh one."""
    if stack == "xfs":
        return 10.0
    return {1: 5.0, 0: 20.0}.get(int(values["precondition"]), ALIKE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my.claims.toml").write_text(CLAIM)
    return tmp_path


def runner_of(folder: Path, monkeypatch: pytest.MonkeyPatch, response: Response, text: str) -> FakeRunner:
    """The runner of the search, after the results were measured by another one."""
    measured(folder, planted(response), text)
    runner = planted(response)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *words, **options: runner)
    return runner


def words(folder: Path, *more: str, claim: str = "oltp.ext4") -> tuple[object, ...]:
    claims = folder / "my.claims.toml"
    return ("claims", folder / "results", "--claims", claims, "--what-if", claim, "--jobs", 1, *more)


def named(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in found["tried"] if each["name"] == name)


def test_the_suspect_that_flips_the_verdict_is_found_and_the_finding_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_of(folder, monkeypatch, by_clients, TEXT)

    found = shown_json(*words(folder))

    assert named(found, "as measured")["verdict"] == "not reproduced"
    assert [each["name"] for each in found["flipping"]] == ["workloads.oltp.clients = 40"]
    assert found["sentence"].startswith("not reproduced → reproduced with workloads.oltp.clients = 40")
    [compared] = named(found, "workloads.oltp.clients = 40")["compared"]
    assert compared["low"] <= 2 <= compared["high"]
    assert found["whole"]
    run = [each for each in found["tried"] if each["verdict"]]
    assert len(runner.begun) == 6 * (len(run) - 1)  # two stacks, three seeds; not "as measured" again
    assert {each["note"] for each in found["tried"] if not each["verdict"]} >= {
        'refused: unknown key "nonsense"',
        'refused: there is no "ext3" in stacks',
        "refused: it changes nothing in these trials",
    }

    runner.begun.clear()
    assert shown_json(*words(folder)) == found
    assert shown_json(*words(folder, "--budget", "1ns")) == found
    assert runner.begun == [], "nothing is run twice"
    results = ResultsFolder.open(folder / "results")
    kept = findings_of(results, "what-if")["oltp.ext4"]
    assert [each.name for each in kept.flipping] == ["workloads.oltp.clients = 40"]
    said = " ".join(shown("claims", folder / "results", "--claims", folder / "my.claims.toml").split())
    assert "oltp.ext4: not reproduced → reproduced with workloads.oltp.clients = 40" in said
    keep_finding(results, kept.model_copy(update={"results_sha256": "0" * 64}))
    assert findings_of(results, "what-if") == {}, "of other results"


def test_every_other_variation_is_tried_by_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, kernels = runner_of(folder, monkeypatch, by_state, FLASH), list[str]()
    run = runner.run

    def recording(task: Task) -> None:
        kernels.append(task.plan.kernel.name)
        run(task)

    monkeypatch.setattr(runner, "run", recording)

    found = shown_json(*words(folder))

    assert [each["name"] for each in found["flipping"]] == ["precondition = steady"]
    assert named(found, "precondition = fresh")["verdict"] == "reversed"
    tried = {each["name"] for each in found["tried"] if each["verdict"]}
    assert {"cpu = free", "memory = 4GiB", "oltp.scale = 5", "oltp.scale = 80"} <= tried
    assert kernels.count("6.12") == 6  # two stacks, three seeds: the other kernel's results are not its own


def test_a_failed_trial_leaves_its_variation_without_a_verdict(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_of(folder, monkeypatch, by_clients, TEXT)
    runner.behaviours["xfs.oltp.s1"] = "fail"
    runner.behaviours["xfs.oltp.s2"] = "fail"
    runner.behaviours["xfs.oltp.s3"] = "fail"

    found = shown_json(*words(folder))

    assert named(found, "as measured")["verdict"] == "not reproduced"  # its trials are there already
    assert named(found, "cpu = free")["verdict"] == "undecided"
    assert named(found, "cpu = free")["note"].startswith("xfs.oltp: ")


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [interrupt, lambda: os.kill(os.getpid(), signal.SIGTERM)])
def test_an_interruption_ends_the_search_and_is_no_budget_that_is_too_small(
    end: Callable[[], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting(RecordingDisplay):
        def finished(self, trial: Any, record: Any) -> None:
            end()

    runner_of(folder, monkeypatch, by_clients, TEXT)
    monkeypatch.setattr("strata.actions.run.Listener.display", lambda *words: Interrupting())

    shown(*words(folder), exit_code=INTERRUPTED_EXIT)

    [kept] = findings_of(ResultsFolder.open(folder / "results"), "what-if").values()
    assert kept.as_measured.verdict == "not reproduced"
    assert not kept.whole
    assert not [each for each in kept.tried[1:] if each.note != UNTRIED]


def test_what_cannot_be_asked_is_refused_with_its_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner_of(folder, monkeypatch, by_clients, TEXT)

    assert "oltp.ext4" in (refusal(*words(folder, claim="oltp.ext3")).remedy or "")
    assert "no FreeBSD" in str(refusal(*words(folder, claim="bsd")))
    assert "less than one variation takes" in str(refusal(*words(folder, "--budget", "1ns")))
    (folder / "my.claims.toml").write_text(CLAIM.replace("value = 40", "value = [nan]"))
    assert "inf and nan" in str(refusal(*words(folder)))
    (folder / "my.claims.toml").write_text(CLAIM)
    for beside in ("--only=bsd", "--fail-on=reversed", "--page=p.md", "--markdown"):
        done = CliRunner().invoke(app, ["claims", "results", "--what-if", "oltp.ext4", beside])
        assert done.exit_code == 2
        assert beside.partition("=")[0] in done.output
    forget(folder / "results", "ext4.oltp.s1", "xfs.oltp.s2", "xfs.oltp.s3")
    assert "no seed has a result" in str(refusal(*words(folder)))
    snapshot = ResultsFolder.open(folder / "results").study()
    changed = snapshot.model_copy(update={"time_domain": "wall", "trials": {}})
    (folder / "results" / "study.json").write_text(changed.model_dump_json())
    assert "a real machine" in str(refusal(*words(folder)))


def test_of_a_study_the_variations_are_listed(folder: Path) -> None:
    (folder / "my.toml").write_text(TEXT)
    asked = ("claims", folder / "my.toml", "--what-if", "oltp.ext4")

    found = shown_json(*asked)["variations"]

    assert {each["name"]: each["refused"] for each in found if each["refused"]} == {
        "stacks.ext4.layers.ext4.nonsense = 1": 'unknown key "nonsense"',
        "stacks.ext3.layers.ext4.mount = []": 'there is no "ext3" in stacks',
    }
    kernels = [each["changes"] for each in found if each["name"].startswith("kernel")]
    assert kernels == [{"study.kernel": "6.12"}]
    assert "the page does not say how many clients" in shown(*asked)
