# SPDX-License-Identifier: Apache-2.0
"""The rate of a workload `command`: whether its programs get it, and report what a search needs."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from strata.diagnostics.names import Diagnostic
from strata.model.find import REACHED, OpenLoop
from strata.words import listed
from strata.workloads.command.measured import MetricTable

_USE: Final = re.compile(r"\$(?:\{rate\}|rate\b)")


def rate_diagnostics(
    load: OpenLoop, texts: Iterable[str], variables: Container[str], metrics: Sequence[MetricTable]
) -> Iterator[Diagnostic]:
    """The mistakes of `rate` and `find`; one of the ``texts`` has to pass the rate on to a program."""
    if load.rate_per_s is None:
        return
    if "rate" in variables:
        cause = "there are two rates, and the variable hides the key"
        yield Diagnostic(cause, remedy="leave `rate` out of `variables`", key="rate")
    elif not any(map(_USE.search, texts)):
        cause = "no command of `load` uses ${rate}, so that no program gets the rate"
        remedy = "give it to a program that can keep a rate, such as --rate=${rate}, or leave `rate` out"
        yield Diagnostic(cause, remedy=remedy, key="rate")
    if load.find is None:
        return
    times = [each.name for each in metrics if each.shown_unit == "ns"]
    if load.find.metric not in times:
        cause = f'"{load.find.metric[:60]}" is no time of `metrics`, so that no probe can keep the target'
        remedy = f"`metrics` has {listed(times)}" if times else "add a latency that the program prints"
        yield Diagnostic(cause, remedy=remedy, key="find")
    if not any(each.name in REACHED for each in metrics):
        cause = "`metrics` does not say which rate the program reached, and a program that lags would pass"
        remedy = f"add one called {' or '.join(REACHED)}"
        yield Diagnostic(cause, remedy=remedy, key="find")
