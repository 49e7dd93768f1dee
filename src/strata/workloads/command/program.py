# SPDX-License-Identifier: Apache-2.0
"""The programs that a study names: commands, and the server that they talk to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from strata.diagnostics.names import Diagnostic, KebabName
from strata.model.describe import shown
from strata.model.step import literal
from strata.workloads.keys import key

Value = StrictStr | StrictInt | StrictFloat
"""The value of a variable of a study."""

GIVEN: Final = ("data", "files", "scratch", "seed")
"""The variables of every workload `command`."""
VARIABLE_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_PIECE: Final = re.compile(r"(\$(?:\$|\{[^}]*\}|))")
_OF_A_SHELL: Final = re.compile(r"[|&;<>]+|\d?>+(&\d)?|.*;")
_SHELL_REMEDY: Final = 'write { shell = "..." } to have a shell read it'


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text of a plan: ``${name}`` becomes the variable's value, ``$$`` is a dollar sign.

    The values are texts of a plan, too. Raises Diagnostic for unknown variables and single dollar signs.
    """

    def piece(part: str) -> str:
        if not part.startswith("$"):
            return part
        if part == "$$":
            return part
        name = part.removeprefix("${").removesuffix("}")
        if part == "$" or name not in values:
            named = ", ".join(f"${{{each}}}" for each in values)
            cause = "a single $ has no meaning here" if part == "$" else f"there is no variable {part[:60]}"
            raise Diagnostic(cause, remedy=f"$$ is a dollar sign; the variables are {named}")
        return values[name]

    return "".join(map(piece, _PIECE.split(text)))


def word_list(text: str) -> list[str]:
    """The words of a command line, split and unquoted as a shell does, but not expanded."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Diagnostic(
            f"the command cannot be split into words: {error}", remedy="close the quotes"
        ) from None
    if not words:
        raise Diagnostic("the command is empty", remedy="name a program")
    if strange := next((word for word in words if _OF_A_SHELL.fullmatch(word)), None):
        cause = f'no shell reads this command: "{strange[:60]}" would be an argument of {words[0][:60]}'
        raise Diagnostic(cause, remedy=_SHELL_REMEDY)
    return words


class ProgramTable(BaseModel):
    """A command line: ``run`` is split into words, ``shell`` is read by a shell."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    run: StrictStr | None = key(
        None,
        "A program and its arguments in one text, which is split into words as a shell splits it; no shell "
        "reads it, so that |, > and * have no meaning",
        "sqlite3 ${data}/app.db '.read ${files}/load.sql'",
    )
    shell: StrictStr | None = key(
        None, "Text for `sh -e -c` instead", "gzip -c ${files}/dump.sql > ${data}/dump.sql.gz"
    )

    def argv(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The words of the step; a shell finds the variables in its environment."""
        if self.shell is not None:
            return ("sh", "-e", "-c", literal(self.shell))
        return tuple(filled(word, values) for word in word_list(self.run or ""))

    def diagnostics(self, names: Mapping[str, str]) -> Iterator[Diagnostic]:
        if (self.run is None) == (self.shell is None):
            yield Diagnostic("a command has either `run` or `shell`", remedy='such as { run = "sync" }')
        elif self.shell is not None and not self.shell.strip():
            yield Diagnostic("the command is empty", remedy="name a program", key="shell")
        else:
            yield from mistake(lambda: self.argv(names))

    def __str__(self) -> str:
        return shown("command", self.run or self.shell or "")


def mistake(attempt: Callable[[], object]) -> Iterator[Diagnostic]:
    """The diagnostic that an attempt raises, if any."""
    try:
        attempt()
    except Diagnostic as diagnostic:
        yield diagnostic


class CommandTable(ProgramTable):
    """One command of a phase."""

    name: KebabName | None = key(
        None, "Its name, by which a metric finds it; default: the phase and its number, `load-1`", "clone"
    )
    cold: StrictBool = key(
        False, "Before it write back all dirty data and drop the caches, outside of its time", True
    )
    expect_exit: list[Annotated[StrictInt, Field(ge=0, le=255)]] = key(
        [0], "Exit codes that are no failure", [0, 24], min_length=1
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}


_PORT: Final = r"^ *[0-9]+: [0-9A-F]+:{:04X} [0-9A-F]+:0000 0A "
_TCP: Final = ("/proc/net/tcp", "/proc/net/tcp6")


class ServeTable(ProgramTable):
    """A server that the commands talk to, which stays in the foreground, and the sign that it is ready."""

    waits: ClassVar[tuple[str, ...]] = ("socket", "file", "port", "ready")

    socket: StrictStr | None = key(
        None, "It is ready when this Unix socket is there", "${scratch}/redis.sock"
    )
    file: StrictStr | None = key(None, "It is ready when this file is there", "${data}/server.pid")
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = key(
        None, "It is ready when somebody listens on this TCP port, at any address", 2379
    )
    ready: StrictStr | None = key(
        None, "It is ready when this command succeeds", "redis-cli -s ${scratch}/redis.sock ping"
    )

    def is_ready(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The command that succeeds when the server is ready."""
        if self.socket is not None:
            return ("test", "-S", filled(self.socket, values))
        if self.file is not None:
            return ("test", "-e", filled(self.file, values))
        if self.port is not None:
            # In these tables 0A is the state LISTEN. Nothing connects, so the server sees no strange client.
            return ("grep", "-E", "-q", "-s", literal(_PORT.format(self.port)), *_TCP)
        return tuple(filled(word, values) for word in word_list(self.ready or ""))

    def diagnostics(self, names: Mapping[str, str]) -> Iterator[Diagnostic]:
        yield from super().diagnostics(names)
        given = [each for each in self.waits if getattr(self, each) is not None]
        if len(given) != 1:
            cause = "a server needs exactly one sign that it is ready"
            yield Diagnostic(cause, remedy=f"write one of {', '.join(self.waits)}")
            return
        for diagnostic in mistake(lambda: self.is_ready(names)):
            diagnostic.key = given[0]
            yield diagnostic
