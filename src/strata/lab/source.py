# SPDX-License-Identifier: Apache-2.0
"""The sources of the kernel and of its modules: Debian's packages, or the user's tarball, unpacked once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from strata.errors import LabError
from strata.lab.apt import Apt
from strata.lab.cache import Cache, Entry, Inputs, file_hash, is_sound
from strata.lab.confined import refuse_strange
from strata.lab.own_source import OwnSource, git_objects, kernel_version
from strata.lab.process import output_of, run_logged
from strata.lab.progress import SetupProgress
from strata.lab.recipe import ModuleSource, Recipe

# Three quarters of the source, which the lab's kernel never compiles. Kconfig files and Makefiles stay,
# because the configuration reads them all, and so do the common network drivers (loopback, veth).
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
_WRITTEN_MAX: Final = 2000  # files of a git tree that are written by name; more are written with all others

SourceApt = Callable[[], Apt]
"""The apt that sees the sources' packages; made only when something must be fetched."""


@dataclass(frozen=True)
class Workshop:
    """The common means of the builds of the kernel and of its modules."""

    cache: Cache
    recipe: Recipe
    progress: SetupProgress
    apt: SourceApt
    locked: Mapping[str, str]  # the versions of Debian's sources that the project is tested with
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))  # compilers at once


@dataclass(frozen=True)
class _Candidate:
    """The version of a package that the mirror has."""

    mirror: Apt
    package: str
    version: str
    size_bytes: int

    @classmethod
    def of(cls, part: str, package: str, apt: SourceApt, progress: SetupProgress) -> Self:
        mirror = apt()
        with progress.step(f"{part}: reading Debian's package lists"):
            mirror.update()
        return cls(mirror, package, *mirror.candidate(package))

    def fetch(self, title: str, folder: Path, progress: SetupProgress) -> Path:
        with progress.step(f"{title} {self.version}") as step:
            return self.mirror.download(self.package, self.version, folder, self.size_bytes, step)

    def fetch_tarball(self, folder: Path, progress: SetupProgress) -> Path:
        """Download the package of a kernel's source and take the tarball out of it."""
        deb = self.fetch(f"kernel: downloading {self.package}", folder, progress)
        tarball = _tarball_of(deb, folder)
        deb.unlink()
        return tarball


def source_from_tarball(shop: Workshop, tarball: Path) -> Entry:
    """Unpack a tarball given by the user; the kernel's tree is the entry's folder ``linux``."""
    if not tarball.is_file():
        raise LabError(
            "there is no such file", place=str(tarball), remedy="give the path of a linux-7.2.x.tar.xz"
        )
    digest = file_hash(tarball)
    inputs = Inputs(wanted={"tarball": digest, "left_out": " ".join(LEFT_OUT)}, found={})

    def make(folder: Path) -> Mapping[str, Any]:
        version, series = _unpack(tarball, folder / "linux", shop.progress), shop.recipe.series
        if shop.recipe.own is None and not re.match(rf"{re.escape(series)}\b", version):
            raise LabError(
                f"this is Linux {version}, and the lab's patches are for {series}",
                place=str(tarball),
                remedy=f"give a linux-{series}.x tarball",
            )
        return {"version": version, "package_version": None, "tarball_sha256": digest}

    return shop.cache.build("source", inputs, make)


def source_of_user(shop: Workshop, own: OwnSource) -> Entry:
    """The source in the cache. Of a git tree only the files that differ from a known one are written."""
    if own.path.is_file():
        return source_from_tarball(shop, own.path)

    def make(folder: Path) -> Mapping[str, Any]:
        tree = folder / "linux"
        with shop.progress.step(f"kernel: taking {own.kernel.name}"):
            bases = (each for each in shop.cache.entries("source") if "git" in each.inputs.wanted)
            base = next(filter(is_sound, bases), None)
            changed = None if base is None else _changed(own, base.inputs.wanted["git"])
            if base is None or changed is None or len(changed) > _WRITTEN_MAX:
                tree.mkdir()
                _write(own, [], tree, shop)
            else:
                copy_tree(base.path / "linux", tree)
                for path in changed:
                    (tree / path).unlink(missing_ok=True)
                there = [path for path, status in changed.items() if status != "D"]
                if there:
                    _write(own, there, tree, shop)
        return {"version": own.version, "package_version": None, "tarball_sha256": own.sha}

    return shop.cache.build("source", Inputs({"git": own.sha, "left_out": " ".join(LEFT_OUT)}, {}), make)


def _changed(own: OwnSource, base: str) -> dict[str, str] | None:
    """The paths that differ from another tree, each with git's letter; None if git lacks that tree."""
    try:
        listed = git_objects(
            own.path, "diff-tree", "-r", "-z", "--no-renames", "--name-status", base, own.sha
        )
    except LabError:
        return None
    fields = listed.split("\0")
    return dict(zip(fields[1::2], fields[::2], strict=False))


