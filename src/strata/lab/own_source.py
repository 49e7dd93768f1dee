# SPDX-License-Identifier: Apache-2.0
"""The user's source of a kernel: a git tree, as it stands or at a revision, or a tarball.

The hash of its content identifies a git tree, so that revisions with the same files are one source.
Uncommitted files are hashed into a folder of the cache: nothing is written to the user's repository, and
nothing of it is run.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from strata.errors import LabError, ToolError
from strata.lab.cache import Cache, cache_root, file_hash
from strata.model.kernel import Kernel


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
    makefile = git_objects(path, "cat-file", "blob", f"{sha}:Makefile")
    return OwnSource(kernel, sha, kernel_version(makefile, kernel.name))


def git(path: Path, *argv: str) -> str:
    """What git says about the commits of a repository, of which it runs nothing: no hook, no monitor.

    Raises LabError if it fails, ToolError without git.
    """
    return _git(path, argv, {"GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(_objects()))})


def git_objects(path: Path, *argv: str, **more: str) -> str:
    """What git says about a repository's trees and files, without reading its settings.

    Settings name programs: filters for files as they are read or written, among others. This git works in a
    repository of its own, which has the other's objects. Raises what `git` raises.
    """
    objects = _objects()
    objects.mkdir(parents=True, exist_ok=True)
    form = git(path, "rev-parse", "--show-object-format")
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("objects", "refs"):
            (Path(scratch) / name).mkdir()
        (Path(scratch) / "HEAD").write_text("ref: refs/heads/main\n")
        extension = f"\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = {form}\n"
        (Path(scratch) / "config").write_text(f"[core]\n{extension}")
        return _git(
            path,
            argv,
            {
                "GIT_DIR": scratch,
                "GIT_WORK_TREE": str(path),
                "GIT_OBJECT_DIRECTORY": str(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(
                    git(path, "rev-parse", "--path-format=absolute", "--git-path", "objects")
                ),
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_NOSYSTEM": "1",
                **more,
            },
        )


# Settings by which git would run a program, or fetch what a repository lacks, for the commands used here.
_NOTHING_RUN: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.sshCommand": "false",
    "core.pager": "cat",
    "log.showSignature": "false",
    "protocol.allow": "never",
}
_ALONE: Final = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": str(len(_NOTHING_RUN)),
    **{f"GIT_CONFIG_KEY_{at}": key for at, key in enumerate(_NOTHING_RUN)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_NOTHING_RUN.values())},
}


def _git(path: Path, argv: Sequence[str], environment: Mapping[str, str]) -> str:
    # Started by a hook of git's, Strata has variables of another repository, and of git's own settings.
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(path), *argv],
            env={**others, **_ALONE, **environment},
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
            f"git {argv[0]} failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else '?'}",
            place=str(path),
            remedy="name a git tree of Linux and a revision that it has",
        )
    return done.stdout.strip()


def _quoted(path: str) -> str:
    """A path in a list of git's, which separates by colons: in C's quotation marks."""
    return json.dumps(path, ensure_ascii=False)


def _objects() -> Path:
    return cache_root() / "git-objects"


def _tree_now(path: Path) -> str:
    """The hash of a working tree, with its changes and new files that are not committed.

    The index is Strata's own, kept for the dates of unchanged files: git compares no other files.
    """
    kept = hashlib.sha256(os.fsencode(path)).hexdigest()[:20]
    with Cache(cache_root()).locked(f"index-{kept}"):
        index = _objects().with_name("git-indexes") / kept
        index.parent.mkdir(parents=True, exist_ok=True)
        own = partial(git_objects, path, GIT_INDEX_FILE=str(index))
        try:
            head = git(path, "rev-parse", "--verify", "--quiet", "HEAD^{tree}")
        except LabError:  # nothing is committed
            head = None
        if head is not None:  # so that files are known that are ignored and committed all the same
            own("read-tree", *(["--reset"] if index.exists() else []), head)
        for added in (False, True):  # of one that is committed, `add` runs programs
            if added:
                own("add", "--all")
            _refuse_nested(path, index, own("ls-files", "--stage"))
        return own("write-tree")


def _refuse_nested(path: Path, index: Path, staged: str) -> None:
    """Refuse a tree with another repository in it: git would run the programs that its settings name."""
    if nested := [line for line in staged.splitlines() if line.startswith("160000")]:
        index.unlink(missing_ok=True)
        raise LabError(
            f"{nested[0].partition(chr(9))[2]} is another git repository",
            place=str(path),
            remedy="a kernel's source has none: move it away",
        )


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
