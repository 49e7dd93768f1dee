# SPDX-License-Identifier: Apache-2.0
"""The documentation says what there is. tests/lab/test_docs_commands.py runs its commands."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from doc_exceptions import INSTEAD, NOT_RUN
from doc_folder import begins, run_page
from doc_pages import ROOT, Page, files, pages
from strata.cli.man import ManualPage, command_tree
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from study_texts import written

PAGES = pages()
BY_NAME = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")


def unknown(text: str, root: ManualPage) -> str | None:
    """The first part of a command that does not exist, or None; placeholders count as filled in."""
    program, *words = shlex.split(text.removeprefix("sudo ").replace("[", " ").replace("]", " "))
    if program == "make":
        targets = [
            word for word in words if re.fullmatch(r"[a-z-]+", word) and not text.startswith("make -C")
        ]
        return next((f"the target {each}" for each in targets if each not in TARGETS), None)
    words = words[: words.index("--")] if "--" in words else words  # behind it is another program's command
    command, options = root, {name for each in root.options for name in each.names}
    while words and (below := next((c for c in command.commands if c.words[-1] == words[0]), None)):
        command, words = below, words[1:]
        options |= {name for each in command.options for name in each.names}
    if command is root and words and not words[0].startswith("-"):
        return f"the command {words[0]}"
    named = [word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-z]", word)]
    return next((f"{each} of {command.name}" for each in named if each not in options), None)


@BY_NAME
def test_a_command_that_is_named_is_one(page: Page) -> None:
    root = command_tree(hidden=True)
    named = [
        *page.mentioned,
        *((each.line, shlex.join(each.words)) for each in page.commands if each.words[0] != "sudo"),
    ]
    named += [(each.line, shlex.join(each.words[1:])) for each in page.commands if each.words[0] == "sudo"]

    wrong = [
        f"{page.name}:{line}: there is not {missing}: {text}"
        for line, text in named
        if text.startswith(("strata", "make", "sudo")) and (missing := unknown(text, root))
    ]

    assert not wrong, "\n".join(wrong)


@BY_NAME
def test_no_command_escapes_being_run(page: Page) -> None:
    stray = [f"{page.name}:{line}: {text.strip()}" for line, text in page.stray]

    assert not stray, "commands stand in blocks ```sh, which are run:\n" + "\n".join(stray)


@BY_NAME
def test_tables_of_a_page_can_be_read(page: Page) -> None:
    for block in page.blocks:
        if block.language == "toml":
            try:
                tomllib.loads("\n".join(block.lines))
            except tomllib.TOMLDecodeError as error:
                pytest.fail(f"{page.name}:{block.line}: {error}")


@BY_NAME
def test_a_study_that_stands_whole_in_a_page_is_sound(page: Page, tmp_path: Path) -> None:
    for name, text in page.files.items():
        written(tmp_path / name, text)
    for name, text in page.files.items():
        if "[study]" in text:
            assert load_study(tmp_path / name, catalogue()).trial_count > 1


def test_an_exception_is_of_a_command_that_there_is() -> None:
    for begin in (*NOT_RUN, *INSTEAD):
        commands = [each for page in PAGES for each in page.commands]
        known = any(begins(each.text, begin) for each in commands)
        assert known, (
            f"no page has a command that begins with `{begin}`: take it out of tests/doc_exceptions.py"
        )


def test_a_test_that_stands_in_for_a_command_exists() -> None:
    for reason in NOT_RUN.values():
        for named in re.findall(r"tests/[\w/]+\.py", reason):
            assert (ROOT / named).is_file(), named


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_to_files_on_a_forge_as_well(file: Path) -> None:
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    for target in LINK.findall(text):
        path, _, _ = target.partition("#")
        if path and "://" not in path:
            assert (file.parent / path).exists(), f"{file.name}: {target}"


def test_lines_that_go_on_are_one_command_and_what_looks_like_one_elsewhere_is_found() -> None:
    page = Page(
        "page.md",
        "A\n\n```sh\nstrata run a.toml \\\n    --fresh\n# a remark\nstrata show b\n```\n\n    strata run c\n",
    )

    assert [(each.line, each.words[1:]) for each in page.commands] == [
        (4, ("run", "a.toml", "--fresh")),
        (7, ("show", "b")),
    ]
    assert [line for line, _ in page.stray] == [10]


def test_what_does_not_exist_is_noticed() -> None:
    root = command_tree()

    assert unknown("strata show RESULTS --trial ID", root) is None
    assert unknown("strata lab build --only zfs", root) is None
    assert unknown("make test", root) is None
    assert unknown("strata shwo RESULTS", root) == "the command shwo"
    assert unknown("strata show RESULTS --trail ID", root) == "--trail of strata show"
    assert unknown("make tset", root) == "the target tset"


def test_a_failed_or_unknown_command_is_reported_with_its_place(tmp_path: Path) -> None:
    page = Page(
        "page.md", "```sh\nstrata show nowhere\nstrata list workloads fio --json | jq .\nlsblk\n```\n"
    )

    failed = run_page(page, tmp_path)

    assert [each.command.place for each in failed] == ["page.md:2", "page.md:4"]
    assert "there is no such folder" in str(failed[0])
    assert "tests/doc_exceptions.py" in str(failed[1])
