# SPDX-License-Identifier: Apache-2.0
"""The lab's kernel: Linux for ``ARCH=um`` with the modelled disk, built once per content of its inputs."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError
from strata.lab.cache import Cache, Entry, Inputs, file_hash
from strata.lab.process import output_of
from strata.lab.progress import SetupProgress
from strata.lab.recipe import Recipe
from strata.lab.source import KernelSource, SourceApt, source_from_debian, source_from_tarball
from strata.lab.tree import compile_tree, count_objects, prepare_tree

_ESTIMATED_OBJECTS: Final = 1100  # before the first build
# Rules about how a patch is sent by mail; ours are files of this repository.
_CHECKPATCH_IGNORED: Final = "COMMIT_LOG_LONG_LINE,FILE_PATH_CHANGES,MISSING_SIGN_OFF,NO_AUTHOR_SIGN_OFF"


@dataclass(frozen=True)
class KernelBuild:
    """A finished kernel.

    Attributes:
        path: The executable.
        sha256: Its hash.
        release: What ``uname -r`` says in the lab.
        source: The source's version: the Debian package's, or the kernel's for a tarball.
        locked: Whether the source is the version that ``image/packages.lock`` names.
        size_bytes: The executable's size.
    """

    path: Path
    sha256: str
    release: str
    source: str
    locked: bool
    size_bytes: int

    @classmethod
    def of(cls, entry: Entry) -> KernelBuild:
        """The kernel that a cache entry holds."""
        made = entry.manifest
        return cls(
            entry.path / "linux",
            made["sha256"],
            made["release"],
            made["source"],
            made["locked"],
            made["size_bytes"],
        )


def build_kernel(
    cache: Cache,
    recipe: Recipe,
    progress: SetupProgress,
    *,
    apt: SourceApt,
    locked_version: str | None,
    tarball: Path | None = None,
    jobs: int | None = None,
) -> Entry:
    """Return the kernel for this recipe and source, building it unless it is in the cache.

    The tree with its objects is kept: an interrupted build is continued, and after a change of a patch, the
    driver or the configuration only what depends on it is compiled.

    Args:
        cache: Where to build and keep it.
        recipe: What the project adds to the source.
        progress: Where to report.
        apt: Where Debian's packages come from.
        locked_version: The version of the Debian source package that the project is tested with.
        tarball: A kernel source given by the user instead of Debian's.
        jobs: How many compilers to run at once; by default one per CPU.

    Raises:
        LabError: If the source cannot be had or the build fails.
        ToolError: If a program that the build needs is missing.
    """
    if tarball is not None:
        source = source_from_tarball(cache, tarball, recipe.series, progress)
    else:
        source = source_from_debian(cache, recipe.package, apt, progress)
    name = source.package_version or source.version
    found = {"source": name, "source_sha256": source.tarball_sha256, **_toolchain()}
    inputs = Inputs(recipe.wanted(), found)
    if (entry := cache.find("kernel", inputs)) is not None:
        return entry
    objects = _objects_expected(cache)
    log = cache.root / "logs" / f"kernel-{inputs.key}.log"

    def make(folder: Path) -> Mapping[str, Any]:
        with cache.kept_work("kernel-tree", Inputs(recipe.tree_wanted(), found)) as work:
            return compile_into(folder, work / "linux")

    def compile_into(folder: Path, tree: Path) -> Mapping[str, Any]:
        prepare_tree(recipe, source.tree, tree, log, progress)
        compile_tree(recipe, tree, log, progress, expected_objects=objects, jobs=jobs)
        shutil.copyfile(tree / recipe.target, folder / "linux")
        (folder / "linux").chmod(0o755)
        shutil.copyfile(tree / ".config", folder / "config")
        return {
            **_made(folder / "linux", tree),
            "source": name,
            "locked": name == locked_version,
            "interface": Inputs(recipe.interface_wanted(), found).key,
        }

    return cache.build("kernel", inputs, make)


def _made(executable: Path, tree: Path) -> dict[str, Any]:
    return {
        "sha256": file_hash(executable),
        "size_bytes": executable.stat().st_size,
        "release": (tree / "include/config/kernel.release").read_text().strip(),
        "objects": count_objects(tree),
    }


def interface_of(kernel: Entry) -> str:
    """What a module must be built for to fit a kernel: its source, patches, options and compiler."""
    return str(kernel.manifest["interface"])


@contextlib.contextmanager
def kernel_tree(
    cache: Cache, recipe: Recipe, kernel: Entry, log: Path, progress: SetupProgress, *, jobs: int | None
) -> Iterator[Path]:
    """The tree that a kernel was compiled in, in which modules can be built; it is made again if it is gone.

    Args:
        cache: Where it is.
        recipe: What the project adds to the source.
        kernel: The kernel, which must be current.
        log: Takes the output of what has to be made again.
        progress: Where to report.
        jobs: How many compilers to run at once; by default one per CPU.

    Raises:
        LabError: If it is gone and the kernel's source, too, or if it cannot be compiled.
    """
    found = kernel.inputs.found
    with cache.kept_work("kernel-tree", Inputs(recipe.tree_wanted(), found)) as work:
        tree = work / "linux"
        prepare_tree(recipe, _source_of(cache, kernel).tree, tree, log, progress)
        objects = _objects_expected(cache)
        compile_tree(recipe, tree, log, progress, expected_objects=objects, jobs=jobs)
        yield tree


def _source_of(cache: Cache, kernel: Entry) -> KernelSource:
    for entry in cache.entries("source"):
        if entry.manifest["tarball_sha256"] == kernel.inputs.found["source_sha256"]:
            return KernelSource.of(entry)
    raise LabError(
        f"the source of the lab's kernel ({kernel.manifest['source']}) is no longer there",
        place=str(cache.root / "source"),
        remedy="run `strata lab clean --all`, then `strata lab build`, which fetches it again",
    )


def _toolchain() -> dict[str, str]:
    """What compiles and links.

    An input, because another compiler makes another binary out of the same source, and because an unfinished
    build must not be continued with it.
    """
    return {
        "compiler": output_of(["gcc", "--version"]).splitlines()[0],
        "linker": output_of(["ld", "--version"]).splitlines()[0],
    }


def _objects_expected(cache: Cache) -> int:
    """How many files there are to compile, as the latest build has told."""
    previous = cache.entries("kernel")
    return int(previous[0].manifest.get("objects", _ESTIMATED_OBJECTS)) if previous else _ESTIMATED_OBJECTS


def checkpatch(cache: Cache, recipe: Recipe) -> list[str] | None:
    """Run the kernel's own style checker over the recipe's sources and patches.

    Returns:
        What it found, or None when no kernel source is in the cache.
    """
    sources = cache.entries("source")
    if not sources:
        return None
    tree = sources[0].path / "linux"
    found = []
    for name in sorted(
        {name for name, _ in recipe.copies if name.endswith((".c", ".h"))} | set(recipe.patches)
    ):
        patch = [] if name.endswith(".patch") else ["--file"]
        done = subprocess.run(
            [
                *("perl", "scripts/checkpatch.pl", "--quiet", "--terse", "--no-summary", *patch),
                *("--ignore", _CHECKPATCH_IGNORED, str(recipe.folder / name)),
            ],
            cwd=tree,
            capture_output=True,
            text=True,
            check=False,
        )
        found += done.stdout.splitlines()
    return found
