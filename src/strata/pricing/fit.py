# SPDX-License-Identifier: Apache-2.0
"""From a host's times and the lab's counts of the same operations to the parameters of a processor.

Each operation's time is the sum of its counts at their prices. The prices are fitted in logarithms, where an
error of a short operation weighs as much as one of a long operation, with a loss that a few odd operations do
not dominate. A plausible processor says where a price lies that the operations do not show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from strata.devices.processor import PRICES, PROCESSOR_PARAMETERS, Processor, ProcessorParameter
from strata.pricing.benchmark import CountedOperation
from strata.printable import in_json
from strata.units import times

COUNTED: Final = {name: PRICES[name] for name in PRICES if name not in {"ios", "clock_reads"}}
"""The fitted prices. A loop device does not show a real driver's work, and the clock is measured alone."""
CLOCK, WAKEUP, USER_CODE = "clock", "wakeup-turn", "user-code"
_NOT_FITTED: Final = {CLOCK, WAKEUP, USER_CODE}
_ON_ONE_PROCESSOR: Final = "socket-turn"
"""Its tasks wake no other processor on the machine. The lab's kernel counts as if there were two."""
_ERROR_SD: Final = math.log(1.3)  # of an operation: caches, branches, inlining
_PLAUSIBLE_SD_MIN: Final = math.log(2)  # of a price before anything is measured
_SHOWN: Final = 0.7  # a price is measured if its operations narrow its range to this share
_NINETY: Final = 1.645  # standard deviations of a normal distribution on each side of 90 %
_REFERENCE_USER_CODE_NS: Final = 24_000.0
"""The time of ``user-code`` on the processor on which programs.toml was measured."""


@dataclass(frozen=True)
class Residual:
    """An operation on the host, and what the lab would take with the fitted processor."""

    operation: str
    host_ns: float
    lab_ns: float

    @property
    @in_json
    def ratio(self) -> float:
        """The lab's time over the host's."""
        return self.lab_ns / self.host_ns


@dataclass(frozen=True)
class Fit:
    """The fitted parameters, and how well they describe the operations that they were fitted to."""

    parameters: Mapping[str, ProcessorParameter]
    residuals: Sequence[Residual]
    wakeup_ns: float | None  # from a wake-up until an idle processor of the host ran the task; None: unknown

    @property
    def error_factor(self) -> float:
        """The geometric standard deviation of the ratios."""
        return math.exp(math.sqrt(float(np.mean([math.log(each.ratio) ** 2 for each in self.residuals]))))

    def share_within(self, factor: float) -> float:
        """The share of operations whose ratio is at most this factor off."""
        within = [abs(math.log(each.ratio)) <= math.log(factor) for each in self.residuals]
        return sum(within) / len(within)


def _centre(ranges: Iterable[ProcessorParameter]) -> np.ndarray:
    return np.log([float(each.value) for each in ranges])


def _spread(ranges: Iterable[ProcessorParameter]) -> np.ndarray:
    """Half of each range in logarithms, as a standard deviation."""
    return np.array([max(math.log(each.high / each.low) / 2, _PLAUSIBLE_SD_MIN) for each in ranges])


def _robust(errors: np.ndarray) -> np.ndarray:
    """Beyond two standard deviations an error counts by its size, not its square (Huber's loss)."""
    size = np.abs(errors)
    robust: np.ndarray = np.sign(errors) * np.where(size <= 2, size, np.sqrt(np.maximum(4 * size - 4, 0)))
    return robust


