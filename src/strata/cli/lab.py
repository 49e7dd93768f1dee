# SPDX-License-Identifier: Apache-2.0
"""``strata lab``: build, show, enter and remove the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from strata.cli import power_cut
from strata.cli.application import Application, examples
from strata.cli.output import print_json, setup_progress
from strata.cli.parameters import AsJson
from strata.console import Terminal
from strata.lab.cache import KINDS, Cache, Entry, cache_root
from strata.lab.kernel import checkpatch
from strata.lab.lab import caches, ensure_lab, find_entry, find_lab, parts
from strata.lab.model import model_wanted
from strata.lab.progress import console_progress
from strata.lab.recipe import Recipe, project_root
from strata.lab.upkeep import clean_caches, refresh_lock
from strata.printable import json_text
from strata.report.table import Cell, Table, columns, terminal
from strata.units import format_size

lab = Application(
    no_args_is_help=True,
    help="""Build, show, enter and remove the lab.

Its parts: kernel, groups of kernel modules, root image, agent, load generator. Modules and load generator
are also built when a study first needs them.""",
    epilog=examples(
        "strata lab build", "strata lab status", "strata lab shell studies/quickstart.toml --stack xfs"
    ),
)


@lab.command(
    epilog=examples("strata lab status", "strata lab status --json | jq -r .fingerprint.kernel_sha256")
)
def status(
    as_json: AsJson = False,
) -> None:
    """Show what is built, from what, and whether it is current."""
    shown = _status()
    if as_json:
        print_json(shown)
        return
    console = Terminal()
    rows: list[tuple[Any, ...]] = [
        (row["kind"], row["state"], row["what"], row["sha256"][:12], row["size_bytes"], row["path"])
        for row in shown["entries"]
    ]
    rows += [(part, Cell("missing", tone="bad"), "", "", "", "") for part in shown["missing"]]
    heads = columns("part", "state", "what", "SHA-256", ("size", "B"), "folder")
    console.print(terminal(Table(heads, rows)))
    for line in shown["unlocked"]:
        console.print(f"not the version that the project is tested with: {line}", markup=False)
    if shown["missing"]:
        console.print("to build what is missing: strata lab build")


def _status() -> dict[str, Any]:
    root = project_root()
    current = {part: find_entry(part, root) for part in parts(root)}
    model = Cache(cache_root()).current("model", model_wanted(root))
    used = {(entry.kind, entry.key): entry.path for entry in (*current.values(), model) if entry is not None}
    rows = [_row(entry, used) for cache in caches() for kind in KINDS for entry in cache.entries(kind)]
    found = find_lab()
    return {
        "ready": found is not None,
        "missing": [part for part, entry in current.items() if entry is None],
        "fingerprint": None if found is None else vars(found.fingerprint),
        "unlocked": [] if found is None else list(found.unlocked),
        "entries": rows,
    }


def _row(entry: Entry, used: dict[tuple[str, str], Path]) -> dict[str, Any]:
    made = entry.manifest
    what = {
        "source": f"Linux {made.get('version')}",
        "kernel": f"Linux {made.get('release')}",
        "module-source": f"{entry.inputs.wanted.get('package')} {made.get('version')}",
        "modules": f"{entry.inputs.wanted.get('group')} {made.get('source')}",
        "image": f"{len(made.get('packages', {}))} packages",
        "agent": " ".join(str(made.get("compiler")).split()[:2]),
        "load": " ".join(str(made.get("compiler")).split()[:2]),
        "model": "the disk models for user space",
        "input": entry.inputs.wanted.get("source", "an archive, unpacked"),
    }[entry.kind]
    place = used.get((entry.kind, entry.key))
    if entry.kind == "input" or entry.kind.endswith("source"):
        state = "kept"  # for another kernel, other modules, or a study that reads it
    elif place is None:
        state = "stale"
    else:
        state = "current" if place == entry.path else "copy"
    return {
        "kind": entry.kind,
        "state": state,
        "what": what,
        "sha256": made.get("sha256") or made.get("tarball_sha256", ""),
        "size_bytes": entry.size_bytes,
        "path": str(entry.path),
        "locked": made.get("locked"),
    }


@lab.command(
    epilog=examples(
        "strata lab build",
        "strata lab build --source linux-7.2.3.tar.xz",
        "strata lab build --only kernel --jobs 8",
    )
)
def build(
    source: Annotated[
        Path | None,
        typer.Option(metavar="TARBALL", help="The kernel's source, instead of Debian's package."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Compilers at once; by default one per CPU.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Build only this part; repeatable. See `strata lab status`."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="What there is then, as `strata lab status` has it.")
    ] = False,
) -> None:
    """Build what is missing or stale of the lab.

    Current parts are left alone. After an interruption the build continues where it stopped. When root
    builds, every user of the machine can use the result.
    """
    known = parts(project_root())
    chosen = tuple(part for part in known if not only or part in only)
    if unknown := sorted(set(only or ()) - set(known)):
        raise typer.BadParameter(f"{', '.join(unknown)}: the parts are {', '.join(known)}")
    progress = setup_progress()
    found = ensure_lab(progress, source=source.absolute() if source else None, jobs=jobs, only=chosen)
    if as_json:
        print_json(_status())
        return
    if found is None:
        missing = ", ".join(_status()["missing"])
        progress.say(f"lab: built {', '.join(chosen)}; still missing: {missing}")
        return
    for line in found.unlocked:
        progress.say(f"lab: not the version that the project is tested with: {line}")
    hashes = ", ".join(
        f"{name.removesuffix('_sha256')} {sha[:12]}" for name, sha in vars(found.fingerprint).items()
    )
    others = [*found.modules, *(["load"] if found.load else [])]
    progress.say(f"lab: ready ({hashes}; built as well: {', '.join(others) or 'nothing'})")


@lab.command(epilog=examples("strata lab clean", "strata lab clean --all"))
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also current parts, the kernel's source and the logs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete outdated parts and build leftovers from the caches."""
    freed_bytes = clean_caches(everything=everything)
    print(json_text({"freed_bytes": freed_bytes}) if as_json else f"freed {format_size(freed_bytes)}")


