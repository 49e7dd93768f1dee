# SPDX-License-Identifier: Apache-2.0
"""The names of a study's cells and trials."""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple, Self

from pydantic import PlainSerializer, PlainValidator

# A trial's folder has its name, so a name read from a file must not lead out of the results.
_NAME: Final = "[a-z0-9]+(?:-[a-z0-9]+)*"
ANY_NAME: Final = "*"
"""Stands in files for the name that a study gives to itself, a stack or a workload: no name is like it."""
_CELL: Final = re.compile(rf"({_NAME})\.({_NAME})", re.ASCII)


class CellKey(NamedTuple):
    """One workload on one stack. It is written ``STACK.WORKLOAD``."""

    stack: str
    workload: str

    def __str__(self) -> str:
        return f"{self.stack}.{self.workload}"

    @classmethod
    def parse(cls, text: str) -> Self:
        match = _CELL.fullmatch(text)
        if match is None:
            raise ValueError(f'"{text[:80]}" is not STACK.WORKLOAD')
        return cls(match[1], match[2])


class TrialKey(NamedTuple):
    """One workload on one stack with one seed. It is written ``STACK.WORKLOAD.sSEED``.

    Attributes:
        rate: The rate of a probe, whose workload is written ``WORKLOAD-rate-200``; None: it is no probe.

    >>> str(TrialKey("xfs", "oltp", 1, rate=200))
    'xfs.oltp-rate-200.s1'
    """

    stack: str
    workload: str
    seed: int
    rate: int | None = None

    @property
    def named_workload(self) -> str:
        return self.workload if self.rate is None else f"{self.workload}-rate-{self.rate}"

    def __str__(self) -> str:
        return f"{self.stack}.{self.named_workload}.s{self.seed}"

    @property
    def search(self) -> TrialKey:
        """The search that a probe belongs to."""
        return self._replace(rate=None)

    @property
    def cell(self) -> CellKey:
        return CellKey(self.stack, self.workload)


def _cell(value: object) -> CellKey:
    return value if isinstance(value, CellKey) else CellKey.parse(str(value))


CellName = Annotated[CellKey, PlainValidator(_cell), PlainSerializer(str, return_type=str)]
"""A cell as a key in a file: its name."""
