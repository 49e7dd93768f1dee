# SPDX-License-Identifier: Apache-2.0
"""The number of hypothesis's examples: all in ``make test-all``, a share of them in ``make test``."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

SHARE: Final = float(os.environ.get("STRATA_EXAMPLES", "0.2"))


def examples(count: int) -> settings:
    """The settings of a test that tries this many examples in ``make test-all``."""
    return settings(max_examples=max(5, round(count * SHARE)))