@lab.command(hidden=True)
def lock(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the locked versions that the mirror still has.")
    ] = False,
) -> None:
    """Rewrite image/packages.lock from what the Debian mirror has now (`make lock`)."""
    print(f"wrote {refresh_lock(console_progress(), keep=keep)}")


@lab.command("checkpatch", hidden=True)
def check_kernel_style() -> None:
    """Run the kernel's own style checker over kernel/ (`make lint`)."""
    found = checkpatch(Cache(cache_root()), Recipe.read(project_root() / "kernel"))
    for line in found or ():
        print(line)
    # Its warnings are only questions to the author ("possible", "usually").
    raise typer.Exit(1 if any(" ERROR: " in line for line in found or ()) else 0)


@lab.command(
    epilog=examples(
        "strata lab shell",
        "strata lab shell studies/quickstart.toml --stack xfs",
        "strata lab shell --device wd-re4-500gb",
    )
)
def shell(
    study: Annotated[
        Path | None, typer.Argument(help="A study file, for its disks.", metavar="STUDY")
    ] = None,
    stack: Annotated[str | None, typer.Option(metavar="NAME", help="Build this stack of the study.")] = None,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="One disk of this model, without a study.")
    ] = None,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="In virtual time, as in a trial: waiting takes no time.")
    ] = False,
) -> None:
    """Open a shell inside a lab, on modelled disks.

    Everything written there is lost when the shell ends.
    """
    from strata.lab.shell import open_shell  # noqa: PLC0415  no other command needs it

    raise typer.Exit(open_shell(study=study, stack=stack, device=device, virtual=virtual))


lab.command("power-cut", epilog=examples(*power_cut.EXAMPLES))(power_cut.power_cut)
