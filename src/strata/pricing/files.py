# SPDX-License-Identifier: Apache-2.0
"""Processors and programs as text, in the form that `strata.devices.processor` reads."""

from __future__ import annotations

from collections.abc import Mapping

from strata.devices.processor import ProcessorParameter, Program
from strata.toml import toml_table, toml_value

_KEYS = ("value", "low", "high", "unit", "source", "estimate")


def processor_toml(title: str, parameters: Mapping[str, ProcessorParameter]) -> str:
    stated = {name: {key: getattr(each, key) for key in _KEYS} for name, each in parameters.items()}
    return f"title = {toml_value(title)}\n\n" + toml_table("parameters", stated)


def program_toml(name: str, program: Program) -> str:
    """The entry of a processor file, ``[programs.NAME]``, without the prices that are 0."""
    key = name if name.replace("-", "").replace("_", "").isalnum() else toml_value(name)
    stated = {k: v for k, v in program.model_dump().items() if k == "system_call_ns" or v != 0 or v is False}
    return toml_table(f"programs.{key}", stated)
