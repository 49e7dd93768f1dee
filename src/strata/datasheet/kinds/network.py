# SPDX-License-Identifier: Apache-2.0
"""A volume in the network: what every device has."""

from __future__ import annotations

from strata.datasheet.sheet import DataSheet


class NetworkSheet(DataSheet):
    """The measurements and pictures of `DataSheet`."""

    kind = "network"
