# SPDX-License-Identifier: Apache-2.0
"""Parts that several workloads share: keys of whole times, the check of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AfterValidator

from strata.spec.names import Diagnostic
from strata.spec.warning import Check
from strata.units import NS_PER_MS, NS_PER_S, Duration

ZEROS: Final = Check(
    name="content-takes-room",
    verdict="no",
    detail="it writes zeros: a stack that compresses, detects zeros or deduplicates stores nothing of them",
)
"""The check of a workload that writes zeros."""

ZEROS_QUESTION: Final = {ZEROS.name: "do the blocks take room below, as zeros may not?"}
"""The same as a question, for `Workload.check_questions`."""


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
