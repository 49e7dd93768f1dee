# SPDX-License-Identifier: Apache-2.0
"""The client of Incus: the names of its containers, and where its daemon keeps what."""

from __future__ import annotations

from typing import Any, Final

from strata.spec.layer import LayerContext
from strata.spec.step import Step

POOL: Final = "pool"
IMAGE: Final = "root"
"""The image's alias."""

_CONTAINER: Final = "main"


def incus(context: LayerContext, name: str, title: str, *argv: str, **fields: Any) -> Step:
    """A step of the client."""
    own = context.of_tenant
    environment = environment_of(context)
    return own.step(name, title, "incus", "--quiet", *argv, environment=environment, cwd=own.cwd, **fields)


def container_of(context: LayerContext) -> str:
    """The name of the container; each tenant has one."""
    return "-".join(filter(None, (_CONTAINER, context.tenant)))


def socket_of(context: LayerContext) -> str:
    return f"{folder_of(context)}/{container_of(context)}.sock"


def folder_of(context: LayerContext) -> str:
    """The daemon's folder."""
    return f"${{scratch}}/{context.name}"


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
