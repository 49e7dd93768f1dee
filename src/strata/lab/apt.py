# SPDX-License-Identifier: Apache-2.0
"""Debian packages of the lab's release, from the mirror that this machine's own apt uses.

The machine's apt is read, never changed: a private configuration with its own lists and cache
names the lab's release. It works without root.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import LabError, ToolError
from strata.lab.process import output_of, run_logged
from strata.lab.progress import ProgressStep
from strata.units import format_size

KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_DEBIAN_SUITES: Final = ("stable", "oldstable", "testing", "unstable", "sid", "bookworm", "trixie", "forky")
_MIRROR_REMEDY: Final = (
    "set STRATA_DEBIAN_MIRROR to the address of a Debian mirror, as it would stand in sources.list"
)


@dataclass(frozen=True)
class AptSource:
    """One archive that apt is configured with."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def parse_one_line(text: str) -> list[AptSource]:
    """Read a file in the one-line format (``deb [options] uri suite component…``)."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    form = re.compile(r"deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)(?:\s+(.*))?")
    found = filter(None, map(form.fullmatch, lines))
    return [AptSource(each[1], (each[2],), tuple((each[3] or "").split())) for each in found]


def parse_deb822(text: str) -> list[AptSource]:
    """Read a file in the deb822 format (``.sources``)."""
    sources = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[name] = f"{fields.get(name, '')} {line.strip()}"
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").lower() in ("no", "false", "0", "off"):
            continue
        suites, components = fields.get("suites", "").split(), fields.get("components", "").split()
        sources += [
            AptSource(uri, tuple(suites), tuple(components)) for uri in fields.get("uris", "").split()
        ]
    return sources


def configured_sources(etc: Path = Path("/etc/apt")) -> Iterator[AptSource]:
    """Every archive that the machine's apt is configured with, in apt's order."""
    parts = etc / "sources.list.d"
    files = [etc / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else [])]
    for path in files:
        if path.is_file() and path.suffix in (".list", ".sources"):
            parse = parse_deb822 if path.suffix == ".sources" else parse_one_line
            yield from parse(path.read_text(errors="replace"))


def debian_mirror(etc: Path = Path("/etc/apt")) -> str:
    """The address of this machine's Debian archive: ``STRATA_DEBIAN_MIRROR``, or from apt's configuration."""
    if named := os.environ.get("STRATA_DEBIAN_MIRROR"):
        return named
    for source in configured_sources(etc):
        usable = source.uri.split(":", 1)[0] not in ("cdrom", "file")
        if usable and "main" in source.components and set(source.suites) & set(_DEBIAN_SUITES):
            return source.uri
    raise LabError(
        "this machine's apt is configured with no Debian mirror", place=str(etc), remedy=_MIRROR_REMEDY
    )


def sources_list(mirror: str, suites: Sequence[str], components: Sequence[str] = ("main",)) -> str:
    """A sources.list for the lab's release."""
    line = "deb [arch=amd64 target=Packages signed-by={}] {} {} {}\n"
    return "".join(line.format(KEYRING, mirror, suite, " ".join(components)) for suite in suites)


def version_pins(locked: Mapping[str, str]) -> str:
    """The part of an apt preferences file that prefers exactly these versions.

    apt falls back to the mirror's version where the locked one is gone, so the build goes on.
    """
    stanza = "Package: {}\nPin: version {}\nPin-Priority: 1001\n"
    return "\n".join(stanza.format(name, version) for name, version in sorted(locked.items()))


def backport_pins(suite: str, backports: Mapping[str, Sequence[str]]) -> str:
    """The part of an apt preferences file that takes the binaries of some source packages from backports.

    Without it, apt takes no package from them. The source packages are given by component.
    """
    stanza = "Package: src:{}\nPin: release n={}, c={}\nPin-Priority: 990\n"
    return "\n".join(
        stanza.format(source, suite, component)
        for component, sources in sorted(backports.items())
        for source in sorted(sources)
    )


def proxy_options() -> list[str]:
    """The proxies of the machine's apt, as apt.conf lines, for an apt with another configuration."""
    lines = output_of(["apt-config", "dump"]).splitlines()
    return [line for line in lines if re.match(r'Acquire::(https?|ftp)::Proxy[^ ]* ".+";', line)]


