# SPDX-License-Identifier: Apache-2.0
"""The lab's kernel: Linux for ``ARCH=um`` with the modelled disk, built once per content of its inputs.

The tree that it is compiled in (patched, configured) is kept for the next build and for modules.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from strata.errors import LabError
from strata.lab.cache import Build, Cache, Entry, Inputs, file_hash, is_sound
from strata.lab.confined import can_confine, confined, copy_from, refuse_strange, require_confinement
from strata.lab.process import output_of, run_logged
from strata.lab.progress import ProgressStep
from strata.lab.recipe import Recipe
from strata.lab.source import (
    Workshop,
    copy_tree,
    source_from_debian,
    source_from_tarball,
    source_of_user,
)

_ESTIMATED_OBJECTS: Final = 1100  # before the first build
# Rules about how a patch is sent by mail; ours are files of this repository.
_CHECKPATCH_IGNORED: Final = "COMMIT_LOG_LONG_LINE,FILE_PATH_CHANGES,MISSING_SIGN_OFF,NO_AUTHOR_SIGN_OFF"


@dataclass(frozen=True)
class KernelBuild(Build):
    FILE: ClassVar[str] = "linux"
    release: str  # the answer of ``uname -r`` in the lab
    source: str  # the source's version: the Debian package's, or the kernel's for a tarball
    locked: bool  # whether the source is the version that ``image/packages.lock`` names


def build_kernel(shop: Workshop, tarball: Path | None = None) -> Entry:
    """Return the kernel for this recipe and source, building it unless it is in the cache.

    The tree with its objects is kept: an interrupted build is continued, and after a change of a patch, the
    driver or the configuration only what depends on it is compiled.
    """
    recipe = shop.recipe
    if tarball is not None:
        require_confinement(tarball)
        source = source_from_tarball(shop, tarball)
    elif recipe.own is not None:
        require_confinement(recipe.own.path)
        source = source_of_user(shop, recipe.own)
    else:
        source = source_from_debian(shop)
    name = source.manifest["package_version"] or source.manifest["version"]
    found = {"source": name, "source_sha256": source.manifest["tarball_sha256"], **_toolchain()}
    if recipe.machine:
        default = source_from_debian(replace(shop, recipe=Recipe.read(recipe.folder)))
        found["machine_sha256"] = default.manifest["tarball_sha256"]
    inputs = Inputs(recipe.wanted(), found)

    def make(folder: Path) -> Mapping[str, Any]:
        with _compiled_tree(shop, found, shop.cache.log("kernel", inputs)) as tree:
            executable = folder / "linux"
            copy_from(tree, recipe.target, executable)
            executable.chmod(0o755)
            copy_from(tree, ".config", folder / "config")
            copy_from(tree, "include/config/kernel.release", folder / "release")
            return {
                "sha256": file_hash(executable),
                "size_bytes": executable.stat().st_size,
                "release": (folder / "release").read_text(errors="replace").strip(),
                "objects": count_objects(tree),
                "source": name,
                "locked": name == shop.locked.get(recipe.package),
                "interface": Inputs(recipe.interface_wanted(), found).key,
            }

    return shop.cache.build("kernel", inputs, make)


def interface_of(kernel: Entry) -> str:
    """The hash of a kernel's source, patches, options and compiler, for which its modules must be built."""
    return str(kernel.manifest["interface"])


def kernel_tree(shop: Workshop, kernel: Entry, log: Path) -> contextlib.AbstractContextManager[Path]:
    """The tree in which the current kernel was compiled, for its modules; it is made again if it is gone."""
    return _compiled_tree(shop, kernel.inputs.found, log)


@contextlib.contextmanager
def _compiled_tree(shop: Workshop, found: Mapping[str, str], log: Path) -> Iterator[Path]:
    sources = [
        _source_of(shop.cache, found[key]) for key in ("source_sha256", "machine_sha256") if key in found
    ]
    previous = shop.cache.entries("kernel")
    objects = int(previous[0].manifest.get("objects", _ESTIMATED_OBJECTS)) if previous else _ESTIMATED_OBJECTS
    recipe, name = shop.recipe, _tree_name(shop.recipe)
    if recipe.own is not None:  # one tree for all its revisions
        name, found = "own-kernel-tree", {key: found[key] for key in found if not key.startswith("source")}
        found["of"] = str(recipe.own.path)  # no source's build continues what another's has made
    with shop.cache.kept_work(name, Inputs(recipe.tree_wanted(), found)) as work:
        tree = work / "linux"
        if recipe.own is not None and not tree.exists():
            _begin_as_default(shop, tree, found)
        _prepare(shop, [each.path / "linux" for each in sources], tree, log)
        _compile(shop, tree, log, expected_objects=objects)
        yield tree


def _tree_name(recipe: Recipe) -> str:
    return f"{recipe.series}-kernel-tree" if recipe.machine else "kernel-tree"


