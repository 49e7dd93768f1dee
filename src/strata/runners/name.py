# SPDX-License-Identifier: Apache-2.0
"""The names of runners, as users give them."""

from __future__ import annotations

from enum import StrEnum


class RunnerName(StrEnum):
    """Where trials are carried out."""

    LAB = "lab"
    HOST = "host"
