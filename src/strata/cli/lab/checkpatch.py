# SPDX-License-Identifier: Apache-2.0
"""``strata lab checkpatch``, of `make lint`."""

from __future__ import annotations

import typer

from strata.bundled import project_root
from strata.lab import kernel
from strata.lab.cache import Cache, cache_root
from strata.lab.recipe import Recipe


def checkpatch() -> None:
    """Run the kernel's own style checker over kernel/."""
    found = kernel.checkpatch(Cache(cache_root()), Recipe.read(project_root() / "kernel"))
    for line in found or ():
        print(line)
    # Its warnings are only questions to the author ("possible", "usually").
    raise typer.Exit(1 if any(" ERROR: " in line for line in found or ()) else 0)
