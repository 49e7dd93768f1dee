# SPDX-License-Identifier: Apache-2.0
"""Everything that a user can say or read keeps existing: commands, options, keys, metrics, checks.

`tests/golden/inventory.txt` lists what issue 12 found. A word leaves the list only with the feature,
and the changelog then says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.cli.man import command_tree, walk
from strata.devices.kinds import KINDS
from strata.model.metric import COMMON
from strata.model.warning import QUESTIONS
from strata.plan.catalogue import catalogue

INVENTORY = Path(__file__).parents[1] / "golden/inventory.txt"


def listed() -> Iterator[tuple[str, str]]:
    """The words of each ``HEAD: WORD WORD``, which goes on in indented lines."""
    head = ""
    for line in INVENTORY.read_text().splitlines():
        words = line
        if not line.startswith(" "):
            head, _, words = line.partition(":")
        yield from ((head, word) for word in words.split())


def existing() -> Iterator[tuple[str, str]]:
    """Each command, option, layer, workload, key, metric, check and device parameter."""
    for command in walk(command_tree()):
        yield from ((command.name, "/".join(each.names)) for each in (*command.arguments, *command.options))
    for group, models in (("layer", catalogue().layers), ("workload", catalogue().workloads)):
        for name, model in models.items():
            yield from ((f"{group} {name}", field.alias or key) for key, field in model.model_fields.items())
    workloads = catalogue().workloads.values()
    for spec in (*COMMON, *(spec for workload in workloads for spec in workload.metric_specs)):
        yield f"metric {spec.unit} {spec.better}", spec.names
    for check in (*QUESTIONS, *(check for workload in workloads for check in workload.check_questions)):
        yield "check", check
    for kind in KINDS.values():
        yield from ((f"device {kind.name}", parameter) for parameter in kind.parameters)


def test_nothing_that_a_user_could_use_is_gone() -> None:
    gone = sorted(f"{head}: {word}" for head, word in set(listed()) - set(existing()))
    assert not gone, "\n".join(gone)
