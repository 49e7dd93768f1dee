# SPDX-License-Identifier: Apache-2.0
"""``strata lab show``: what is built of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strata.bundled import project_root
from strata.cli.output import print_json
from strata.cli.parameters import AsJson
from strata.console import Terminal
from strata.lab.cache import KINDS, Cache, Entry, cache_root, caches, is_sound
from strata.lab.lab import Project, find_entry, find_lab, parts
from strata.lab.model import model_wanted
from strata.model.kernel import KERNELS, Kernel
from strata.report.table import Cell, Table, columns, terminal


def show(as_json: AsJson = False) -> None:
    """Show what is built, from what, and whether it is current.

    Examples:
        strata lab show
        strata lab show --json | jq -r .fingerprint.kernel_sha256
    """
    shown = lab_status()
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


def lab_status() -> dict[str, Any]:
    """The entries of the caches with their states, the missing parts and the lab's fingerprint."""
    root = project_root()
    current = {part: find_entry(part, root) for part in parts(root)}
    model = Cache(cache_root()).current("model", model_wanted(root))
    others = [Project.read(root, Kernel(version)) for version in KERNELS[1:]]
    more = (each.find(part) for each in others for part in parts(root))
    found_entries = (*current.values(), *more, model)
    used = {(entry.kind, entry.key): entry.path for entry in found_entries if entry is not None}
    rows = [cache_row(entry, used) for cache in caches() for kind in KINDS for entry in cache.entries(kind)]
    found = find_lab()
    return {
        "ready": found is not None,
        "missing": [part for part, entry in current.items() if entry is None],
        "fingerprint": None if found is None else vars(found.fingerprint),
        "unlocked": [] if found is None else list(found.unlocked),
        "entries": rows,
    }


def cache_row(entry: Entry, used: dict[tuple[str, str], Path]) -> dict[str, Any]:
    """An entry of a cache: what it is, and whether it is current by the parts in ``used``."""
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
