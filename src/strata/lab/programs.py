# SPDX-License-Identifier: Apache-2.0
"""The agent and the load generator: static programs, the same wherever the same compiler builds them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from strata.errors import LabError, ToolError
from strata.lab.cache import Build, Cache, Entry, Inputs, file_hash, tree_hashes
from strata.lab.process import output_of, run_logged
from strata.lab.progress import SetupProgress
from strata.model.step import LOAD
from strata.plan.model import Plan

TARGET: Final = "x86_64-unknown-linux-gnu"
CARGO_OLDEST: Final = (1, 85)
CARGO_REMEDY: Final = (
    "install Rust 1.85 or later: on Debian 12 `apt-get install cargo-web rustfmt-web`, on Debian 13 "
    "`apt-get install cargo rustfmt rust-clippy`, elsewhere with rustup"
)
_BESIDES: Final = {"tests", "benches", "examples"}  # in a crate's folder, but not in its program


@dataclass(frozen=True)
class AgentBuild(Build):
    FILE: ClassVar[str] = "strata-agent"


def program_wanted(part: str, project: Path) -> dict[str, str]:
    """The inputs of a program that the project states: the hashes of its files and libraries.

    Only its own: a change of another program must not make this one stale.
    """
    crate = project / "crates" / part
    own = [path for path in sorted(crate.glob("*")) if path.name not in _BESIDES]
    files = tree_hashes(project, *(project / p for p in ("rust-toolchain.toml", ".cargo/config.toml")), *own)
    libraries = _libraries(part, project / "Cargo.lock")
    return files | {"workspace": _workspace(project / "Cargo.toml", libraries)} | libraries


def _workspace(manifest: Path, libraries: Mapping[str, str]) -> str:
    """The settings of the workspace that take part in the build of the program with these libraries."""
    used = {library.split()[1] for library in libraries}
    try:
        stated = tomllib.loads(manifest.read_text())
        others = {f"strata-{Path(member).name}" for member in stated["workspace"].pop("members")} - used
        stated["workspace"].pop("lints", None)  # they refuse, and change nothing
        release = stated["profile"]["release"]
        release["package"] = {k: v for k, v in release.get("package", {}).items() if k not in others}
        stated["profile"] = {"release": release}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise LabError(f"the project's crates cannot be read: {error!r}", place=str(manifest)) from error
    return json.dumps(stated, sort_keys=True)


def _libraries(part: str, lock: Path) -> dict[str, str]:
    """Version and hash of every library below a program, by name and version."""
    try:
        packages = tomllib.loads(lock.read_text())["package"]
        known = {each["name"]: each for each in packages}
        # Where a name is not enough, the list adds the version.
        known |= {f"{each['name']} {each['version']}": each for each in packages}
        found: dict[str, str] = {}
        rest = [f"strata-{part}"]
        while rest:
            package = known[" ".join(rest.pop().split()[:2])]
            name = f"library {package['name']} {package['version']}"
            if name not in found:
                found[name] = package.get("checksum", "the project's own")
                rest += package.get("dependencies", [])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"the list of libraries cannot be read: {error!r}", place=str(lock)) from error
    return found


def cargo_version() -> tuple[int, int]:
    """The version of cargo on this machine; a missing or old one is a `ToolError`."""
    if shutil.which("cargo") is None:
        raise ToolError("cargo is missing", remedy=CARGO_REMEDY)
    said = output_of(["cargo", "--version"])
    match = re.match(r"cargo (\d+)\.(\d+)", said)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < CARGO_OLDEST:
        raise ToolError(f"{said.strip()} is too old", remedy=CARGO_REMEDY)
    return version


def build_program(
    part: str, cache: Cache, project: Path, progress: SetupProgress, *, jobs: int | None = None
) -> Entry:
    """Return a program for the project's sources, building it unless it is in the cache."""
    cargo_version()
    compiler = output_of(["rustc", "--version"]).strip()
    inputs = Inputs(program_wanted(part, project), {"compiler": compiler})
    name = f"strata-{part}"

    def make(folder: Path) -> Mapping[str, Any]:
        # Kept between builds of different sources: most of the time goes to the libraries.
        target = cache.root / "work" / f"{part}-target"
        argv = ["cargo", "build", "--release", "--locked", "--target", TARGET, "-p", name]
        argv += ["--target-dir", str(target), *(["--jobs", str(jobs)] if jobs else [])]
        with progress.step(f"{part}: compiling") as step:
            run_logged(
                argv,
                log=cache.log(part, inputs),
                title=f"compiling {name}",
                remedy="fix what it says; the crates come from the registry that cargo is configured with",
                cwd=project,
                environment={**os.environ, "CARGO_ENCODED_RUSTFLAGS": rust_flags(project, target)},
                on_line=lambda line: step.note(line.strip()),
            )
        made = folder / name
        shutil.copyfile(target / TARGET / "release" / name, made)
        made.chmod(0o755)
        return {"sha256": file_hash(made), "size_bytes": made.stat().st_size, "compiler": compiler}

    return cache.build(part, inputs, make)


def rust_flags(project: Path, target: Path) -> str:
    """Flags for a static program without the build's paths, as ``CARGO_ENCODED_RUSTFLAGS``."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False)
    remap = {str(target): "/target", str(home): "/cargo", str(project): "/strata"}
    if path := sysroot.stdout.strip():
        remap[path] = "/rust"
    prefixes = (f"--remap-path-prefix={old}={new}" for old, new in remap.items())
    return "\x1f".join(["-Ctarget-feature=+crt-static", *prefixes])


PATH: Final = "/run/strata/load"
"""Where the steps find it in the lab."""
_INITIAL_PATH: Final = "strata/programs/load"


@dataclass(frozen=True)
class LoadBuild(Build):
    FILE: ClassVar[str] = "strata-load"


def uses_load(plan: Plan) -> bool:
    """Whether a step of the plan runs the load generator."""
    return LOAD in plan.variables


def load_programs(plan: Plan, path: str = PATH) -> list[dict[str, str]]:
    """The agent's binding for it, as JSON types; empty for a plan without it."""
    return [{"path": f"/{_INITIAL_PATH}", "to": path}] if uses_load(plan) else []


def load_variables(plan: Plan, path: str = PATH) -> dict[str, str]:
    """The value of the plan's variable for it; empty for a plan without it."""
    return {LOAD: path} if uses_load(plan) else {}


def load_setting(plan: Plan, load: LoadBuild | None) -> dict[str, str]:
    """Its hash, part of the identity of trials that run it; empty for a plan without it."""
    return {LOAD: require_load(plan, load).sha256} if uses_load(plan) else {}


def load_file(plan: Plan, load: LoadBuild | None) -> dict[str, bytes]:
    """The program, by its path in the lab's initial root; empty for a plan without it."""
    return {_INITIAL_PATH: require_load(plan, load).path.read_bytes()} if uses_load(plan) else {}


def require_load(plan: Plan, load: LoadBuild | None) -> LoadBuild:
    """The load generator; a `LabError` if it is not built."""
    if load is None:
        raise LabError(
            "the load generator must be built first",
            place=plan.trial.id,
            remedy="run `strata lab build --only load`",
        )
    return load
