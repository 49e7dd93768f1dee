# SPDX-License-Identifier: Apache-2.0
"""Times of which a program takes whole seconds or milliseconds, as keys of a study."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from strata.spec.names import Diagnostic
from strata.units import NS_PER_MS, NS_PER_S, Duration


def _whole(units: str, unit_ns: int, example: str) -> Callable[[int], int]:
    def check(time_ns: int) -> int:
        if time_ns < unit_ns or time_ns % unit_ns:
            raise Diagnostic(
                f"this time is counted in whole {units}, from one on", remedy=f'write for example "{example}"'
            )
        return time_ns

    return check


WholeSeconds = Annotated[Duration, AfterValidator(_whole("seconds", NS_PER_S, "60s"))]
"""A time that is counted in whole seconds, in ns."""

WholeMilliseconds = Annotated[Duration, AfterValidator(_whole("milliseconds", NS_PER_MS, "500ms"))]
"""A time that is counted in whole milliseconds, in ns."""
