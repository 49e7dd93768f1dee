# SPDX-License-Identifier: Apache-2.0
"""Everything that a user can say or read keeps existing: commands, options, keys, metrics, checks.

`tests/golden/inventory.txt` lists what issue 12 found. A line leaves the list only with the feature,
and the changelog then says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.cli.reference import command_tree, walk
from strata.plan.catalogue import catalogue
from strata.spec.device_kinds import KINDS
from strata.spec.metric_spec import COMMON
from strata.spec.warning import QUESTIONS

INVENTORY = Path(__file__).parents[1] / "golden/inventory.txt"


def inventory() -> Iterator[str]:
    """One line for each command, option, layer, workload, key, metric, check and device parameter."""
    for command in walk(command_tree()):
        yield command.name
        for parameter in (*command.arguments, *command.options):
            yield f"{command.name} {'/'.join(parameter.names)}"
    for group, models in (("layer", catalogue().layers), ("workload", catalogue().workloads)):
        for name, model in models.items():
            yield f"{group} {name}"
            for key, field in model.model_fields.items():
                yield f"{group} {name} {field.alias or key}"
    for workload in catalogue().workloads.values():
        for each in workload.metric_specs:
            yield f"metric {each.names} {each.unit} {each.better}"
        for check in workload.check_questions:
            yield f"check {check}"
    yield from (f"metric {each.names} {each.unit} {each.better}" for each in COMMON)
    yield from (f"check {check}" for check in QUESTIONS)
    for kind in KINDS.values():
        yield from (f"device {kind.name} {parameter}" for parameter in kind.parameters)


def test_nothing_that_a_user_could_use_is_gone() -> None:
    gone = sorted(set(INVENTORY.read_text().splitlines()) - set(inventory()))
    assert not gone, "\n".join(gone)
