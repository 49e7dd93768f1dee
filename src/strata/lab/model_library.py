# SPDX-License-Identifier: Apache-2.0
"""The build of the disk models as a library for user space, from the kernel's sources."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError, ToolError
from strata.lab.cache import Cache, Inputs, file_hash, tree_hashes

FOLDER: Final = Path("kernel") / "disk"
_FILE: Final = "libstratadisk.so"
_FLAGS: Final = ("-O2", "-g", "-std=gnu11", "-fPIC", "-shared")


def model_wanted(project: Path) -> dict[str, str]:
    """The project's inputs of the library: every file's hash, and the flags."""
    folder = project / FOLDER
    files = [*_sources(folder), *sorted(folder.glob("*.h"))]
    return {**tree_hashes(folder, *files), "flags": " ".join(_FLAGS)}


def _sources(folder: Path) -> list[Path]:
    makefile = folder / "Makefile"
    found = re.search(r"^SOURCES\s*:?=((?:[^\n\\]|\\\n)*)", makefile.read_text(), re.MULTILINE)
    names = found[1].replace("\\\n", " ").split() if found else []
    if not names:
        raise LabError("it does not state the library's SOURCES", place=str(makefile))
    return [folder / name for name in names]


def build_model(cache: Cache, project: Path) -> Path:
    """The library for the project's sources, compiling it unless it is in the cache.

    Raises:
        ToolError: If there is no C compiler.
        LabError: If the sources do not compile.
    """
    now = model_wanted(project)
    entry = cache.current("model", now)
    if entry is None or not (entry.path / _FILE).is_file():
        compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
        if compiler is None:
            raise ToolError(
                "the disk models must be compiled, and there is no C compiler",
                remedy="apt-get install --no-install-recommends gcc libc6-dev",
            )
        inputs = Inputs(now, {"compiler": _version(compiler)})
        entry = cache.build("model", inputs, lambda to: _compile(compiler, project / FOLDER, to))
    return entry.path / _FILE


def _version(compiler: str) -> str:
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return said.splitlines()[0] if said else compiler


def _compile(compiler: str, folder: Path, staging: Path) -> dict[str, Any]:
    made = staging / _FILE
    argv = [compiler, *_FLAGS, "-o", str(made), *(path.name for path in _sources(folder))]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
        raise LabError(
            f"the disk models do not compile: {first}",
            place=str(folder),
            remedy=f"`make -C {folder}` shows all of it",
        )
    return {"sha256": file_hash(made), "size_bytes": made.stat().st_size}
