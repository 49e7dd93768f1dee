# SPDX-License-Identifier: Apache-2.0
"""The lab's root image: pinned Debian packages as one read-only squashfs file."""

from __future__ import annotations

import os
import pwd
import re
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from strata.errors import LabError, ToolError
from strata.lab.apt import Apt, backport_pins, debian_mirror, proxy_options, sources_list, version_pins
from strata.lab.cache import Build, Cache, Entry, Inputs, cache_root, file_hash
from strata.lab.process import run_logged
from strata.lab.progress import SetupProgress

DATE: Final = "1767225600"
"""The date of every file: 2026-01-01. PAM insists that it is before any trial's start."""
_COMPRESSION: Final = ("-comp", "zstd", "-Xcompression-level", "12", "-b", "131072", "-root-mode", "755")
# Nobody reads manuals in an image; C.UTF-8 is the only locale a trial runs in; no udev names its hardware.
_UNREAD: Final = ("doc", "man", "info", "locale")
_LEFT_OUT: Final = (*(f"/usr/share/{name}/*" for name in _UNREAD), "/usr/lib/udev/hwdb.d/*")
_SUBORDINATE: Final = (Path("/etc/subuid"), Path("/etc/subgid"))
# apt's folders as if root had cleaned them: one image, whoever makes it.
_CLEAN: Final = (
    'cd "$1/var" && rm -rf lib/apt/lists/auxfiles && '
    "chown 0:0 lib/apt/lists/partial cache/apt/archives/partial"
)
_REMEDY: Final = "check that the mirror is reachable and that there are 2 GB of free space, and try again"


@dataclass(frozen=True)
class ImageSpec:
    """The image's definition (``image/packages.toml``, ``packages.lock``, ``begin.sh``, ``finish.sh``)."""

    release: str  # the Debian release
    packages: tuple[str, ...]  # the packages asked for, without their dependencies
    # The source packages whose binaries come from the release's backports, by component.
    backports: Mapping[str, tuple[str, ...]]
    # The packages with the source of a kernel module, each with the image's package of its programs, which
    # must have the same version.
    modules: Mapping[str, str]
    # The exact version of every package of the image; empty before the first ``make lock``.
    locked: Mapping[str, str]
    # The versions of Debian's sources that the kernel and its modules are tested with.
    locked_kernel: Mapping[str, str]
    # The packages of the workload ``os-installation`` that a minimal Debian lacks.
    installation: tuple[str, ...]
    locked_essential: Mapping[str, str]  # the exact versions of the packages that it installs first
    locked_rest: Mapping[str, str]  # the exact versions of its other packages
    additions: Mapping[str, tuple[str, ...]]  # the packages that plans add by a name, without dependencies
    locked_additions: Mapping[str, Mapping[str, str]]  # the exact versions of all that each adds
    begin: str  # the script that prepares the installation of packages that are not essential
    finish: str  # the script that removes random and dated files

    @classmethod
    def read(cls, folder: Path, *, check_lock: bool = True) -> ImageSpec:
        """Read the project's image folder; without ``check_lock`` the lock may be inconsistent."""
        path = folder / "packages.toml"
        try:
            stated = tomllib.loads(path.read_text())
            begin, finish = ((folder / name).read_text() for name in ("begin.sh", "finish.sh"))
            path = folder / "packages.lock"
            lock = tomllib.loads(path.read_text()) if path.exists() else {}
            path = folder / "packages.toml"
            installed = lock.get("installation", {})
            spec = cls(
                release=stated.pop("release"),
                installation=tuple(stated.pop("installation", {}).get("packages", ())),
                locked_essential=dict(installed.get("essential", {})),
                locked_rest=dict(installed.get("rest", {})),
                additions={name: tuple(group) for name, group in stated.pop("additions", {}).items()},
                locked_additions=dict(lock.get("additions", {})),
                backports={name: tuple(group) for name, group in stated.pop("backports", {}).items()},
                modules=dict(stated.pop("modules", {})),
                packages=tuple(sorted(name for group in stated.values() for name in group)),
                locked=dict(lock.get("image", {})),
                locked_kernel=dict(lock.get("kernel", {})),
                begin=begin,
                finish=finish,
            )
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            cause = f"the root image's definition cannot be read: {error!r}"
            raise LabError(cause, place=str(path)) from error
        if check_lock:
            lock_path = folder / "packages.lock"
            require_same_versions(spec.modules, spec.locked_kernel, spec.locked, place=lock_path)
        return spec

    @property
    def backports_suite(self) -> str:
        """The Debian suite of the release's backports."""
        return f"{self.release}-backports"

    def source_apt(self) -> Apt:
        """An apt for the sources of the kernel and its modules; newer kernels come as backports."""
        return Apt(
            cache_root() / "apt",
            (self.release, self.backports_suite),
            components=("main", *sorted(set(self.backports) - {"main"})),
            preferences=self._preferences(self.locked_kernel),
        )

    def installation_apt(self) -> Apt:
        """An apt for the packages of the workload ``os-installation``."""
        pins = version_pins({**self.locked_essential, **self.locked_rest})
        return Apt(cache_root() / "apt" / "installation", (self.release,), preferences=pins)

    def addition_apt(self) -> Apt:
        """An apt for the packages that plans add."""
        locked = {name: version for each in self.locked_additions.values() for name, version in each.items()}
        pins = version_pins({**locked, **self.locked})
        return Apt(cache_root() / "apt" / "variant", (self.release,), preferences=pins)

    @property
    def image_sources(self) -> str:
        """The origin of the image's packages, as an apt sources.list."""
        mirror = debian_mirror()
        lines = sources_list(mirror, (self.release,))
        if self.backports:
            lines += sources_list(mirror, (self.backports_suite,), sorted(self.backports))
        return lines

    @property
    def image_preferences(self) -> str:
        """The choice of their versions, as an apt preferences file: only stated packages from backports."""
        nothing_else = f"Package: *\nPin: release n={self.backports_suite}\nPin-Priority: -1\n"
        return "\n".join([self._preferences(self.locked), nothing_else])

    def _preferences(self, locked: Mapping[str, str]) -> str:
        return "\n".join([version_pins(locked), backport_pins(self.backports_suite, self.backports)])

    def wanted(self) -> dict[str, str]:
        """The inputs of the image that the project states."""
        return {
            "release": self.release,
            "packages": " ".join(self.packages),
            "backports": " ".join(
                f"{name}:{','.join(group)}" for name, group in sorted(self.backports.items())
            ),
            "locked": " ".join(f"{name}={version}" for name, version in sorted(self.locked.items())),
            "begin": self.begin,
            "finish": self.finish,
            "squashfs": " ".join((*_COMPRESSION, DATE)),
            "left_out": " ".join(_LEFT_OUT),
        }


