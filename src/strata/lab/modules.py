# SPDX-License-Identifier: Apache-2.0
"""Kernel modules of the lab: built when a plan first needs them, loaded only in the trials that do.

RAID, the device mapper, f2fs, OpenZFS and others are modules. The kernel and they share one configuration, so
that building a group changes neither the kernel nor another group.

OpenZFS's modules are licensed under the CDDL and the kernel under the GPL. They are built on the user's
machine and never distributed together.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Final, Self

from strata.errors import LabError
from strata.lab.cache import Build, Cache, Entry, Inputs, file_hash
from strata.lab.kernel import (
    RESUME_REMEDY,
    build_environment,
    count_objects,
    counter,
    interface_of,
    kernel_tree,
    prepare_modules,
)
from strata.lab.process import run_logged
from strata.lab.progress import SetupProgress, Step
from strata.lab.recipe import ModuleGroup, ModuleSource, Recipe
from strata.lab.source import SourceApt, module_source

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
    """A group of modules, built for one kernel.

    Attributes:
        path: The file of the last module; ``sha256`` is a hash over all of them.
        source: The version of the source's package, or the kernel's.
        locked: Whether ``image/packages.lock`` names this version.
        modules: In load order.
    """

    source: str
    locked: bool
    modules: Sequence[Module]

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The modules that a cache entry holds."""
        made = entry.manifest
        modules = [Module(name, entry.path / f"{name}.ko", sha256) for name, sha256 in made["modules"]]
        return cls(modules[-1].path, made["sha256"], made["source"], made["locked"], modules)


def build_modules(
    cache: Cache,
    recipe: Recipe,
    groups: Sequence[ModuleGroup],
    kernel: Entry,
    progress: SetupProgress,
    *,
    apt: SourceApt,
    locked: Mapping[str, str],
    jobs: int | None = None,
) -> list[Entry]:
    """Return the modules of several groups for a kernel. Groups missing from the cache are built.

    They are built in the tree in which the kernel was compiled; it is made again if it is gone. A change of
    the driver of the modelled disks, which modules do not use, needs no other modules.

    Raises LabError if a source cannot be had or a build fails, and ToolError if a program that it needs is
    missing.
    """
    builds = [
        _Build(cache, recipe, group, kernel, progress, jobs or len(os.sched_getaffinity(0)), locked)
        for group in groups
    ]
    in_tree = [each for each in builds if each.group.source is None]
    if missing := [each for each in in_tree if cache.find(KIND, each.inputs()) is None]:
        log = missing[0].log
        with kernel_tree(cache, recipe, kernel, log, progress, jobs=jobs) as linux:
            missing[0].compile_in_tree(linux, [each.group for each in missing])
            for each in missing:
                cache.build(KIND, each.inputs(), partial(each.make_in_tree, linux))
    return [each.entry(apt) for each in builds]


