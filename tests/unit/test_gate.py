# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from command_line import refusal, shown_json
from made_results import made_results
from strata.actions.gate import Gate
from strata.cli import app
from strata.errors import StudyError
from strata.results.store import ResultsFolder
from strata.statistics.interval import confidence_of
from strata.statistics.pair import ComparisonOptions
from strata.statistics.power import POWER, visible
from strata.statistics.selftest import interval_of_means

Made = Callable[..., ResultsFolder]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(name: str, **given: Any) -> ResultsFolder:
        given = {"stacks": ("ext4", "xfs"), "workloads": ("postgresql", "mail"), "checks": (), **given}
        return made_results(tmp_path / name, **given)

    return make


def gate(*words: object) -> Result:
    return CliRunner().invoke(app, ["gate", *map(str, words)], catch_exceptions=False)


def counted_anew(folder: ResultsFolder, cell: str, times: float) -> ResultsFolder:
    """The same results with another number of flushes in a cell's trials."""
    for key in folder.study().trials:
        if str(key).startswith(cell):
            [attempt] = folder.attempts(key)
            record = attempt.read_result()
            disks = {
                name: {**each, "flushes": round(each["flushes"] * times)}
                for name, each in record.disks.items()
            }
            attempt.write_result(record.model_copy(update={"disks": disks}))
    return folder


@pytest.mark.parametrize("n", [3, 6, 20])
def test_nine_of_ten_comparisons_find_the_visible_difference(n: int) -> None:
    """By the intervals that verdicts are made of, for normal ratios."""
    spread, zone = 0.01, 0.02
    logs = np.random.default_rng(7).normal(0, spread, (20_000, n)) - np.log1p(visible(n, spread, zone))

    _, high = interval_of_means(logs, confidence_of(n))

    assert (high < -np.log1p(zone)).mean() == pytest.approx(POWER, abs=0.01)


def test_the_spread_counts_what_differs_between_stacks_and_not_the_seeds_of_all(made: Made) -> None:
    """A seed's drives move all stacks alike, by 2 %; with one stack there is nothing to tell that from."""
    for stacks, low, high in ((("ext4",), 0.025, 0.05), (("ext4", "xfs", "btrfs"), 0.002, 0.02)):
        folder = made(f"of-{len(stacks)}", stacks=stacks, spread=0.005, seeds=20, workloads=("mail",))
        for each in shown_json("gate", folder.path)["sights"]:
            assert low < each["spread"] < high, each


def test_a_gate_that_cannot_see_what_it_is_asked_for_says_how_many_seeds_could(made: Made) -> None:
    before = made("before").path

    error = refusal("gate", before, "--see", "2%")

    assert error.exit_code == 2
    assert error.place == "--see 2 %"
    needed = int((error.remedy or "").split()[4])
    assert needed > 6
    seen = shown_json("gate", before)["sights"]
    worst = max(seen, key=lambda each: each["smallest"])
    assert " under ".join(worst["cell"].split(".")) in error.cause
    assert visible(needed, worst["spread"], 0.01) <= 0.02 < visible(needed - 1, worst["spread"], 0.01)
    assert gate(before, "--see", "25%").exit_code == 0


def test_cells_without_an_interval_are_blind(made: Made) -> None:
    two, alike = made("two", seeds=2).path, made("alike", spread=0).path

    assert "3 seeds or more" in (refusal("gate", two, two, "--see", "10%").remedy or "")
    assert {each["smallest"] for each in shown_json("gate", two)["sights"]} == {None}
    assert all(each["smallest"] for each in shown_json("gate", alike)["sights"])  # blocks still differ


def test_more_seeds_are_no_remedy_where_all_have_one_value(made: Made) -> None:
    gate = Gate.at(made("before").path, ComparisonOptions())
    alike = replace(gate.seen[0], spread=0.0, smallest=None, blind="all seeds have one value")

    with pytest.raises(StudyError, match="sees none: all seeds have one value") as caught:
        replace(gate, seen=(*gate.seen, alike)).refuse_blind(0.05)

    assert caught.value.remedy == "lengthen the measured window, or ask for less"


