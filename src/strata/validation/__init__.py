# SPDX-License-Identifier: Apache-2.0
"""The disk models against theory and against published figures."""

from typing import Final

SUBJECT_NAMES: Final = (
    *("service-time", "hp-97560", "spindles", "queue-depth", "short-stroking", "zones", "write-cache"),
    *("flush", "flash-steady", "flash-recovery", "latency", "controller", "credits"),
    *("published", "real-drives"),
)
"""In the order of the page. Here, because ``--help`` names them, and the subjects take a second to load."""