def _begin_as_default(shop: Workshop, tree: Path, found: Mapping[str, str]) -> None:
    """Copy the tree in which Debian's source of the same version was compiled, if it is there.

    Most of it need not be compiled again for a tree of the user's.
    """
    for kernel in shop.cache.entries("kernel"):
        wanted, known = kernel.inputs.wanted, kernel.inputs.found
        alike = wanted.get("series") == shop.recipe.series and "own" not in wanted
        key = Inputs(shop.recipe.tree_wanted(), known).key
        compiled = shop.cache.root / "work" / f"{_tree_name(shop.recipe)}-{key}" / "linux"
        if alike and (found.items() - {("of", found["of"])}) <= known.items() and compiled.is_dir():
            copy = tree.with_name("copy")
            shutil.rmtree(copy, ignore_errors=True)
            with (
                shop.cache.locked(compiled.parent.name),
                shop.progress.step("kernel: copying a compiled tree"),
            ):
                output_of(["cp", "-a", "--reflink=auto", str(compiled), str(copy)])
            copy.rename(tree)
            if _configured(compiled).exists():
                shutil.copyfile(_configured(compiled), _configured(tree))
            return


def has_source(cache: Cache, kernel: Entry) -> bool:
    """Whether the source of a kernel is there, so that its tree can be made."""
    wanted = kernel.inputs.found.get("source_sha256")
    return any(each.manifest["tarball_sha256"] == wanted for each in cache.entries("source"))


def _source_of(cache: Cache, sha256: str) -> Entry:
    for entry in cache.entries("source"):
        if entry.manifest["tarball_sha256"] == sha256 and is_sound(entry):
            return entry
    raise LabError(
        "the source of the lab's kernel is no longer there",
        place=str(cache.root / "source"),
        remedy="run `strata lab remove --all`, then `strata lab build`, which fetches it again",
    )


def _toolchain() -> dict[str, str]:
    """Compiler and linker: others make another binary, and must not continue an unfinished build."""
    return {
        "compiler": output_of(["gcc", "--version"]).splitlines()[0],
        "linker": output_of(["ld", "--version"]).splitlines()[0],
    }


def checkpatch(cache: Cache, recipe: Recipe) -> list[str] | None:
    """The findings of the kernel's style checker in the recipe's files; None without a kernel source."""
    sources = [
        each for each in cache.entries("source") if each.inputs.wanted.get("package") == recipe.package
    ]
    if not sources:
        return None
    tree = sources[0].path / "linux"
    found = []
    # A plugin of GCC is C++.
    copied = {name for name, _ in recipe.copies if re.search(r"(?<!_plugin)\.[ch]$", name)}
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


_SURROUNDINGS: Final = {"LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": "1767225600"}
RESUME_REMEDY: Final = "fix what it says and run the same command again: the build continues where it stopped"


