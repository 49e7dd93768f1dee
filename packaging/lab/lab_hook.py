# SPDX-License-Identifier: Apache-2.0
"""Puts the built lab's parts into the wheel, by their places in the cache, and their sources beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

import strata
from strata.bundled import project_root
from strata.lab.cache import Entry
from strata.lab.carry import carried_parts
from strata.lab.lab import parts
from strata.lab.recipe import Recipe

# Static programs, and a library that needs only libc's oldest symbols.
_TAG: Final = "py3-none-manylinux2014_x86_64"
_NOT_OURS: Final = ("image", "qemu-kernel")
"""Programs of Debian: the user's own mirror has them."""
_SOURCES: Final = ("Cargo.lock", "Cargo.toml", "LICENSES", "crates", "image/packages.lock", "kernel")


class Dependencies(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = [f"strata-storage == {strata.__version__}"]


class Parts(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root, found = project_root(), carried_parts()
        zfs = {each.name for each in Recipe.read(root / "kernel").groups if each.source is not None}
        if missing := [part for part in parts(root) if part not in {*found, *zfs, *_NOT_OURS}]:
            raise SystemExit(f"not built: {', '.join(missing)}; run `strata lab build`")
        carried = {part: entry for part, entry in found.items() if part not in _NOT_OURS}
        places = {entry.path: f"{entry.kind}/{entry.key}" for entry in carried.values()}
        places |= {root / name: f"corresponding-source/{name}" for name in _SOURCES}
        stated = Path(self.directory) / "SOURCE.txt"
        stated.parent.mkdir(parents=True, exist_ok=True)
        stated.write_text(_statement(carried))
        places[stated] = stated.name
        build_data["force_include"] |= {str(path): f"strata_lab/{place}" for path, place in places.items()}
        build_data |= {"tag": _TAG, "pure_python": False}


def _statement(carried: dict[str, Entry]) -> str:
    kernel, agent = carried["kernel"].inputs, carried["agent"].manifest
    hashes = "\n".join(f"  {entry.sha256}  {part}" for part, entry in carried.items())
    return _STATEMENT.format(
        **kernel.found, series=kernel.wanted["series"], rustc=agent["compiler"], hashes=hashes
    )


_STATEMENT: Final = """\
The source of the programs in this package (GPL-2.0, section 3a)

Kernel and modules: Debian's package linux-source-{series}, version {source};
  SHA-256 of its linux-source-{series}.tar.xz: {source_sha256}
  with the files, patches and configuration in corresponding-source/kernel, which recipe.toml names
  compiled by {compiler}, linked by {linker}, static with glibc (LGPL-2.1)
  `make dist-source` of the project writes that tarball beside this package. Whoever passes the package on
  passes the tarball on with it. Debian has it as: apt-get download linux-source-{series}={source}
Agent and load generator: corresponding-source/crates with Cargo.lock, by {rustc}, static with glibc
Disk models for user space: corresponding-source/kernel/disk

To build all of it again, also to link it with another libc: `strata lab build`, in a clone or from the
installed strata-storage, which has the same files.

Hashes over each part's files, as `strata lab export` prints them:
{hashes}
"""
