# SPDX-License-Identifier: Apache-2.0
"""The tables of a study file but those of layers and workloads, which have pages of their own."""

from __future__ import annotations

from typing import Final

from generated.keys import inner_tables, keys_table, schema
from generated.markdown import prose

_FAULT: Final = "fault-"


def part() -> str:
    """``[study]``, ``[devices.NAME]`` with its faults, ``[stacks.NAME]``."""
    tables = schema()["properties"]
    text = f"## `[study]`\n\n{keys_table(tables['study'])}{inner_tables(tables['study'])}"
    text += f"## `[devices.NAME]`\n\n{keys_table(tables['devices']['additionalProperties'])}"
    for name, definition in schema()["$defs"].items():
        if name.startswith(_FAULT):
            fault = name.removeprefix(_FAULT)
            text += (
                f"### The fault `{fault}`\n\n{prose(definition['description'])}\n\n{keys_table(definition)}"
            )
    stack = tables["stacks"]["additionalProperties"]
    return text + f"## `[stacks.NAME]`\n\n{keys_table(stack)}"
