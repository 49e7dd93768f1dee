# SPDX-License-Identifier: Apache-2.0
"""The tree that the lab's kernel is compiled in: patched, configured, compiled, and kept for next time."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.lab.cache import file_hash
from strata.lab.process import run_logged
from strata.lab.progress import SetupProgress, Step
from strata.lab.recipe import Recipe
from strata.lab.source import copy_tree

_SURROUNDINGS: Final = {"LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": "1767225600"}
RESUME_REMEDY: Final = "fix what it says and run the same command again: the build continues where it stopped"


def prepare_tree(recipe: Recipe, source: Path, tree: Path, log: Path, progress: SetupProgress) -> None:
    """Patch and configure a tree as far as that is not done.

    Raises:
        LabError: If a patch does not apply, or the kernel's configuration refuses a line of the fragment.
    """
    configured = tree / ".strata-configured"
    fragment = recipe.folder / recipe.config
    with progress.step("kernel: copying, patching, configuring") as step:
        _patch(recipe, source, tree, log, step)
        for name, place in recipe.copies:
            _bring(recipe.folder / name, tree / place)
        digest = file_hash(fragment)
        if not configured.exists() or configured.read_text() != digest:
            step.note("configuring")
            options = ("-s", f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig")
            _make(tree, log, "configuring the kernel", *recipe.make_arguments[1:], *options)
            if on := check_config(fragment, tree / ".config"):
                progress.say(f"kernel: on, because other options need them: {', '.join(on)}")
            configured.write_text(digest)


def _patch(recipe: Recipe, source: Path, tree: Path, log: Path, step: Step) -> None:
    """Bring a tree, new or compiled before, to the state of the source with the recipe's patches.

    Only files of the old and new patches are compared, and an unchanged one keeps its date: after a change
    of a patch make compiles only the objects that depend on it.
    """
    record = tree / ".strata-patched"
    digest = " ".join(file_hash(recipe.folder / name) for name in recipe.patches)
    before = record.read_text().splitlines() if record.exists() else []
    if before[:1] == [digest]:
        return
    fresh = tree.with_name("patched")
    shutil.rmtree(fresh, ignore_errors=True)
    step.note("copying the source")
    copy_tree(source, fresh)
    for name in recipe.patches:
        step.note(name)
        run_logged(
            # --fuzz=0: a patch that only nearly fits may mean something else in this version.
            ["patch", "-p1", "--batch", "--forward", "--fuzz=0", "-i", str(recipe.folder / name)],
            log=log,
            title=f"applying {name}",
            remedy=f"the patches are for Linux {recipe.series}; try the version of image/packages.lock",
            cwd=fresh,
        )
    touched = sorted({path for name in recipe.patches for path in patched_files(recipe.folder / name)})
    (fresh / record.name).write_text("\n".join([digest, *touched]) + "\n")
    if not before:  # a new tree, or one whose making was interrupted
        shutil.rmtree(tree, ignore_errors=True)
        fresh.rename(tree)
        return
    paths = sorted({*touched, *before[1:]})
    record.write_text("\n".join(["unfinished", *paths]) + "\n")
    for path in paths:
        _bring(fresh / path, tree / path)
    _bring(fresh / record.name, record)
    shutil.rmtree(fresh)


def patched_files(patch: Path) -> list[str]:
    """The files, relative to the tree, that a patch changes, adds or removes."""
    return sorted(set(re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", patch.read_text(), re.MULTILINE)))


def _bring(new: Path, old: Path) -> None:
    """Make ``old`` equal to ``new``, which may be absent; a file with the same content keeps its date."""
    if not new.is_file():
        old.unlink(missing_ok=True)
    elif not old.is_file() or old.read_bytes() != new.read_bytes():
        old.parent.mkdir(parents=True, exist_ok=True)
        old.unlink(missing_ok=True)  # it may be a hard link to the source
        shutil.copyfile(new, old)


def check_config(fragment: Path, config: Path) -> list[str]:
    """Compare the configuration with the fragment: Kconfig silently drops options with unmet dependencies.

    Returns:
        The options that should be off and are on, because another one selects them.

    Raises:
        LabError: Naming every other option that was dropped or changed.
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
    """Compile a prepared tree."""
    jobs = jobs or len(os.sched_getaffinity(0))
    with progress.step(f"kernel: compiling with {jobs} jobs", total=expected_objects) as step:
        step.advance(count_objects(tree))  # of an earlier build in the same tree
        _make(tree, log, "compiling the kernel", *recipe.make_arguments, f"-j{jobs}", on_line=counter(step))
    if not (tree / recipe.target).is_file():
        raise LabError("the kernel's build made no executable", place=str(log), remedy=RESUME_REMEDY)


def prepare_modules(recipe: Recipe, tree: Path, log: Path) -> None:
    """Make the files that modules outside a compiled tree need: headers, the list of exported symbols."""
    title = "preparing the kernel's tree for modules"
    _make(tree, log, title, *recipe.make_arguments[1:], "modules_prepare")
    shutil.copyfile(tree / "vmlinux.symvers", tree / "Module.symvers")


def _make(
    tree: Path, log: Path, title: str, *arguments: str, on_line: Callable[[str], None] = lambda line: None
) -> None:
    run_logged(
        ["make", *arguments],
        log=log,
        title=title,
        remedy=RESUME_REMEDY,
        cwd=tree,
        environment=build_environment(tree),
        on_line=on_line,
    )


def counter(step: Step) -> Callable[[str], None]:
    """Count the compiled files in make's output."""

    def count(line: str) -> None:
        if line.startswith(("  CC ", "  AS ")):
            step.advance()
            step.note(line.rsplit(maxsplit=1)[-1])

    return count


def count_objects(tree: Path) -> int:
    return sum(1 for _ in tree.rglob("*.o"))


def build_environment(tree: Path) -> dict[str, str]:
    """The complete environment of the kernel's build: nothing of the user's may reach the binary."""
    path = os.environ.get("PATH", "/usr/bin:/bin")
    # -w: looking for what to warn of takes a twentieth of the time.
    return {**_SURROUNDINGS, "PATH": path, "HOME": str(tree.parent), "KCFLAGS": "-w"}
