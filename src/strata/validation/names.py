# SPDX-License-Identifier: Apache-2.0
"""The subjects' names, apart from the subjects, which take a second to load: for ``--help``."""

from __future__ import annotations

from typing import Final

SUBJECT_NAMES: Final = (
    "service-time",
    "hp-97560",
    "queue-depth",
    "short-stroking",
    "zones",
    "write-cache",
    "flush",
    "flash-steady",
    "latency",
    "controller",
    "credits",
    "published",
)
