# SPDX-License-Identifier: Apache-2.0
"""What several workloads' keys have in common: whole times, room on the stack, content of zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final

from pydantic import AfterValidator

from strata.spec.names import Diagnostic
from strata.spec.warning import Check
from strata.units import NS_PER_MS, NS_PER_S, Duration, describe_size

USABLE_TENTHS: Final = 9
"""How much of a stack's capacity data may take: an estimate of what metadata leave, in tenths."""

ZEROS: Final = Check(
    name="content-takes-room",
    verdict="no",
    detail="it writes zeros: a stack that compresses, detects zeros or deduplicates stores nothing of them",
)
"""The check of a workload that writes zeros."""

ZEROS_QUESTION: Final = {ZEROS.name: "do the blocks take room below, as zeros may not?"}
"""The same as a question, for `Workload.check_questions`."""

_MIB: Final = 1 << 20


def _whole(units: str, unit_ns: int, example: str) -> Callable[[int], int]:
    def check(time_ns: int) -> int:
        if time_ns < unit_ns or time_ns % unit_ns:
            raise Diagnostic(
                f"this time is counted in whole {units}, from one on", remedy=f'write for example "{example}"'
            )
        return time_ns

    return check


WholeSeconds = Annotated[Duration, AfterValidator(_whole("seconds", NS_PER_S, "60s"))]
"""A time in whole seconds, in ns."""

WholeMilliseconds = Annotated[Duration, AfterValidator(_whole("milliseconds", NS_PER_MS, "500ms"))]
"""A time in whole milliseconds, in ns."""


def space_diagnostics(what: str, needed_bytes: int, capacity_bytes: int, *, key: str) -> Iterable[Diagnostic]:
    """Refuse data that do not fit: ``what`` of ``needed_bytes``, on stacks of ``capacity_bytes`` at least."""
    if needed_bytes * 10 > capacity_bytes * USABLE_TENTHS:
        yield Diagnostic(
            f"{what} of {_rounded(needed_bytes, up=True)} do not fit: "
            f"the smallest stack (or a tenant's part of it) holds {_rounded(capacity_bytes)}",
            remedy=f"shrink {key}, or raise the `capacity` of the devices",
            key=key,
        )


def _rounded(size_bytes: int, *, up: bool = False) -> str:
    """A size in whole MiB from 1 MiB on: a part of a stack has an odd number of bytes."""
    if size_bytes < _MIB:
        return describe_size(size_bytes)
    return describe_size((-(-size_bytes // _MIB) if up else size_bytes // _MIB) * _MIB)
