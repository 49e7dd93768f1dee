# SPDX-License-Identifier: Apache-2.0
"""The layers and workloads of this Strata: those in every module of their packages."""

from __future__ import annotations

from functools import cache

import strata.layers
import strata.workloads
from strata.diagnostics.registry import discover
from strata.model.layer import Layer
from strata.model.workload import Workload
from strata.reading.entries import Catalogue
from strata.servers.mariadb import MariadbServer
from strata.servers.postgresql import PostgresqlServer


@cache
def catalogue() -> Catalogue:
    """All layers and workloads, found in ``strata.layers`` and ``strata.workloads``."""
    # mypy cannot take an abstract class as a type[T]; nothing here is instantiated.
    return Catalogue(
        layers=discover(strata.layers, Layer, "layer"),  # type: ignore[type-abstract]
        workloads=discover(strata.workloads, Workload, "workload"),  # type: ignore[type-abstract]
        servers={each.kind: each.diagnostics for each in (PostgresqlServer, MariadbServer)},
    )
