# SPDX-License-Identifier: Apache-2.0
"""Layers on layers in the lab, with any keys: what is accepted can be built, and keeps its data."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, settings
from layer_lives import CAPACITIES, LOAD, MODEL, carry_out, life, lived_well, on_the_smallest_disks

from layer_strategies import Drawn, joined_stacks
from strata.errors import DiagnosticsError
from strata.lab import Lab
from strata.model.study import Study
from strata.plan.compile import skipped
from strata.plan.placement import placed_layers
from strata.rules.fit import snapshotting
from study_texts import read

# Most of what is drawn is refused, by contradicting keys or too few disks. A failure is not shrunk: every
# example is two boots.
EXAMPLES = settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def study_of(drawn: Drawn, folder: Path) -> Study | None:
    """The study of a drawn stack, unless it is refused on small disks, or is for no machine."""
    try:
        study = on_the_smallest_disks(
            lambda size: read(folder, drawn.text(LOAD, model=MODEL, capacity=size)), CAPACITIES[1:3]
        )
    except DiagnosticsError:
        return None
    return None if skipped(study) else study


def copies_a_full_image(study: Study) -> bool:
    """Whether the snapshot that a life takes is a folder's copy of an image, of which two do not fit."""
    found = snapshotting(placed_layers(study, study.stacks["stack"]))
    above = study.stacks["stack"].layers
    return (
        found is not None
        and found[0].layer == "directory"
        and any(getattr(layer, "preallocation", "off") != "off" for layer in above)
    )


def lives(drawn: Drawn, lab: Lab) -> None:
    """The property."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = study_of(drawn, folder)
        assume(study is not None)
        assert study is not None
        assume(not copies_a_full_image(study))
        event(" ".join(layer.layer for layer in study.stacks["stack"].layers))
        plan = life(study)
        events = carry_out(lab, folder, [("first", plan), ("second", plan)], study)
        for each in events.values():
            lived_well(study, each)
        assert events["first"].sha256 == events["second"].sha256


@given(drawn=joined_stacks(layers_min=2))
@settings(EXAMPLES, max_examples=3)
def test_layers_that_join_hold_their_data_and_are_deterministic(lab: Lab, drawn: Drawn) -> None:
    lives(drawn, lab)


@pytest.mark.slow
@given(drawn=joined_stacks(layers_min=2, layers_max=4))
@settings(EXAMPLES, max_examples=100)
def test_many_stacks_hold_their_data_and_are_deterministic(lab: Lab, drawn: Drawn) -> None:
    lives(drawn, lab)
