# SPDX-License-Identifier: Apache-2.0
"""Control and bidi characters: refused in study files, and never sent to a terminal."""

from __future__ import annotations

import io
import json
import math
import os
import pty
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from results_factory import good_log, metrics_of, plan_of, snapshot_of, store_trial

from command_line import Typed
from strata.console import Terminal
from strata.model.study_record import StackRecord, WorkloadRecord
from strata.model.trial import TrialKey
from strata.printable import in_json, json_text, plain, printable
from strata.results.record import Validity
from strata.results.store import ResultsFolder
from strata.statistics.interval import Interval
from study_texts import SOUND

NASTY = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066\u200f\u2028\x7f\x00\r\x08z"
UNFIT = set(NASTY) - set("a]0;owned[2J31mevilz")


@pytest.fixture
def strata(typed: Typed) -> Typed:
    def fit(*words: object) -> tuple[int, str, str]:
        code, out, err = typed(*words)
        assert not UNFIT & set(out + err)
        assert "Traceback" not in err
        return code, out, err

    return fit


def test_every_unfit_character_is_written_as_its_number_and_text_stays() -> None:
    assert not UNFIT & set(printable(NASTY))
    assert printable("\x1b\x9b\u202e\ud800") == "\\x1b\\x9b\\u202e\\ud800"
    assert printable("größer ✓ 漢字 👩‍💻\n\t") == "größer ✓ 漢字 👩‍💻\n\t"
    assert json.loads(json_text({NASTY: [NASTY, "\ud800"]})) == {NASTY: [NASTY, "\ud800"]}
    assert not UNFIT & set(json_text([NASTY]))


PLACES = {
    "study.question": ('question = "Which?"', 'question = "{}"'),
    "study.name": ('name = "small"', 'name = "{}"'),
    "devices.disk0.model": ('model = "wd-re4-500gb"', 'model = "{}"'),
    "stacks.ext4.layers": ('mount = ["noatime"]', 'mount = ["{}"]'),
    "an unknown key": ("scale = 10", '"{}" = 10'),
    "an unknown table": ("[stacks.ext4]", '[stacks."{}"]'),
}


def test_a_study_with_a_control_character_is_refused_with_its_place(tmp_path: Path, strata: Typed) -> None:
    study, characters = tmp_path / "study.toml", sorted(UNFIT - {"\r"})
    first, *_ = PLACES
    for place, character in [*((each, "\x1b") for each in PLACES), *((first, each) for each in characters)]:
        before, after = PLACES[place]
        assert before in SOUND
        study.write_text(SOUND.replace(before, after.format(f"x\\u{ord(character):04x}y"), 1))
        for form in ([], ["--json"]):
            code, out, err = strata("check", study, *form)

            assert code == 2
            assert f"control character U+{ord(character):04X}" in out + err
            assert "line " in err or '"line": ' in out


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """A results folder with such characters wherever a text may stand."""
    snapshot = snapshot_of({"ext4": 329.0, "xfs": 344.0}, (1, 2), ("oltp",))
    snapshot = snapshot.model_copy(
        update={
            "question": NASTY,
            "stacks": dict.fromkeys(snapshot.stacks, StackRecord(title=NASTY)),
            "workloads": dict.fromkeys(snapshot.workloads, WorkloadRecord(title=NASTY)),
            "command": NASTY,
        }
    )
    folder = ResultsFolder.create(tmp_path / "results", snapshot)
    for stack, level in {"ext4": 329.0, "xfs": 344.0}.items():
        for seed in (1, 2):
            plan = plan_of(stack, "oltp", seed)
            metrics = metrics_of("oltp", level, seed)
            odd = metrics[0].model_copy(update={"name": f"{NASTY}_s", "unit": NASTY, "headline": True})
            store_trial(folder, plan, [*metrics, odd], good_log(plan, level))
    attempt = folder.attempts(TrialKey("xfs", "oltp", 2))[0]
    record = attempt.read_result()
    odd_versions = record.versions.model_copy(update={"kernel": NASTY, "packages": {NASTY: NASTY}})
    attempt.write_result(
        record.model_copy(
            update={"validity": Validity(valid=False, reasons=(NASTY,)), "versions": odd_versions}
        )
    )
    return folder.path


