# SPDX-License-Identifier: Apache-2.0
"""``strata lab``: build, show, enter and remove the lab."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from strata.cli.application import Application
from strata.cli.output import notes, print_json, setup_progress, stdout
from strata.cli.parameters import AsJson, StudyFile, argument, chosen_cell, option
from strata.console import Terminal
from strata.execution.power import CutResult, Phase, cut_and_recover
from strata.lab.cache import KINDS, Cache, Entry, cache_root, is_sound
from strata.lab.disk_image import PowerCut
from strata.lab.folder import run_root
from strata.lab.kernel import checkpatch
from strata.lab.lab import Project, caches, ensure_lab, find_entry, find_lab, parts, require_lab
from strata.lab.model import model_wanted
from strata.lab.progress import console_progress
from strata.lab.recipe import Recipe, project_root
from strata.lab.upkeep import clean_caches, refresh_lock
from strata.model.kernel import KERNELS, Kernel
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.report.table import Cell, Table, columns, terminal
from strata.runners.base import Progress
from strata.runners.lab import LabRunner
from strata.units import format_duration, format_size, parse_duration
from strata.working import working

lab = Application(no_args_is_help=True)

_DAMAGED_EXIT: Final = 1
_WORDS: Final = {
    "sound": "The filesystem was recovered by its mount, and its checker finds nothing wrong. The content of "
    "its files, such as a database, was not checked.",
    "damaged": "The filesystem was mounted, but its checker finds damage:",
    "content damaged": "The filesystem was mounted, but what the load had written cannot be used:",
    "not mountable": "The filesystem cannot be mounted:",
    "kernel panicked": "The filesystem cannot be mounted: the kernel panicked:",
    "unknown": "The recovery did not end:",
}


@lab.callback()
def group() -> None:
    """Build, show, enter and remove the lab.

    Its parts: kernel, groups of kernel modules, root image, agent, load generator, the kernel of QEMU's
    virtual machines. Modules, load generator and QEMU's kernel are also built when a study first needs them.

    Examples:
        strata lab build
        strata lab status
        strata lab shell studies/quickstart.toml --stack xfs
    """


@lab.command()
def status(as_json: AsJson = False) -> None:
    """Show what is built, from what, and whether it is current.

    Examples:
        strata lab status
        strata lab status --json | jq -r .fingerprint.kernel_sha256
    """
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
    others = [Project.read(root, Kernel(version)) for version in KERNELS[1:]]
    more = (each.find(part) for each in others for part in parts(root))
    found_entries = (*current.values(), *more, model)
    used = {(entry.kind, entry.key): entry.path for entry in found_entries if entry is not None}
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
        "qemu-kernel": f"Debian's Linux {made.get('version')}",
        "model": "the disk models for user space",
        "input": entry.inputs.wanted.get("source", "an archive, unpacked"),
        "prepared": "disks that several trials begin with",
    }[entry.kind]
    place = used.get((entry.kind, entry.key))
    if not is_sound(entry):
        state = "damaged"
    elif entry.kind in {"input", "prepared"} or entry.kind.endswith("source"):
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


@lab.command()
def build(
    source: Annotated[Path | None, option("The kernel's source, not Debian's package.", "TARBALL")] = None,
    jobs: Annotated[int | None, option("Compilers at once; by default one per CPU.", min=1)] = None,
    only: Annotated[
        list[str] | None, option("Build only this part; repeatable. See `strata lab status`.", "PART")
    ] = None,
    as_json: Annotated[bool, option("What there is then, as `strata lab status` has it.", "--json")] = False,
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


@lab.command()
def clean(
    everything: Annotated[bool, option("Also current parts, kernel source and logs.", "--all")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete outdated parts and build leftovers from the caches.

    Examples:
        strata lab clean
        strata lab clean --all
    """
    freed_bytes = clean_caches(everything=everything)
    if as_json:
        print_json({"freed_bytes": freed_bytes})
    else:
        print(f"freed {format_size(freed_bytes)}")


