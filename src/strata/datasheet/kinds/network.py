# SPDX-License-Identifier: Apache-2.0
"""A volume in the network: only the common measurements."""

from __future__ import annotations

from strata.datasheet.sheet import DataSheet


class NetworkSheet(DataSheet):
    """The measurements and pictures of `DataSheet`."""

    kind = "network"
