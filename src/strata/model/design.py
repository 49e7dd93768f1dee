# SPDX-License-Identifier: Apache-2.0
"""The design of a study's experiment: the order of its blocks, its precision, the ageing of its stacks.

A *block* is one workload with one seed on every stack: the block of a randomised complete block design, whose
treatments are the stacks (Montgomery, Design and Analysis of Experiments, chapter 4).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictFloat, StrictInt

from strata.diagnostics.names import Diagnostic, checked
from strata.units import Share, Size, describe_size, format_share, format_size

Order = Literal["blocks", "abba", "file"]
"""``blocks``: stacks in a random order in each block. ``abba``: the blocks of two successive seeds follow one
another, the second in the mirrored order of the first, so that a drift cancels. ``file``: as declared."""

Drives = Literal["plausible", "exact"]
"""``plausible``: each seed draws one drive of every model from the ranges of its estimates. ``exact``: all
seeds have the drive of the device file."""

Phases = Literal["drawn", "fixed"]
"""``drawn``: a pause, drawn for each block, comes before the load. ``fixed``: the load begins at once."""

Prepare = Literal["each", "once", "aged"]
"""``each``: every trial prepares its stack and data itself. ``once``: trials that begin alike share it.
``aged``: those on a stack share what is built and aged, and prepare their own data."""

SEED_MAX: Final = (1 << 63) - 1

# No interval of fewer seeds counts as precise, however narrow it is.
CONVERGED_SEEDS_MIN: Final = 6
SEEDS_DECLARED_MAX: Final = 10_000
SEEDS_MAX: Final = 20
"""The default of ``seeds_max`` for a study with a precision."""


def _check_count(count: int) -> None:
    if count < 1:
        raise Diagnostic("without seeds the study has no trials", remedy="for example seeds = [1, 2, 3]")
    if count > SEEDS_DECLARED_MAX:
        raise Diagnostic(
            f"{count:,} seeds are more than {SEEDS_DECLARED_MAX:,}", remedy="six to twenty are usual"
        )


def _numbered(seeds: object) -> object:
    """The seeds from 1 on that a number stands for; anything else as it is."""
    if type(seeds) is not int:
        return seeds
    _check_count(seeds)
    return [*range(1, seeds + 1)]


def _check_seeds(seeds: list[int]) -> list[int]:
    _check_count(len(seeds))
    if wrong := [seed for seed in seeds if not 0 <= seed <= SEED_MAX]:
        raise Diagnostic(f"the seed {str(wrong[0])[:40]} is not in 0 to 2^63 - 1", remedy="use 1, 2, 3")
    double = sorted(seed for seed, count in Counter(seeds).items() if count > 1)
    if double:
        cause = f"duplicate seed: {', '.join(map(str, double))}"
        raise Diagnostic(cause, remedy="equal seeds give equal trials: use each once")
    return seeds


Seeds = Annotated[
    list[StrictInt],
    BeforeValidator(_numbered, json_schema_input_type=StrictInt | list[StrictInt]),
    AfterValidator(_check_seeds),
]

TRIALS_MAX: Final = 100_000
"""More than a day at a second each."""

# With fewer there is nothing to fragment. An estimate.
AGED_FILES_MIN: Final = 64


Precision = Annotated[
    Share,
    checked(
        lambda share: 0.001 <= share <= 0.5,  # no measurement reaches less, and more says nothing
        "a precision is from 0.1 % to 50 %",
        '"1.5%" is usual: the interval of a ratio then reaches 1.5 % to either side',
    ),
]
FILL_MIN: Final = 0.01
FILL_MAX: Final = 0.95
_Fill = Annotated[
    Share,
    checked(
        lambda share: FILL_MIN <= share <= FILL_MAX,
        "ageing fills from 1 % to 95 % of a filesystem",
        "leave room for the workload and for metadata",
    ),
]
_FileSize = Annotated[
    Size,
    checked(
        lambda size: 4 << 10 <= size <= 1 << 30, "it must be from 4KiB to 1GiB", 'write for example "256KiB"'
    ),
]


class Age(BaseModel):
    """``study.age``: how every filesystem is aged before its workload's own preparation."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    fill: _Fill = Field(examples=["50%"])
    """What files take afterwards, as a share of what the filesystem has, 1 % to 95 %"""
    overwrites: Annotated[StrictInt | StrictFloat, Field(ge=0, le=100)] = Field(1, examples=[2])
    """How many times as much is deleted and written as new files; 0 fills only"""
    # The default is an estimate, of the order that Agrawal et al. found as the mean of a file (FAST 2007).
    file_bytes: _FileSize = Field(256 << 10, alias="file_size", examples=["256KiB"])
    """The mean size of a file; sizes have a gamma distribution"""
    # 336 are two weeks of one an hour.
    snapshots: Annotated[StrictInt, Field(ge=0, le=336)] = Field(0, examples=[24])
    """Snapshots taken at equal steps of the replacing, and kept until the measured window is over"""

    def filled_bytes(self, capacity_bytes: int) -> int:
        return int(self.fill * capacity_bytes)

    def kept_bytes(self, capacity_bytes: int) -> int:
        """What files take and, with snapshots, what was replaced: 4 GiB, replaced once, keep 8 GiB."""
        return int(self.filled_bytes(capacity_bytes) * (1 + (self.overwrites if self.snapshots else 0)))

    def files(self, capacity_bytes: int) -> int:
        return self.filled_bytes(capacity_bytes) // self.file_bytes

    def diagnostics(self, stack: str, capacity_bytes: int) -> Iterator[Diagnostic]:
        if self.files(capacity_bytes) < AGED_FILES_MIN:
            filled = format_size(self.filled_bytes(capacity_bytes))
            yield Diagnostic(
                f"{format_share(self.fill)} of what {stack} holds are {filled}: fewer than {AGED_FILES_MIN} "
                f"files of {describe_size(self.file_bytes)}, so that nothing would age",
                remedy="lower file_size, or raise fill or the `capacity` of the devices",
                key="file_size" if "file_bytes" in self.model_fields_set else None,
            )
        elif self.kept_bytes(capacity_bytes) > FILL_MAX * capacity_bytes:
            kept = format_size(self.kept_bytes(capacity_bytes))
            yield Diagnostic(
                f"its snapshots keep what is replaced, {kept} together, and {stack} holds "
                f"{format_size(capacity_bytes)}",
                remedy="lower fill or overwrites",
                key="snapshots",
            )
        elif self.snapshots > self.overwrites * self.files(capacity_bytes) / AGED_FILES_MIN:
            yield Diagnostic(
                f"fewer than {AGED_FILES_MIN} files of {stack} would be replaced between two of its "
                f"{self.snapshots} snapshots",
                remedy="take fewer snapshots, raise overwrites or fill, or lower file_size",
                key="snapshots",
            )


