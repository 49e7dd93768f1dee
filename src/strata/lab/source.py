# SPDX-License-Identifier: Apache-2.0
"""The sources of the kernel and of its modules: Debian's packages, or the user's tarball, unpacked once."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError
from strata.lab.apt import Apt
from strata.lab.cache import Cache, Entry, Inputs, file_hash
from strata.lab.process import run_logged
from strata.lab.progress import SetupProgress

# What the lab's kernel never compiles and what makes up three quarters of the source. Kconfig files and
# Makefiles stay, because the configuration reads them all; so do
# the common network drivers (loopback, veth).
_FOREIGN = (
    "alpha arc arm arm64 csky hexagon loongarch m68k microblaze mips nios2 openrisc parisc powerpc riscv "
    "s390 sh sparc xtensa"
)
_UNUSED_DRIVERS = (
    "accel clk gpu hwmon iio infiniband media mfd net/ethernet net/wireless phy pinctrl s390 staging usb "
    "video"
)
LEFT_OUT: Final = (
    "*/Documentation/*/*",
    "*/tools/testing/*",
    "*/tools/perf/*",
    "*/sound/*.[ch]",
    "*/samples/*.[ch]",
    *(f"*/arch/{name}/{what}" for name in _FOREIGN.split() for what in ("*.[chS]", "boot/*", "configs/*")),
    *(f"*/drivers/{name}/*.[ch]" for name in _UNUSED_DRIVERS.split()),
)
_ESTIMATED_FILES: Final = 40_000

SourceApt = Callable[[], Apt]
"""The apt that sees the sources' packages; made only when something must be fetched."""


@dataclass(frozen=True)
class KernelSource:
    """An unpacked kernel source.

    Attributes:
        tree: The folder that holds the kernel's top Makefile. Never built in: it is copied.
        version: The kernel's version, such as ``7.2.12``.
        package_version: The Debian package's version, or None for a tarball.
        tarball_sha256: What the tree was unpacked from.
    """

    tree: Path
    version: str
    package_version: str | None
    tarball_sha256: str

    @classmethod
    def of(cls, entry: Entry) -> KernelSource:
        """The source that a cache entry holds."""
        made = entry.manifest
        return cls(entry.path / "linux", made["version"], made["package_version"], made["tarball_sha256"])


def source_from_tarball(cache: Cache, tarball: Path, series: str, progress: SetupProgress) -> KernelSource:
    """Unpack a tarball given by the user.

    Args:
        cache: Where to unpack it.
        tarball: ``linux-7.2.x.tar.xz`` or with another compression that tar knows.
        series: The version that the lab's patches are for, such as ``7.2``.
        progress: Where to report.

    Raises:
        LabError: If it is not the source of a kernel of that series.
    """
    if not tarball.is_file():
        raise LabError(
            "there is no such file", place=str(tarball), remedy="give the path of a linux-7.2.x.tar.xz"
        )
    digest = file_hash(tarball)
    inputs = Inputs(wanted={"tarball": digest, "left_out": " ".join(LEFT_OUT)}, found={})

    def make(folder: Path) -> Mapping[str, Any]:
        _unpack(tarball, folder / "linux", progress)
        version = tree_version(folder / "linux", place=tarball)
        if not re.match(rf"{re.escape(series)}\b", version):
            raise LabError(
                f"this is Linux {version}, and the lab's patches are for {series}",
                place=str(tarball),
                remedy=f"give a linux-{series}.x tarball",
            )
        return {"version": version, "package_version": None, "tarball_sha256": digest}

    return KernelSource.of(cache.build("source", inputs, make))


def source_from_debian(cache: Cache, package: str, apt: SourceApt, progress: SetupProgress) -> KernelSource:
    """Unpack Debian's kernel source package, downloading it unless some version of it is in the cache.

    Args:
        cache: Where to unpack it.
        package: Such as ``linux-source-7.2``.
        apt: Where Debian's packages come from.
        progress: Where to report.

    Raises:
        LabError: If the mirror does not have it or the download fails.
    """
    wanted = {"package": package, "left_out": " ".join(LEFT_OUT)}
    if (entry := cache.current("source", wanted)) is not None:
        return KernelSource.of(entry)
    mirror, version, size_bytes = _candidate("kernel", package, apt, progress)

    def make(folder: Path) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            tarball = _fetched_tarball(mirror, package, version, size_bytes, Path(scratch), progress)
            _unpack(tarball, folder / "linux", progress)
            found = tree_version(folder / "linux", place=tarball)
            return {"version": found, "package_version": version, "tarball_sha256": file_hash(tarball)}

    return KernelSource.of(cache.build("source", Inputs(wanted, {"version": version}), make))


def kernel_tarball(package: str, apt: SourceApt, folder: Path, progress: SetupProgress) -> tuple[Path, str]:
    """Download Debian's kernel source package into ``folder``.

    Returns:
        The source's tarball, and the package's version.

    Raises:
        LabError: If the mirror does not have it or the download fails.
    """
    mirror, version, size_bytes = _candidate("kernel", package, apt, progress)
    return _fetched_tarball(mirror, package, version, size_bytes, folder, progress), version


