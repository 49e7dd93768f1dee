# SPDX-License-Identifier: Apache-2.0
"""A disk without latency."""

from __future__ import annotations

from typing import ClassVar

from strata.spec.device_kind import CAPACITY, QUEUE_DEPTH, DeviceKind


class Null(DeviceKind):
    """A disk that takes no time."""

    name = "null"
    title = "A disk that takes no time"
    introduction = "A disk that takes no time: what remains is the software above it."
    parameters: ClassVar = {"capacity": CAPACITY, "queue_depth": QUEUE_DEPTH}