@lab.command(hidden=True)
def lock(
    keep: Annotated[bool, option("Keep the locked versions that the mirror still has.", "--keep")] = False,
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


@lab.command()
def shell(
    study: Annotated[Path | None, argument("A study file, for its disks.", "STUDY")] = None,
    stack: Annotated[str | None, option("Build this stack of the study.", "NAME")] = None,
    device: Annotated[str | None, option("One disk of this model, without a study.", "DEVICE")] = None,
    virtual: Annotated[bool, option("In virtual time, where waiting takes no time.", "--virtual")] = False,
) -> None:
    """Open a shell inside a lab, on modelled disks.

    Everything written there is lost when the shell ends.

    Examples:
        strata lab shell
        strata lab shell studies/quickstart.toml --stack xfs
        strata lab shell --device wd-re4-500gb
    """
    from strata.lab.shell import open_shell  # noqa: PLC0415  no other command needs it

    raise typer.Exit(open_shell(study=study, stack=stack, device=device, virtual=virtual))


@lab.command("power-cut")
def power_cut(  # noqa: PLR0917  each is an option of the command line
    study: StudyFile,
    stack: Annotated[str | None, option("Default: its first stack.", "NAME")] = None,
    workload: Annotated[str | None, option("Default: its first workload.", "NAME")] = None,
    at: Annotated[str | None, option("Cut at this virtual time: 12s.", "TIME")] = None,
    ios: Annotated[int | None, option("Cut when the disks have accepted this many commands.", min=1)] = None,
    step: Annotated[str | None, option("Cut when this step of the plan has ended.", "ID")] = None,
    seed: Annotated[int, option("Decides which data survive that were not durable.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Cut the power of a trial's disks, recover and check them.

    The lab boots again on what the modelled disks still hold, mounts the filesystem and runs its checker.
    The content of files is not checked: a database may have lost commits. Exits with 1 if the
    filesystem is damaged or cannot be mounted.

    Examples:
        strata lab power-cut studies/quickstart.toml --at 12s
        strata lab power-cut studies/quickstart.toml --stack xfs --ios 5000 --seed 7
        strata lab power-cut studies/quickstart.toml --step ext4-mount --json
    """
    read = load_study(study, catalogue())
    cut = _cut(at, ios, step, seed)
    cell = chosen_cell(read, stack, workload)
    runner = LabRunner(require_lab(), progress=setup_progress())
    run_root().mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=run_root().parent, prefix="power-cut-") as folder,
        _status_line() as report,
    ):
        result = cut_and_recover(
            runner, read, *cell, cut=cut, after_step=step, folder=Path(folder), report=report
        )
    if as_json:
        print_json(result.describe())
    else:
        _print_cut(result)
    raise typer.Exit(0 if result.verdict == "sound" else _DAMAGED_EXIT)


def _cut(at: str | None, ios: int | None, step: str | None, seed: int) -> PowerCut:
    if sum(choice is not None for choice in (at, ios, step)) != 1:
        raise typer.BadParameter("say when the power is cut, by only one of --at, --ios, --step")
    try:
        at_ns = None if at is None else parse_duration(at)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from None
    return PowerCut(at_ns=at_ns, after_ios=ios, seed=seed)


@contextmanager
def _status_line() -> Iterator[Callable[[Phase, Progress], None]]:
    """A line of progress; only on a terminal, where it can be erased."""
    console = notes()
    with ExitStack() as opened:
        line = opened.enter_context(console.status(Text("starting"))) if console.is_terminal else None
        opened.enter_context(working("running the lab up to the power cut, and recovering"))

        def report(phase: Phase, progress: Progress) -> None:
            if line is not None:
                at = format_duration(progress.trial_ns)
                line.update(Text(f"{phase}: {progress.step or 'boot'} ({at} virtual)"))

        yield report


def _print_cut(result: CutResult) -> None:
    console = stdout()
    when = format_duration(result.losses[0].at_ns)
    where = f"in step {result.step}" if result.step else "between two steps"
    console.print(f"{result.trial}: power cut after {when} of virtual time, {where}", markup=False)
    titles = ("writes acknowledged", "not durable yet", "of these kept", "lost", "torn")
    heads = columns("disk", *((title, "count") for title in (*titles, "lost or torn though acknowledged")))
    rows = [
        (
            *(each.disk, each.writes_acknowledged, each.volatile, each.kept, each.lost, each.torn),
            each.lost_acknowledged,
        )
        for each in result.losses
    ]
    console.print(terminal(Table(heads, rows)))
    console.print(_WORDS[result.verdict])
    for line in result.said:
        console.print(f"  {line}", markup=False)
