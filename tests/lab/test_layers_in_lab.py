# SPDX-License-Identifier: Apache-2.0
"""Every layer in the lab, alone or on the least that it needs: the golden cases, brought to life.

A new layer is tested by existing: its golden case is all that it is found by.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from layer_lives import (
    LOAD,
    MODEL,
    broken,
    carry_out,
    keeps_content,
    life,
    offered_bytes,
    on_the_smallest_disks,
    scrubs_of,
)

from golden_studies import LAYER_CASES, study_of
from strata.lab import Lab
from strata.plan.catalogue import catalogue
from strata.plan.compile import skipped
from strata.spec.study import Study

pytestmark = pytest.mark.lab

ALONE = [f"layer-{name}" for name in catalogue().layers]


def case(name: str, folder: Path) -> Study:
    """The study of a golden case on disks of the lab."""
    study = on_the_smallest_disks(
        lambda size: study_of(name, folder, model=MODEL, capacity=size, workload=LOAD)
    )
    for why in skipped(study).values():
        pytest.skip(why)
    return study


@pytest.mark.parametrize("name", LAYER_CASES)
def test_a_layer_is_built_holds_its_data_and_is_deterministic(name: str, lab: Lab, tmp_path: Path) -> None:
    study = case(name, tmp_path)
    plan = life(study)

    events = carry_out(lab, tmp_path, [("first", plan), ("second", plan)], study)

    for each in events.values():
        assert each.end is not None
        assert (each.end.outcome, each.end.reason) == ("ok", None), each.end
        assert each.undo_failures == []
        if keeps_content(study):
            assert each.output("life-after") == each.output("life-before") != ""
        for layer, step in scrubs_of(study):
            assert layer.scrub_errors(each.output(step)) == 0
    assert 0 < int(events["first"].output("life-size")) <= offered_bytes(study)
    assert events["first"].sha256 == events["second"].sha256


@pytest.mark.parametrize("name", ALONE)
def test_whichever_step_fails_nothing_is_left(name: str, lab: Lab, tmp_path: Path) -> None:
    study = case(name, tmp_path)
    layers = [layer.layer for layer in study.stacks["stack"].layers]
    plans = dict(broken(study, layers.index(name.removeprefix("layer-"))))

    events = carry_out(lab, tmp_path, plans.items(), study)

    for fault, each in events.items():
        failing = plans[fault].steps[-1].id
        assert each.end is not None
        assert (each.end.outcome, each.end.failed_step) == ("failed", failing), each.end
        assert "teardown" not in str(each.end.reason), each.end.reason
