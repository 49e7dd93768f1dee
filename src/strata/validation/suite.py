# SPDX-License-Identifier: Apache-2.0
"""All subjects, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from strata.errors import ResultError
from strata.spec.names import nearest
from strata.validation import (
    controller,
    credits,
    flash_steady,
    flush,
    hp97560,
    latency,
    published,
    queue_depth,
    service_time,
    short_stroke,
    write_cache,
    zones,
)
from strata.validation.check import Section


class Examine(Protocol):
    """Examines one subject; quickly, with fewer I/Os and devices."""

    def __call__(self, *, quick: bool = False) -> Section: ...


SUBJECTS: Final[dict[str, Examine]] = {
    "service-time": service_time.examine,
    "hp-97560": hp97560.examine,
    "queue-depth": queue_depth.examine,
    "short-stroking": short_stroke.examine,
    "zones": zones.examine,
    "write-cache": write_cache.examine,
    "flush": flush.examine,
    "flash-steady": flash_steady.examine,
    "latency": latency.examine,
    "controller": controller.examine,
    "credits": credits.examine,
    "published": published.examine,
}


def examine(
    names: Sequence[str] = (), *, quick: bool = False, step: Callable[[str], None] = lambda _: None
) -> Iterator[Section]:
    """The subjects that are named, or all.

    Raises:
        ResultError: If one is unknown.
    """
    for name in names:
        if name not in SUBJECTS:
            raise ResultError(f'there is no subject "{name}"', remedy=nearest(name, SUBJECTS))
    for name in names or SUBJECTS:
        step(name)
        yield SUBJECTS[name](quick=quick)
