# SPDX-License-Identifier: Apache-2.0
"""Tables in a terminal: every word stays whole, however narrow it is, and where there is none."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from command_line import shown
from made_results import made_results
from strata.fitted import Fitted, Head
from strata.results.store import ResultsFolder

STRATA = Path(sys.executable).with_name("strata")
STUDY = Path(__file__).parents[2] / "studies" / "showcase.toml"
WIDE = 3000
# Tables of a study and its results, of models, and of what there is.
COMMANDS = (
    "show {results}",
    "show {results} --trial ext4-thin.postgresql.s1",
    "advise {results} --evidence",
    "compare {results}:ext4 {results}:btrfs",
    "compare {results}:ext4 {results}:btrfs --worst-first --all-metrics",
    "check {study}",
    "plan {study} --stacks",
    "list devices",
    "list devices generic-smr-hdd",
    "list layers",
    "list layers zpool",
    "list workloads",
    "list workloads pgbench",
    "list processors",
    "list uses",
    "query {results} --tables",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultsFolder:
    """With more stacks and longer names than fit beside their figures."""
    return made_results(tmp_path_factory.mktemp("made") / "results", stacks=8, workloads=2, seeds=3)


def drawn(table: Fitted, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def table(*rows: tuple[str, ...]) -> Fitted:
    heads = [Head("stack"), Head("files emptied"), Head("rate", is_left=False, is_whole=True)]
    return Fitted(heads, [list(map(Text, row)) for row in rows])


ROWS = (("btrfs-nocow", "all of them", "1,234 /s"), ("ext4", "measured", "9 /s"))


def test_a_table_that_fits_has_a_line_for_each_row() -> None:
    assert drawn(table(*ROWS), 60) == [
        "stack        files emptied      rate",
        "btrfs-nocow  all of them    1,234 /s",
        "ext4         measured           9 /s",
    ]


def test_a_narrow_one_is_folded_between_words_and_never_within_a_number() -> None:
    assert drawn(table(*ROWS), 32) == [
        "             files",
        "stack        emptied        rate",
        "btrfs-nocow  all of     1,234 /s",
        "             them",
        "ext4         measured       9 /s",
    ]


def test_where_the_words_do_not_fit_side_by_side_each_row_is_a_block() -> None:
    assert drawn(table(*ROWS), 28) == [
        "stack",
        "btrfs-nocow",
        "  files emptied  all of them",
        "  rate           1,234 /s",
        "ext4",
        "  files emptied  measured",
        "  rate           9 /s",
    ]
    assert drawn(table(ROWS[1]), 16) == [
        "stack",
        "ext4",
        "  files emptied",
        "    measured",
        "  rate",
        "    9 /s",
    ]


def test_no_word_of_any_table_is_broken(results: ResultsFolder) -> None:
    for command in COMMANDS:
        words = command.format(results=results.path, study=STUDY).split()
        whole = {*shown(*words, width=WIDE).split()}
        narrow = max(40, max(map(len, whole)) + 8)
        broken = {*shown(*words, width=narrow).split()} - whole
        assert not [word for word in broken if not word.replace(".", "").isdigit()], "free memory differs"


def test_without_a_terminal_words_are_whole_too(results: ResultsFolder) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")
    }
    piped = subprocess.run(
        [STRATA, "show", results.path], env=environment, capture_output=True, text=True, check=True
    )

    assert {*piped.stdout.split()} <= {*shown("show", results.path, width=WIDE).split()}
