# SPDX-License-Identifier: Apache-2.0
"""The lists of mkfs's options, held against the programs: each option makes a filesystem in a small file."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from for_all import for_all
from option_samples import LAYERS, LIMITED, NEWER, making, names_of, words_for
from strata.model.layer import LayerContext, Provided

# A UUID of no trial: mkfs.btrfs refuses the UUID of a filesystem that it finds on the machine.
SEED: Final = 770_881_021
BYTES: Final = 640 << 20
CASES: Final = [
    (layer, name, words_for(layer, name, form))
    for layer, kind in LAYERS.items()
    for name, form in names_of(kind.allowed["mkfs"])
]


@for_all(("layer", "words"), [(layer, words) for layer, key, words, _ in LIMITED if key == "mkfs"])
def test_mkfs_refuses_a_value_beyond_the_limits(layer: str, words: list[str], tmp_path: Path) -> None:
    if shutil.which(f"mkfs.{layer}") is None:
        pytest.skip(f"this machine has no mkfs.{layer}")
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, BYTES)

    asked = [f"mkfs.{layer}", *words, str(disk)]
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert done.returncode != 0


@for_all(("layer", "name", "words"), CASES)
def test_mkfs_takes_an_option_that_a_study_may_give(
    layer: str, name: str, words: list[str], tmp_path: Path
) -> None:
    if shutil.which(f"mkfs.{layer}") is None:
        pytest.skip(f"this machine has no mkfs.{layer}")
    made = making(layer, words)
    provided = Provided("block", (BYTES,))
    assert not list(made.diagnostics(provided, {}))
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, BYTES)
    options = made.make_options(LayerContext(layer, SEED, ("${disk0}",), provided))

    done = subprocess.run([*options, disk], capture_output=True, text=True, check=False)
    disk.unlink()

    if f"{layer} {name}" in NEWER and ("unknown" in done.stderr or "unrecognized" in done.stderr):
        pytest.skip(f"this machine's mkfs.{layer} does not know it yet")
    assert done.returncode == 0, done.stderr
