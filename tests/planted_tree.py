# SPDX-License-Identifier: Apache-2.0
"""A git tree of Linux, made of the lab's own source, in which one commit among others makes ext4 slower."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

PLANTED: Final = "ext4: flush before the journal is committed, too"
_FLUSH: Final = (
    "\tret = ext4_fsync_journal(inode, datasync, &needs_barrier);\n",
    "\tblkdev_issue_flush(inode->i_sb->s_bdev);\n",
)
# Each other commit adds a comment to the next of these; every eighth adds instructions to fsync.
_FILES: Final = ("fs/ext4/inode.c", "fs/xfs/xfs_file.c", "mm/filemap.c", "block/bio.c", "fs/btrfs/file.c")
_CHECK: Final = (
    "\treturn vfs_fsync_range(file, 0, LLONG_MAX, datasync);\n",
    "\tif (unlikely(datasync == {}))\n\t\treturn -EIO;\n",
)


def git(tree: Path, *argv: str) -> str:
    """What git says, of an author and a date that are the same everywhere."""
    who = {
        f"GIT_{role}_{what}": each
        for role in ("AUTHOR", "COMMITTER")
        for what, each in (
            ("NAME", "a developer"),
            ("EMAIL", "developer@example.org"),
            ("DATE", "@1767225600 +0000"),
        )
    }
    done = subprocess.run(
        ["git", *argv], cwd=tree, env={**os.environ, **who}, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def planted_tree(source: Path, tree: Path, *, commits: int, at: int) -> str:
    """Make the tree, with ``commits`` of which number ``at`` is the planted one; returns its hash."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(tree)], check=True)
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "--message", "Linux")
    git(tree, "tag", "base")
    planted = ""
    for number in range(1, commits + 1):
        if number == at:
            _insert(tree / "fs/ext4/fsync.c", *_FLUSH)
            subject = PLANTED
        elif number % 8 == 0:
            _insert(tree / "fs/sync.c", _CHECK[0], _CHECK[1].format(1000 + number))
            subject = f"fs: refuse another kind of fsync ({number})"
        else:
            path = tree / _FILES[number % len(_FILES)]
            path.write_text(f"{path.read_text()}\n/* {number} */\n")
            subject = f"a comment ({number})"
        git(tree, "commit", "--quiet", "--all", "--message", subject)
        planted = git(tree, "rev-parse", "HEAD") if number == at else planted
    return planted


def _insert(path: Path, before: str, text: str) -> None:
    """Put text before a line that occurs once."""
    content = path.read_text()
    assert content.count(before) == 1, (path, before)
    path.write_text(content.replace(before, text + before))
