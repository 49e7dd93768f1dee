# SPDX-License-Identifier: Apache-2.0
"""What a study asks: for which use its disks are, and what a stack must have to come into question."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator

UseName = Literal[
    "postgresql-server",
    "mysql-server",
    "vm-host",
    "container-host",
    "file-server",
    "home-server",
    "mail-server",
    "web-server",
    "development-machine",
    "workstation",
]
"""The uses of `strata.advice`, of which each weighs kinds of measurement."""

Requirement = Literal[
    "durable",
    "snapshot",
    "clone",
    "restore-latest",
    "restore-older",
    "send",
    "quota",
    "grow",
    "shrink",
    "discard",
    "copy-on-write",
    "nesting",
    "corruption-detected",
    "corruption-healed",
    "disk-loss",
    "second-disk-loss",
]
"""``durable``: neither a setting nor a power cut takes what was acknowledged. The others are the probes of
`strata.capabilities`."""

Requirements = Annotated[tuple[Requirement, ...], AfterValidator(lambda names: tuple(dict.fromkeys(names)))]
"""Each once."""
REQUIREMENTS: Final[tuple[Requirement, ...]] = get_args(Requirement)
