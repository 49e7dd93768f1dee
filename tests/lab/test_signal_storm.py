# SPDX-License-Identifier: Apache-2.0
"""Signals at random moments: nothing is left, nothing is lost, and the same command goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.console import Console
from signal_storm import RunnerKind, blows, run_storm

from strata.lab import Lab

KINDS: tuple[RunnerKind, ...] = ("lab", "host")


def needs(kind: RunnerKind) -> None:
    if kind == "host" and os.geteuid() != 0:
        pytest.skip("needs root, for loop devices")
    if kind == "host" and not Path("/dev/loop-control").exists():
        pytest.skip("this machine has no loop devices")


@pytest.mark.parametrize("kind", ["lab", pytest.param("host", marks=pytest.mark.slow)])
def test_a_few_signals_leave_nothing_and_lose_nothing(lab: Lab, kind: RunnerKind) -> None:
    needs(kind)
    storm = run_storm(kind, lab, 2, seed=2, console=Console(stderr=True), seeds=[1])

    assert storm.diagnostics == []
    assert storm.completed > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_signals_leave_nothing_and_lose_nothing(lab: Lab, kind: RunnerKind) -> None:
    needs(kind)
    storm = run_storm(kind, lab, 500, seed=1, console=Console(stderr=True))

    assert storm.diagnostics == []


def test_the_same_seed_draws_the_same_signals() -> None:
    first = [blow for _, blow in zip(range(50), blows(7), strict=False)]

    assert first == [blow for _, blow in zip(range(50), blows(7), strict=False)]
    assert {blow.target for blow in first} == {"strata", "group", "trial"}
