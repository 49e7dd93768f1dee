# SPDX-License-Identifier: Apache-2.0
"""A ZFS pool on block devices."""

from __future__ import annotations

import re
from typing import Final

from strata.layers.zfs.options import FEATURE_SET
from strata.spec.names import Diagnostic
from strata.units import NS_PER_S

_MAKE_LIMIT_NS: Final = 600 * NS_PER_S
# Exporting writes back what is dirty, which on a rotating disk takes its time.
_EXPORT_LIMIT_NS: Final = 1200 * NS_PER_S
_SCAN_LIMIT_NS: Final = 7200 * NS_PER_S

# SPA_MINDEVSIZE, MIN_ARC_MAX of OpenZFS 2.4.
_DEVICE_BYTES_MIN: Final = 64 << 20
_ARC_BYTES_MIN: Final = 64 << 20
_PARITY: Final = {"raidz1": 1, "raidz2": 2, "raidz3": 3}

# A volume has no partitions. The kernel would look for some when the volume comes up, and close it a tick
# later; until then the pool cannot be exported. Said to the pool, since a volume that is told so when it is
# made comes up once with partitions before, and with OpenZFS 2.4.4 can be gone for good then.
_VOLUMES: Final = ("-O", "volmode=dev")


_PARAMETERS: Final = "/sys/module/zfs/parameters"
_ARC_STATISTICS: Final = "/proc/spl/kstat/zfs/arcstats"
_VARIABLE: Final = re.compile(r"\$\{([a-z0-9-]+)\}", re.ASCII)


def _check_set(name: str) -> str:
    if not re.fullmatch(FEATURE_SET, name, re.ASCII):
        raise Diagnostic(
            f'"{name[:60]}" is no set of features', remedy="name a file of /usr/share/zfs/compatibility.d"
        )
    return name
