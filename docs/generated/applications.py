# SPDX-License-Identifier: Apache-2.0
"""The bundled applications: what each stands for, its variables, commands and metrics."""

from __future__ import annotations

from generated.markdown import block, code, codes, prose
from strata.workloads.command.command import CommandWorkload, applications


def part() -> str:
    """A section for each."""
    return "".join(_section(name) for name in applications())


def _section(name: str) -> str:
    load = CommandWorkload.model_validate({"preset": name})
    text = f"## `{name}`\n\n{prose(applications()[name]['rationale'])}\n\n"
    if load.variables:
        named = (code(f"{key} = {value}") for key, value in load.variables.items())
        text += f"Variables: {', '.join(named)}. "
    text += f"Metrics: {codes(each.name for each in load.metrics_of)}.\n\n"
    commands = [f"{key}: {command}" for key, command in load.commands("load")]
    if load.serve is not None:
        commands.insert(0, f"server: {load.serve}")
    return text + block("\n".join(each.strip() for each in commands), "text")
