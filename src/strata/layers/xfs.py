# SPDX-License-Identifier: Apache-2.0
"""XFS on one block device."""

from __future__ import annotations

from typing import ClassVar, Literal

from strata.spec.filesystem import Filesystem
from strata.spec.joint import Takes
from strata.spec.layer import LayerContext
from strata.spec.step import Requires


class Xfs(Filesystem):
    """XFS on one block device, with the defaults of mkfs.xfs."""

    takes: ClassVar[Takes] = Takes("block")
    requires: ClassVar[Requires] = Requires(
        tools=("mkfs.xfs", "mount", "umount"), features=("filesystem:xfs",)
    )
    # mkfs.xfs refuses less since 5.19.
    capacity_bytes_min: ClassVar[int] = 300 << 20
    checker: ClassVar[tuple[str, ...]] = ("xfs_repair", "-n")
    owned_options: ClassVar[dict[str, str]] = {
        "-f": "it is given already: leave it out",
        "-K": "it is given already: leave it out",
        "-q": "it is given already: leave it out",
        "-N": "it would make nothing: leave it out",
    }

    layer: Literal["xfs"] = "xfs"

    def make_options(self, context: LayerContext) -> list[str]:
        """As of `Filesystem`."""
        return ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={context.derived_uuid('uuid')}", *self.mkfs]