def count_diagnostics(trials: int) -> Iterator[Diagnostic]:
    if trials > TRIALS_MAX:
        remedy = "leave out seeds, stacks or workloads, or make several studies of it"
        cause = f"the study has {trials:,} trials, more than {TRIALS_MAX:,}"
        yield Diagnostic(cause, remedy=remedy, key="seeds")


def precision_diagnostics(
    seeds: Iterable[int], precision: float | None, seeds_max: int | None
) -> Iterator[Diagnostic]:
    count = len(list(seeds))
    if seeds_max is None:
        return
    if precision is None:
        remedy = 'add precision = "1.5%", or leave the key out'
        yield Diagnostic("nothing asks for more seeds than the study has", remedy=remedy, key="seeds_max")
    elif seeds_max < max(count, CONVERGED_SEEDS_MIN):
        why = f"no interval of fewer than {CONVERGED_SEEDS_MIN} seeds counts as precise"
        why = f"the study has {count} seeds already" if count > seeds_max else why
        yield Diagnostic(why, remedy=f"raise it to {max(count, SEEDS_MAX)}", key="seeds_max")


def describe_order(order: Order, order_seed: int) -> str:
    drawn = f"drawn from the study's name and order_seed {order_seed}"
    return {
        "blocks": f"stacks at random in each block, {drawn}",
        "abba": f"stacks at random in each block and mirrored in the next seed's, {drawn}",
        "file": "stacks as declared in each block",
    }[order]


def further_seeds(seeds: Iterable[int]) -> Iterator[int]:
    """Seeds after the declared ones: the next whole numbers, and after the largest from 0 on."""
    known = set(seeds)
    after = itertools.chain(range(max(known) + 1, SEED_MAX + 1), itertools.count())
    return (number for number in after if number not in known)
