# SPDX-License-Identifier: Apache-2.0
"""The trials of any study are complete blocks; their order follows from the study alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.model.design import further_seeds
from strata.model.study import Study
from strata.plan.compile import trials
from study_texts import read

HEAD = '[study]\nname = "any"\nquestion = "Which?"\nseeds = [1]\n\n[devices.disk0]\nmodel = "null"\n\n'
STACK = '[stacks.s{}]\nlayers = [{{ layer = "ext4" }}]\n'
LOAD = '[workloads.w{}]\nworkload = "fio"\npreset = "random-mix-4k"\nduration = "1s"\n'


@pytest.fixture(scope="module")
def widest(tmp_path_factory: pytest.TempPathFactory) -> Study:
    text = HEAD + "".join(STACK.format(n) for n in range(6)) + "".join(LOAD.format(n) for n in range(4))
    return read(Path(tmp_path_factory.mktemp("any")), text)


@st.composite
def designs(draw: st.DrawFn) -> dict[str, object]:
    seeds = tuple(draw(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=8, unique=True)))
    loads = draw(st.integers(1, 4))
    more = further_seeds(seeds)
    following = [next(more) for _ in range(5)]
    return {
        "seeds": seeds,
        "order": draw(st.sampled_from(["blocks", "abba", "file"])),
        "order_seed": draw(st.integers(0, 99)),
        "stack_count": draw(st.integers(1, 6)),
        "workload_count": loads,
        "added_seeds": {
            f"w{n}": tuple(following[: draw(st.integers(0, 5))]) for n in range(loads) if draw(st.booleans())
        },
    }


def made(widest: Study, design: dict[str, object]) -> Study:
    design = dict(design)
    stacks, loads = design.pop("stack_count"), design.pop("workload_count")
    assert isinstance(stacks, int)
    assert isinstance(loads, int)
    kept = {name: widest.stacks[name] for name in list(widest.stacks)[:stacks]}
    load = {name: widest.workloads[name] for name in list(widest.workloads)[:loads]}
    return replace(widest, stacks=kept, workloads=load, **design)  # type: ignore[arg-type]  # drawn by name


def blocks(study: Study) -> list[tuple[tuple[str, int], list[str]]]:
    return [
        (block, [trial.stack for trial in together])
        for block, together in groupby(trials(study), key=lambda trial: (trial.workload, trial.seed))
    ]


@given(design=designs())
def test_every_block_is_complete_before_the_next_begins_and_every_trial_is_there_once(
    widest: Study, design: dict[str, object]
) -> None:
    study = made(widest, design)

    found = blocks(study)

    wanted = Counter((name, seed) for name in study.workloads for seed in study.seeds_of(name))
    assert Counter(block for block, _ in found) == wanted
    assert all(sorted(stacks) == sorted(study.stacks) for _, stacks in found)


@given(design=designs())
def test_the_order_is_a_pure_function_of_the_study_and_further_seeds_leave_it_as_it_is(
    widest: Study, design: dict[str, object]
) -> None:
    study = made(widest, design)
    declared = replace(study, added_seeds={})

    assert blocks(study) == blocks(made(widest, design))
    known = dict(blocks(declared))
    assert {block: stacks for block, stacks in blocks(study) if block in known} == known


@given(design=designs())
def test_in_abba_order_every_other_block_of_a_workload_mirrors_the_one_before_it(
    widest: Study, design: dict[str, object]
) -> None:
    study = made(widest, {**design, "order": "abba"})

    found = blocks(study)

    of = dict(found)
    at = {block: place for place, (block, _) in enumerate(found)}
    for name in study.workloads:
        seeds = study.seeds_of(name)
        for first, second in zip(seeds[::2], seeds[1::2], strict=False):
            assert of[name, second] == of[name, first][::-1]
            assert at[name, second] == at[name, first] + 1
