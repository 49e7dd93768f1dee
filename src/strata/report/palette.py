# SPDX-License-Identifier: Apache-2.0
"""Colours of the report. Charts are drawn in the light ones; the page's CSS exchanges them in the dark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Colour:
    """One colour on light and on dark ground, and the CSS variable that holds the right one."""

    variable: str
    light: str
    dark: str


INK: Final = Colour("ink", "#1b2026", "#e9e7e3")
MUTED: Final = Colour("muted", "#5d6670", "#9aa3ad")
GRID: Final = Colour("grid", "#e2e1dd", "#2c3239")
PAPER: Final = Colour("paper", "#fefefd", "#15181c")

# Okabe and Ito's hues, which every kind of colour blindness distinguishes, darkened or lightened to
# stand out from the ground (3 : 1 at least) and ordered so that the first ones differ most.
# Okabe, Ito: Color Universal Design, 2008.
STACKS: Final = (
    Colour("stack-1", "#0072b2", "#4ba3dd"),
    Colour("stack-2", "#d55e00", "#f08b4a"),
    Colour("stack-3", "#009e73", "#2fc49a"),
    Colour("stack-4", "#b8609a", "#df9cc6"),
    Colour("stack-5", "#a87400", "#eab94a"),
    Colour("stack-6", "#3b93c9", "#8fd0f4"),
    Colour("stack-7", "#6f5aa8", "#b3a3e3"),
    Colour("stack-8", "#6b6f76", "#b5bac1"),
)

# The parts of a disk's time: greys, a yellow and subdued hues, so that they are not taken for stacks.
PARTS: Final = {
    "seek": Colour("part-seek", "#3d4f63", "#8ba3bd"),
    "rotation": Colour("part-rotation", "#6b8097", "#6d859e"),
    "transfer": Colour("part-transfer", "#d9a441", "#e0b35c"),
    "overhead": Colour("part-overhead", "#b9c4cf", "#3f4c5a"),
    "cell": Colour("part-cell", "#4f7867", "#7fa997"),
    "cache": Colour("part-cache", "#c79684", "#c79684"),
    "throttle": Colour("part-throttle", "#7d688f", "#a893bd"),
    "cleaning": Colour("part-cleaning", "#b3b36a", "#b3b36a"),
    "flush": Colour("part-flush", "#8a5a44", "#b58a73"),
    "fault": Colour("part-fault", "#a03c3c", "#d07a7a"),
    "idle": Colour("part-idle", "#eceae5", "#23282e"),
}

# Text on a part: the ground or the ink where it turns with the part, dark ink on the yellow that stays light.
ON_YELLOW: Final = Colour("on-yellow", "#1c1a14", "#1c1a14")
ON_PARTS: Final = {
    **dict.fromkeys(("seek", "rotation", "cell", "throttle", "flush", "fault"), PAPER),
    **dict.fromkeys(("transfer", "cache", "cleaning"), ON_YELLOW),
    **dict.fromkeys(("overhead", "idle"), INK),
}

# From half as good, or worse, to twice as good: orange to blue, distinguishable with every kind of
# colour blindness. In the dark the ends are the brightest, as on paper they are the darkest.
GAINS: Final = (
    Colour("gain-0", "#9a4a06", "#f2a45c"),
    Colour("gain-1", "#d98a3f", "#8a4b10"),
    Colour("gain-2", "#edb27a", "#5f3a15"),
    Colour("gain-3", "#f8dfc4", "#40301f"),
    Colour("gain-4", "#f0efec", "#262b31"),
    Colour("gain-5", "#d0e3f1", "#1d3445"),
    Colour("gain-6", "#93c0df", "#1f4a69"),
    Colour("gain-7", "#5b9fd0", "#226193"),
    Colour("gain-8", "#0b5389", "#79bdec"),
)
ON_GAINS: Final = (PAPER, *[INK] * 7, PAPER)

ALL: Final = (INK, MUTED, GRID, PAPER, *STACKS, *PARTS.values(), ON_YELLOW, *GAINS)


def stack_colours(stacks: list[str]) -> dict[str, Colour]:
    """One colour per stack, the same throughout a report; beyond eight stacks they repeat."""
    return {stack: STACKS[index % len(STACKS)] for index, stack in enumerate(stacks)}
