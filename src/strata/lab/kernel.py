# SPDX-License-Identifier: Apache-2.0
"""The lab's kernel: Linux for ``ARCH=um`` with the modelled disk, built once per content of its inputs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError
from strata.lab.cache import Cache, Entry, Inputs, file_hash
from strata.lab.process import output_of, run_logged
from strata.lab.progress import SetupProgress
from strata.lab.source import copy_tree, source_from_debian, source_from_tarball

_ESTIMATED_OBJECTS: Final = 1270  # until the first build has told
_SURROUNDINGS: Final = {"LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": "1767225600"}
# Programs whose versions the configuration, and so the kernel, would record, though nothing uses them.
_ABSENT: Final = ("RUSTC=false", "BINDGEN=false", "PAHOLE=false")
# Rules about how a patch is sent by mail; ours are files of this repository.
_CHECKPATCH_IGNORED: Final = "COMMIT_LOG_LONG_LINE,FILE_PATH_CHANGES,MISSING_SIGN_OFF,NO_AUTHOR_SIGN_OFF"
_REMEDY: Final = "fix what it says and run the same command again: the build continues where it stopped"


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
    """

    folder: Path
    series: str
    copies: tuple[tuple[str, str], ...]
    patches: tuple[str, ...]
    config: str
    target: str
    variables: tuple[str, ...]

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
            patches = sorted(folder.glob(stated["patches"]))
            recipe = cls(
                folder=folder,
                series=stated["series"],
                copies=tuple(
                    (f"{copy['from']}/{name}", f"{copy['to']}/{name}")
                    for copy in stated["copy"]
                    for name in copy["files"]
                ),
                patches=tuple(patch.relative_to(folder).as_posix() for patch in patches),
                config=stated["config"],
                target=stated["target"],
                variables=tuple(stated["make"]["variables"]),
            )
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise LabError(f"the kernel's recipe cannot be read: {error!r}", place=str(path)) from error
        for name in (recipe.config, *(source for source, _ in recipe.copies)):
            if not (folder / name).is_file():
                raise LabError(f"the kernel's recipe names {name}, which is not there", place=str(path))
        return recipe

    def wanted(self) -> dict[str, str]:
        """What the kernel is built from as far as the project states it: every file's hash and place."""
        files = {f"file {to}": file_hash(self.folder / name) for name, to in self.copies}
        config = file_hash(self.folder / self.config)
        return self.tree_wanted() | files | {"config": config}

    def tree_wanted(self) -> dict[str, str]:
        """As `wanted`, without what make itself follows: what a tree with objects can be used again for."""
        named = ((f"patch {at:02d} {name}", name) for at, name in enumerate(self.patches))
        hashes = {key: file_hash(self.folder / name) for key, name in named}
        return hashes | {"series": self.series, "make": " ".join((self.target, *self.variables, *_ABSENT))}


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
    suites: tuple[str, ...],
    locked_version: str | None,
    tarball: Path | None = None,
    jobs: int | None = None,
) -> Entry:
    """Return the kernel for this recipe and source, building it unless it is in the cache.

    The tree with its objects is kept: an interrupted build is continued, and after a change of the driver
    or the configuration only what depends on it is compiled.

    Args:
        cache: Where to build and keep it.
        recipe: What the project adds to the source.
        progress: Where to report.
        suites: The Debian suites that may have its source package.
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
        source = source_from_debian(cache, recipe.package, suites, progress)
    name = source.package_version or source.version
    # The compiler is an input, because another one makes another binary out of the same source, and
    # because an unfinished build must not be continued with it.
    compiler = output_of(["gcc", "--version"]).splitlines()[0]
    linker = output_of(["ld", "--version"]).splitlines()[0]
    found = {"source": name, "source_sha256": source.tarball_sha256, "compiler": compiler, "linker": linker}
    inputs = Inputs(recipe.wanted(), found)
    if (entry := cache.find("kernel", inputs)) is not None:
        return entry
    previous = cache.entries("kernel")
    objects = int(previous[0].manifest.get("objects", _ESTIMATED_OBJECTS)) if previous else _ESTIMATED_OBJECTS
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
            "sha256": file_hash(folder / "linux"),
            "size_bytes": (folder / "linux").stat().st_size,
            "release": (tree / "include/config/kernel.release").read_text().strip(),
            "source": name,
            "locked": name == locked_version,
            "objects": _count_objects(tree),
        }

    return cache.build("kernel", inputs, make)


def prepare_tree(recipe: Recipe, source: Path, tree: Path, log: Path, progress: SetupProgress) -> None:
    """Bring a tree to where it can be compiled, doing only what is not done already.

    Raises:
        LabError: If a patch does not apply, or the kernel's configuration refuses a line of the fragment.
    """
    patched, configured = tree / ".strata-patched", tree / ".strata-configured"
    fragment = recipe.folder / recipe.config
    with progress.step("kernel: copying, patching, configuring") as step:
        if not patched.exists():
            shutil.rmtree(tree, ignore_errors=True)
            copy_tree(source, tree, step)
            for name in recipe.patches:
                step.note(name)
                _apply_patch(recipe, name, tree, log)
            patched.touch()
        _copy_files(recipe, tree)
        digest = file_hash(fragment)
        if not configured.exists() or configured.read_text() != digest:
            step.note("configuring")
            run_logged(
                ["make", *recipe.variables, *_ABSENT, "-s", f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"],
                log=log,
                title="configuring the kernel",
                remedy=_REMEDY,
                cwd=tree,
                environment=build_environment(tree),
            )
            if on := check_config(fragment, tree / ".config"):
                progress.say(f"kernel: on, because other options need them: {', '.join(on)}")
            configured.write_text(digest)


def _apply_patch(recipe: Recipe, name: str, tree: Path, log: Path) -> None:
    run_logged(
        # --fuzz=0: a patch that only nearly fits may mean something else in this version.
        ["patch", "-p1", "--batch", "--forward", "--fuzz=0", "-i", str(recipe.folder / name)],
        log=log,
        title=f"applying {name}",
        remedy=f"the patches are for Linux {recipe.series}; try the version of image/packages.lock",
        cwd=tree,
    )


def _copy_files(recipe: Recipe, tree: Path) -> None:
    """Copy the recipe's files; one that is there with the same content keeps its date, and so its object."""
    for name, place in recipe.copies:
        target = tree / place
        content = (recipe.folder / name).read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # it may be a hard link to the source
        target.write_bytes(content)