@dataclass(frozen=True)
class ImageBuild(Build):
    FILE: ClassVar[str] = "root.squashfs"
    packages: Mapping[str, str]  # the version of every package in it
    locked: bool  # whether these are exactly the locked versions
    # For an image that is not locked: "name: locked version -> version that the mirror had".
    moved: Sequence[str]


def build_image(cache: Cache, spec: ImageSpec, progress: SetupProgress) -> Entry:
    """Return the image for this definition, building it unless it is in the cache.

    Where the mirror no longer has a locked version, the image takes the mirror's. The image and every
    result then say that it is not locked, and which packages moved.
    """
    inputs = Inputs(spec.wanted(), {})
    log = cache.log("image", inputs)

    def make(folder: Path) -> Mapping[str, Any]:
        image = folder / ImageBuild.FILE
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            archive = Path(scratch) / "root.tar"
            _install(spec, _mode(), archive, log, progress)
            packages = installed_packages(archive)
            _pack(archive, image, log, progress)
        moved = moved_packages(spec.locked, packages)
        if moved:
            progress.say(f"image: not the locked versions: {'; '.join(moved)}")
        return {
            "sha256": file_hash(image),
            "size_bytes": image.stat().st_size,
            "packages": packages,
            "locked": bool(spec.locked) and not moved,
            "moved": moved,
        }

    return cache.build("image", inputs, make)


def _mode() -> str:
    """The way in which mmdebstrap becomes root in the image."""
    if os.geteuid() == 0:
        return "root"
    name = pwd.getpwuid(os.geteuid()).pw_name
    own = re.compile(rf"^({re.escape(name)}|{os.geteuid()}):", re.MULTILINE)
    given = [path for path in _SUBORDINATE if path.is_file() and own.search(path.read_text())]
    if len(given) == len(_SUBORDINATE):
        return "unshare"
    raise ToolError(
        f"building the root image needs root, or subordinate ids for {name} in /etc/subuid and /etc/subgid",
        remedy=f"as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}",
    )


