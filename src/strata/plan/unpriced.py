# SPDX-License-Identifier: Apache-2.0
"""The programs of plans that have no price of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from strata.devices.processor import DEFAULT_PROGRAM, Processor
from strata.model import page_cache
from strata.model.step import BROUGHT, MACHINE_KERNEL, Step
from strata.model.warning import WARNINGS, ResultWarning
from strata.plan.model import Plan
from strata.words import counted, listed

# Programs that make some calls and end, or become the program that they start; a machine's kernel has prices.
# A container's agent and Incus's daemon, which unshare starts, took 0.2 and 0.3 % of the time at most
# (studies/published/lxd.toml).
_STARTERS: Final = ("agent", "chroot", "setpriv", "unshare")
_LITTLE: Final = frozenset(
    (*page_cache.TOOLS, *_STARTERS, MACHINE_KERNEL, "blockdev", "printf", "date", "sleep")
)
# The kernel prices a program by its own name or by that of the link to it.
_LINKS: Final = {"sh": "dash"}
_CELLS_MAX: Final = 3


def unpriced_warnings(plans: Iterable[Plan], processor: Processor) -> list[ResultWarning]:
    """One warning of all programs whose time in the measured window will rest on the default price."""
    if processor.is_free:
        return []
    cells: dict[str, dict[str, None]] = {}
    for plan in plans:
        for name in _unpriced(plan, processor):
            cells.setdefault(name, {})[str(plan.trial.key.cell)] = None
    if not cells:
        return []
    default = processor.programs[DEFAULT_PROGRAM]
    running = "; ".join(f"{name} in {_some(list(where))}" for name, where in cells.items())
    text = (
        "programs without a price of their own, whose work may take "
        f"{default.low:g} to {default.high:g} times the default price: {running}"
    )
    return [WARNINGS["default-price"].warning(text)]


def _some(cells: list[str]) -> str:
    more = len(cells) - _CELLS_MAX
    return listed([*cells[:_CELLS_MAX], *([counted(more, "other cell")] if more > 0 else [])])


def _unpriced(plan: Plan, processor: Processor) -> Iterator[str]:
    """The services and the programs of the measured window, as far as steps name them."""
    steps = [
        step for step in plan.steps if step.background or (step.phase == "measure" and step.purpose is None)
    ]
    names = dict.fromkeys(_program(step) for step in steps)
    yield from (
        name for name in names if name not in _LITTLE and not processor.prices(_LINKS.get(name, name))
    )


def _program(step: Step) -> str:
    # The agent only passes steps on to the machine that it starts.
    at = 0 if step.starts is None else step.argv.index("--") + 1
    name = PurePosixPath(step.argv[at]).name
    return next((brought for brought in BROUGHT if name == f"${{{brought}}}"), name)