def check_config(fragment: Path, config: Path) -> list[str]:
    """Compare the configuration with what the fragment asked for.

    Kconfig drops silently what depends on something that is off.

    Returns:
        The options that were asked to be off and are on, because another one selects them.

    Raises:
        LabError: Naming every option that was asked for and was dropped or changed.
    """
    asked, got = _options(fragment.read_text()), _options(config.read_text())
    differing = {name: got.get(name, "n") for name, value in asked.items() if got.get(name, "n") != value}
    wrong = [
        f"{name}={asked[name]} (it is {value})" for name, value in differing.items() if asked[name] != "n"
    ]
    if wrong:
        raise LabError(
            f"the kernel's configuration does not take {', '.join(wrong)}",
            place=str(fragment),
            remedy="switch on what these options depend on, or remove them",
        )
    return list(differing)


def _options(text: str) -> dict[str, str]:
    lines = re.findall(r"^(?:CONFIG_(\w+)=(.+)|# CONFIG_(\w+) is not set)$", text, re.MULTILINE)
    return {name or unset: value or "n" for name, value, unset in lines}


def compile_tree(
    recipe: Recipe, tree: Path, log: Path, progress: SetupProgress, *, expected_objects: int, jobs: int | None
) -> None:
    """Compile a prepared tree.

    Raises:
        LabError: If the compilation fails.
    """
    jobs = jobs or len(os.sched_getaffinity(0))
    with progress.step(f"kernel: compiling with {jobs} jobs", total=expected_objects) as step:
        step.advance(_count_objects(tree))  # of an earlier build in the same tree

        def count(line: str) -> None:
            if line.startswith(("  CC ", "  AS ")):
                step.advance()
                step.note(line.rsplit(maxsplit=1)[-1])

        run_logged(
            ["make", *recipe.variables, *_ABSENT, f"-j{jobs}", recipe.target],
            log=log,
            title="compiling the kernel",
            remedy=_REMEDY,
            cwd=tree,
            environment=build_environment(tree),
            on_line=count,
        )
    if not (tree / recipe.target).is_file():
        raise LabError("the kernel's build made no executable", place=str(log), remedy=_REMEDY)


def _count_objects(tree: Path) -> int:
    return sum(1 for _ in tree.rglob("*.o"))


def build_environment(tree: Path) -> dict[str, str]:
    """The complete environment of the kernel's build, so that nothing of the user's leaks into the binary.

    The build's folder does not, either: it is compiled in its own tree, by relative paths.
    """
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return {**_SURROUNDINGS, "PATH": path, "HOME": str(tree.parent)}


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
