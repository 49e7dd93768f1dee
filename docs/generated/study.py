# SPDX-License-Identifier: Apache-2.0
"""The tables of a study file but those of layers and workloads, which have pages of their own."""

from __future__ import annotations

from generated.keys import keys_table, schema
from generated.markdown import prose


def part(faults: str = "fault-") -> str:
    """``[study]``, ``[devices.NAME]`` with its faults, ``[stacks.NAME]``."""
    tables = schema()["properties"]
    text = f"## `[study]`\n\n{keys_table(tables['study'])}"
    text += f"## `[devices.NAME]`\n\n{keys_table(tables['devices']['additionalProperties'])}"
    for name, definition in schema()["$defs"].items():
        if name.startswith(faults):
            fault = name.removeprefix(faults)
            text += f"### The fault `{fault}`\n\n{prose(definition['description'])}\n\n{keys_table(definition)}"
    stack = tables["stacks"]["additionalProperties"]
    return text + f"## `[stacks.NAME]`\n\n{keys_table(stack)}"
