# SPDX-License-Identifier: Apache-2.0
"""The agent's folders use one another in one direction, and its files have no circle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parents[2] / "crates/agent/src"
USE: Final = re.compile(r"\bcrate::((?:\w+::)*)(\{[^;]*?\}|\w+)")


def files() -> dict[str, Path]:
    """By their modules' paths, such as ``run::lanes``."""
    paths = (path for path in SOURCE.rglob("*.rs") if path.stem not in ("mod", "main"))
    return {"::".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in paths}


def used(path: Path, modules: set[str]) -> Iterator[str]:
    """The modules that a file names, whole or in braces."""
    for found in USE.finditer(path.read_text()):
        names = re.findall(r"\w+", found[2])
        for text in (found[1].removesuffix("::"), *(found[1] + name for name in names)):
            yield from modules & {text}


def test_folders_are_used_in_the_order_that_main_rs_states() -> None:
    stated = re.search(r"alone: ([a-z, ]+)\.", (SOURCE / "main.rs").read_text())
    assert stated is not None
    order = stated[1].split(", ")
    assert sorted(order) == sorted(path.name for path in SOURCE.iterdir() if path.is_dir())

    modules = files()
    against = [
        f"{user} uses {lower}"
        for user, path in modules.items()
        for lower in used(path, {*modules})
        if "::" in user and order.index(lower.split("::")[0]) > order.index(user.split("::")[0])
    ]
    assert not against


def test_no_file_uses_itself_by_way_of_others() -> None:
    modules = files()
    uses = {user: {*used(path, {*modules})} - {user} for user, path in modules.items()}
    assert sum(map(len, uses.values())) > len(uses)  # the pattern still finds them

    assert len([*TopologicalSorter(uses).static_order()]) == len(modules)  # raises CycleError
