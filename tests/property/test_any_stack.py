# SPDX-License-Identifier: Apache-2.0
"""Any stack is either refused with cause, place and remedy, or becomes a plan that keeps the rules."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layer_strategies import Drawn, any_stacks, joined_stacks
from strata.errors import DiagnosticsError, StudyError
from strata.model.step import BROUGHT
from strata.model.study import Study
from strata.plan.compile import compile_trial, skipped
from strata.plan.placement import placed_layers
from study_texts import read

WORKLOAD = 'workload = "fio"\npreset = "verify-random-write-4k"\nsize = "4MiB"'
CAPACITIES = st.sampled_from(["512B", "8MiB", "1GiB", "64GiB"])
STACKS = st.one_of(joined_stacks(), any_stacks())


def loaded(drawn: Drawn, capacity: str) -> Study | DiagnosticsError:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return read(Path(folder), drawn.text(WORKLOAD, model="null", capacity=capacity))
        except DiagnosticsError as error:
            return error


def holds(drawn: Drawn, capacity: str) -> None:
    """The property."""
    found = loaded(drawn, capacity)
    if isinstance(found, DiagnosticsError):
        for mistake in found.diagnostics:
            assert isinstance(mistake, StudyError)
            assert mistake.cause
            assert mistake.remedy, str(mistake)
            assert (mistake.key or "").startswith(("stacks.stack", "devices.", "workloads.load")), mistake
        return
    if skipped(found):
        return
    stack = found.stacks["stack"]
    plan = compile_trial(found, "stack", "load", 1)
    destroyed = {name for step in plan.steps for name in step.destroys}
    assert destroyed == set(stack.all_devices)
    run = {command.argv[0] for step in plan.steps for command in step.commands}
    assert run - {f"${{{name}}}" for name in BROUGHT} <= set(plan.prerequisites.tools)
    for layer, context in placed_layers(found, stack):
        assert layer.provided(context.provided).smallest_bytes > 0, layer
        assert not any(step.destroys for step in layer.assemble(context)), layer


@given(STACKS, CAPACITIES)
@settings(max_examples=300)
def test_any_stack_is_refused_with_a_remedy_or_compiled(drawn: Drawn, capacity: str) -> None:
    holds(drawn, capacity)


@pytest.mark.slow
@given(STACKS, CAPACITIES)
@settings(max_examples=3000)
def test_any_of_many_stacks(drawn: Drawn, capacity: str) -> None:
    holds(drawn, capacity)