def fit_processor(
    host: Mapping[str, CountedOperation],
    lab: Mapping[str, CountedOperation],
    plausible: Processor,
    machine: str,
) -> Fit:
    """Fit a processor to the operations of a host; ``machine`` names it in the parameters' sources.

    A parameter that no operation shows keeps the value of ``plausible``, as an estimate.
    """
    names = [name for name in host if name in lab and name not in _NOT_FITTED]
    scale = np.array([_ns(each) for each in COUNTED.values()])
    counts = np.array([[_count(name, lab[name], each) for each in COUNTED] for name in names]) * scale
    host_ns = np.array([host[name].processor_ns for name in names])
    ranges = [plausible.parameters[each] for each in COUNTED.values()]
    centre, spread = _centre(ranges), _spread(ranges)

    def errors(prices: np.ndarray) -> np.ndarray:
        said = np.log(np.maximum(counts @ np.exp(prices), 1e-9) / host_ns) / _ERROR_SD
        return np.concatenate([_robust(said), (prices - centre) / spread])

    found = least_squares(errors, centre)
    jacobian = np.asarray(found.jac, float)
    narrowed = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    predicted = counts @ np.exp(found.x)
    residuals = [Residual(*row) for row in zip(names, host_ns.tolist(), predicted.tolist(), strict=True)]
    error = math.exp(float(np.median(np.abs(np.log(predicted / host_ns)))))
    stated = {"processors": plausible.parameters["processors"]}
    said = f"fitted to {len(names)} operations of the kernel on {machine}; half of them within {times(error)}"
    hardly = f"estimate: {plausible.name}'s, as far as {len(names)} operations on {machine} do not contradict"
    for at, name in enumerate(COUNTED.values()):
        if counts[:, at].any():
            value, width = math.exp(found.x[at]), math.exp(_NINETY * narrowed[at])
            ends = value / width, value * width
            shown = bool(narrowed[at] <= _SHOWN * spread[at])
            stated[name] = _parameter(name, value, ends, said if shown else hardly, estimate=not shown)
    stated |= _directly(host, plausible, machine)
    parameters = {name: stated.get(name) or _left(name, plausible) for name in PROCESSOR_PARAMETERS}
    return Fit(parameters, residuals, _wakeup_ns(host))


def _count(name: str, operation: CountedOperation, counter: str) -> float:
    is_absent = name == _ON_ONE_PROCESSOR and counter == "idle_wakeups"
    return 0.0 if is_absent else operation.counted.get(counter, 0.0)


def _ns(parameter: str) -> float:
    return 1.0 if PROCESSOR_PARAMETERS[parameter].unit == "ns" else 1e-3


def _directly(
    host: Mapping[str, CountedOperation], plausible: Processor, machine: str
) -> dict[str, ProcessorParameter]:
    """Parameters that a host shows without the lab. A wake-up that waits for other work shows nothing."""
    found = {}
    if (clock := host.get(CLOCK)) is not None:
        value = clock.processor_ns
        found["clock_read_time"] = _parameter(
            "clock_read_time", value, (value * 0.9, value * 1.2), f"measured on {machine}"
        )
    if (code := host.get(USER_CODE)) is not None:
        value = code.processor_ns / _REFERENCE_USER_CODE_NS
        said = f"measured on {machine}: sorting and branching, {code.processor_ns:.0f} ns"
        found["user_factor"] = _parameter("user_factor", value, (value * 0.75, value * 1.4), said)
    wakeup_ns = _wakeup_ns(host)
    if wakeup_ns is not None and wakeup_ns <= plausible.parameters["wakeup_latency"].high:
        turn = host[WAKEUP]
        times_ns = f"{turn.wall_ns:.0f} ns, in which they run for {turn.processor_ns:.0f} ns"
        said = f"measured on {machine}: a turn of two tasks takes {times_ns}"
        found["wakeup_latency"] = _parameter(
            "wakeup_latency", wakeup_ns, (wakeup_ns / 2, wakeup_ns * 5), said
        )
    return found


def _wakeup_ns(host: Mapping[str, CountedOperation]) -> float | None:
    """Half of the time of a turn in which nobody ran, where the scheduler puts both tasks."""
    if (turn := host.get(WAKEUP)) is None:
        return None
    return max(turn.wall_ns - turn.processor_ns, 0.04 * turn.wall_ns) / 2


def _parameter(
    name: str, value: float, ends: tuple[float, float], source: str, *, estimate: bool = False
) -> ProcessorParameter:
    spec = PROCESSOR_PARAMETERS[name]
    low, middle, high = (
        float(f"{min(max(each, spec.minimum), spec.maximum):.3g}") for each in (ends[0], value, ends[1])
    )
    return ProcessorParameter(
        value=middle,
        low=min(low, middle),
        high=max(high, middle),
        unit=spec.unit,
        source=source,
        estimate=estimate,
    )


def _left(name: str, plausible: Processor) -> ProcessorParameter:
    said = f"estimate: as {plausible.name}; the benchmark does not show it"
    return plausible.parameters[name].model_copy(update={"source": said, "estimate": True})
