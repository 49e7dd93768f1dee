# SPDX-License-Identifier: Apache-2.0
"""Runs cargo on a copy of the crates in the cache, so that a fresh clone compiles only what has changed.

Cargo compares the times of files, not their content: it would compile every file of a fresh clone anew, and
take another work tree's build, if that is younger, for its own.

    scripts/cargo.py test --workspace
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import platformdirs

ROOT = Path(__file__).resolve().parents[1]
# `bench/load/visit.toml` is included by a test.
SOURCES = ("Cargo.toml", "Cargo.lock", "crates", "bench/load/visit.toml")


def contents(root: Path) -> dict[Path, bytes]:
    """The sources of the crates in a work tree or in its copy, by their paths there."""
    below = (path for each in SOURCES for path in (root / each, *(root / each).rglob("*")))
    return {path.relative_to(root): path.read_bytes() for path in below if path.is_file()}


def update(copy: Path, wanted: dict[Path, bytes]) -> None:
    """Bring a copy up to date; a file that has not changed keeps its time."""
    present = contents(copy)
    for path in present.keys() - wanted.keys():
        (copy / path).unlink()
    for path, content in wanted.items():
        if present.get(path) != content:
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(content)


def main() -> int:
    """Run cargo with the given words. Work trees that differ take turns."""
    cache = Path(os.environ.get("STRATA_CACHE") or platformdirs.user_cache_dir("strata")) / "crates"
    copy, wanted = cache / "copy", contents(ROOT)
    copy.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        while contents(copy) != wanted:
            fcntl.flock(lock, fcntl.LOCK_EX)
            update(copy, wanted)
            fcntl.flock(lock, fcntl.LOCK_SH)  # lets go for a moment: another may have changed it
        environment = {**os.environ, "CARGO_TARGET_DIR": str(cache / "target")}
        return subprocess.run(["cargo", *sys.argv[1:]], cwd=copy, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
