# SPDX-License-Identifier: Apache-2.0
"""The user's source of a kernel: a git tree, as it stands or at a revision, or a tarball.

The hash of its content identifies a git tree, so that revisions with the same files are one source.
Uncommitted files are hashed into a folder of the cache: nothing is written to the user's repository.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import LabError, ToolError
from strata.lab.cache import cache_root, file_hash
from strata.spec.kernel import Kernel
from strata.words import beginning_and_end

_OF_REPOSITORY: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


@dataclass(frozen=True)
class OwnSource:
    """A source and the hash of its content: of a git tree, or of a tarball."""

    kernel: Kernel
    sha: str
    version: str  # of Linux

    @property
    def path(self) -> Path:
        assert self.kernel.path is not None
        return self.kernel.path


@functools.cache
def own_source(kernel: Kernel) -> OwnSource:
    """The source at a kernel's path as it is now, once for all trials of a run.

    Raises LabError if it cannot be read.
    """
    path = kernel.path
    assert path is not None
    if path.is_file():
        if (found := re.search(r"linux-(?:source-)?(\d+\.\d+)", path.name)) is None:
            raise LabError("its name has no version", place=str(path), remedy="call it linux-VERSION.tar.xz")
        return OwnSource(kernel, file_hash(path), found[1])
    sha = (
        _tree_now(path) if kernel.revision is None else git(path, "rev-parse", f"{kernel.revision}^{{tree}}")
    )
    return OwnSource(kernel, sha, kernel_version(git(path, "show", f"{sha}:Makefile"), kernel.name))


def git(path: Path, *argv: str, **environment: str) -> str:
    """What git says about a repository. Raises LabError if it fails, ToolError without git."""
    named = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(_objects()), **environment}
    # Started by a hook of git's, Strata has variables of another repository.
    others = {name: value for name, value in os.environ.items() if name not in _OF_REPOSITORY}
    try:
        done = subprocess.run(
            ["git", "-C", str(path), *argv],
            env={**others, **named},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolError("git is missing", remedy="install the package git") from error
    if done.returncode != 0:
        raise LabError(
            f"git {argv[0]} failed: {beginning_and_end(done.stderr, 300, ' ') or '?'}",
            place=str(path),
            remedy="name a git tree of Linux and a revision that it has",
        )
    return done.stdout.strip()


def _objects() -> Path:
    return cache_root() / "git-objects"


def _tree_now(path: Path) -> str:
    """The hash of a working tree, with its changes and new files that are not committed."""
    objects = _objects()
    objects.mkdir(parents=True, exist_ok=True)
    known = Path(git(path, "rev-parse", "--absolute-git-dir"))
    with tempfile.TemporaryDirectory() as scratch:
        index = Path(scratch) / "index"
        if (known / "index").is_file():
            # With its date: git compares the content of files that are as new as the index.
            shutil.copy2(known / "index", index)
        written = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": git(
                path, "rev-parse", "--path-format=absolute", "--git-path", "objects"
            ),
        }
        git(path, "add", "--all", **written)
        return git(path, "write-tree", **written)


def kernel_version(makefile: str, place: str) -> str:
    """The version that a kernel's top Makefile states."""
    found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", makefile[:2000], re.MULTILINE))
    if found.keys() != {"VERSION", "PATCHLEVEL", "SUBLEVEL"}:
        raise LabError(
            "this is not the source of a Linux kernel",
            place=place,
            remedy="give a tarball with the kernel's top Makefile in its only folder, or a git tree",
        )
    return f"{found['VERSION']}.{found['PATCHLEVEL']}.{found['SUBLEVEL']}"
