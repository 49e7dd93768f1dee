# SPDX-License-Identifier: Apache-2.0
"""`strata ask`: the study that it writes, what it refuses before it runs, and the use that it advises by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from search_studies import capacity_runner

from advice_studies import around, study, use, weight
from command_line import shown, shown_json, strata
from strata.advice.advise import advise
from strata.cli.ask import _advised, _chosen
from strata.cli.new_study import Use
from strata.errors import LabError
from strata.plan.catalogue import catalogue
from strata.spec.load import load_study

HOME = ("ask", "home", "--use", "home-server")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_study_of_six_seeds_and_says_how_long_it_takes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = strata(monkeypatch, capsys, *HOME, "--disk", "wd-re4-500gb", "--no-run")

    assert code == 0
    assert "48 trials: about" in said
    written = load_study(folder / "home.toml", catalogue())
    assert written.seeds == (1, 2, 3, 4, 5, 6)
    assert [used.device.name for used in written.devices.values()] == ["wd-re4-500gb"] * 2


def test_json_has_the_study_and_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = strata(monkeypatch, capsys, *HOME, "--seeds", "3", "--no-run", "--json")

    assert code == 0
    assert json.loads(out)["study"] == "home.toml"
    assert json.loads(out)["estimate_real_s"] > 0


def test_requirements_that_no_stack_can_meet_are_refused_and_leave_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("ask", "one", "--use", "database-nvme", "--must", "disk-loss", "--no-run")
    code, _, said = strata(monkeypatch, capsys, *words)

    assert code == 2
    assert "no stack on one disk survives the loss of any of them, which it must" in said
    assert not (folder / "one.toml").exists()


def test_where_every_stack_gives_durability_away_durable_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strata(monkeypatch, capsys, *HOME, "--no-run")
    file = folder / "home.toml"
    lying = file.read_text().replace('capacity = "', 'faults = [{ fault = "ignores-flush" }]\ncapacity = "')
    file.write_text(lying)

    code, _, said = strata(monkeypatch, capsys, "ask", "home", "--must", "durable", "--no-run")

    assert code == 2
    assert "every stack gives away what it acknowledged" in said
    assert file.read_text() == lying


def test_a_study_that_is_there_is_gone_on_with_and_not_written_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strata(monkeypatch, capsys, *HOME, "--no-run")
    before = (folder / "home.toml").read_text()

    again, _, said = strata(monkeypatch, capsys, "ask", "home", "--no-run")
    assert (again, "Going on with home.toml" in said) == (0, True)
    for option in (("--memory", "2GiB"), ("--seeds", "12")):
        refused, _, why = strata(monkeypatch, capsys, *HOME, *option, "--no-run")
        assert (refused, f"has its own answers, not {option[1]}" in why) == (2, True)
    assert (folder / "home.toml").read_text() == before


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--use", "home-server", "--must", "flying"), 'there is no capability "flying"'),
        (("--use", "ci-gate"), "a gate compares two kernels or days, not stacks"),
        ((), "nothing says what for"),
    ],
)
def test_answers_that_make_no_question_are_refused(
    words: tuple[str, ...],
    cause: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, said = strata(monkeypatch, capsys, "ask", "x", *words, "--no-run")

    assert code == 2
    assert cause in said


def test_prices_are_of_the_disks_and_have_one_currency(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, _ = strata(monkeypatch, capsys, *HOME, "--price", "180 EUR", "--no-run")
    written = load_study(folder / "home.toml", catalogue())
    assert (code, [str(used.price) for used in written.devices.values()]) == (0, ["180.00 EUR"] * 2)

    refused = {
        ("180",): "a price has a currency",
        ("180 EUR", "60 EUR", "1 EUR"): "3 prices for 2 disks",
        ("180 EUR", "60 USD"): "currenc",
    }
    for prices, cause in refused.items():
        words = ("ask", "other", "--use", "home-server", "--no-run")
        code, _, said = strata(
            monkeypatch, capsys, *words, *(w for each in prices for w in ("--price", each))
        )
        assert code == 2
        assert cause in said
        assert not (folder / "other.toml").exists()


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (Use.HOME_SERVER, "home-server"),
        (Use.DATABASE_NVME, "postgresql-server"),
        (Use.FOUR_GUESTS, "vm-host"),
    ],
)
def test_the_study_tells_its_use_which_requires_what_it_must_have(
    template: Use,
    expected: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    strata(monkeypatch, capsys, "ask", "made", "--use", template.value, "--no-run")
    written = load_study(folder / "made.toml", catalogue())

    for given in (template, None):  # the study itself says it, when it is gone on with
        found = _advised(written, given, ["snapshot"])
        assert found.name == expected
        assert {need.capability: need.level for need in found.needs}["snapshot"] == "required"
        assert [need.capability for need in found.needs].count("snapshot") == 1


def test_the_commands_are_of_the_choice_or_of_the_stack_that_leads_so_far() -> None:
    def chosen(a: float, b: float, spread: float = 0.002) -> str | None:
        results = study({"a": {"database": around(a, 0.002)}, "b": {"database": around(b, spread)}})
        [advice] = advise(results, [use(weight("database", 1))], None)
        return _chosen(advice)

    assert chosen(100, 150) == "b"
    assert chosen(100, 101) == "b"  # either
    assert chosen(100, 110, 0.2) == "b"  # undecided


def test_one_command_goes_from_the_question_to_the_commands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacities = {"ext4": 900.0, "xfs": 3000.0, "btrfs-nocow": 700.0, "zfs": 800.0}
    scatter = {1: 1.0, 2: 1.01, 3: 0.99}
    monkeypatch.setattr("strata.cli.run.runner_for", lambda *_, **__: capacity_runner(capacities, scatter))
    words = ("ask", "orders", "--use", "database-nvme", "--seeds", "3", "--price", "300 EUR", "--jobs", "1")

    text = " ".join(shown(*words, "--tipping", "0s").split())

    assert "choose xfs" in text
    assert "70 % of the use's weights were measured, by usual; not measured: scans (15 %) and dumps" in text
    assert "--use postgresql-server --evidence" in text
    assert "300.00 EUR" in text
    assert "mkfs.xfs" in text
    assert "Nothing was tried in this time. strata ask orders --tipping 20m" in text.replace("- ", "")
    found = shown_json("ask", "orders", "--tipping", "5s", "--jobs", "1")
    assert found["stack"] == "xfs"
    assert found["tipping"]["leaders"] == ["xfs"]
    assert "mkfs.xfs" in " ".join(found["commands"])

    def lost(*_: object, **__: object) -> None:
        raise LabError("the host's memory is full", remedy="free some")

    monkeypatch.setattr("strata.cli.ask.found_within", lost)
    found = shown_json("ask", "orders", "--tipping", "5s", "--jobs", "1")
    assert "mkfs.xfs" in " ".join(found["commands"]), "a search that fails costs nothing that is known"


def test_where_no_stack_keeps_what_it_acknowledged_none_is_chosen_or_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capacities = {"ext4": 900.0, "xfs": 3000.0, "btrfs-nocow": 700.0, "zfs": 800.0}
    monkeypatch.setattr("strata.cli.run.runner_for", lambda *_, **__: capacity_runner(capacities))
    strata(monkeypatch, capsys, "ask", "lying", "--use", "database-nvme", "--seeds", "3", "--no-run")
    file = folder / "lying.toml"
    file.write_text(
        file.read_text().replace("capacity =", 'faults = [{ fault = "ignores-flush" }]\ncapacity =')
    )

    text = shown("ask", "lying", "--jobs", "1")

    assert "no stack left" in text
    assert "ignores-flush" in text
    assert "Build" not in text
    assert "would change" not in text
