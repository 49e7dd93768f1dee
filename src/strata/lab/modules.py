# SPDX-License-Identifier: Apache-2.0
"""Kernel modules of the lab: built when a plan first needs them, loaded only in the trials that do.

RAID, the device mapper, f2fs, OpenZFS and others are modules. The kernel and they share one configuration, so
that building a group changes neither the kernel nor another group.

OpenZFS's modules are licensed under the CDDL and the kernel under the GPL. They are built on the user's
machine and never distributed together.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Final, Self

from strata.errors import LabError
from strata.lab.cache import Build, Entry, Inputs, file_hash
from strata.lab.confined import copy_from, refuse_strange
from strata.lab.kernel import (
    RESUME_REMEDY,
    apply_patch,
    count_objects,
    counter,
    interface_of,
    kernel_tree,
    prepare_modules,
    run_in,
)
from strata.lab.progress import ProgressStep
from strata.lab.recipe import ModuleGroup, ModuleSource
from strata.lab.source import Workshop, module_source

KIND: Final = "modules"
FOLDER: Final = "strata/modules"
_ESTIMATED_ZFS_OBJECTS: Final = 420
_ESTIMATED_ZFS_CHECKS: Final = 330
_ESTIMATED_OBJECTS: Final = 12  # of a group in the kernel's own tree


@dataclass(frozen=True)
class Module:
    """One module: its name, its file, and the file's hash."""

    name: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class ModulesBuild(Build):
    """A group of modules, built for one kernel; ``path`` is the last one, ``sha256`` a hash over all."""

    source: str  # the version of the source's package, or the kernel's
    locked: bool  # whether ``image/packages.lock`` names this version
    modules: Sequence[Module]  # in load order

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The modules that a cache entry holds."""
        made = entry.manifest
        modules = [Module(name, entry.path / f"{name}.ko", sha256) for name, sha256 in made["modules"]]
        return cls(modules[-1].path, made["sha256"], made["source"], made["locked"], modules)


def build_modules(shop: Workshop, groups: Sequence[ModuleGroup], kernel: Entry) -> list[Entry]:
    """Return the modules of several groups for a kernel. Groups missing from the cache are built.

    They are built in the tree in which the kernel was compiled; it is made again if it is gone. A change of
    the driver of the modelled disks, which modules do not use, needs no other modules.
    """
    builds = [_Build(shop, group, kernel) for group in groups]
    in_tree = [each for each in builds if each.group.source is None]
    if missing := [each for each in in_tree if shop.cache.find(KIND, each.inputs()) is None]:
        with kernel_tree(shop, kernel, missing[0].log) as linux:
            missing[0].compile_in_tree(linux, [each.group for each in missing])
            for each in missing:
                made = kernel.manifest["source"], kernel.manifest["locked"]
                shop.cache.build(KIND, each.inputs(), partial(each.take, linux, *made))
    return [each.entry() for each in builds]


@dataclass(frozen=True)
class _Build:
    shop: Workshop
    group: ModuleGroup
    kernel: Entry

    @property
    def log(self) -> Path:
        return self.shop.cache.log(f"{KIND}-{self.group.name}", self.inputs())

    def inputs(self, source: Entry | None = None) -> Inputs:
        found = {"interface": interface_of(self.kernel)}
        if source is not None:
            made = source.manifest
            found |= {"source": made["package_version"], "source_sha256": made["sha256"]}
        return Inputs(self.shop.recipe.group_wanted(self.group, self.shop.locked), found)

    def entry(self) -> Entry:
        """The group's modules; those of another source are built unless they are in the cache."""
        stated = self.group.source
        if stated is None:
            entry = self.shop.cache.find(KIND, self.inputs())
            assert entry is not None
            return entry
        source = module_source(self.shop, stated)
        inputs = self.inputs(source)

        def make(folder: Path) -> Mapping[str, Any]:
            kept = self.shop.cache.kept_work(f"{self.group.name}-tree", inputs)
            with kernel_tree(self.shop, self.kernel, self.log) as linux, kept as work:
                tree, version = work / self.group.name, source.manifest["package_version"]
                self.out_of_tree(stated, source.path / "source", tree, linux)
                return self.take(tree, version, version == self.shop.locked.get(stated.package), folder)

        return self.shop.cache.build(KIND, inputs, make)

    def compile_in_tree(self, linux: Path, groups: Sequence[ModuleGroup]) -> None:
        """Compile groups of the kernel's tree, and the groups that export symbols to them."""
        names = [each.name for each in groups]
        files = [f"{file}.ko" for each in self.shop.recipe.with_needs(*names) for file in each.files]
        title = f"modules: compiling {', '.join(names) if len(names) < 4 else f'{len(names)} groups'}"
        with self.shop.progress.step(title, total=_ESTIMATED_OBJECTS * len(names)) as step:
            argv = ("make", *self.shop.recipe.make_arguments[1:], f"-j{self.shop.jobs}", *files)
            run_in(linux, self.log, "compiling kernel modules", *argv, on_line=counter(step))

    def out_of_tree(self, source: ModuleSource, unpacked: Path, tree: Path, linux: Path) -> None:
        """Copy, patch, configure and compile; an unfinished build with the same inputs is continued."""
        prepare_modules(self.shop.recipe, linux, self.log)
        environment = {
            # For the kernel's makefiles, which OpenZFS's configure and make start. Its tests need warnings.
            "ARCH": "um",
            "ARCH_UM": " ".join(self.shop.recipe.make_arguments[1:]),
            "KCFLAGS": " ".join(flag.format(source=tree, linux=linux) for flag in source.flags),
        }
        done = tree.with_name(".strata-configured")  # where its programs cannot write
        if not done.exists():
            shutil.rmtree(tree, ignore_errors=True)
            refuse_strange(unpacked)
            shutil.copytree(unpacked, tree, symlinks=True)
            title = f"{self.group.name}: patching, configuring"
            with self.shop.progress.step(title, total=_ESTIMATED_ZFS_CHECKS) as step:
                self._configure(source, tree, linux, environment, step)
            done.touch()
        with self.shop.progress.step(f"{self.group.name}: compiling", total=_ESTIMATED_ZFS_OBJECTS) as step:
            step.advance(count_objects(tree / "module"))
            argv = (f"compiling {source.package}", "make", f"-j{self.shop.jobs}")
            run_in(tree, self.log, *argv, environment=environment, on_line=counter(step), others=(linux,))

    def _configure(
        self,
        source: ModuleSource,
        tree: Path,
        linux: Path,
        environment: Mapping[str, str],
        step: ProgressStep,
    ) -> None:
        for name in source.patches:
            apply_patch(self.shop.recipe, name, tree, self.log, f"{source.package} {source.series}")

        def count(line: str) -> None:
            if line.startswith("checking "):
                step.advance()
                step.note(line.removeprefix("checking ")[:40])

        argv = ("sh", "configure", *source.configure, f"--with-linux={linux}", f"--with-linux-obj={linux}")
        title = f"configuring {source.package}"
        run_in(tree, self.log, title, *argv, environment=environment, on_line=count, others=(linux,))

    def take(self, tree: Path, version: str, locked: bool, folder: Path) -> dict[str, Any]:
        """Copy the modules without their debugging symbols; returns the entry's manifest."""
        hashes = {}
        for file in self.group.files:
            path = folder / f"{PurePath(file).name}.ko"
            if not (tree / f"{file}.ko").is_file():
                raise LabError(f"the build made no {path.name}", place=str(self.log), remedy=RESUME_REMEDY)
            copied = 'cp "$0.ko" "$0.stripped" && exec strip --strip-debug "$0.stripped"'
            run_in(tree, self.log, f"stripping {path.name}", "sh", "-c", copied, file)
            copy_from(tree, f"{file}.stripped", path)
            hashes[path.stem] = file_hash(path)
        return {
            "sha256": hashlib.sha256(" ".join(hashes.values()).encode()).hexdigest(),
            "modules": list(hashes.items()),
            "size_bytes": path.stat().st_size,
            "interface": interface_of(self.kernel),
            "source": version,
            "locked": locked,
        }


def loadings(groups: Sequence[ModuleGroup]) -> list[tuple[str, str, str]]:
    """The modules of these groups, in load order: name, file in the initial root, parameters."""
    named = [(each, PurePath(file).name) for each in groups for file in each.files]
    return [
        (name, f"{FOLDER}/{index:02d}-{name}.ko", each.parameters.get(name, ""))
        for index, (each, name) in enumerate(named)
    ]
