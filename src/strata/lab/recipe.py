# SPDX-License-Identifier: Apache-2.0
"""The project's additions to a kernel source: ``kernel/recipe.toml`` and the files it names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError
from strata.lab.cache import file_hash
from strata.lab.own_source import OwnSource, own_source
from strata.model.kernel import DEFAULT_KERNEL, Kernel
from strata.model.step import Prerequisites
from strata.words import listed

# Programs whose versions the configuration, and so the kernel, would record, though nothing uses them.
_ABSENT: Final = ("RUSTC=false", "BINDGEN=false", "PAHOLE=false")


@dataclass(frozen=True)
class ModuleSource:
    """A source of modules outside the kernel's tree: OpenZFS."""

    package: str  # Debian's package of the source
    series: str  # its version without the last number, which the patches are for
    patches: tuple[str, ...]  # applied in this order, with ``patch -p1``; relative to the recipe's folder
    configure: tuple[str, ...]  # arguments of its ``configure``, besides the kernel's tree
    flags: tuple[str, ...]  # compiler flags; ``{source}`` and ``{linux}`` stand for the folders of the build


@dataclass(frozen=True)
class ModuleGroup:
    """Kernel modules that are built, and loaded, together."""

    name: str  # such as ``dm-thin``
    features: tuple[str, ...]  # patterns of the prerequisites that it meets, such as ``dm:*``
    needs: tuple[str, ...]  # the groups that are loaded before it
    files: tuple[str, ...]  # the modules in load order: paths in the source's tree, without ``.ko``
    parameters: Mapping[str, str]  # a module's parameters, as on insmod's command line
    source: ModuleSource | None  # where the modules come from; None for the kernel's own tree

    def meets(self, prerequisites: Prerequisites) -> bool:
        """Whether a plan with these prerequisites needs the group."""
        asked = (*prerequisites.features, *(f"module:{name}" for name in prerequisites.modules))
        return any(fnmatchcase(feature, pattern) for feature in asked for pattern in self.features)


