# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation, with the commands and files that stand in them.

- A block of code ``sh`` holds commands, one a line (a backslash goes on); what follows a ``#`` is a remark.
- A block ``toml`` whose first line is ``# name.toml`` is that file, which commands of the page may name.
- A command within a sentence is in backticks and may have placeholders in capitals.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from generated import filled

ROOT: Final = Path(__file__).resolve().parents[1]
PROGRAMS: Final = ("strata", "make")

_FENCE: Final = re.compile(r"^ *```(\{?[\w-]*\}?)")
_FILE: Final = re.compile(r"^# ([\w.-]+\.toml)$")
_IN_SENTENCE: Final = re.compile(rf"`((?:sudo )?(?:{'|'.join(PROGRAMS)}) [^`]+)`")
_TYPED: Final = re.compile(
    rf"^(?: {{4,}}|(?:    )?\$ +)(?:sudo +)?(?:\.venv/bin/)?(?:{'|'.join(PROGRAMS)}) +[a-z-]+( |$)"
)


@dataclass(frozen=True)
class Block:
    """A block of code; ``line`` is the number of its first line in the page."""

    language: str
    line: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """One line that a reader may type.

    Attributes:
        text: As it stands in the page, without prompt and remark.
        words: Its words, up to a pipe or another operator of the shell.
        rest: Those after them: ``|``, ``>`` and what follows.
    """

    page: str
    line: int
    text: str
    words: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def place(self) -> str:
        """The command's page and line."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """A page: its name from the project's root on, and its text."""

    name: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        """The fenced blocks of code."""
        found: list[Block] = []
        language, begin, lines = "", 0, list[str]()
        for number, line in enumerate(self.text.splitlines(), start=1):
            fence = _FENCE.match(line)
            if fence and not begin:
                language, begin, lines = fence[1], number + 1, []
            elif fence:
                found.append(Block(language, begin, tuple(lines)))
                begin = 0
            elif begin:
                lines.append(line)
        return found

    @property
    def commands(self) -> list[Command]:
        """The commands in ``sh`` blocks, in the order of the page."""
        return [
            command_of(self.name, number, text)
            for block in self.blocks
            if block.language == "sh"
            for number, text in _joined(block)
        ]

    @property
    def mentioned(self) -> list[tuple[int, str]]:
        """The commands within sentences, with their lines."""
        return [
            (self.text.count("\n", 0, each.start()) + 1, " ".join(each[1].split()))
            for each in _IN_SENTENCE.finditer(self.text)
        ]

    @property
    def stray(self) -> list[tuple[int, str]]:
        """Lines outside ``sh`` blocks that look like commands; no test would run them."""
        own = {
            block.line + i for block in self.blocks if block.language == "sh" for i in range(len(block.lines))
        }
        lines = enumerate(self.text.splitlines(), start=1)
        return [(number, line) for number, line in lines if number not in own and _TYPED.match(line)]

    @property
    def files(self) -> dict[str, str]:
        """The files that stand whole in the page, by name."""
        tables = [block for block in self.blocks if block.language == "toml" and block.lines]
        named = ((_FILE.match(block.lines[0]), block) for block in tables)
        return {name[1]: "\n".join(block.lines) + "\n" for name, block in named if name}


def command_of(page: str, line: int, text: str) -> Command:
    """A line of a block, taken apart as a shell would."""
    lexer = shlex.shlex(text.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
    lexer.commenters = ""
    lexer.whitespace_split = True  # so that a colon is a part of a word
    words: list[str] = []
    for word in lexer:
        if word.startswith("#"):
            break
        words.append(word)
    end = next((i for i, word in enumerate(words) if word and set(word) <= set("|&;<>")), len(words))
    plain = re.sub(r"\s+# .*$", "", text.removeprefix("$ ")).strip()
    return Command(page, line, plain, tuple(words[:end]), tuple(words[end:]))


def _joined(block: Block) -> list[tuple[int, str]]:
    """The command lines of a block; lines continued by a backslash are joined."""
    found: list[tuple[int, str]] = []
    begun, first = "", 0
    for number, line in enumerate(block.lines, start=block.line):
        first = first if begun else number
        begun += line.rstrip()
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        if begun.strip() and not begun.strip().startswith("#"):
            found.append((first, begun))
        begun = ""
    return found


def files() -> list[Path]:
    """The pages' files: the front page, what contributors read, the documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def pages() -> list[Page]:
    """Every page, with what is made from the code."""
    return [Page(str(file.relative_to(ROOT)), filled(file.read_text(encoding="utf-8"))) for file in files()]
