# SPDX-License-Identifier: Apache-2.0
"""The agent's build: one static program, the same bytes wherever it is built with the same compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import ToolError
from strata.lab.cache import Cache, Entry, Inputs, file_hash, tree_hashes
from strata.lab.process import output_of, run_logged
from strata.lab.progress import SetupProgress

TARGET: Final = "x86_64-unknown-linux-gnu"
CARGO_OLDEST: Final = (1, 85)
CARGO_REMEDY: Final = (
    "install Rust 1.85 or later: on Debian 12 `apt-get install cargo-web rustfmt-web`, on Debian 13 "
    "`apt-get install cargo rustfmt rust-clippy`, elsewhere with rustup"
)


@dataclass(frozen=True)
class AgentBuild:
    """A finished agent.

    Attributes:
        path: The executable.
        sha256: Its hash.
        size_bytes: Its size.
    """

    path: Path
    sha256: str
    size_bytes: int

    @classmethod
    def of(cls, entry: Entry) -> AgentBuild:
        """The agent that a cache entry holds."""
        return cls(entry.path / "strata-agent", entry.manifest["sha256"], entry.manifest["size_bytes"])


def agent_wanted(project: Path) -> dict[str, str]:
    """What the agent is built from as far as the project states it: every file's hash."""
    paths = ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml")
    crate = project / "crates" / "agent"
    manifests = sorted((project / "crates").glob("*/Cargo.toml"))
    return tree_hashes(project, *(project / p for p in paths), *manifests, crate / "build.rs", crate / "src")


def cargo_version() -> tuple[int, int]:
    """The version of cargo on this machine.

    Raises:
        ToolError: If there is none, or it is too old for the agent.
    """
    if shutil.which("cargo") is None:
        raise ToolError("cargo is missing", remedy=CARGO_REMEDY)
    said = output_of(["cargo", "--version"])
    match = re.match(r"cargo (\d+)\.(\d+)", said)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < CARGO_OLDEST:
        raise ToolError(f"{said.strip()} is too old", remedy=CARGO_REMEDY)
    return version


def build_agent(cache: Cache, project: Path, progress: SetupProgress, *, jobs: int | None = None) -> Entry:
    """Return the agent for the project's sources, building it unless it is in the cache.

    Raises:
        LabError: If it does not compile.
        ToolError: If cargo is missing or too old.
    """
    cargo_version()
    compiler = output_of(["rustc", "--version"]).strip()
    inputs = Inputs(agent_wanted(project), {"compiler": compiler})
    if (entry := cache.find("agent", inputs)) is not None:
        return entry
    log = cache.root / "logs" / f"agent-{inputs.key}.log"

    def make(folder: Path) -> Mapping[str, Any]:
        # Kept between builds of different sources: most of the time goes to the libraries.
        target = cache.root / "work" / "agent-target"
        argv = ["cargo", "build", "--release", "--locked", "--target", TARGET, "-p", "strata-agent"]
        argv += ["--target-dir", str(target), *(["--jobs", str(jobs)] if jobs else [])]
        with progress.step("agent: compiling") as step:
            run_logged(
                argv,
                log=log,
                title="compiling the agent",
                remedy="fix what it says; the crates come from the registry that cargo is configured with",
                cwd=project,
                environment={**os.environ, "CARGO_ENCODED_RUSTFLAGS": rust_flags(project, target)},
                on_line=lambda line: step.note(line.strip()),
            )
        shutil.copyfile(target / TARGET / "release" / "strata-agent", folder / "strata-agent")
        (folder / "strata-agent").chmod(0o755)
        made = folder / "strata-agent"
        return {"sha256": file_hash(made), "size_bytes": made.stat().st_size, "compiler": compiler}

    return cache.build("agent", inputs, make)


def rust_flags(project: Path, target: Path) -> str:
    """Flags for a static program that does not contain the paths it was built in.

    In the form of ``CARGO_ENCODED_RUSTFLAGS``, so that a path may hold a space.
    """
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False)
    remap = {str(target): "/target", str(home): "/cargo", str(project): "/strata"}
    if path := sysroot.stdout.strip():
        remap[path] = "/rust"
    flags = [
        "-Ctarget-feature=+crt-static",
        *(f"--remap-path-prefix={old}={new}" for old, new in remap.items()),
    ]
    return "\x1f".join(flags)
