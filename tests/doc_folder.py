# SPDX-License-Identifier: Apache-2.0
"""The folder in which the commands of a page are run: small stand-ins of everything that they name.

Studies keep their stacks and workloads, cut to one seed and to the shortest windows. The results of
studies/quickstart.toml are measured in the lab; others that a page reads, but does not make, are invented.
"""

from __future__ import annotations

import fcntl
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import typer
from typer.testing import CliRunner

from doc_exceptions import INSTEAD, INVENTED, NOT_RUN
from doc_pages import ROOT, Command, Page
from made_results import made_results
from strata.cli import app

_SHORT: Final = {
    "duration": '"1s"',
    "warmup": '"1s"',
    "alone": '"1s"',
    "scale": "1",
    "clients": "2",
    "threads": "2",
    "rows": "500",
    "files": "100",
    "size": '"8MiB"',
}
# Some other commands count whole seconds.
_SHORT_FIO: Final = {**_SHORT, "duration": '"500ms"'}
_KEY: Final = re.compile(rf"\b({'|'.join(_SHORT)})( *= *)(\"[^\"]*\"|[\d_]+)")
# Without a word about it their servers are under load for ten seconds before the window.
_WARMED: Final = re.compile(
    r'^workload = "(pgbench|sysbench-oltp)"\n(?!(?:[^\[\n].*\n)*warmup)', re.MULTILINE
)
_RESULTS: Final = re.compile(r"\bresults/([a-z0-9-]+)")


def cut(study: str) -> str:
    """A study with one seed, whose workloads take as little as they can; nothing fails in it."""
    lines = []
    in_workloads, values = False, _SHORT
    for line in re.sub(r"^\[survival\]\n([^\[\n].*\n?)*", "", study, flags=re.M).splitlines():
        if line.startswith("["):
            in_workloads, values = line.lstrip("[").startswith("workloads."), _SHORT
        if line == 'workload = "fio"':
            values = _SHORT_FIO
        if values is _SHORT_FIO and line.startswith("warmup"):  # it takes another start of fio
            continue
        short = _shortened(line, values) if in_workloads else line
        lines.append(re.sub(r"^seeds = .*", "seeds = [1]", short))
    text = _WARMED.sub(r'\g<0>warmup = "1s"\n', "\n".join(lines) + "\n")
    # In each second of the window it would serve a hundred times as many transactions.
    return text.replace('model = "generic-nvme-data-centre"', 'model = "wd-re4-500gb"')


def _shortened(line: str, values: Mapping[str, str]) -> str:
    return _KEY.sub(lambda key: f"{key[1]}{key[2]}{values[key[1]]}", line)


def prepare(folder: Path) -> None:
    """Fill a folder with the bundled studies, cut, and measure the quickstart in the lab."""
    for file in (ROOT / "studies").rglob("*.toml"):
        text = file.read_text()  # pages only check the published ones, and not all are sound when cut
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text if file.parent.name == "published" else cut(text))
    with contextmanager(_within)(folder):
        run = CliRunner().invoke(app, ["run", "studies/quickstart.toml", "--jobs", "1"])
    assert run.exit_code == 0, f"{run.output}\n{run.exception}"


def prepared(shared: Path) -> Path:
    """The folder that ``prepare`` fills, once for all of pytest-xdist's workers."""
    folder = shared / "documentation"
    with (shared / "documentation.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            begun = shared / "documentation.begun"
            shutil.rmtree(begun, ignore_errors=True)
            prepare(begun)
            begun.rename(folder)
    return folder


def _within(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(typer, "launch", lambda *words, **given: 0)
        # Colours and widths as if the output went to a file.
        patch.setenv("COLUMNS", "110")
        yield


@dataclass(frozen=True)
class Outcome:
    """A command's outcome: the words that were run, or why none were."""

    command: Command
    words: tuple[str, ...] = ()
    exit_code: int = 0
    output: str = ""

    def __str__(self) -> str:
        ran = f"ran `{shlex.join(self.words)}`, exit code {self.exit_code}"
        return f"{self.command.place}: {self.command.text}\n  {ran}\n{self.output}"


def reason_not_to_run(command: Command) -> str | None:
    """Why a command is not run; None if it is."""
    return next((why for begin, why in NOT_RUN.items() if begins(command.text, begin)), None)


def begins(text: str, begin: str) -> bool:
    """Whether a command begins with these words."""
    return f"{text} ".startswith(f"{begin} ")


def words_of(command: Command) -> tuple[str, ...]:
    """The arguments of ``strata`` for a command of the documentation."""
    own = command.words[1:]
    stand = next((stand for begin, stand in INSTEAD.items() if begins(command.text, begin)), None)
    return own if stand is None else stand.of(own)


def run_page(page: Page, folder: Path, elsewhere: Collection[tuple[str, ...]] = ()) -> list[Outcome]:
    """Run the commands of a page one after the other in ``folder``; return the failed ones.

    Args:
        page: The page.
        folder: What ``prepared`` filled, or a copy of it.
        elsewhere: Words of commands that are run with another page, so that once is enough.
    """
    for name, text in page.files.items():
        (folder / name).write_text(cut(text) if "[workloads." in text else text)
    _invent(page.commands, folder)
    with contextmanager(_within)(folder):
        run = (each for each in page.commands if reason_not_to_run(each) is None)
        outcomes = [_run(each) for each in run if words_of(each) not in elsewhere]
    return [each for each in outcomes if each.exit_code != 0]


def _invent(commands: Iterable[Command], folder: Path) -> None:
    """Results that the page does not make itself."""
    run = (each for each in commands if each.words[1:2] == ("run",))
    runs = [each.words for each in run if reason_not_to_run(each) is None]
    made = {_name_of(folder / words[2]) for words in runs}
    made |= {Path(word).name for words in runs for word in words if _RESULTS.match(word)}
    for name in {name for each in commands for name in _RESULTS.findall(each.text)} - made:
        if not (folder / "results" / name).exists():
            stacks = INVENTED.get(name, ("ext4", "xfs", "btrfs"))
            made_results(folder / "results" / name, stacks=stacks, workloads=2, seeds=6, name="invented")


def _name_of(study: Path) -> str:
    found = re.search(r'^name = "([^"]+)"', study.read_text(), re.MULTILINE) if study.exists() else None
    return found[1] if found else ""


def _run(command: Command) -> Outcome:
    if command.words[:1] != ("strata",):
        return Outcome(
            command, command.words, 127, "not a strata command: name it in tests/doc_exceptions.py"
        )
    words = words_of(command)
    result = CliRunner().invoke(app, list(words))
    output = result.output if result.exception is None else f"{result.output}{result.exception!r}"
    if words[:2] == ("new", "study"):
        study = Path(f"{words[2]}.toml")
        study.write_text(cut(study.read_text()))
    if command.rest[:1] == (">",):
        Path(command.rest[1]).write_text(result.stdout)
    return Outcome(command, ("strata", *words), result.exit_code, output[-2000:])