def _write(own: OwnSource, paths: list[str], tree: Path, shop: Workshop) -> None:
    """Write files of the source that the lab may compile: these paths, or all for no paths."""
    with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
        archive = Path(scratch) / "source.tar"
        git_objects(
            own.path,
            "archive",
            "--format=tar",
            "--prefix=linux/",
            f"--output={archive}",
            own.sha,
            "--",
            *paths,
        )
        _untar(archive, tree, shop.cache.root / "logs" / "unpack.log", "check the free space")
    refuse_strange(tree)


def source_from_debian(shop: Workshop) -> Entry:
    """Unpack Debian's kernel source package, downloading it unless some version of it is in the cache."""
    wanted = {"package": shop.recipe.package, "left_out": " ".join(LEFT_OUT)}
    if (entry := shop.cache.current("source", wanted)) is not None:
        return entry
    candidate = _Candidate.of("kernel", shop.recipe.package, shop.apt, shop.progress)

    def make(folder: Path) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            tarball = candidate.fetch_tarball(Path(scratch), shop.progress)
            found = _unpack(tarball, folder / "linux", shop.progress)
            digest = file_hash(tarball)
            return {"version": found, "package_version": candidate.version, "tarball_sha256": digest}

    return shop.cache.build("source", Inputs(wanted, {"version": candidate.version}), make)


def kernel_tarball(package: str, apt: SourceApt, folder: Path, progress: SetupProgress) -> tuple[Path, str]:
    """Download the tarball of Debian's kernel source package; returns it and the package's version."""
    candidate = _Candidate.of("kernel", package, apt, progress)
    return candidate.fetch_tarball(folder, progress), candidate.version


def module_source(shop: Workshop, source: ModuleSource) -> Entry:
    """Unpack the source of a kernel module, downloading it unless some version of it is in the cache.

    A change of the locked version fetches it again. The source is the entry's folder ``source``.
    """
    package, series = source.package, source.series
    wanted = {"package": package, "series": series, "locked": shop.locked.get(package, "")}
    if (entry := shop.cache.current("module-source", wanted)) is not None:
        return entry
    candidate = _Candidate.of(package, package, shop.apt, shop.progress)
    version = candidate.version
    if not version.split(":", 1)[-1].startswith(f"{series}."):
        raise LabError(
            f"the mirror's {package} is {version}, and the lab's patches are for {series}",
            remedy="update the project, or use a mirror of that time with STRATA_DEBIAN_MIRROR",
        )

    def make(folder: Path) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            deb = candidate.fetch(f"{package}: downloading", Path(scratch), shop.progress)
            unpacked = Path(scratch) / "package"
            output_of(["dpkg-deb", "-x", str(deb), str(unpacked)])
            (tree,) = (unpacked / "usr/src").iterdir()
            tree.rename(folder / "source")
            return {"version": version, "package_version": version, "sha256": file_hash(deb)}

    return shop.cache.build("module-source", Inputs(wanted, {"version": version}), make)


def _tarball_of(deb: Path, folder: Path) -> Path:
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


def _unpack(tarball: Path, tree: Path, progress: SetupProgress) -> str:
    """Unpack a kernel's tarball; returns the version that its top Makefile states."""
    tree.mkdir()
    with progress.step(f"kernel: unpacking {tarball.name}", total=_ESTIMATED_FILES) as step:
        remedy = "check the free space, and that the tarball is complete"
        _untar(tarball, tree, tree.parent / "unpack.log", remedy, lambda _: step.advance())
    (tree.parent / "unpack.log").unlink()
    refuse_strange(tree)
    makefile = tree / "Makefile"
    return kernel_version(makefile.read_text(errors="replace") if makefile.is_file() else "", str(tarball))


def _untar(
    archive: Path, tree: Path, log: Path, remedy: str, on_file: Callable[[str], None] | None = None
) -> None:
    names = ["-v"] if on_file else []
    exclude = [f"--exclude={pattern}" for pattern in LEFT_OUT]
    argv = [
        "tar",
        "-x",
        *names,
        "-f",
        str(archive),
        "--strip-components=1",
        "--no-same-owner",
        "--no-same-permissions",
    ]
    argv += exclude
    title, on_line = "unpacking the kernel's source", on_file or (lambda line: None)
    run_logged(argv, log=log, title=title, remedy=remedy, cwd=tree, on_line=on_line)


def copy_tree(tree: Path, target: Path) -> None:
    """Copy a source tree quickly, by hard links: patch and make replace files, never rewrite them."""
    output_of(["cp", "-al", str(tree), str(target)])