READERS = (
    "show {}",
    "show {} --trial xfs.oltp.s2",
    "show {} --json",
    "show {} --csv",
    "advise {}",
    "compare {}:ext4 {}:xfs",
    "compare {}:ext4 {}:xfs --markdown",
    "compare {}:ext4 {}:xfs --json",
    "explain {} xfs.oltp.s1",
    "report {} --output {}.html",
)
QUERIES = (
    ("select problem, kernel from trials",),
    ("select * from metrics where stack = 'ext4' limit 9",),
    ("select problem from trials", "--csv"),
    ("select problem from trials", "--json"),
    (f"select '{NASTY.replace(chr(0), '')}' from nowhere",),
)


def test_results_with_control_characters_are_shown_without_them(nasty: Path, strata: Typed) -> None:
    read = [reader.format(nasty, nasty).split() for reader in READERS]
    for words in (*read, *(["query", nasty, *query] for query in QUERIES)):
        code, _, said = strata(*words)

        assert code in {0, 1, 6}, said


@dataclass(frozen=True)
class Made:
    shown: float
    hidden: float = field(default=0.0, repr=False)

    @property
    @in_json
    def twice(self) -> float:
        return 2 * self.shown

    @property
    def own(self) -> str:
        return "not for JSON"


def test_a_record_is_its_fields_and_marked_properties_and_a_trial_its_name() -> None:
    key = TrialKey("ext4", "oltp", 1)
    value = {key: (Made(1.0), Made(math.inf)), "path": Path("a"), "interval": Interval(1, 2)}

    assert plain(value) == {
        "ext4.oltp.s1": [{"shown": 1.0, "twice": 2.0}, {"shown": None, "twice": None}],
        "path": "a",
        "interval": {"low": 1, "high": 2, "method": ""},
    }
    assert plain([key.cell]) == ["ext4.oltp"]


def test_results_with_control_characters_are_exported_in_every_format(
    nasty: Path, tmp_path: Path, strata: Typed
) -> None:
    code, _, said = strata("export", nasty, "--output", tmp_path / "exported")

    assert code == 0, said
    made = {path.suffix for path in (tmp_path / "exported").rglob("*") if path.is_file()}
    assert made == {".md", ".csv", ".parquet", ".json", ".svg", ".png"}


def test_paths_that_are_no_text_are_printed_as_numbers(nasty: Path, tmp_path: Path, strata: Typed) -> None:
    for name in (b"\x1b[31mred\xff\xfe", "\u202eevil".encode(), b"\xff"):
        nasty = nasty.rename(tmp_path / os.fsdecode(name))
        more = {
            "query": ["select 1"],
            "export": ["--output", str(nasty / "exported"), "--format", "csv"],
            "explain": ["xfs.oltp.s1"],
        }
        for command in ("show", "query", "export", "report", "check", "advise", "explain", "run"):
            code, out, err = strata(command, nasty, *more.get(command, []))

            assert code in {0, 2, 3, 6}, err
            (out + err).encode()


def test_a_closed_terminal_takes_nothing_more_and_ends_nothing() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        terminal = Terminal(file=stream, force_terminal=True)
        terminal.print("seen")
        os.close(ours)

        for _ in range(3):
            terminal.print("invisible", style="red")


def test_colours_and_links_of_our_own_reach_the_terminal() -> None:
    written = io.StringIO()
    terminal = Terminal(file=written, force_terminal=True, color_system="standard", highlight=False)
    terminal.print("[red]warm[/red] \x1b[32mcold")

    assert "\x1b[31mwarm" in written.getvalue()
    assert "\x1b[32m" not in written.getvalue()
    assert "\\x1b[32mcold" in written.getvalue()


def test_an_export_stays_in_its_folder_whatever_the_name_of_a_metric(tmp_path: Path, strata: Typed) -> None:
    folder = ResultsFolder.create(tmp_path / "results", snapshot_of({"ext4": 329.0}, (1, 2), ("oltp",)))
    for seed in (1, 2):
        plan = plan_of("ext4", "oltp", seed)
        metrics = metrics_of("oltp", 329.0, seed)
        odd = [metrics[0].model_copy(update={"name": name}) for name in ("a/../../../up_s", "a../../../up_s")]
        store_trial(folder, plan, [*metrics, *odd], good_log(plan, 329.0))

    code, _, said = strata("export", folder.path, "--output", tmp_path / "to" / "made")

    assert code == 0, said
    assert {path.name for path in tmp_path.iterdir()} == {"results", "to"}
    assert {path.name for path in (tmp_path / "to").iterdir()} == {"made"}
    assert len(list((tmp_path / "to" / "made" / "figures").glob("oltp-a*.svg"))) == 2
