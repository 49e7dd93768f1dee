# SPDX-License-Identifier: Apache-2.0
"""A raw image file: a block device whose blocks are those of a file."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from strata.layers.image.file import ImageFile
from strata.spec.layer import LayerContext
from strata.spec.step import Step


class Raw(ImageFile):
    """A raw image file: a block device whose blocks are those of a file.

    With ``server = "loop"`` the kernel's loop driver gives it, without a server.
    """

    image_format: ClassVar[str] = "raw"

    layer: Literal["raw"] = "raw"
    preallocation: Literal["off", "falloc", "full"] = Field(
        default="off",
        description="`off`: a sparse file; `falloc`: its blocks are allocated; `full`: zeros are written",
        examples=["falloc"],
    )
    server: Literal["qemu-storage-daemon", "qemu-nbd", "loop"] = Field(
        default="qemu-storage-daemon",
        description="What serves the file as a block device: one of QEMU's servers, to which the kernel "
        "connects a network block device over a Unix socket, or the kernel's loop driver",
        examples=["qemu-nbd"],
    )

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Of a loop device; those of NBD keep their size as long as they are connected."""
        if self.server != "loop":
            return None
        return [
            context.step(
                "truncate",
                "Change the size of the raw image",
                *("truncate", f"--size={capacity_bytes}", self.file(context)),
                cwd="${scratch}",
            ),
            context.step(
                "follow",
                "Let the loop device follow",
                *("losetup", "--set-capacity", self.path(context)),
                cwd="${scratch}",
            ),
        ]
