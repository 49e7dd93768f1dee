# SPDX-License-Identifier: Apache-2.0
"""Values that may be missing, where a test needs them."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    assert value is not None
    return value
