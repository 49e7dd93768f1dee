# SPDX-License-Identifier: Apache-2.0
"""The subjects of a validation: checks with verdicts, and pictures."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from strata.datasheet.measure import Picture
from strata.devices.device import Device, bundled_devices, find_device
from strata.lab.model import ModelTrace
from strata.printable import in_json
from strata.units import NS_PER_MS, format_share, significant

Verdict = Literal["passed", "failed", "noted"]
Basis = Literal["", "read", "recalled", "input"]

BASES: Final[Mapping[Basis, str]] = {
    "read": "were read",
    "recalled": "were recalled or estimated",
    "input": "are the model's own inputs",
}
"""The bases of a published figure, in words."""


@dataclass(frozen=True)
class ModelCheck:
    """One comparison of the model's value with the expected one and its tolerance.

    Attributes:
        verdict: ``noted`` is a difference beyond the tolerance that proves nothing, because the expected
            value is an estimate or was recalled. The tolerance of a published figure is 10 %.
        basis: Of a published figure: ``read`` somewhere, ``recalled`` or estimated, or an ``input``: a
            parameter of the model, so that agreement shows only that the model keeps to it.
    """

    title: str
    found: str
    expected: str
    verdict: Verdict
    note: str = ""
    basis: Basis = ""


@dataclass(frozen=True)
class ExaminedSubject:
    """An examined subject: its checks and pictures; the text describes both sides of the comparison."""

    name: str
    title: str
    text: str
    checks: tuple[ModelCheck, ...]
    pictures: tuple[Picture, ...] = field(default=(), repr=False)

    @property
    @in_json
    def failures(self) -> int:
        return sum(check.verdict == "failed" for check in self.checks)


def totals(sections: Sequence[ExaminedSubject]) -> str:
    """The number of checks by verdict, and against published figures also by basis."""
    checks = [check for section in sections for check in section.checks]
    lines = [f"{len(checks)} checks: {_counts(checks)}"]
    for basis, words in BASES.items():
        if of_basis := [check for check in checks if check.basis == basis]:
            lines.append(f"of these against figures that {words}: {_counts(of_basis)}")
    return "\n".join(lines)


def _counts(checks: Sequence[ModelCheck]) -> str:
    found = Counter(check.verdict for check in checks)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in get_args(Verdict) if found[verdict])


def near(
    title: str, found: float, expected: float, part: float, unit: str = "", *, note: str = ""
) -> ModelCheck:
    """A value that should be within ``part`` of the expected one, such as 0.02 for 2 %."""
    good = math.isfinite(found) and abs(found - expected) <= part * abs(expected)
    return ModelCheck(
        title, _value(found, unit), f"{_value(expected, unit)} ± {format_share(part)}", _verdict(good), note
    )


def within(
    title: str, found: float, low: float, high: float, unit: str = "", *, note: str = "", soft: bool = False
) -> ModelCheck:
    """A value that should lie between two; ``soft`` notes a difference instead of failing."""
    if math.isinf(high):
        wanted = f"at least {_value(low, unit)}"
    elif math.isinf(low):
        wanted = f"at most {_value(high, unit)}"
    else:
        wanted = f"{significant(low)} to {_value(high, unit)}"
    return ModelCheck(title, _value(found, unit), wanted, _verdict(low <= found <= high, soft=soft), note)


def _value(value: float, unit: str) -> str:
    return f"{significant(value)} {unit}".rstrip()


def _verdict(good: bool, *, soft: bool = False) -> Verdict:
    return "passed" if good else "noted" if soft else "failed"


Found = tuple[Iterable[ModelCheck], Sequence[Picture]]
Examine = Callable[[bool], Found]
"""Examines a subject, perhaps quickly, with fewer I/Os and devices: its checks and pictures."""

REGISTERED: Final[dict[str, Callable[[bool], ExaminedSubject]]] = {}


def subject(name: str, title: str, text: str) -> Callable[[Examine], Examine]:
    def register(examine: Examine) -> Examine:
        def section(quick: bool) -> ExaminedSubject:
            checks, pictures = examine(quick)
            return ExaminedSubject(name, title, text, tuple(checks), tuple(pictures))

        REGISTERED[name] = section
        return examine

    return register


RE4: Final = "wd-re4-500gb"
"""The drive of the examples: an ordinary one, with every mechanism."""


@functools.cache
def conventional() -> tuple[Device, ...]:
    """The bundled rotating disks that are not shingled, for which the closed forms hold."""
    every = (find_device(name) for name in bundled_devices())
    return tuple(d for d in every if d.kind == "rotating" and not d.number("shingle_cache"))


def mean_ms(trace: ModelTrace) -> float:
    return float(trace.latency_ns.mean()) / NS_PER_MS


def points(x: Iterable[float], y: Iterable[float]) -> tuple[tuple[float, float], ...]:
    return tuple(zip(map(float, x), map(float, y), strict=True))