def _install(spec: ImageSpec, mode: str, archive: Path, log: Path, progress: SetupProgress) -> None:
    sources = archive.with_name("sources.list")
    sources.write_text(spec.image_sources)
    folder = '"$1/etc/apt/preferences.d"'
    choose = f'mkdir -p {folder} && cat >{folder}/strata <<"END"\n{spec.image_preferences}END\n'
    hooks = [f"--setup-hook={choose}", f"--essential-hook={spec.begin}", f"--customize-hook={spec.finish}"]
    # The script empties apt's folders, and /tmp: without its configuration there, mmdebstrap's own cleaning
    # would clean the machine's package lists.
    clean = ["--skip=cleanup/apt", f"--customize-hook={_CLEAN}"]
    options = ['Apt::Install-Recommends "false"', 'Acquire::Retries "3"', *proxy_options()]
    environment = {
        "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": DATE,
        # The ids of user namespaces cannot read a home folder, where the cache usually is.
        **({"TMPDIR": str(archive.parent)} if mode == "root" else {}),
    }
    total = 2 * len(spec.locked) or 300
    title = f"image: installing {len(spec.packages)} packages of Debian {spec.release}"
    with progress.step(title, total) as step:

        def count(line: str) -> None:
            if match := re.match(r"(Unpacking|Setting up) (\S+)", line):
                step.advance()
                step.note(match[2])

        run_logged(
            [
                *("mmdebstrap", "--verbose", "--variant=minbase", f"--mode={mode}", "--format=tar"),
                *(f"--aptopt={option}" for option in options),
                *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
                *hooks,
                *clean,
                f"--include={','.join(spec.packages)}",
                *(spec.release, str(archive), str(sources)),
            ],
            log=log,
            title="installing the root image's packages",
            remedy=_REMEDY,
            environment=environment,
            on_line=count,
        )


def require_same_versions(
    modules: Mapping[str, str], kernel: Mapping[str, str], image: Mapping[str, str], *, place: Path
) -> None:
    """Refuse kernel modules of another version than the image's programs for them, by a `LabError`."""
    for module, programs in modules.items():
        if module in kernel and programs in image and kernel[module] != image[programs]:
            raise LabError(
                f"{module} {kernel[module]} and {programs} {image[programs]} must have the same version: "
                "the kernel module understands only its own programs",
                place=str(place),
                remedy="run `make lock`, which takes both from the mirror",
            )


def installed_packages(archive: Path) -> dict[str, str]:
    """The version of every package that a root file system's archive has installed."""
    with tarfile.open(archive) as files:
        member = files.extractfile("./var/lib/dpkg/status")
        assert member is not None
        text = member.read().decode()
    packages = {}
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", stanza, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            packages[fields["Package"]] = fields["Version"]
    return packages


def moved_packages(locked: Mapping[str, str], packages: Mapping[str, str]) -> list[str]:
    """The differences between an image and the locked versions, each in words; none without a lock."""
    if not locked:
        return []
    return [
        f"{name}: {locked.get(name, 'not locked')} -> {packages.get(name, 'absent')}"
        for name in sorted({*locked, *packages})
        if locked.get(name) != packages.get(name)
    ]


def _pack(archive: Path, image: Path, log: Path, progress: SetupProgress) -> None:
    """Pack an archive to squashfs, in the archive's order, which is sorted by name."""
    with progress.step("image: packing"):
        run_logged(
            [
                # The image's own folder gets the id of the process, and mksquashfs 4.5 has no option for it.
                *(() if os.geteuid() == 0 else ("unshare", "--map-root-user")),
                *("sh", "-c", 'exec mksquashfs - "$@" -tar <"$0"', str(archive), str(image)),
                *(*_COMPRESSION, "-mkfs-time", DATE, "-all-time", DATE, "-no-progress"),
            ],
            log=log,
            title="packing the root image",
            remedy=_REMEDY,
        )
    image.chmod(0o644)


def write_lock(
    folder: Path,
    image: Mapping[str, str],
    kernel: Mapping[str, str],
    installation: Mapping[str, Mapping[str, str]],
    additions: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write ``packages.lock``: the versions that the project is tested with, by section."""
    stages = {f"installation.{stage}": versions for stage, versions in installation.items()}
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Made by `make lock` from what the mirror has: the versions that the lab is tested with.",
    ]
    added = {f"additions.{name}": versions for name, versions in (additions or {}).items()}
    for section, versions in {"kernel": kernel, "image": image, **added, **stages}.items():
        lines += ["", f"[{section}]", *(f'"{name}" = "{versions[name]}"' for name in sorted(versions))]
    path = folder / "packages.lock"
    path.with_suffix(".new").write_text("\n".join(lines) + "\n")
    path.with_suffix(".new").rename(path)
