# SPDX-License-Identifier: Apache-2.0
"""The price of a program: its user time per system call, page fault and byte, fitted to several loads."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from scipy.optimize import lsq_linear

from strata.devices.processor import Program
from strata.errors import ToolError
from strata.pricing.calls import SystemCalls
from strata.pricing.tasks import TaskStatistics, TaskUsage
from strata.units import NS_PER_S, times
from strata.words import beginning_and_end

USER_NS_MIN: Final = NS_PER_S // 10
"""Less user time than this is not measured well: the kernel counts it in ticks of 1 to 10 ms."""
_KEYS: Final = ("system_call_ns", "page_fault_ns", "read_ps_per_byte", "write_ps_per_byte")
_SAID_CHARACTERS: Final = 300
_FAULT: Final = 1
_PER_KEY_NS: Final = (1.0, 1.0, 1e-3, 1e-3)
# More user time per fault than for some cold caches would be other work: what compressors do for a byte.
# The slowest of them take 0.9 us a byte (xz); more is the calls' time of a load that moves hardly any bytes.
_PRICES_MAX: Final = np.array((1e7, 2e3, 1e6, 1e6))
_PENALTY: Final = 0.03  # another price must mend the loads' errors by this share to be worth having
_ONE_LOAD: Final = (0.5, 2.0)  # the range of a price from one load, as other loads' prices were off
_BULK_NS_PER_CALL: Final = 20_000  # a call with more user time than this moves data that are computed on


@dataclass(frozen=True)
class ProgramLoad:
    """What a program did during one command, and the user time that it took."""

    usage: TaskUsage
    system_calls: int

    @property
    def amounts(self) -> tuple[int, int, int, int]:
        used = self.usage
        return self.system_calls, used.page_faults, used.read_bytes, used.written_bytes


def measure_load(name: str, command: Sequence[str]) -> ProgramLoad:
    """Count what all tasks of a name do while a command runs, whose output is discarded.

    The program may be the command, a child of it, or a server that the command talks to.

    Raises ToolError if the command fails, or the program was not seen.
    """
    with TaskStatistics(name) as tasks, SystemCalls(name) as calls:
        try:
            ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        except OSError as error:
            cause = f"cannot be run: {error.strerror}"
            raise ToolError(cause, place=command[0], remedy="check the path and its permissions") from error
    if ended.returncode != 0:
        said = beginning_and_end(ended.stderr.decode(errors="replace"), _SAID_CHARACTERS) or "no message"
        cause = f"ended with exit status {ended.returncode}: {said}"
        raise ToolError(cause, place=command[0], remedy="run it alone until it works")
    if calls.count == 0:
        remedy = "give the base name of the executable file that the command runs or talks to"
        raise ToolError(f'no task named "{name}" ran', place="--program", remedy=remedy)
    return ProgramLoad(tasks.total, calls.count)


def price_program(loads: Sequence[ProgramLoad], source: str) -> Program:
    """Prices whose sum is the loads' user time, as few as explain it; ``source`` says what was run."""
    for number, load in enumerate(loads, 1):
        if load.usage.user_ns < USER_NS_MIN:
            cause = f"the program computed for only {load.usage.user_ns / NS_PER_S:.2f} s"
            raise ToolError(cause, place=f"command {number}", remedy="let it do the same thing longer")
    amounts = np.array([load.amounts for load in loads], float) * _PER_KEY_NS
    user_ns = np.array([load.usage.user_ns for load in loads], float)
    if len(loads) == 1:
        at = _only_key(loads[0])
        prices = np.zeros(len(_KEYS))
        prices[at] = user_ns[0] / amounts[0, at]
        low, high = _ONE_LOAD
    else:
        prices = min(_candidates(amounts, user_ns))[2]
        ratios = user_ns / (amounts @ prices)
        low, high = min(0.95, *ratios), max(1.05, *ratios)
    said = f"measured: {source}; single loads took {times(low)} to {times(high)} of these prices"
    stated = {key: float(f"{price:.3g}") for key, price in zip(_KEYS, prices, strict=True)}
    return Program.model_validate(
        stated | {"low": round(low, 2), "high": round(high, 2), "source": said, "estimate": False}
    )


def _only_key(load: ProgramLoad) -> int:
    calls, _, read, written = load.amounts
    if load.usage.user_ns < _BULK_NS_PER_CALL * calls or max(read, written) < 4096 * calls:
        return 0
    return 2 if read >= written else 3


def _candidates(
    amounts: np.ndarray, user_ns: np.ndarray
) -> Iterable[tuple[float, tuple[int, ...], np.ndarray]]:
    """Each choice of prices that the loads can tell apart: its error with the penalty, keys, prices."""
    for count in range(1, min(len(_KEYS), len(user_ns) - 1) + 1):
        for chosen in combinations(range(len(_KEYS)), count):
            if chosen == (_FAULT,):  # no program is paced by its faults
                continue
            scaled = amounts[:, chosen] / user_ns[:, None]
            size = scaled.max(axis=0)
            if not size.all():  # the loads do none of it
                continue
            most = _PRICES_MAX[list(chosen)] * size
            found = lsq_linear(scaled / size, np.ones(len(user_ns)), (0, most)).x
            prices = np.zeros(len(_KEYS))
            prices[list(chosen)] = found / size
            told = amounts @ prices
            if not told.all():
                continue
            ratios = np.log(told / user_ns)
            prices /= np.exp(np.mean(ratios))  # least squares of shares lean to the cheap loads
            if (prices > _PRICES_MAX).any():
                continue
            error = float(np.std(ratios))
            yield error + _PENALTY * count, chosen, prices
