# SPDX-License-Identifier: Apache-2.0
"""Caches of the size of real flash drives: their chunks and tables fit into the lab."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import copy, run_text

from strata.lab import Lab
from strata.runners.lab import LabRunner
from study_texts import HEAD, disk

CACHED = '[stacks.cached]\nlayers = [{{ layer = "{}", cache = "ssd" }}, {{ layer = "ext4" }}]\n'


@pytest.mark.parametrize(
    ("layer", "capacity"),
    [
        ("dm-cache", ""),
        ("bcache", ""),
        # Its tables for the whole drive would take 8.2 GiB.
        pytest.param("dm-writecache", "16GiB", marks=pytest.mark.slow),
    ],
)
def test_a_cache_on_a_drive_of_500_gb_works(layer: str, capacity: str, lab: Lab, tmp_path: Path) -> None:
    disks = disk("disk") + disk("ssd", "samsung-860-evo-500gb", capacity)
    text = HEAD + disks + CACHED.format(layer) + copy()

    summary = run_text(text, tmp_path, LabRunner(lab))

    assert (summary.invalid, len(summary.valid)) == ({}, 1)