@dataclass(frozen=True)
class Recipe:
    """The project's additions to a kernel source, and its compilation (``kernel/recipe.toml``)."""

    folder: Path  # the project's ``kernel`` folder
    series: str  # the kernel's version without its last number, which the patches are for
    copies: tuple[tuple[str, str], ...]  # (file in ``folder``, its place in the kernel tree)
    for_modules: tuple[tuple[str, str], ...]  # those of them that modules are compiled with
    patches: tuple[str, ...]  # applied in this order, with ``patch -p1``
    configs: tuple[str, ...]  # fragments over ``allnoconfig``; the last one that states an option holds
    machine: tuple[str, ...]  # folders that are taken from Debian's source of the default version
    target: str  # the make target, and the executable's name
    # For make's command line: the architecture, and constants in place of the builder's name, host and clock.
    variables: tuple[str, ...]
    groups: tuple[ModuleGroup, ...]  # the modules, in load order
    own: OwnSource | None = None  # a source of the user's in place of Debian's

    @property
    def package(self) -> str:
        """Debian's package of the source."""
        return f"linux-source-{self.series}"

    @classmethod
    def read(cls, folder: Path, kernel: Kernel = DEFAULT_KERNEL) -> Recipe:
        """Read ``recipe.toml`` of the project's kernel folder, for a kernel.

        Raises LabError, also for a source of the user's that is older than all versions of the patches.
        """
        path = folder / "recipe.toml"
        own = None if kernel.path is None else own_source(kernel)
        try:
            stated = tomllib.loads(path.read_text())
            series = [stated["series"], *stated.get("older", {})]
            chosen = kernel.name if own is None else _newest(own, series)
            older = {} if chosen == series[0] else stated["older"][chosen]
            recipe = cls(
                folder=folder,
                series=chosen,
                own=own,
                copies=_copies(folder, stated["copy"]),
                for_modules=_copies(folder, [copy for copy in stated["copy"] if copy.get("modules")]),
                patches=_joined(_patches(folder, stated["patches"]), _patches(folder, older.get("patches"))),
                configs=tuple(each["config"] for each in (stated, older) if each),
                machine=tuple(older.get("machine", ())),
                target=stated["target"],
                variables=tuple(stated["make"]["variables"]),
                groups=tuple(
                    _group(folder, name, {**each, **older.get("modules", {}).get(name, {})})
                    for name, each in stated["modules"].items()
                ),
            )
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise LabError(f"the kernel's recipe cannot be read: {error!r}", place=str(path)) from error
        for name in (*recipe.configs, *(source for source, _ in recipe.copies)):
            if not (folder / name).is_file():
                raise LabError(f"the kernel's recipe names {name}, which is not there", place=str(path))
        return recipe

    @property
    def make_arguments(self) -> tuple[str, ...]:
        """Make's arguments: the target and the variables."""
        return (self.target, *self.variables, *_ABSENT)

    def group(self, name: str) -> ModuleGroup:
        return next(each for each in self.groups if each.name == name)

    def with_needs(self, *names: str) -> tuple[ModuleGroup, ...]:
        """These groups and the groups that they need, in load order."""
        found: set[str] = set()
        rest = list(names)
        while rest:
            found.add(name := rest.pop())
            rest += self.group(name).needs
        return tuple(each for each in self.groups if each.name in found)

    def wanted(self) -> dict[str, str]:
        """The inputs of the kernel that the project states: every file's hash and place."""
        own = {} if self.own is None else {"own": self.own.sha}
        return self._copy_hashes(self.copies) | self.interface_wanted() | own

    def interface_wanted(self) -> dict[str, str]:
        """The kernel's inputs that matter to a module: not the driver, which modules do not use."""
        hashes = self._patch_hashes(self.patches)
        for at, name in enumerate(self.configs):
            hashes["config" if at == 0 else f"config {at}"] = file_hash(self.folder / name)
        return hashes | self._copy_hashes(self.for_modules) | self.tree_wanted()

    def group_wanted(self, group: ModuleGroup, locked: Mapping[str, str]) -> dict[str, str]:
        """The inputs of a group's modules that the project states.

        One is the locked version of its source: OpenZFS's modules understand only programs of their version.
        """
        stated = {f"kernel {name}": value for name, value in self.interface_wanted().items()}
        stated |= {"group": group.name, "modules": " ".join(group.files)}
        if source := group.source:
            stated |= {"package": source.package, "series": source.series}
            stated |= {"locked": locked.get(source.package, ""), "flags": " ".join(source.flags)}
            stated |= {"configure": " ".join(source.configure)} | self._patch_hashes(source.patches)
        return stated

    def _copy_hashes(self, copies: tuple[tuple[str, str], ...]) -> dict[str, str]:
        return {f"file {to}": file_hash(self.folder / name) for name, to in copies}

    def _patch_hashes(self, patches: tuple[str, ...]) -> dict[str, str]:
        named = ((f"patch {at:02d} {name}", name) for at, name in enumerate(patches))
        return {key: file_hash(self.folder / name) for key, name in named}

    def tree_wanted(self) -> dict[str, str]:
        """The inputs that need a new tree; make notices changes of the others in a compiled one."""
        machine = {"machine": " ".join(self.machine)} if self.machine else {}
        return {"series": self.series, "make": " ".join(self.make_arguments)} | machine

    def patch(self, name: str) -> str:
        """The text of a patch, without the files for which an older version has a patch of the same name."""
        text = (self.folder / name).read_text()
        following = dict(pairwise(self.patches)).get(name, "")
        if Path(following).name != Path(name).name:
            return text
        begin = re.compile(r"^(?=diff --git a/)", re.MULTILINE)
        own = {each.split("\n")[0] for each in begin.split((self.folder / following).read_text())}
        return "".join(each for each in begin.split(text) if each.split("\n")[0] not in own)


def _names(folder: Path, patterns: list[str], without: list[str]) -> list[str]:
    """The files of these patterns; a name without a wildcard stands for itself even if it is missing."""
    found = {name for name in patterns if "*" not in name}
    found |= {path.name for pattern in patterns for path in folder.glob(pattern)}
    return sorted(found - set(without))


def _copies(folder: Path, stated: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{copy['from']}/{name}", f"{copy['to']}/{name}")
        for copy in stated
        for name in _names(folder / copy["from"], copy["files"], copy.get("without", []))
    )


def _patches(folder: Path, pattern: str | None) -> tuple[str, ...]:
    paths = folder.glob(pattern) if pattern else ()
    return tuple(path.relative_to(folder).as_posix() for path in sorted(paths))


def _joined(shared: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """By number; of two patches of one name that of the older version is applied after the shared one."""
    return tuple(sorted((*shared, *own), key=lambda name: (Path(name).name, name in own)))


def _newest(own: OwnSource, series: list[str]) -> str:
    """The newest version that is not newer than a source of the user's."""

    def number(version: str) -> tuple[int, ...]:
        return tuple(map(int, version.split(".")[:2]))

    found = [each for each in series if number(each) <= number(own.version)]
    if not found:
        raise LabError(
            f"this is Linux {own.version}, and the lab's patches are for {listed(series)}",
            place=own.kernel.name,
            remedy="take a newer source",
        )
    return max(found, key=number)


def _group(folder: Path, name: str, stated: Mapping[str, Any]) -> ModuleGroup:
    source = None
    if (given := stated.get("source")) is not None:
        lists = _patches(folder, given["patches"]), tuple(given["configure"]), tuple(given["flags"])
        source = ModuleSource(given["package"], given["series"], *lists)
    features, needs = (tuple(stated.get(key, ())) for key in ("features", "needs"))
    parameters = stated.get("parameters", {})
    return ModuleGroup(name, features, needs, tuple(stated["files"]), parameters, source)
