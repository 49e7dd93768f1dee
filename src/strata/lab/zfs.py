# SPDX-License-Identifier: Apache-2.0
"""OpenZFS as modules for the lab's kernel: Debian's source, patched, built once per content of its inputs.

The modules are licensed under the CDDL and the kernel under the GPL. They are built on the user's machine and
never distributed together.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError
from strata.lab.cache import Cache, Entry, Inputs, file_hash
from strata.lab.kernel import interface_of, kernel_tree
from strata.lab.process import run_logged
from strata.lab.progress import SetupProgress
from strata.lab.recipe import Recipe
from strata.lab.source import SourceApt, module_source
from strata.lab.tree import build_environment

_ESTIMATED_OBJECTS: Final = 420
_ESTIMATED_CHECKS: Final = 330
_REMEDY: Final = "fix what it says and run the same command again: the build continues where it stopped"


@dataclass(frozen=True)
class Module:
    """A kernel module of the lab.

    Attributes:
        name: Such as ``zfs``.
        path: Its file.
        sha256: The file's hash.
    """

    name: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class ZfsBuild:
    """OpenZFS, built for one kernel.

    Attributes:
        path: The module ``zfs``.
        sha256: A hash over all modules.
        modules: In the order in which they are loaded.
        source: The version of Debian's package of the source.
        locked: Whether that is the version that ``image/packages.lock`` names.
        size_bytes: The size of the module ``zfs``.
    """

    path: Path
    sha256: str
    modules: tuple[Module, ...]
    source: str
    locked: bool
    size_bytes: int

    @classmethod
    def of(cls, entry: Entry) -> ZfsBuild:
        """The modules that a cache entry holds."""
        made = entry.manifest
        modules = tuple(Module(name, entry.path / f"{name}.ko", sha256) for name, sha256 in made["modules"])
        return cls(
            modules[-1].path, made["sha256"], modules, made["source"], made["locked"], made["size_bytes"]
        )


def build_zfs(
    cache: Cache,
    recipe: Recipe,
    kernel: Entry,
    progress: SetupProgress,
    *,
    apt: SourceApt,
    locked_version: str | None,
    jobs: int | None = None,
) -> Entry:
    """Return OpenZFS's modules for a kernel, building them unless they are in the cache.

    They are built in the tree that the kernel was compiled in, which is made again if it is gone. A change of
    the driver of the modelled disks, which modules do not use, needs no other modules.

    Args:
        cache: Where to build and keep them.
        recipe: What the project adds to the sources of both.
        kernel: The kernel that they are for.
        progress: Where to report.
        apt: Where Debian's packages come from.
        locked_version: The version of the source's package that the project is tested with.
        jobs: How many compilers to run at once; by default one per CPU.

    Raises:
        LabError: If the source cannot be had or the build fails.
        ToolError: If a program that the build needs is missing.
    """
    package, series = recipe.zfs.package, recipe.zfs.series
    source = module_source(cache, package, series, locked_version, apt, progress)
    version = source.manifest["package_version"]
    found = {"interface": interface_of(kernel), "source": version, "source_sha256": source.manifest["sha256"]}
    inputs = Inputs(recipe.zfs_wanted(locked_version), found)
    if (entry := cache.find("zfs", inputs)) is not None:
        return entry
    log = cache.root / "logs" / f"zfs-{inputs.key}.log"

    def make(folder: Path) -> Mapping[str, Any]:
        with (
            kernel_tree(cache, recipe, kernel, log, progress, jobs=jobs) as linux,
            cache.kept_work("zfs-tree", inputs) as work,
        ):
            tree = _Tree(work / "zfs", linux, recipe, log, progress)
            tree.prepare(source.path / "zfs")
            tree.compile(jobs or len(os.sched_getaffinity(0)))
            hashes = tree.take_modules(folder)
        return {
            "sha256": hashlib.sha256(" ".join(hashes.values()).encode()).hexdigest(),
            "modules": list(hashes.items()),
            "size_bytes": (folder / f"{recipe.zfs.modules[-1]}.ko").stat().st_size,
            "interface": interface_of(kernel),
            "source": version,
            "locked": version == locked_version,
        }

    return cache.build("zfs", inputs, make)


@dataclass(frozen=True)
class _Tree:
    """The folder that the modules are compiled in, kept until it has come to its end."""

    path: Path
    linux: Path
    recipe: Recipe
    log: Path
    progress: SetupProgress

    def prepare(self, source: Path) -> None:
        """Copy, patch and configure the source, unless an earlier build of the same has got that far."""
        done = self.path / ".strata-configured"
        if done.exists():
            return
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(source, self.path, symlinks=True)
        with self.progress.step("zfs: patching, configuring", total=_ESTIMATED_CHECKS) as step:
            for name in self.recipe.zfs.patches:
                self._run(
                    *("patch", "-p1", "--batch", "--forward", "--fuzz=0"),
                    *("-i", str(self.recipe.folder / name)),
                    title=f"applying {name}",
                    remedy=f"the patches are for OpenZFS {self.recipe.zfs.series}; "
                    "try the version of image/packages.lock",
                )

            def count(line: str) -> None:
                if line.startswith("checking "):
                    step.advance()
                    step.note(line.removeprefix("checking ")[:40])

            self._run(
                *("sh", "configure", *self.recipe.zfs.configure),
                *(f"--with-linux={self.linux}", f"--with-linux-obj={self.linux}"),
                title="configuring OpenZFS",
                on_line=count,
            )
        done.touch()

    def compile(self, jobs: int) -> None:
        """Compile what is not compiled yet."""
        with self.progress.step(f"zfs: compiling with {jobs} jobs", total=_ESTIMATED_OBJECTS) as step:
            step.advance(sum(1 for _ in (self.path / "module").rglob("*.o")))

            def count(line: str) -> None:
                if line.startswith(("  CC ", "  AS ")):
                    step.advance()
                    step.note(line.rsplit(maxsplit=1)[-1])

            self._run("make", f"-j{jobs}", title="compiling OpenZFS", on_line=count)

    def take_modules(self, folder: Path) -> dict[str, str]:
        """Copy the modules without what only a debugger reads; returns their hashes by name."""
        hashes = {}
        for name in self.recipe.zfs.modules:
            path = folder / f"{name}.ko"
            try:
                shutil.copyfile(self.path / "module" / path.name, path)
            except FileNotFoundError as error:
                raise LabError(
                    f"OpenZFS's build made no {path.name}", place=str(self.log), remedy=_REMEDY
                ) from error
            self._run("strip", "--strip-debug", str(path), title=f"stripping {path.name}")
            hashes[name] = file_hash(path)
        return hashes

    def _run(
        self,
        *argv: str,
        title: str,
        remedy: str = _REMEDY,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        environment = {
            **build_environment(self.path),
            # For the kernel's makefiles, which OpenZFS's configure and make start.
            "ARCH": "um",
            "ARCH_UM": " ".join(self.recipe.make_arguments[1:]),
            "KCFLAGS": " ".join(
                flag.format(zfs=self.path, linux=self.linux) for flag in self.recipe.zfs.flags
            ),
        }
        run_logged(
            argv,
            log=self.log,
            title=title,
            remedy=remedy,
            cwd=self.path,
            environment=environment,
            on_line=on_line,
        )
