# SPDX-License-Identifier: Apache-2.0
"""Golden screenshots: rendered pages are compared with reviewed ones.

They are compared at a quarter of their size, with a tolerance: another minor version of Chromium or of a font
sets letters a pixel aside, and is not what these are to find; an empty chart, a section that is gone, or a
colour that has turned, is.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

FOLDER: Final = Path(__file__).parents[1] / "golden" / "screenshots"
_SMALLER: Final = 4
_BLOCK: Final = 16
"""The edge of a block in reduced pixels: 64 pixels of the page, about a word or a bar of a chart."""
_BLOCK_DIFFERENCE_MAX: Final = 30.0
"""Of 255: the mean over a block. Letters that moved by a pixel differ by about 5."""
_BLOCKS_SHARE_MAX: Final = 0.02


def hold_against(name: str, png: bytes, *, update: bool) -> None:
    """Compare a screenshot with the golden one of that name, or make it the golden one.

    Raises:
        AssertionError: If they differ, with what to do.
    """
    FOLDER.mkdir(exist_ok=True)
    golden = FOLDER / f"{name}.png"
    shown = Image.open(io.BytesIO(png)).convert("RGB")
    reduced = shown.resize((shown.width // _SMALLER, shown.height // _SMALLER), Image.Resampling.BOX)
    if update:
        reduced.quantize(64).save(golden, optimize=True)
    remedy = "look at both, then run: pytest tests/browser --update-golden"
    assert golden.is_file(), f"there is no golden {name}: {remedy}"
    kept = Image.open(golden).convert("RGB")
    assert kept.size == reduced.size, f"{name} was {kept.size} and is {reduced.size}: {remedy}"
    share = differing_share(np.asarray(kept, dtype=float), np.asarray(reduced, dtype=float))
    if share > _BLOCKS_SHARE_MAX:
        reduced.save(golden.with_suffix(".seen.png"))
    assert share <= _BLOCKS_SHARE_MAX, f"{name}: {share:.1%} of it differs: {remedy}"


def differing_share(kept: np.ndarray, seen: np.ndarray) -> float:
    """Which share of the blocks has other colours."""
    apart = np.abs(kept - seen).mean(axis=2)
    rows, columns = (-(-size // _BLOCK) for size in apart.shape)
    padded = np.zeros((rows * _BLOCK, columns * _BLOCK))
    padded[: apart.shape[0], : apart.shape[1]] = apart
    blocks = padded.reshape(rows, _BLOCK, columns, _BLOCK).mean(axis=(1, 3))
    return float((blocks > _BLOCK_DIFFERENCE_MAX).mean())
