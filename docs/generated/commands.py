# SPDX-License-Identifier: Apache-2.0
"""Every command with its options, defaults and examples, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

from generated.markdown import block, code, codes, prose, table
from strata.cli.man import EXIT_CODES, CommandParameter, ManualPage, command_tree, walk

_COMMON = frozenset({"--help", "--quiet"})


def part() -> str:
    """The overview by panels, then a section for each command."""
    root = command_tree()
    text = ""
    for panel in dict.fromkeys(each.panel for each in root.commands):
        rows = [(_link(each), prose(each.summary)) for each in root.commands if each.panel == panel]
        text += table((panel or "ManualPage", ""), rows)
    text += "Every command has `--help`, and `--quiet`, which prints only the result and errors.\n\n"
    return text + "".join(map(_section, _documented(root)))


def exit_codes() -> str:
    """A row for each exit code."""
    return table(("Exit code", "Meaning"), [(code(each.code), prose(each.meaning)) for each in EXIT_CODES])


def _documented(root: ManualPage) -> Iterator[ManualPage]:
    """All commands, the root's own options first."""
    return (each for each in walk(root) if each.words != root.words or _own(each.options))


def _link(command: ManualPage) -> str:
    return f"[`{command.name}`](#{'-'.join(command.words)})"


def _section(command: ManualPage) -> str:
    text = f"## `{command.name}`\n\n{prose(command.summary)}.\n\n"
    text += "".join(f"{prose(paragraph)}\n\n" for paragraph in command.description)
    text += block(command.usage)
    rows = [_row(each) for each in (*command.arguments, *_own(command.options))]
    text += table(("Argument or option", "Default", "Meaning"), rows)
    if command.commands:
        text += table(("ManualPage", ""), [(_link(each), prose(each.summary)) for each in command.commands])
    return text + (block("\n".join(command.examples), "sh") if command.examples else "")


def _own(options: tuple[CommandParameter, ...]) -> list[CommandParameter]:
    return [each for each in options if not _COMMON & set(each.names)]


def _row(parameter: CommandParameter) -> tuple[str, str, str]:
    named = codes(parameter.names)
    if not parameter.is_argument and parameter.value:
        taken = "|".join(parameter.choices) if parameter.choices else parameter.value
        named += f" {code(taken)}"
    meaning = prose(parameter.help)
    if parameter.repeatable:
        meaning += " May be given several times."
    return named, "must be given" if parameter.required else code(parameter.default), meaning