def _fetched_tarball(  # noqa: PLR0917
    mirror: Apt, package: str, version: str, size_bytes: int, folder: Path, progress: SetupProgress
) -> Path:
    with progress.step(f"kernel: downloading {package} {version}") as step:
        deb = mirror.download(package, version, folder, size_bytes, step)
    tarball = _tarball_of(deb, folder)
    deb.unlink()
    return tarball


def _candidate(part: str, package: str, apt: SourceApt, progress: SetupProgress) -> tuple[Apt, str, int]:
    mirror = apt()
    with progress.step(f"{part}: reading Debian's package lists"):
        mirror.update()
    return mirror, *mirror.candidate(package)


def module_source(  # noqa: PLR0917
    cache: Cache,
    package: str,
    series: str,
    locked_version: str | None,
    apt: SourceApt,
    progress: SetupProgress,
) -> Entry:
    """Unpack the source of a kernel module, downloading it unless some version of it is in the cache.

    Args:
        cache: Where to unpack it.
        package: A DKMS package, such as ``zfs-dkms``.
        series: What the lab's patches for it are for, such as ``2.4``.
        locked_version: The version that the project is tested with; when it changes, the mirror is asked.
        apt: Where Debian's packages come from.
        progress: Where to report.

    Returns:
        The entry: the source is in its folder ``source``.

    Raises:
        LabError: If the mirror does not have it, or another series, or the download fails.
    """
    wanted = {"package": package, "series": series, "locked": locked_version or ""}
    if (entry := cache.current("module-source", wanted)) is not None:
        return entry
    mirror, version, size_bytes = _candidate(package, package, apt, progress)
    if not version.split(":", 1)[-1].startswith(f"{series}."):
        raise LabError(
            f"the mirror's {package} is {version}, and the lab's patches are for {series}",
            remedy="update the project, or use a mirror of that time with STRATA_DEBIAN_MIRROR",
        )

    def make(folder: Path) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            with progress.step(f"{package}: downloading {version}") as step:
                deb = mirror.download(package, version, Path(scratch), size_bytes, step)
            digest = file_hash(deb)
            unpacked = Path(scratch) / "package"
            subprocess.run(["dpkg-deb", "-x", str(deb), str(unpacked)], check=True)
            (source,) = (unpacked / "usr/src").iterdir()
            source.rename(folder / "source")
        return {"version": version, "package_version": version, "sha256": digest}

    return cache.build("module-source", Inputs(wanted, {"version": version}), make)


def tree_version(tree: Path, *, place: Path) -> str:
    """The version that a kernel tree's top Makefile states.

    Raises:
        LabError: If there is none; the message names ``place``.
    """
    try:
        head = (tree / "Makefile").read_text(errors="replace")[:2000]
        fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", head, re.MULTILINE))
        return f"{fields['VERSION']}.{fields['PATCHLEVEL']}.{fields['SUBLEVEL']}"
    except (OSError, KeyError):
        raise LabError(
            "this is not the source of a Linux kernel",
            place=str(place),
            remedy="give a tarball with the kernel's top Makefile in its only folder",
        ) from None


def _tarball_of(deb: Path, folder: Path) -> Path:
    """Take the source's tarball out of the package that wraps it."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as package:
            for member in package:
                name = Path(member.name).name
                if member.isfile() and re.fullmatch(r"linux-source-.*\.tar\.xz", name):
                    stream = package.extractfile(member)
                    assert stream is not None
                    with (folder / name).open("wb") as target:
                        shutil.copyfileobj(stream, target, 1 << 20)
                    process.kill()
                    return folder / name
    raise LabError(
        "the package holds no kernel source",
        place=deb.name,
        remedy="give the kernel's source yourself: strata lab build --source linux-7.2.x.tar.xz",
    )


def _unpack(tarball: Path, tree: Path, progress: SetupProgress) -> None:
    tree.mkdir()
    exclude = [f"--exclude={pattern}" for pattern in LEFT_OUT]
    with progress.step(f"kernel: unpacking {tarball.name}", total=_ESTIMATED_FILES) as step:

        def count(line: str) -> None:
            del line
            step.advance()

        run_logged(
            ["tar", "-x", "-v", "-f", str(tarball), "--strip-components=1", "--no-same-owner", *exclude],
            log=tree.parent / "unpack.log",
            title="unpacking the kernel's source",
            remedy="check the free space, and that the tarball is complete",
            cwd=tree,
            on_line=count,
        )
    (tree.parent / "unpack.log").unlink()


def copy_tree(tree: Path, target: Path) -> None:
    """Copy a source tree by hard links, which is quick; patch and make replace files, never rewrite them."""
    subprocess.run(["cp", "-al", str(tree), str(target)], check=True)
