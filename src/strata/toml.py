# SPDX-License-Identifier: Apache-2.0
"""Values as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def toml_table(name: str, table: Mapping[str, Any]) -> str:
    return "\n".join([f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in table.items())]) + "\n"


def toml_value(value: Any) -> str:
    match value:
        case Mapping():
            return "{ " + ", ".join(f"{key} = {toml_value(each)}" for key, each in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case _:
            # Texts, numbers and truth values are written alike in JSON and TOML.
            return json.dumps(value, ensure_ascii=False)
