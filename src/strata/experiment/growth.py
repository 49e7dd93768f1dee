# SPDX-License-Identifier: Apache-2.0
"""A study that its own results make larger: by the probes of a search, by seeds for a precision."""

from __future__ import annotations

from typing import NamedTuple

from strata.model.study import Study


class Growth(NamedTuple):
    """The larger study, and why it is, for the display."""

    study: Study
    reasons: tuple[str, ...] = ()
