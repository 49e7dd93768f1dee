# SPDX-License-Identifier: Apache-2.0
"""Strata's files besides its code: devices, processors, applications, studies, the sources of the lab.

In a clone they lie in its root; a wheel has them beside this module (``sources`` in ``pyproject.toml``).
"""

from __future__ import annotations

import functools
from importlib.resources import files
from pathlib import Path

from strata.errors import ToolError


@functools.cache
def project_root() -> Path:
    """The folder of ``devices/``, ``studies/``, ``kernel/`` and the others; it is only read."""
    here = Path(str(files(__name__)))
    return here if (here / "kernel").is_dir() else here.parents[2]


def clone_root(doing: str) -> Path:
    """The root of the clone that this program is run from; without one a ToolError: ``doing`` needs it."""
    root = project_root()
    if root.is_relative_to(Path(str(files("strata")))):
        raise ToolError(
            f"{doing} needs a clone of the project, and this is an installation",
            place=str(root),
            remedy="run it in a clone, by the `.venv/bin/strata` that `make setup` makes",
        )
    return root


def study_path(text: str) -> Path:
    """The study file of this path; if there is none, the bundled one of this name or path.

    >>> study_path("quickstart").name
    'quickstart.toml'
    """
    studies = project_root() / "studies"
    for file in [] if Path(text).exists() else sorted(studies.rglob("*.toml")):
        if text in (file.name.removesuffix(".toml"), file.relative_to(studies.parent).as_posix()):
            return file
    return Path(text)
