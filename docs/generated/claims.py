# SPDX-License-Identifier: Apache-2.0
"""The keys of a claims file."""

from __future__ import annotations

from generated.markdown import keys_table
from strata.spec.claims import Claim, Expectation


def keys() -> str:
    """The keys of a claim, and of one of its comparisons."""
    return f"## `[[claims]]`\n\n{keys_table(Claim)}## `[[claims.expect]]`\n\n{keys_table(Expectation)}"
