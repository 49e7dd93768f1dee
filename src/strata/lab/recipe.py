# SPDX-License-Identifier: Apache-2.0
"""What the project adds to a kernel source: ``kernel/recipe.toml`` and the files it names."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.lab.cache import file_hash

# Programs whose versions the configuration, and so the kernel, would record, though nothing uses them.
_ABSENT: Final = ("RUSTC=false", "BINDGEN=false", "PAHOLE=false")


def _names(folder: Path, patterns: list[str], without: list[str]) -> list[str]:
    """The files that are meant; a pattern without a wildcard stands for itself, be it there or not."""
    found = {name for pattern in patterns for name in _matching(folder, pattern)}
    return sorted(found - set(without))


def _patches(folder: Path, pattern: str) -> tuple[str, ...]:
    return tuple(path.relative_to(folder).as_posix() for path in sorted(folder.glob(pattern)))


def _matching(folder: Path, pattern: str) -> list[str]:
    return [path.name for path in folder.glob(pattern)] if "*" in pattern else [pattern]


@dataclass(frozen=True)
class ZfsRecipe:
    """How OpenZFS is made into modules for the kernel: the section ``zfs`` of ``kernel/recipe.toml``.

    Attributes:
        package: Debian's package of its source.
        series: Its version without the last number: what the patches are for.
        patches: Applied in this order, with ``patch -p1``; relative to the recipe's folder.
        configure: Arguments of its ``configure``, besides the kernel's tree.
        modules: Their names, in the order in which they are loaded.
        flags: For the compiler; ``{zfs}`` and ``{linux}`` stand for the folders that they are built in.
    """

    package: str
    series: str
    patches: tuple[str, ...]
    configure: tuple[str, ...]
    modules: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """What the project adds to a kernel source and how it is compiled (``kernel/recipe.toml``).

    Attributes:
        folder: The project's ``kernel`` folder.
        series: The kernel's version without its last number: what the patches are for.
        copies: (file in ``folder``, its place in the kernel tree).
        patches: Applied in this order, with ``patch -p1``.
        config: The configuration fragment over ``allnoconfig``.
        target: The make target, and the executable's name.
        variables: For make's command line: the architecture, and what would otherwise carry the
            builder's name, host and clock into the executable.
        zfs: How OpenZFS is added to it.
    """

    folder: Path
    series: str
    copies: tuple[tuple[str, str], ...]
    patches: tuple[str, ...]
    config: str
    target: str
    variables: tuple[str, ...]
    zfs: ZfsRecipe

    @property
    def package(self) -> str:
        """Debian's package of the source."""
        return f"linux-source-{self.series}"

    @classmethod
    def read(cls, folder: Path) -> Recipe:
        """Read ``recipe.toml`` of the project's kernel folder.

        Raises:
            LabError: If it is missing, malformed, or names a file that does not exist.
        """
        path = folder / "recipe.toml"
        try:
            stated = tomllib.loads(path.read_text())
            recipe = cls(
                folder=folder,
                series=stated["series"],
                copies=tuple(
                    (f"{copy['from']}/{name}", f"{copy['to']}/{name}")
                    for copy in stated["copy"]
                    for name in _names(folder / copy["from"], copy["files"], copy.get("without", []))
                ),
                patches=_patches(folder, stated["patches"]),
                config=stated["config"],
                target=stated["target"],
                variables=tuple(stated["make"]["variables"]),
                zfs=ZfsRecipe(
                    package=stated["zfs"]["package"],
                    series=stated["zfs"]["series"],
                    patches=_patches(folder, stated["zfs"]["patches"]),
                    configure=tuple(stated["zfs"]["configure"]),
                    modules=tuple(stated["zfs"]["modules"]),
                    flags=tuple(stated["zfs"]["flags"]),
                ),
            )
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise LabError(f"the kernel's recipe cannot be read: {error!r}", place=str(path)) from error
        for name in (recipe.config, *(source for source, _ in recipe.copies)):
            if not (folder / name).is_file():
                raise LabError(f"the kernel's recipe names {name}, which is not there", place=str(path))
        return recipe

    @property
    def make_arguments(self) -> tuple[str, ...]:
        """Make's arguments: the target and the variables."""
        return (self.target, *self.variables, *_ABSENT)

    def wanted(self) -> dict[str, str]:
        """What the kernel is built from as far as the project states it: every file's hash and place."""
        hashes = {f"file {to}": file_hash(self.folder / name) for name, to in self.copies}
        return hashes | self.interface_wanted()

    def interface_wanted(self) -> dict[str, str]:
        """What a module sees of the kernel: all but the driver, which modules do not use."""
        hashes = self._patch_hashes(self.patches) | {"config": file_hash(self.folder / self.config)}
        return hashes | self.tree_wanted()

    def zfs_wanted(self, locked_version: str | None) -> dict[str, str]:
        """What OpenZFS's modules are built from as far as the project states it.

        Args:
            locked_version: The version of the source's package that the project is tested with: another lock
                wants other modules, since they understand only programs of their own version.
        """
        stated = {
            "locked": locked_version or "",
            "modules": " ".join(self.zfs.modules),
            "package": self.zfs.package,
            "configure": " ".join(self.zfs.configure),
            "flags": " ".join(self.zfs.flags),
            "series": self.zfs.series,
        }
        kernel = {f"kernel {name}": value for name, value in self.interface_wanted().items()}
        return stated | self._patch_hashes(self.zfs.patches) | kernel

    def _patch_hashes(self, patches: tuple[str, ...]) -> dict[str, str]:
        named = ((f"patch {at:02d} {name}", name) for at, name in enumerate(patches))
        return {key: file_hash(self.folder / name) for key, name in named}

    def tree_wanted(self) -> dict[str, str]:
        """What a tree with compiled objects can be used again for; of the rest, make finds what changed."""
        return {"series": self.series, "make": " ".join(self.make_arguments)}