def test_the_exit_code_is_of_what_is_worse_changed_or_missing(made: Made) -> None:
    before = made("before").path
    slower = made("slower", gains={"ext4.mail": 0.9}).path
    flushes = counted_anew(made("flushes"), "xfs.mail", 2).path
    noise = counted_anew(made("noise"), "xfs.mail", 1.01).path
    none = counted_anew(made("none"), "xfs.mail", 0).path
    others = counted_anew(made("others", seeds=range(11, 17)), "xfs.mail", 0).path
    missing = made("missing", missing=[f"xfs.mail.s{seed}" for seed in range(1, 7)]).path
    for words, red in (
        ((before, before), []),
        ((before, slower), ["worse", "changed"]),
        ((slower, before), ["changed"]),
        ((before, slower, "--fail-on", "worse"), ["worse"]),
        ((before, slower, "--workload", "postgresql"), []),
        ((before, slower, "--threshold", "20%"), []),
        ((before, flushes), ["changed"]),
        ((before, none), ["changed"]),
        ((none, before), ["changed"]),
        ((before, noise), []),
        ((none, others), []),  # no seed in common, and no flushes in either
        ((before, missing), ["missing"]),
    ):
        found = shown_json("gate", *words, exit_code=int(bool(red)))
        assert list(dict.fromkeys(each["reason"] for each in found["alarms"])) == red, words
    [alarm] = shown_json("gate", before, flushes, exit_code=1)["alarms"]
    assert (alarm["what"], alarm["metric"]) == ("xfs under mail", "flushes_per_operation")


def test_servers_are_told_in_their_own_formats(made: Made, tmp_path: Path) -> None:
    before, after = made("before").path, counted_anew(made("after", gains={"ext4": 0.8}), "xfs.mail", 3).path
    xml, quality = tmp_path / "deep" / "gate.xml", tmp_path / "quality.json"
    files = ("--junit", xml, "--code-quality", quality, "--study", "ci/50%,a.toml", "--github")

    done = gate(before, after, *files, "--markdown")

    assert done.exit_code == 1
    assert done.stdout.startswith("**The gate is red: ")
    [suite] = Xml.parse(xml).getroot()
    failed = [case for case in suite if case.find("failure") is not None]
    named = [(case.get("classname"), case.get("name")) for case in suite]
    assert len(set(named)) == len(named) == int(suite.get("tests") or 0)
    assert len(failed) == int(suite.get("failures") or 0)
    assert ("ext4 under mail", "operations_per_s") in [(e.get("classname"), e.get("name")) for e in failed]
    assert ("xfs under mail", "counts") in [(e.get("classname"), e.get("name")) for e in failed]
    issues = json.loads(quality.read_text())
    lines = done.stderr.splitlines()
    assert len({each["fingerprint"] for each in issues}) == len(issues) == len(lines)
    assert all(each["location"]["path"] == "ci/50%,a.toml" for each in issues)
    assert all(line.startswith("::error file=ci/50%25%2Ca.toml,line=1,title=strata%3A ") for line in lines)
    gate(before, before, *files)
    assert json.loads(quality.read_text()) == []
    assert Xml.parse(xml).getroot()[0].get("failures") == "0"


def test_bad_input_is_refused_in_two_lines(made: Made, tmp_path: Path) -> None:
    before, wall = made("before").path, made("wall", time_domain="wall").path
    for words, code in (
        ((tmp_path / "none", before), 6),
        ((before, tmp_path / "none"), 6),
        ((before, wall), 6),
        ((before, before, "--workload", "none*"), 6),
        ((before, before, "--json", "--markdown"), 2),
        ((before, before, "--junit", tmp_path), 6),
    ):
        error = refusal("gate", *words)
        assert error.exit_code == code, words
        assert error.remedy or error.place, words
        assert len(str(error).splitlines()) <= 2
    for wrong in (
        *(("--see", "wide"), ("--see", "0%"), ("--threshold", "80%"), ("--fail-on", "slow")),
        *(
            ("--junit", tmp_path / "x"),
            ("--code-quality", tmp_path / "x"),
            ("--github",),
            ("--fail-on", "worse"),
        ),
    ):
        assert gate(before, *wrong).exit_code == 2, wrong
    assert "ext4 and xfs" in (refusal("gate", before, "--stack", "none*").remedy or "")
    others = made("others", stacks=("f2fs",), workloads=("files",)).path
    assert "`strata compare --map" in (refusal("gate", before, others).remedy or "")  # a gate has no --map
