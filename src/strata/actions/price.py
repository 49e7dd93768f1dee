# SPDX-License-Identifier: Apache-2.0
"""A processor's prices from a benchmark on this machine and in the lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strata.actions.run import Listener
from strata.devices.processor import DEFAULT_PROCESSOR, find_processor
from strata.lab.lab import ensure_lab, require_lab
from strata.machine.reading import Sampler
from strata.machine.state import HALTS_AT_ONCE, state_of
from strata.pricing.benchmark import (
    machine,
    measure_host,
    measure_lab,
    usable_filesystems,
)
from strata.pricing.fit import Fit, fit_processor
from strata.units import NS_PER_US, significant

_DEAR_WAKEUP_NS: Final = 10_000.0
"""Leaving the idle state C1E takes about this long; a virtual machine that halts takes longer."""


def doubts_of(found: Fit) -> Iterator[str]:
    """Why waking an idle processor took longer than it usually does."""
    if found.wakeup_ns is None or found.wakeup_ns <= _DEAR_WAKEUP_NS:
        return
    took = f"waking an idle processor took {significant(found.wakeup_ns / NS_PER_US)} us"
    if found.parameters["wakeup_latency"].estimate:
        yield f"{took}, longer than any idle state: other work delayed it, and the file has the default's"
    else:
        yield f"{took}: loads that hand each operation to another task depend on it"
    if state_of(Sampler()).halts_at_once:
        yield str(HALTS_AT_ONCE)


def measure_processor(listener: Listener, shorten: int = 1) -> Fit:
    """Measure this machine and the lab, and fit the prices of the one to the work of the other."""
    lab = ensure_lab(listener.setup, only=("load",)) or require_lab()
    assert lab.load is not None
    filesystems = usable_filesystems()
    with listener.counting("on this machine", 18 + 12 * len(filesystems)) as count:

        def advance(name: str) -> None:
            count(f"on this machine: {name}")

        host = measure_host(lab.load.path, filesystems, advance, shorten=shorten)
    with listener.counting("in the lab", None):
        counted = measure_lab(lab, filesystems, listener.setup, shorten=shorten)
    # The default processor says where a price lies that this machine does not show.
    return fit_processor(host, counted, find_processor(DEFAULT_PROCESSOR), machine())
