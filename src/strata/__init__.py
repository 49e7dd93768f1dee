# SPDX-License-Identifier: Apache-2.0
"""Strata: which storage stack should hold this workload, on these disks?

For notebooks and scripts it offers `load_study`, `run`, `Results`, `compare` and `advise`:

>>> import strata
>>> results = strata.Results.open("results/quickstart")
>>> results.ratio("oltp", "transactions_per_s", "xfs", "ext4")
Ratio(n=6, ratio=1.14, interval=(1.11, 1.17))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strata.api import Results, advise, compare, load_study, run

__version__ = "0.1.0"
__all__ = ["Results", "advise", "compare", "load_study", "run"]


def __getattr__(name: str) -> Any:
    """Load the public names when one is first used: the command line starts without them."""
    if name not in __all__:
        raise AttributeError(f"module 'strata' has no attribute {name!r}")
    from strata import api  # noqa: PLC0415

    return getattr(api, name)
