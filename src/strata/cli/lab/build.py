# SPDX-License-Identifier: Apache-2.0
"""``strata lab build``: build what is missing or stale of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.bundled import project_root
from strata.cli.lab.show import lab_status
from strata.cli.output import print_json, setup_progress
from strata.cli.parameters import option
from strata.lab.lab import ensure_lab, parts


def build(
    source: Annotated[Path | None, option("The kernel's source, not Debian's package.", "TARBALL")] = None,
    jobs: Annotated[int | None, option("Compilers at once; by default one per CPU.", min=1)] = None,
    only: Annotated[
        list[str] | None, option("Build only this part; repeatable. See `strata lab show`.", "PART")
    ] = None,
    as_json: Annotated[bool, option("What there is then, as `strata lab show` has it.", "--json")] = False,
) -> None:
    """Build what is missing or stale of the lab.

    Current parts are left alone. After an interruption the build continues where it stopped. When root
    builds, every user of the machine can use the result.

    Examples:
        strata lab build
        strata lab build --source linux-7.2.3.tar.xz
        strata lab build --only kernel --jobs 8
    """
    known = parts(project_root())
    chosen = tuple(part for part in known if not only or part in only)
    if unknown := sorted(set(only or ()) - set(known)):
        raise typer.BadParameter(f"{', '.join(unknown)}: the parts are {', '.join(known)}")
    progress = setup_progress()
    found = ensure_lab(progress, source=source.absolute() if source else None, jobs=jobs, only=chosen)
    if as_json:
        print_json(lab_status())
        return
    if found is None:
        missing = ", ".join(lab_status()["missing"])
        progress.say(f"lab: built {', '.join(chosen)}; still missing: {missing}")
        return
    for line in found.unlocked:
        progress.say(f"lab: not the version that the project is tested with: {line}")
    hashes = ", ".join(
        f"{name.removesuffix('_sha256')} {sha[:12]}" for name, sha in vars(found.fingerprint).items()
    )
    others = [*found.modules, *(["load"] if found.load else [])]
    progress.say(f"lab: ready ({hashes}; built as well: {', '.join(others) or 'nothing'})")
