# SPDX-License-Identifier: Apache-2.0
"""Intervals hold the mean over plausible drives, and predictions one more drive, as often as they promise."""

from __future__ import annotations

import pytest
from bench.drives import DEVICES, MEASUREMENTS, coverage, levels

FLUSH = "flush after one write"


def test_six_seeds_cover_the_mean_over_plausible_drives_and_predict_another_drive() -> None:
    values = levels("generic-sata-ssd", MEASUREMENTS[FLUSH], 600)

    held, half_width, predicted = coverage(values, 6, 4000)

    assert 0.92 <= held <= 0.975
    assert 0.92 <= predicted <= 0.975
    assert half_width > 0.1  # the estimates leave this much open
    assert levels("generic-sata-ssd", MEASUREMENTS[FLUSH], 20, drives=False).std() < values.std() / 3


@pytest.mark.slow
@pytest.mark.parametrize("title", MEASUREMENTS)
@pytest.mark.parametrize("name", DEVICES)
def test_intervals_of_six_and_ten_seeds_keep_their_promise_for_every_drive(name: str, title: str) -> None:
    values = levels(name, MEASUREMENTS[title], 4000)

    for n in (6, 10):
        held, _, predicted = coverage(values, n, 10_000)
        assert 0.93 <= held <= 0.97, n
        assert 0.92 <= predicted <= 0.97, n
