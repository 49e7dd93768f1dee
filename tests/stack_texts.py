# SPDX-License-Identifier: Apache-2.0
"""Study files for tests of layers: any layers on any number of like disks, and how a value is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_HEAD = '[study]\nname = "golden"\nquestion = "Is the plan the same?"\nseeds = [1]\n'


def toml(value: object) -> str:
    """A value as it stands in a study file."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key)


def stack_text(
    layers: str, disks: int, workload: str, *, model: str, capacity: str | None = None, each: str = ""
) -> str:
    """A study of one stack of ``layers`` (TOML tables, joined by commas) and one workload.

    The disks are called disk0 and so on; the stack stands on those that no layer names. ``each`` are the
    layers that every tenant has of its own.
    """
    size = f'capacity = "{capacity}"\n' if capacity else ""
    devices = "".join(f'\n[devices.disk{index}]\nmodel = "{model}"\n{size}' for index in range(disks))
    own = f"each = [{each}]\n" if each else ""
    return f"{_HEAD}{devices}\n[stacks.stack]\nlayers = [{layers}]\n{own}\n[workloads.load]\n{workload}\n"
