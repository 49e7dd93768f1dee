# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.drives``: the coverage of intervals over plausible drives, on the disk models.

A drive of each model is drawn for each of many seeds, and measured with accesses of its own. The geometric
mean over all of them is the truth; an interval of n seeds should hold it in 95 of 100 studies, and the range
for another seed should hold one more drive that is drawn. It prints the table of
docs/explanation/disk-models.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.datasheet.measure import rate_per_s
from strata.devices.device import Device, find_device
from strata.devices.kinds.flash import precondition
from strata.devices.plausible import plausible_drive
from strata.lab.disk import driver_config
from strata.lab.model import FLUSH, READ, WRITE, ModelledDisk, ModelTrace
from strata.seeds import derive_seed
from strata.statistics.interval import prediction
from strata.statistics.selftest import interval_of_means
from strata.units import SECTOR_BYTES

Floats = npt.NDArray[np.float64]

DEVICES: Final = ("wd-re4-500gb", "generic-sata-ssd", "generic-nvme-consumer")
SEEDS: Final = (3, 6, 10)
_CAPACITY_BYTES: Final = {"flash": 1 << 30}  # of others: all
_BLOCK: Final = 8  # sectors


class Measured:
    """A drive under test: new for each measurement."""

    def __init__(self, device: Device, seed: int, *, drives: bool) -> None:
        self._drive = plausible_drive(device, seed) if drives else device
        self._capacity_bytes = _CAPACITY_BYTES.get(device.kind, device.capacity_bytes)
        self._seed = derive_seed(seed, "model")
        self._rng = np.random.default_rng(derive_seed(seed, "accesses"))

    def _open(self) -> ModelledDisk:
        text = driver_config(
            self._drive, name="sda", backing_fd=3, capacity_bytes=self._capacity_bytes, seed=self._seed
        )
        return ModelledDisk(text)

    def _blocks(self, count: int) -> npt.NDArray[np.uint64]:
        found = self._rng.integers(0, self._capacity_bytes // SECTOR_BYTES // _BLOCK, count)
        return (found * _BLOCK).astype(np.uint64)

    def random_reads(self) -> float:
        return rate_per_s(self._open().closed_loop(READ, self._blocks(200), _BLOCK, depth=1), depth=1)

    def sequential_writes(self) -> float:
        places = np.arange(400, dtype=np.uint64) * np.uint64(512)
        return rate_per_s(self._open().closed_loop(WRITE, places, 512, depth=4), depth=4, warm_up=0.5)

    def flush(self, writes: int = 1) -> float:
        """The mean latency of flushes after this many scattered writes, in ns."""
        rounds = 100
        ops = np.tile([WRITE] * writes + [FLUSH], rounds)
        blocks = np.where(ops == FLUSH, 0, self._blocks(len(ops)))
        trace: ModelTrace = self._open().closed_loop(ops, blocks, np.where(ops == FLUSH, 0, _BLOCK), depth=1)
        return float(trace.latency_ns[ops == FLUSH].mean())

    def ratio(self) -> float:
        """Of two loads on one drive, as of two stacks: a flush after 8 writes, and after each."""
        return 8 * self.flush() / self.flush(8)


MEASUREMENTS: Final[dict[str, Callable[[Measured], float]]] = {
    "random reads, one at a time": Measured.random_reads,
    "sequential writes": Measured.sequential_writes,
    "flush after one write": Measured.flush,
    "ratio: one flush for 8 writes to one for each": Measured.ratio,
}


def levels(name: str, measure: Callable[[Measured], float], count: int, *, drives: bool = True) -> Floats:
    """The logarithms of a measurement on the drives of ``count`` seeds."""
    device = find_device(name)
    if device.kind == "flash":
        device = replace(device, parameters={**device.parameters, "precondition": precondition("filled")})
    return np.log([measure(Measured(device, seed, drives=drives)) for seed in range(count)])


def coverage(values: Floats, n: int, studies: int) -> tuple[float, float, float]:
    """Simulate studies of n seeds.

    Returns the share of studies whose interval holds the mean of all drives, the median half-width of these
    intervals, and the share of studies whose range for another seed holds one more drawn drive.
    """
    rng = np.random.default_rng(derive_seed(1, "studies", str(n)))
    drawn = values[np.array([rng.choice(len(values), n + 1, replace=False) for _ in range(studies)])]
    samples, another = drawn[:, :n], drawn[:, n]
    low, high = interval_of_means(samples)
    held = (low <= values.mean()) & (values.mean() <= high)
    lowest, highest = prediction(samples)
    predicted = (lowest <= another) & (another <= highest)
    return float(held.mean()), float(np.median(high - low)) / 2, float(predicted.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--drives", type=int, default=4000, help="plausible drives of each model")
    parser.add_argument("--studies", type=int, default=10_000, help="simulated studies")
    arguments = parser.parse_args()
    heads = [f"n = {n}" for n in SEEDS]
    print(f"| drive | measurement | sd of drives | of one drive | {' | '.join(heads)} |")
    print("|---|---|---|---|" + "---|" * len(SEEDS))
    for name in DEVICES:
        for title, measure in MEASUREMENTS.items():
            values = levels(name, measure, arguments.drives)
            exact = levels(name, measure, max(50, arguments.drives // 10), drives=False)
            found = [coverage(values, n, arguments.studies) for n in SEEDS]
            cells = " | ".join(
                f"{100 * held:.1f} (±{100 * half:.1f} %), {100 * other:.1f}" for held, half, other in found
            )
            print(
                f"| {name} | {title} | {100 * values.std():.1f} % | {100 * exact.std():.1f} % | {cells} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