class Apt:
    """The lab's private apt, with its configuration, lists and downloads in ``folder``.

    It reads the components of these suites, such as ``("trixie", "trixie-backports")``. The choice among
    several versions is an apt preferences file.
    """

    def __init__(
        self,
        folder: Path,
        suites: Sequence[str],
        *,
        components: Sequence[str] = ("main",),
        preferences: str = "",
    ) -> None:
        if not KEYRING.is_file():
            raise ToolError(
                "Debian's archive keys are missing", remedy="install the package debian-archive-keyring"
            )
        self._folder = folder
        for name in ("lists/partial", "cache/archives/partial", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(sources_list(debian_mirror(), suites, components))
        (folder / "preferences").write_text(preferences)
        settings = {
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": folder / "preferences",
            "Dir::Etc::preferencesparts": "-",
            "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "Dir::Log": folder / "log",
            "APT::Sandbox::User": "root",  # apt's own user cannot read a home folder
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        lines = [f'{name} "{value}";' for name, value in settings.items()]
        hooks = ("APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success")
        lines += [f"#clear {hook};" for hook in hooks]  # they tend the machine's own lists
        self._config = folder / "apt.conf"
        self._config.write_text("\n".join(lines) + "\n")
        self._log = folder / "log" / "apt.log"

    def update(self) -> None:
        """Fetch the package lists."""
        run_logged(
            ["apt-get", "-c", str(self._config), "-qq", "update"],
            log=self._log,
            title="fetching the package lists of the lab's Debian release",
            remedy=f"check that the mirror is reachable; {_MIRROR_REMEDY} if it is another one",
        )

    def candidate(self, package: str) -> tuple[str, int]:
        """The version of a package on the mirror, and the size of its file in bytes."""
        try:
            text = output_of(["apt-cache", "-c", str(self._config), "show", "--no-all-versions", package])
        except LabError as error:
            raise LabError(
                f"the Debian mirror has no package {package}",
                place=str(self._folder / "sources.list"),
                remedy="give the kernel's source yourself: strata lab build --source linux-7.2.x.tar.xz"
                if package.startswith("linux-source-")
                else f"it needs another mirror: {_MIRROR_REMEDY}",
            ) from error
        fields = dict(re.findall(r"^(Version|Size): (.*)$", text, re.MULTILINE))
        return fields["Version"], int(fields["Size"])

    def available(self) -> list[Mapping[str, str]]:
        """The one-line fields of every package of the mirror, in the preferred version."""
        text = output_of(["apt-cache", "-c", str(self._config), "dumpavail"])
        return [dict(re.findall(r"^([A-Z][\w-]*): (.*)$", each, re.MULTILINE)) for each in text.split("\n\n")]

    def closure(self, packages: Sequence[str]) -> dict[str, str]:
        """These packages with all their dependencies, without recommendations: versions by name."""
        options = ("-qq", "--simulate", "-o", "APT::Install-Recommends=false")
        text = output_of(["apt-get", "-c", str(self._config), *options, "install", *packages])
        return dict(re.findall(r"^Inst (\S+) \((\S+)", text, re.MULTILINE))

    def download_all(self, versions: Mapping[str, str], folder: Path, step: ProgressStep) -> dict[str, Path]:
        """Download several packages' files; returns them by package."""
        exact = [f"{name}={version}" for name, version in sorted(versions.items())]
        self._download(exact, f"{len(exact)} packages", folder, step)
        return {path.name.partition("_")[0]: path for path in sorted(folder.glob("*.deb"))}

    def download(self, package: str, version: str, folder: Path, size_bytes: int, step: ProgressStep) -> Path:
        """Download a package's file; apt checks its signature chain."""
        step.total = size_bytes
        what = f"{package} {version} ({format_size(size_bytes)})"
        self._download([f"{package}={version}"], what, folder, step)
        return next(p for p in folder.iterdir() if p.name.startswith(f"{package}_") and p.suffix == ".deb")

    def _download(self, exact: Sequence[str], what: str, folder: Path, step: ProgressStep) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        done = threading.Event()
        watcher = threading.Thread(target=_watch_size, args=(folder, step, done), daemon=True)
        watcher.start()
        try:
            run_logged(
                ["apt-get", "-c", str(self._config), "-q", "download", *exact],
                log=self._log,
                title=f"downloading {what}",
                remedy="run the same command again; check the mirror and the free space if it fails again",
                cwd=folder,
            )
        finally:
            done.set()
            watcher.join()


def _watch_size(folder: Path, step: ProgressStep, done: threading.Event) -> None:
    """Report the growth of a download: apt prints no progress without a terminal."""
    before_bytes = 0
    while not done.wait(0.5):
        now_bytes = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        step.advance(max(0, now_bytes - before_bytes))
        before_bytes = max(now_bytes, before_bytes)