@dataclass(frozen=True)
class _Build:
    """The build of one group."""

    cache: Cache
    recipe: Recipe
    group: ModuleGroup
    kernel: Entry
    progress: SetupProgress
    jobs: int
    locked: Mapping[str, str]

    @property
    def log(self) -> Path:
        return self.cache.log(f"{KIND}-{self.group.name}", self.inputs())

    def inputs(self, source: Entry | None = None) -> Inputs:
        found = {"interface": interface_of(self.kernel)}
        if source is not None:
            made = source.manifest
            found |= {"source": made["package_version"], "source_sha256": made["sha256"]}
        return Inputs(self.recipe.group_wanted(self.group, self.locked), found)

    def entry(self, apt: SourceApt) -> Entry:
        """The group's modules; those of another source are built unless they are in the cache."""
        stated = self.group.source
        if stated is None:
            entry = self.cache.find(KIND, self.inputs())
            assert entry is not None
            return entry
        version = self.locked.get(stated.package)
        source = module_source(self.cache, stated.package, stated.series, version, apt, self.progress)
        inputs = self.inputs(source)

        def make(folder: Path) -> Mapping[str, Any]:
            tree = kernel_tree(self.cache, self.recipe, self.kernel, self.log, self.progress, jobs=self.jobs)
            with tree as linux, self.cache.kept_work(f"{self.group.name}-tree", inputs) as work:
                self.out_of_tree(stated, source.path / "source", work / self.group.name, linux)
                found = source.manifest["package_version"]
                return self.take(work / self.group.name, folder, found, locked=found == version)

        return self.cache.build(KIND, inputs, make)

    def compile_in_tree(self, linux: Path, groups: Sequence[ModuleGroup]) -> None:
        """Compile groups of the kernel's tree, and the groups that export symbols to them."""
        names = [each.name for each in groups]
        files = [f"{file}.ko" for each in self.recipe.with_needs(*names) for file in each.files]
        title = f"modules: compiling {', '.join(names) if len(names) < 4 else f'{len(names)} groups'}"
        with self.progress.step(title, total=_ESTIMATED_OBJECTS * len(names)) as step:
            argv = ("make", *self.recipe.make_arguments[1:], f"-j{self.jobs}", *files)
            self._run(linux, {}, *argv, title="compiling kernel modules", on_line=counter(step))

    def make_in_tree(self, linux: Path, folder: Path) -> Mapping[str, Any]:
        made = self.kernel.manifest
        return self.take(linux, folder, made["source"], locked=made["locked"])

    def out_of_tree(self, source: ModuleSource, unpacked: Path, tree: Path, linux: Path) -> None:
        """Copy, patch, configure and compile; an unfinished build with the same inputs is continued."""
        prepare_modules(self.recipe, linux, self.log)
        environment = {
            # For the kernel's makefiles, which OpenZFS's configure and make start. Its tests need warnings.
            "ARCH": "um",
            "ARCH_UM": " ".join(self.recipe.make_arguments[1:]),
            "KCFLAGS": " ".join(flag.format(source=tree, linux=linux) for flag in source.flags),
        }
        done = tree / ".strata-configured"
        if not done.exists():
            shutil.rmtree(tree, ignore_errors=True)
            shutil.copytree(unpacked, tree, symlinks=True)
            title = f"{self.group.name}: patching, configuring"
            with self.progress.step(title, total=_ESTIMATED_ZFS_CHECKS) as step:
                self._configure(source, tree, linux, environment, step)
            done.touch()
        with self.progress.step(f"{self.group.name}: compiling", total=_ESTIMATED_ZFS_OBJECTS) as step:
            step.advance(count_objects(tree / "module"))
            title = f"compiling {source.package}"
            self._run(tree, environment, "make", f"-j{self.jobs}", title=title, on_line=counter(step))

    def _configure(
        self, source: ModuleSource, tree: Path, linux: Path, environment: Mapping[str, str], step: Step
    ) -> None:
        for name in source.patches:
            self._run(
                tree,
                environment,
                *("patch", "-p1", "--batch", "--forward", "--fuzz=0", "-i", str(self.recipe.folder / name)),
                title=f"applying {name}",
                remedy=f"the patches are for {source.package} {source.series}; "
                "try the version of image/packages.lock",
            )

        def count(line: str) -> None:
            if line.startswith("checking "):
                step.advance()
                step.note(line.removeprefix("checking ")[:40])

        folders = (f"--with-linux={linux}", f"--with-linux-obj={linux}")
        self._run(
            tree,
            environment,
            *("sh", "configure", *source.configure, *folders),
            title=f"configuring {source.package}",
            on_line=count,
        )

    def take(self, tree: Path, folder: Path, version: str, *, locked: bool) -> dict[str, Any]:
        """Copy the modules without their debugging symbols; returns the entry's manifest."""
        hashes = {}
        for file in self.group.files:
            path = folder / f"{PurePath(file).name}.ko"
            try:
                shutil.copyfile(tree / f"{file}.ko", path)
            except FileNotFoundError as error:
                raise LabError(
                    f"the build made no {path.name}", place=str(self.log), remedy=RESUME_REMEDY
                ) from error
            self._run(tree, {}, "strip", "--strip-debug", str(path), title=f"stripping {path.name}")
            hashes[path.stem] = file_hash(path)
        return {
            "sha256": hashlib.sha256(" ".join(hashes.values()).encode()).hexdigest(),
            "modules": list(hashes.items()),
            "size_bytes": path.stat().st_size,
            "interface": interface_of(self.kernel),
            "source": version,
            "locked": locked,
        }

    def _run(
        self,
        tree: Path,
        environment: Mapping[str, str],
        *argv: str,
        title: str,
        remedy: str = RESUME_REMEDY,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        run_logged(
            argv,
            log=self.log,
            title=title,
            remedy=remedy,
            cwd=tree,
            environment={**build_environment(tree), **environment},
            on_line=on_line,
        )


def loadings(groups: Sequence[ModuleGroup]) -> list[tuple[str, str, str]]:
    """The modules of these groups, in load order: name, file in the initial root, parameters."""
    named = [(each, PurePath(file).name) for each in groups for file in each.files]
    return [
        (name, f"{FOLDER}/{index:02d}-{name}.ko", each.parameters.get(name, ""))
        for index, (each, name) in enumerate(named)
    ]
