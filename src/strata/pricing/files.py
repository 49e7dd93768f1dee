# SPDX-License-Identifier: Apache-2.0
"""Processors and programs as text, in the form that `strata.devices.processor` reads."""

from __future__ import annotations

from collections.abc import Mapping

from strata.devices.processor import ProcessorParameter, Program


def processor_toml(title: str, parameters: Mapping[str, ProcessorParameter]) -> str:
    lines = [f"{name} = {{ {_pairs(dict(each))} }}\n" for name, each in parameters.items()]
    return f"title = {_toml(title)}\n\n[parameters]\n{''.join(lines)}"


def program_toml(name: str, program: Program) -> str:
    """The entry of a processor file, ``[programs.NAME]``, without the prices that are 0."""
    key = name if name.replace("-", "").replace("_", "").isalnum() else _toml(name)
    stated = {k: v for k, v in program.model_dump().items() if k == "system_call_ns" or v != 0 or v is False}
    return f"[programs.{key}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in stated.items())


def _pairs(stated: Mapping[str, object]) -> str:
    keys = ("value", "low", "high", "unit", "source", "estimate")
    return ", ".join(f"{key} = {_toml(stated[key])}" for key in keys)


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}" if abs(value) < 1e5 else f"{value:.0f}"
        case str():
            kept = "".join(each for each in value if each.isprintable())
            escaped = kept.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
    return str(value)
