# SPDX-License-Identifier: Apache-2.0
"""The lab's kernel: Linux for ``ARCH=um`` with the modelled disk, built once per content of its inputs."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from strata.errors import LabError
from strata.lab.cache import Build, Cache, Entry, Inputs, file_hash
from strata.lab.process import output_of
from strata.lab.progress import SetupProgress
from strata.lab.recipe import Recipe
from strata.lab.source import SourceApt, source_from_debian, source_from_tarball
from strata.lab.tree import compile_tree, count_objects, prepare_tree

_ESTIMATED_OBJECTS: Final = 1100  # before the first build
# Rules about how a patch is sent by mail; ours are files of this repository.
_CHECKPATCH_IGNORED: Final = "COMMIT_LOG_LONG_LINE,FILE_PATH_CHANGES,MISSING_SIGN_OFF,NO_AUTHOR_SIGN_OFF"


@dataclass(frozen=True)
class KernelBuild(Build):
    """A finished kernel.

    Attributes:
        release: The answer of ``uname -r`` in the lab.
        source: The source's version: the Debian package's, or the kernel's for a tarball.
        locked: Whether the source is the version that ``image/packages.lock`` names.
    """

    FILE: ClassVar[str] = "linux"
    release: str
    source: str
    locked: bool


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

    Raises:
        LabError: If the source cannot be had or the build fails.
        ToolError: If a program that the build needs is missing.
    """
    if tarball is not None:
        source = source_from_tarball(cache, tarball, recipe.series, progress)
    else:
        source = source_from_debian(cache, recipe.package, apt, progress)
    name = source.manifest["package_version"] or source.manifest["version"]
    found = {"source": name, "source_sha256": source.manifest["tarball_sha256"], **_toolchain()}
    inputs = Inputs(recipe.wanted(), found)

    def make(folder: Path) -> Mapping[str, Any]:
        log = cache.log("kernel", inputs)
        with _compiled_tree(cache, recipe, source, found, log, progress, jobs) as tree:
            executable = folder / "linux"
            shutil.copyfile(tree / recipe.target, executable)
            executable.chmod(0o755)
            shutil.copyfile(tree / ".config", folder / "config")
            return {
                "sha256": file_hash(executable),
                "size_bytes": executable.stat().st_size,
                "release": (tree / "include/config/kernel.release").read_text().strip(),
                "objects": count_objects(tree),
                "source": name,
                "locked": name == locked_version,
                "interface": Inputs(recipe.interface_wanted(), found).key,
            }

    return cache.build("kernel", inputs, make)


def interface_of(kernel: Entry) -> str:
    """The hash of a kernel's source, patches, options and compiler, for which its modules must be built."""
    return str(kernel.manifest["interface"])


def kernel_tree(
    cache: Cache, recipe: Recipe, kernel: Entry, log: Path, progress: SetupProgress, *, jobs: int | None
) -> contextlib.AbstractContextManager[Path]:
    """The tree in which the current kernel was compiled, for its modules; it is made again if it is gone.

    Raises:
        LabError: If it is gone and the kernel's source, too, or if it cannot be compiled.
    """
    source = _source_of(cache, kernel)
    return _compiled_tree(cache, recipe, source, kernel.inputs.found, log, progress, jobs)


@contextlib.contextmanager
def _compiled_tree(  # noqa: PLR0917
    cache: Cache,
    recipe: Recipe,
    source: Entry,
    found: Mapping[str, str],
    log: Path,
    progress: SetupProgress,
    jobs: int | None,
) -> Iterator[Path]:
    previous = cache.entries("kernel")
    objects = int(previous[0].manifest.get("objects", _ESTIMATED_OBJECTS)) if previous else _ESTIMATED_OBJECTS
    with cache.kept_work("kernel-tree", Inputs(recipe.tree_wanted(), found)) as work:
        tree = work / "linux"
        prepare_tree(recipe, source.path / "linux", tree, log, progress)
        compile_tree(recipe, tree, log, progress, expected_objects=objects, jobs=jobs)
        yield tree


def _source_of(cache: Cache, kernel: Entry) -> Entry:
    for entry in cache.entries("source"):
        if entry.manifest["tarball_sha256"] == kernel.inputs.found["source_sha256"]:
            return entry
    raise LabError(
        f"the source of the lab's kernel ({kernel.manifest['source']}) is no longer there",
        place=str(cache.root / "source"),
        remedy="run `strata lab clean --all`, then `strata lab build`, which fetches it again",
    )


def _toolchain() -> dict[str, str]:
    """Compiler and linker: others make another binary, and must not continue an unfinished build."""
    return {
        "compiler": output_of(["gcc", "--version"]).splitlines()[0],
        "linker": output_of(["ld", "--version"]).splitlines()[0],
    }


def checkpatch(cache: Cache, recipe: Recipe) -> list[str] | None:
    """The findings of the kernel's style checker in the recipe's files; None without a kernel source."""
    sources = cache.entries("source")
    if not sources:
        return None
    tree = sources[0].path / "linux"
    found = []
    copied = {name for name, _ in recipe.copies if name.endswith((".c", ".h"))}
    for name in sorted(copied | set(recipe.patches)):
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
