# SPDX-License-Identifier: Apache-2.0
"""Names of a study, its stacks and workloads are no part of what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from golden_studies import CASES, study_of
from strata.model.stack import Stack
from strata.model.study import Study
from strata.model.workload import Workload
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, runnable_trials, spec_sha256
from strata.reading.load import load_study

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))


def called(name: str, stack: Stack) -> Stack:
    parts = {own: replace(part, name=name) for own, part in stack.filesystems.items()}
    return replace(stack, name=name, filesystems=parts)


def renamed(study: Study) -> Study:
    """The study with other names of itself, its stacks and workloads."""

    def again(fields: Mapping[str, Any]) -> dict[str, Any]:
        stacks: Mapping[str, Stack] = fields.get("stacks", {})
        loads: Mapping[str, Workload] = fields.get("workloads", {})
        others = {
            "stacks": {f"a-{name}": called(f"a-{name}", stack) for name, stack in stacks.items()},
            "workloads": {f"the-same-{name}": load for name, load in loads.items()},
        }
        return {**fields, **{key: each for key, each in others.items() if each}}

    own = {f"a-{name}": again(fields) for name, fields in study.own.items()}
    fields = {"stacks": study.stacks, "workloads": study.workloads, "own": own}
    return replace(study, name=f"{study.name}-of-somebody-else", **again(fields))


def test_a_trial_has_the_same_plan_and_identity_whatever_its_study_stack_and_workload_are_called(
    tmp_path: Path,
) -> None:
    studies = [study_of(name, tmp_path) for name in CASES]
    studies += [load_study(path, catalogue()) for path in STUDIES]
    for study in studies:
        other = renamed(study)
        for stack, workload, seed, _ in {
            trial.key.cell: trial.key for trial in runnable_trials(study)
        }.values():
            first = compile_trial(study, stack, workload, seed)
            second = compile_trial(other, f"a-{stack}", f"the-same-{workload}", seed)

            assert first.to_json() == second.to_json(), f"{study.name}: {first.trial.id}"
            assert spec_sha256(study, first) == spec_sha256(other, second)
