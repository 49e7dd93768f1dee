# SPDX-License-Identifier: Apache-2.0
"""What workloads write, as far as it matters to what is below: zeros are stored by some as nothing."""

from __future__ import annotations

from typing import Final

from strata.spec.warning import Check

ZEROS: Final = Check(
    name="content-takes-room",
    verdict="no",
    detail="it writes zeros: a stack that compresses, detects zeros or deduplicates stores nothing of them",
)
"""What a workload that writes zeros says of its numbers."""

ZEROS_ASK: Final = {ZEROS.name: "do the blocks take room below, as zeros may not?"}
"""The same as a question, for `Workload.asks`."""