def _prepare(shop: Workshop, sources: Sequence[Path], tree: Path, log: Path) -> None:
    """Patch and configure a tree as far as that is not done."""
    recipe, configured = shop.recipe, _configured(tree)
    fragment = tree.with_name("fragment")
    if tree.exists():
        _discard_strange(tree)  # an earlier build may have left anything in it
    with shop.progress.step("kernel: copying, patching, configuring") as step:
        _patch(recipe, sources, tree, log, step)
        for name, place in recipe.copies:
            _bring(recipe.folder / name, tree / place)
        fragment.write_text("".join((recipe.folder / name).read_text() for name in recipe.configs))
        digest = file_hash(fragment)
        if not configured.exists() or configured.read_text() != digest:
            step.note("configuring")
            options = ("-s", f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig")
            run_in(tree, log, "configuring the kernel", "make", *recipe.make_arguments[1:], *options)
            if on := check_config(fragment, tree / ".config"):
                shop.progress.say(f"kernel: on, because other options need them: {', '.join(on)}")
            configured.write_text(digest)


def _configured(tree: Path) -> Path:
    """The hash of the options that a tree is configured with, beside it, where its programs cannot write."""
    return tree.with_name(".strata-configured")


def _discard_strange(tree: Path) -> None:
    try:
        refuse_strange(tree)
    except LabError:
        shutil.rmtree(tree)
        raise


def _patch(recipe: Recipe, sources: Sequence[Path], tree: Path, log: Path, step: ProgressStep) -> None:
    """Bring a tree, new or compiled before, to the state of the source with the recipe's patches.

    An unchanged file keeps its date: after a change of a patch, or of the source, make compiles only the
    objects that depend on it. Most files are one with those of the source, and need no comparison.
    """
    record = tree / ".strata-patched"
    digest = " ".join([*map(str, sources), *(file_hash(recipe.folder / name) for name in recipe.patches)])
    before = record.read_text().splitlines() if record.exists() else []
    if before[:1] == [digest]:
        return
    fresh = tree.with_name("patched")
    shutil.rmtree(fresh, ignore_errors=True)
    step.note("copying the source")
    copy_tree(sources[0], fresh)
    for folder in recipe.machine:
        shutil.rmtree(fresh / folder)
        copy_tree(sources[1] / folder, fresh / folder)
    for name in recipe.patches:
        step.note(name)
        apply_patch(recipe, name, fresh, log, f"Linux {recipe.series}")
    files = {path.relative_to(fresh).as_posix(): path for path in fresh.rglob("*") if path.is_file()}
    (fresh / record.name).write_text("\n".join([digest, *sorted(files)]) + "\n")
    if not before:  # a new tree, or one whose making was interrupted
        shutil.rmtree(tree, ignore_errors=True)
        _configured(tree).unlink(missing_ok=True)
        fresh.rename(tree)
        return
    record.write_text("\n".join(["unfinished", *sorted({*files, *before[1:]})]) + "\n")
    for path in sorted({*files, *before[1:]}):
        _bring(fresh / path, tree / path)
    _bring(fresh / record.name, record)
    shutil.rmtree(fresh)


def _bring(new: Path, old: Path) -> None:
    """Make ``old`` equal to ``new``, which may be absent; a file with the same content keeps its date."""
    if not new.is_file():
        old.unlink(missing_ok=True)
    elif not old.is_file() or not (old.samefile(new) or old.read_bytes() == new.read_bytes()):
        old.parent.mkdir(parents=True, exist_ok=True)
        old.unlink(missing_ok=True)  # it may be a hard link to the source
        shutil.copyfile(new, old)


def check_config(fragment: Path, config: Path) -> list[str]:
    """Refuse a configuration without an option of the fragment: Kconfig silently drops unmet ones.

    Returns the options that should be off and are on, because another one selects them.
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


def _compile(shop: Workshop, tree: Path, log: Path, *, expected_objects: int) -> None:
    recipe, jobs = shop.recipe, shop.jobs
    with shop.progress.step(f"kernel: compiling with {jobs} jobs", total=expected_objects) as step:
        step.advance(count_objects(tree))  # of an earlier build in the same tree
        argv = ("make", *recipe.make_arguments, f"-j{jobs}")
        run_in(tree, log, "compiling the kernel", *argv, on_line=counter(step))
    if not (tree / recipe.target).is_file():
        raise LabError("the kernel's build made no executable", place=str(log), remedy=RESUME_REMEDY)


def prepare_modules(recipe: Recipe, tree: Path, log: Path) -> None:
    """Make the files that modules outside a compiled tree need: headers, the list of exported symbols."""
    title = "preparing the kernel's tree for modules"
    run_in(tree, log, title, "make", *recipe.make_arguments[1:], "modules_prepare")
    run_in(tree, log, title, "cp", "vmlinux.symvers", "Module.symvers")


def run_in(
    tree: Path,
    log: Path,
    title: str,
    *argv: str,
    remedy: str = RESUME_REMEDY,
    environment: Mapping[str, str] = MappingProxyType({}),
    on_line: Callable[[str], None] = lambda line: None,
    others: Sequence[Path] = (),
    ours: bool = False,
) -> None:
    """Run a program of a build in its tree, in the build's own environment and these variables.

    It is confined to the tree and ``others`` that it may write to, and to the files beside them, unless it is
    ``ours``: no program of the source's.
    """
    # The complete environment of the kernel's build: nothing of the user's may reach the binary.
    # -w: looking for what to warn of takes a twentieth of the time.
    path = os.environ.get("PATH", "/usr/bin:/bin")
    own = {**_SURROUNDINGS, "PATH": path, "HOME": str(tree.parent), "KCFLAGS": "-w", **environment}
    trees = (tree, *others)
    free = (
        ours or not can_confine()
    )  # of `require_confinement` other sources than the project's get no further
    within = () if free else confined(cwd=tree, writable=trees, readable=[each.parent for each in trees])
    run_logged(
        argv,
        log=log,
        title=title,
        remedy=remedy,
        cwd=tree,
        environment=own,
        on_line=on_line,
        within=within,
    )


def apply_patch(recipe: Recipe, name: str, tree: Path, log: Path, made_for: str) -> None:
    """Apply a patch exactly: one that only nearly fits may mean something else in another version."""
    path, text = tree.with_name("applied.patch"), recipe.patch(name)
    if "\n@@ " not in text:  # it is for other versions only
        return
    path.write_text(text)
    options = ("-p1", "--batch", "--forward", "--fuzz=0", "-i", str(path))
    remedy = f"the patches are for {made_for}; try "
    remedy += "the version of image/packages.lock" if recipe.own is None else "a source that is nearer to it"
    run_in(tree, log, f"applying {name}", "patch", *options, remedy=remedy, ours=True)


def counter(step: ProgressStep) -> Callable[[str], None]:
    """Count the compiled files in make's output."""

    def count(line: str) -> None:
        if line.startswith(("  CC ", "  AS ")):
            step.advance()
            step.note(line.rsplit(maxsplit=1)[-1])

    return count


def count_objects(tree: Path) -> int:
    return sum(1 for _ in tree.rglob("*.o"))
