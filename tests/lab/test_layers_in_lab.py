# SPDX-License-Identifier: Apache-2.0
"""Every layer in the lab, alone or on the least that it needs: the golden cases, brought to life.

A new layer is tested by existing: its golden case is all that it is found by.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
from layer_lives import LOAD, MODEL, broken, carry_out, degraded, life, lived_well, on_the_smallest_disks

from examples import SHARE
from golden_studies import LAYER_CASES, study_of, subject_of
from strata.lab import Lab
from strata.model.step import Step
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import skipped
from strata.results.events import Events

ALONE = [f"layer-{name}" for name in catalogue().layers]


def survives(name: str) -> bool:
    """Whether the lowest layer of a case survives the loss of a disk."""
    with tempfile.TemporaryDirectory() as folder:
        study = study_of(name, Path(folder))
    stack = study.stacks["stack"]
    return stack.layers[0].losses_survived(stack.offers(study.capacities_bytes)[0]) > 0


def once_per_layer(names: Iterable[str], within_others: Collection[str] = ()) -> list[object]:
    """Each layer's first case for every change; variants, ext4's elders and daemons for `make test-all`."""
    often = {*ALONE} - {"layer-ext2", "layer-ext3", "layer-incus", "layer-incus-dir"} - {*within_others}
    return [pytest.param(name, marks=[] if name in often else [pytest.mark.slow]) for name in names]


def case(name: str, folder: Path) -> Study:
    """The study of a golden case on disks of the lab."""
    study = on_the_smallest_disks(
        lambda size: study_of(name, folder, model=MODEL, capacity=size, workload=LOAD)
    )
    for why in skipped(study).values():
        pytest.skip(why)
    return study


# Those of other layers have these in them, and live through the same; a machine's disk is killed, cut off and
# assembled again by test_vm_in_lab.py.
WITHIN_OTHERS = ("layer-ext4", "layer-xfs", "layer-raw", "layer-zfs", "layer-vm")


@pytest.mark.parametrize("name", once_per_layer(LAYER_CASES, WITHIN_OTHERS))
def test_a_layer_holds_its_data_and_is_deterministic(name: str, lab: Lab, tmp_path: Path) -> None:
    study = case(name, tmp_path)
    plan = life(study)

    events = carry_out(lab, tmp_path, [("first", plan), ("second", plan)], study)

    for each in events.values():
        lived_well(study, each)
    assert events["first"].sha256 == events["second"].sha256


@pytest.mark.parametrize("name", once_per_layer(filter(survives, LAYER_CASES)))
def test_a_lost_disk_is_survived_and_replaced(name: str, lab: Lab, tmp_path: Path) -> None:
    study = case(name, tmp_path)
    plan = degraded(study)
    assert plan is not None

    (events,) = carry_out(lab, tmp_path, [("degraded", plan)], study).values()

    assert events.end is not None
    assert (events.end.outcome, events.end.reason) == ("ok", None), events.end
    assert events.output("life-before") == events.output("life-degraded") == events.output("life-after") != ""


@pytest.mark.parametrize("name", once_per_layer(LAYER_CASES))
def test_whichever_step_fails_nothing_is_left(name: str, lab: Lab, tmp_path: Path) -> None:
    study = case(name, tmp_path)
    plans = dict(broken(study, subject_of(name), every=SHARE == 1))

    events = carry_out(lab, tmp_path, plans.items(), study)

    for fault, each in events.items():
        failing = plans[fault].steps[-1].id
        assert each.end is not None
        assert (each.end.outcome, each.end.failed_step) == ("failed", failing), each.end
        if fault.endswith("-done"):
            assert did_its_work(each, plans[fault].steps[-1]), fault
        assert each.end.left_behind == (), f"{fault} left {each.end.left_behind}"
        _, _, teardown = str(each.end.reason).partition("; teardown: ")
        complaints = [one for one in teardown.split("; ") if one]
        # A service that fails has also ended early.
        assert all(one.startswith(f"{failing}: ") for one in complaints), f"{fault}: {each.end.reason}"


def did_its_work(events: Events, step: Step) -> bool:
    """Whether a step that was made to fail would have gone well. A service never ends well by itself."""
    ending = events.steps[step.id].ending
    return step.background or (ending is not None and ending.exit_code == 0)
