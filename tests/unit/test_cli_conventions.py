# SPDX-License-Identifier: Apache-2.0
"""Conventions of every command. A new command is picked up by existing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from results_factory import snapshot_of
from typer.testing import CliRunner

from strata.actions import check as checking
from strata.cli import app
from strata.cli.man import ManualPage, command_tree, manual_page, page_name, walk
from strata.cli.output import is_quiet
from strata.cli.tree import COMMANDS_BY_PANEL, COMMANDS_OF_GROUPS, HIDDEN, RENAMED
from strata.results.store import ResultsFolder

ROOT = Path(__file__).resolve().parents[2]
STRATA = Path(sys.executable).with_name("strata")
TREE = command_tree()
EVERYTHING = list(walk(TREE))
NEWCOMERS_WIDTH = 80
ESCAPE = "\x1b"
# Why a command has no --json.
WITHOUT_JSON = {
    "strata lab enter": "it is a conversation",
    "strata serve": "it is a page, whose numbers `show --json` has",
}


def strata(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The program as a shell runs it, in a pipe."""
    environment = {name: value for name, value in os.environ.items() if name not in FORCING} | more
    return subprocess.run(
        [STRATA, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


# Variables that make rich write escape codes to any output.
FORCING = {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE"}


def test_every_command_keeps_the_conventions() -> None:
    """Examples, a line on the map, forms of output, ``--quiet``, and a sentence on each parameter."""
    line = NEWCOMERS_WIDTH - max(len(each.words[-1]) for each in TREE.commands) - 6  # borders and a gap
    found = []
    for command in EVERYTHING:
        names = {name for each in command.options for name in each.names}
        parameters = (*command.arguments, *command.options)
        typed = any(f"{command.name} " in f"{example} " for example in command.examples)
        rules = {
            "has an example of its own": bool(command.examples) and (typed or bool(command.commands)),
            "has a summary of one line": command is TREE or len(command.summary) < line,
            "has --json": bool(command.commands) or ("--json" in names) is (command.name not in WITHOUT_JSON),
            "can be quiet": bool(command.commands) or {"--quiet", "-q"} <= names,
            "says what each parameter is": all(
                each.help.rstrip().endswith((".", ")", "?")) for each in parameters
            ),
            "has its place on the map": command not in TREE.commands or bool(command.panel),
        }
        found += [f"{command.name}: {rule}" for rule, holds in rules.items() if not holds]
    assert found == []


def test_what_examples_take_out_of_json_is_there() -> None:
    examples = [each.removeprefix("sudo ") for command in EVERYTHING for each in command.examples]
    piped = [each for each in examples if re.match(r"strata (list|plan|check) .*--json \| jq", each)]
    assert len(piped) > 4

    for example in piped:
        command, _, query = example.partition(" | jq ")
        found = [json.loads(strata(*command.split()[1:]).stdout)]
        for key, every in re.findall(r"\.(\w+)|(\[\])", query.partition(" | ")[0]):
            lists = [each.values() if isinstance(each, dict) else each for each in found] if every else []
            found = [one for each in lists for one in each] if every else [each[key] for each in found]


def test_a_help_page_has_every_word_of_the_docstring_whole_in_80_columns() -> None:
    lost = {}
    for command in EVERYTHING[1:]:
        words = [*command.words[1:], "--help"]
        shown = CliRunner().invoke(app, words, env={"TERMINAL_WIDTH": "", "COLUMNS": "80"}).output
        texts = (*command.description, *(each.help for each in (*command.arguments, *command.options)))
        missing = {word for text in texts for word in text.split()} - set(shown.split())
        # A type that does not fit needs a metavar.
        if missing or re.search(r"<list\[[^\]\s]*\s", shown):
            lost[command.name] = missing
    assert lost == {}


def test_the_map_has_the_summaries_of_the_commands_themselves() -> None:
    overviews = {"strata": COMMANDS_BY_PANEL}
    overviews |= {f"strata {group}": panels for group, panels in COMMANDS_OF_GROUPS.items()}
    for group in (each for each in EVERYTHING if each.name in overviews):
        panels = {panel: names for panel, names in overviews[group.name].items() if panel != HIDDEN}
        shown = {name: text for summaries in panels.values() for name, text in summaries.items()}

        found = {each.words[-1]: each.summary for each in group.commands}
        assert found == {name: text.removesuffix(".") for name, text in shown.items()}


def test_an_earlier_name_answers_with_the_new_one_in_one_line() -> None:
    for old, new in RENAMED.items():
        said = CliRunner().invoke(app, [*old.split(), "word"])

        assert str(said.exception) == f"`strata {old}` is now `strata {new}`"
        assert getattr(said.exception, "exit_code", None) == 2
        name = " ".join(["strata", *(word for word in new.split() if word.isalpha() and word.islower())])
        command = next(each for each in EVERYTHING if each.name == name)
        options = {name for each in command.options for name in each.names}
        assert {word for word in new.split() if word.startswith("--")} <= options


def test_the_version_can_be_asked_for() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.startswith("strata 0.")


def test_the_map_is_there_at_once() -> None:
    """Only commands that need a slow import load it."""
    heavy = "pydantic numpy scipy duckdb altair starlette uvicorn jinja2 resvg_py"
    program = (
        "import sys; from typer.testing import CliRunner; from strata.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        f"print([name for name in {heavy.split()!r} if name in sys.modules])"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_streams_that_are_closed_or_close_early_are_no_mistake() -> None:
    for script in (
        'exec <&- >&- 2>&-; exec "$0" check studies/quickstart.toml',
        '"$0" plan studies/layers.toml --json | head -n 1 >/dev/null; exit $((PIPESTATUS[0] > 1))',
    ):
        done = subprocess.run(["bash", "-c", script, STRATA], cwd=ROOT, stderr=subprocess.PIPE, check=False)
        # On a busy machine a command that is silent for two seconds is named.
        said = [line for line in done.stderr.decode().splitlines() if not line.endswith("…")]
        assert (done.returncode, said) == (0, [])


def test_a_terminal_gets_colours_but_not_where_they_are_unwanted() -> None:
    words = ("list", "workloads")
    coloured, plain, piped = (
        strata(*words, TERM="xterm-256color", **more)
        for more in ({"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, {})
    )

    assert ESCAPE in coloured.stdout
    assert f"{ESCAPE}[3" not in plain.stdout  # what is bold may stay
    assert ESCAPE not in piped.stdout + piped.stderr


def test_a_mistake_is_two_lines_on_standard_error() -> None:
    for words, code, cause in (
        (("chek",), 2, "strata: no such command 'chek'. Did you mean 'check'"),
        (("show", "--jsn"), 2, "strata show: no such option: --jsn"),
        (("show", "nowhere"), 6, "strata: nowhere: there is no such folder"),
    ):
        said = strata(*words, TERM="xterm-256color")
        found = [line for line in said.stderr.splitlines() if not line.endswith("…")]
        assert (said.returncode, said.stdout, len(found)) == (code, "", 2)
        assert ESCAPE not in said.stderr
        assert found[0].startswith(cause)


def test_an_option_of_one_value_is_refused_twice() -> None:
    """Else the last would count, and the first be lost without a word."""
    one = (
        *(("run", "quickstart", "--trial"), ("show", "nowhere", "--trial"), ("lab", "selftest", "--jobs")),
        *(
            ("check", "quickstart", "--shard"),
            ("gate", "nowhere", "--see"),
            ("publish", "a", "b", "--traces"),
        ),
    )
    several = ("history", "nowhere", "nowhere", "--metric")
    said = {each: CliRunner().invoke(app, [*each, "3", each[-1], "4"]).output for each in (*one, several)}
    assert [each for each, text in said.items() if "given twice" in text] == [*one[:-1]]


def test_quiet_may_stand_before_or_after_the_command() -> None:
    for words in (["-q", "list", "devices"], ["list", "devices", "-q"], ["list", "-q", "devices"]):
        CliRunner().invoke(app, words)
        assert is_quiet()
        CliRunner().invoke(app, ["list", "devices"])
        assert not is_quiet(), "it is the wish of one command"


def test_an_interruption_ends_with_the_shells_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "load_study", interrupted)

    result = CliRunner().invoke(app, ["check", "studies/quickstart.toml"])

    assert result.exit_code == 130
    assert "interrupted" in result.stderr


def test_quiet_leaves_the_result_and_drops_the_rest(tmp_path: Path) -> None:
    words = ["plan", str(ROOT / "studies/quickstart.toml"), "--svg", str(tmp_path)]

    loud, quiet = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["-q"]))

    assert "wrote" in loud.stderr
    assert quiet.output == ""
    assert list(tmp_path.glob("*.svg"))


# Completion, as each shell asks for it.


def complete(shell: str, line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words = line.split(" ")
    asked: Mapping[str, str] = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    with monkeypatch.context() as there:
        there.chdir(folder)
        given = {**asked, "_STRATA_COMPLETE": f"complete_{shell}"}
        said = CliRunner().invoke(app, [], prog_name="strata", env=given)
    if shell == "zsh":  # _arguments '*: :(("a":"what it is" "b"))'
        return re.findall(r'^(?:_arguments .*\(\()?"([^"]*)"', said.stdout, re.MULTILINE)
    return [each.split("\t")[0] for each in said.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "mine.toml").touch()
    (tmp_path / "studies" / "mine.claims.toml").touch()
    ResultsFolder.create(
        tmp_path / "results" / "mine", snapshot_of({"ext4": 1.0, "xfs": 1.0}, (1,), ("oltp",))
    )
    return tmp_path


def test_each_shell_completes_commands_and_values(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {
        "strata list work": ["workloads"],
        "strata lab power": ["power-cut"],
        "strata run stu": ["studies/mine.toml"],
        "strata check studies/m": ["studies/mine.toml"],
        "strata show res": ["results/mine"],
        "strata claims results/m": ["results/mine"],
        "strata claims studies/m": ["studies/mine.toml"],
        "strata report results/": ["results/mine"],
        "strata explain results/mine/x": ["results/mine/xfs.oltp.s1"],
        "strata show results/mine --trial e": ["ext4.oltp.s1"],
        "strata list devices wd-re4-5": ["wd-re4-500gb"],
        "strata trace x --on wd-re4-5": ["wd-re4-500gb"],
        "strata list workloads pgb": ["pgbench"],
        "strata run --runner h": ["host"],
    }
    found = {
        shell: {line: complete(shell, line, folder, monkeypatch) for line in lines}
        for shell in ("bash", "zsh", "fish")
    }
    assert found == dict.fromkeys(found, lines)


def test_bash_completes_what_is_typed_into_it(folder: Path) -> None:
    """The script itself, in the shell that it is for."""
    script = strata(_STRATA_COMPLETE="source_bash").stdout
    typed = "COMP_WORDS=(strata run stu); COMP_CWORD=2; _strata_completion strata; echo ${COMPREPLY[@]}"

    said = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{typed}"],
        cwd=folder,
        env={**os.environ, "PATH": f"{STRATA.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.strip() == "studies/mine.toml"


# Manual pages.


def test_every_command_has_a_manual_page_that_renders_without_a_warning(tmp_path: Path) -> None:
    pages = [tmp_path / f"{page_name(command)}.1" for command in EVERYTHING]
    for page, command in zip(pages, EVERYTHING, strict=True):
        text = manual_page(command, TREE)
        assert all(each.names[0] in text.replace("\\-", "-") for each in command.options)
        page.write_text(text)
    if shutil.which("groff"):
        checker = ["groff", "-man", "-ww", "-z", "-Tutf8", "-K", "utf8"]
    elif shutil.which("mandoc"):
        checker = ["mandoc", "-T", "lint", "-W", "warning"]
    else:
        pytest.skip("neither groff nor mandoc is installed")

    said = subprocess.run([*checker, *pages], capture_output=True, text=True, check=False)

    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_a_line_that_roff_would_take_for_a_request_is_text() -> None:
    odd = ManualPage(
        words=("strata",),
        panel="",
        summary=".TH is \\fI no -request",
        description=("'also",),
        usage="strata",
        arguments=(),
        options=(),
        examples=(),
        commands=(),
    )

    page = manual_page(odd, odd)

    assert "\\&'also" in page
    assert ".TH is \\efI no \\-request" in page


def test_the_pages_are_written_and_named_for_man(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["man", "-o", str(tmp_path), "--json"])

    assert {Path(each).name for each in json.loads(said.stdout)["wrote"]} == {
        f"{page_name(each)}.1" for each in EVERYTHING
    }
    assert (tmp_path / "strata-lab-build.1").read_text().startswith('.\\"')


def test_ctrl_c_while_the_program_loads_ends_it_without_a_traceback(tmp_path: Path) -> None:
    # Found before the real one: Ctrl-C is pressed when the first library is loaded.
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")

    done = subprocess.run(
        [sys.executable, "-c", "from strata.program import main; main()", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (130, "strata: interrupted\n")
