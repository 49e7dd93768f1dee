# SPDX-License-Identifier: Apache-2.0
"""The client of Incus, and its settings."""

from __future__ import annotations

from typing import Any, Final

from strata.layers.container import folder_of
from strata.model.layer import LayerContext
from strata.model.step import Step

POOL: Final = "pool"
IMAGE: Final = "root"
"""The image's alias."""


def incus(context: LayerContext, name: str, title: str, *argv: str, **fields: Any) -> Step:
    own = context.of_tenant
    environment = environment_of(context)
    return own.step(name, title, "incus", "--quiet", *argv, environment=environment, cwd=own.cwd, **fields)


def environment_of(context: LayerContext) -> dict[str, str]:
    folder = folder_of(context)
    return {
        "DM_DISABLE_UDEV": "1",
        "HOME": folder,
        "INCUS_CONF": f"{folder}/client",
        "INCUS_DIR": folder,
        "INCUS_SECURITY_APPARMOR": "false",
        "LVM_SUPPRESS_FD_WARNINGS": "1",
        "LVM_SYSTEM_DIR": f"{folder}/lvm",
    }
