# SPDX-License-Identifier: Apache-2.0
"""``strata new workload --command``: a study of a program, from a few answers."""

from __future__ import annotations

import sys
from typing import Final

import typer

from strata.actions.new_study import write_checked
from strata.errors import StudyError
from strata.model.study import Study

_QUESTIONS: Final = {
    "load": "The command to measure (${data} is the folder on the stack)",
    "packages": "The Debian packages of its programs, separated by spaces, or nothing",
    "prepare": "A command that makes its data before, or nothing",
    "serve": "A server that it talks to, or nothing",
    "ready": "A command that succeeds when the server is ready",
    "metric": "The metric that it prints, as NAME=REGULAR EXPRESSION with one group, or nothing for its time",
}
_STUDY: Final = """\
[study]
name = "{name}"
question = "Which filesystem serves {name} best?"
seeds = [1, 2, 3]

[devices.disk0]
model = "generic-sata-ssd"      # strata list devices
capacity = "32GiB"

[stacks.ext4]
layers = [{{ layer = "ext4" }}]

[stacks.xfs]
layers = [{{ layer = "xfs" }}]

[workloads.{name}]
workload = "command"            # docs/reference/workloads/command.md has all keys
"""


def write_command_study(name: str, answers: dict[str, str | None]) -> Study:
    """Write ``NAME.toml`` in the current folder; on a terminal missing answers are asked for.

    Raises StudyError, or DiagnosticsError if the answers make no sound study.
    """
    known = _asked(answers)
    if not known["load"]:
        raise StudyError("nothing is measured", place="--load", remedy="add for example --load 'sync'")
    return write_checked(name, _text(name, known))


def _asked(answers: dict[str, str | None]) -> dict[str, str]:
    """The answers, where a person can be asked with those that are missing."""
    is_asking = sys.stdin.isatty() and answers["load"] is None
    known: dict[str, str] = {}
    for name, question in _QUESTIONS.items():
        given = answers[name]
        if given is None and is_asking and (name != "ready" or known["serve"]):
            given = typer.prompt(question, default="", show_default=False, err=True)
        known[name] = given or ""
    return known


def _text(name: str, known: dict[str, str]) -> str:
    lines = [_STUDY.format(name=name)]
    if known["packages"]:
        lines.append(f"packages = [{', '.join(map(_quoted, known['packages'].split()))}]\n")
    if known["prepare"]:
        lines.append(f"prepare = [{_quoted(known['prepare'])}]\n")
    if known["serve"]:
        ready = _quoted(known["ready"])
        lines.append(f"serve = {{ run = {_quoted(known['serve'])}, ready = {ready} }}\n")
    lines.append(f"load = [{_quoted(known['load'])}]\n")
    if known["metric"]:
        metric, _, pattern = known["metric"].partition("=")
        unit = "1/s" if metric.endswith("_per_s") else "ns" if metric.endswith("_ns") else "1"
        keys = f'name = "{metric}", unit = "{unit}", regex = {_quoted(pattern)}'
        lines.append(f"metrics = [{{ {keys} }}]\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    """A text of a TOML file; without quotes of its own it needs no escapes."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
