# SPDX-License-Identifier: Apache-2.0
"""The files that plans read, as plain tars in the cache: of users, the kernel's source, packages.

A file is read once: its entry stands under the hash of what it was unpacked from. So a plan, which
has that hash, is all that a runner needs to find it.

The packages are those of the workload ``os-installation``: a minimal Debian. Their archive holds what an
installer brings to an empty filesystem, so that a plan needs no package's name:

- the files of the essential packages, as ``dpkg-deb --extract`` would put them there: nothing could be run in
  the new root without them;
- all packages, in two folders of apt's archives: ``essential`` and ``rest``, to be installed in this order;
- an empty database of dpkg, the device nodes that every system has, and a policy that starts no services.
"""

from __future__ import annotations

import errno
import hashlib
import io
import lzma
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.bundled import project_root
from strata.diagnostics.names import Diagnostic
from strata.errors import LabError, StrataError, StudyError
from strata.files import open_named
from strata.lab.apt import Apt
from strata.lab.cache import Cache, Entry, Inputs, cache_root, caches, file_hash, shared_root
from strata.lab.image import DATE, ImageSpec
from strata.lab.progress import ProgressStep, SetupProgress
from strata.lab.recipe import Recipe
from strata.lab.source import kernel_tarball
from strata.model.inputs import (
    CONTENT,
    LINUX_SOURCE,
    PACKAGES,
    REQUESTS,
    InputFile,
    Unpacked,
    pack_folder,
    trace_hash,
)
from strata.model.step import INPUT_PREFIX
from strata.plan.model import Plan, PlanInput
from strata.units import SECTOR_BYTES, format_size

_CHUNK_BYTES: Final = 1 << 20
_KEPT_FREE_BYTES: Final = 256 << 20
_FILE: Final = "content.tar"


@dataclass(frozen=True)
class ProvidedInput:
    """A plain tar, padded with zeros to whole sectors, with its name in the plan."""

    name: str
    path: Path
    sha256: str
    size_bytes: int


def input_disk(index: int) -> str:
    """The block device in the lab of the plan's input with this index."""
    return f"input{index}"


def input_variables(plan: Plan, places: Sequence[str] | None = None) -> dict[str, str]:
    """The variables that stand for a plan's inputs: their places, by default the disks of a lab."""
    places = places or [f"/dev/{input_disk(index)}" for index in range(len(plan.inputs))]
    return {f"{INPUT_PREFIX}{each.name}": place for each, place in zip(plan.inputs, places, strict=True)}


def input_setting(plan: Plan) -> dict[str, Any]:
    """The hashes of a plan's inputs, by name: part of the trial's identity.

    For an input outside the cache, because its trial does not run: what it would be made from.
    """
    found = ((each, _find(each)) for each in plan.inputs)
    hashes = {
        each.name: _stated(each) if entry is None else entry.manifest["sha256"] for each, entry in found
    }
    return {"inputs": hashes} if hashes else {}


def provided_inputs(plan: Plan) -> list[ProvidedInput]:
    """A plan's inputs, in its order; `provide_inputs` has put them into the cache."""
    provided = []
    for each in plan.inputs:
        if (entry := _find(each)) is None:
            cause = f"{each.source} is not in the cache"
            raise LabError(cause, place=str(cache_root()), remedy="run the study again")
        made = entry.manifest
        provided.append(ProvidedInput(each.name, entry.path / _FILE, made["sha256"], made["size_bytes"]))
    return provided


def _find(wanted: PlanInput) -> Entry | None:
    stated = _stated(wanted)
    found = (cache.current("input", stated) for cache in caches())
    return next(filter(None, found), None)


def _stated(wanted: PlanInput) -> dict[str, str]:
    """The inputs of an entry that the project, or the user, states."""
    if wanted.sha256 is not None:
        form = {"form": _REQUESTS_FORM} if wanted.kind == "trace" else {}
        return {wanted.kind: wanted.sha256, **form}
    return built_in_wanted(wanted.source, project_root())


def provide_inputs(plan: Plan, files: Iterable[InputFile], progress: SetupProgress) -> None:
    """Put a plan's inputs into the cache unless they are there: fetched, unpacked, padded.

    ``files`` are the users' files of its study.

    Raises LabError if an input cannot be fetched, no file has its hash, or the cache has no room for it, and
    StudyError if an archive is damaged, or has changed since the study was read.
    """
    by_hash = {file.sha256: file for file in files}
    for each in plan.inputs:
        if _find(each) is None:
            _provide(each, by_hash, progress)


def _provide(wanted: PlanInput, by_hash: Mapping[str, InputFile], progress: SetupProgress) -> None:
    cache, inputs = Cache(cache_root()), Inputs(_stated(wanted), {})
    if wanted.sha256 is not None:
        file, sha256 = by_hash.get(wanted.sha256), wanted.sha256
        if file is None:
            raise LabError(
                f"the plan reads {wanted.source}, and no file of the study has its content",
                place=f"inputs.{wanted.name}",
                remedy="run it with the study that it was planned from, and with the same file",
            )
        path = file.path
        archived = _packed if path.is_dir() else _unpacked
        unpacked = {"trace": _requests, "archive": archived, "image": _copied}.get(wanted.kind, _single)

        def copy(folder: Path) -> dict[str, Any]:
            # Users who cannot read the file cannot read its copy, from its first byte on.
            os.close(os.open(folder / _FILE, os.O_CREAT | os.O_EXCL, 0o600 if file.private else 0o644))
            return unpacked(path, sha256, folder / _FILE, progress)

        cache.build("input", inputs, copy)
        return
    make = _linux_source if wanted.source == LINUX_SOURCE else _package_set
    entry = cache.build("input", inputs, lambda folder: make(folder / _FILE, progress))
    if os.geteuid() == 0:
        Cache(shared_root()).publish(entry)


def _unpacked(archive: Path, sha256: str | None, target: Path, progress: SetupProgress) -> dict[str, Any]:
    """Write an archive as a plain tar; returns its part of the entry's manifest."""
    packed_bytes = archive.stat().st_size
    with open_named(archive) as file:
        content = Unpacked(file)
        _require_room(archive, packed_bytes * content.growth)
        with progress.step(f"input: unpacking {archive.name}", packed_bytes) as step:
            try:
                free_bytes = shutil.disk_usage(cache_root()).free
                _copy(content, target, step, max(0, free_bytes - _KEPT_FREE_BYTES))
            except Diagnostic as error:
                raise StudyError(error.cause, place=str(archive), remedy=error.remedy) from error
            except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
                raise _unreadable(archive, error) from error
        file.seek(0)
        changed = sha256 is not None and hashlib.file_digest(file, "sha256").hexdigest() != sha256
    if changed:
        raise _changed(archive)
    return _made(target)


def _packed(folder: Path, sha256: str, target: Path, progress: SetupProgress) -> dict[str, Any]:
    """Write a user's folder as a plain tar."""
    try:
        with progress.step(f"input: packing {folder.name}"), target.open("wb") as out:
            pack_folder(folder, out)
    except OSError as error:
        raise _unreadable(folder, error) from error
    if file_hash(target) != sha256:
        raise _changed(folder)
    return _made(target)  # in tar's records of 10 KiB: whole sectors


# A change of the lines of `request_lines` changes this and reads the traces anew.
_REQUESTS_FORM: Final = "1"


def _requests(trace: Path, sha256: str, target: Path, progress: SetupProgress) -> dict[str, Any]:
    """Write a user's trace as a tar of its requests."""
    from strata.traces.requests import read_any, request_lines  # noqa: PLC0415  NumPy and DuckDB load slowly

    shown = progress.step(f"input: reading the trace {trace.name}")
    with shown, tempfile.TemporaryFile(dir=target.parent) as content:
        content.writelines(line.encode() for line in request_lines(read_any(trace)))
        if trace_hash(trace) != sha256:
            raise _changed(trace)
        member = _member(REQUESTS, 0o644)
        member.size = content.tell()
        content.seek(0)
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
            tar.addfile(member, content)
    return _made(target)


def _single(source: Path, sha256: str, target: Path, progress: SetupProgress) -> dict[str, Any]:
    """Write a user's file as a tar of it."""
    size_bytes = source.stat().st_size
    _require_room(source, size_bytes)
    try:
        with progress.step(f"input: packing {source.name}", size_bytes), open_named(source) as file:
            member = _member(CONTENT, 0o644)
            member.size = os.fstat(file.fileno()).st_size
            with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
                tar.addfile(member, file)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(source, error) from error
    if digest != sha256:
        raise _changed(source)
    return _made(target)


def _copied(image: Path, sha256: str, target: Path, progress: SetupProgress) -> dict[str, Any]:
    """Copy a user's disk image as it is: QEMU reads it there, and writes nothing to it."""
    _require_room(image, image.stat().st_size)
    with progress.step(f"input: copying {image.name}"):
        shutil.copyfile(image, target)
    if file_hash(target) != sha256:
        raise _changed(image)
    return _made(target)


def _changed(archive: Path) -> StudyError:
    return StudyError("it has just been changed", place=str(archive), remedy="run the study again")


def _made(target: Path) -> dict[str, Any]:
    return {"sha256": file_hash(target), "size_bytes": target.stat().st_size}


def _copy(content: Unpacked, target: Path, step: ProgressStep, limit_bytes: int) -> None:
    """Write ``content``, and zeros to the end of the last sector."""
    before_bytes = 0
    with target.open("wb") as out:
        while chunk := content.read(_CHUNK_BYTES):
            if out.tell() + len(chunk) > limit_bytes:
                raise OSError(errno.ENOSPC, f"it has more than the {format_size(limit_bytes)} that are free")
            out.write(chunk)
            step.advance(content.consumed_bytes - before_bytes)
            before_bytes = content.consumed_bytes
        out.write(b"\0" * (-out.tell() % SECTOR_BYTES))


def _require_room(archive: Path, needed_bytes: int) -> None:
    free_bytes = shutil.disk_usage(cache_root()).free
    if free_bytes < needed_bytes:
        raise LabError(
            f"unpacking {archive.name} may take {format_size(needed_bytes)}, "
            f"and {format_size(free_bytes)} are free",
            place=str(cache_root()),
            remedy="free some space there, or name another cache with STRATA_CACHE",
        )


def _unreadable(archive: Path, error: Exception) -> StrataError:
    if getattr(error, "errno", None) is None:  # of the decompression, not of the operating system
        return StudyError(
            f"the archive is damaged: {error}", place=str(archive), remedy="fetch or make it again"
        )
    return LabError(
        f"the archive cannot be unpacked: {error}",
        place=str(archive),
        remedy=f"free some space in {cache_root()}, or name another cache with STRATA_CACHE",
    )


def _linux_source(target: Path, progress: SetupProgress) -> dict[str, Any]:
    root = project_root()
    spec, recipe = ImageSpec.read(root / "image"), Recipe.read(root / "kernel")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        tarball, version = kernel_tarball(recipe.package, spec.source_apt, Path(scratch), progress)
        return _unpacked(tarball, None, target, progress) | {"version": version}


def _package_set(target: Path, progress: SetupProgress) -> dict[str, Any]:
    spec = ImageSpec.read(project_root() / "image")
    apt = spec.installation_apt()
    with progress.step("packages: reading Debian's package lists"):
        apt.update()
    locked = {"essential": spec.locked_essential, "rest": spec.locked_rest}
    stages = package_stages(apt, spec)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        with progress.step("packages: downloading") as step:
            versions = {name: version for stage in stages.values() for name, version in stage.items()}
            files = apt.download_all(versions, Path(scratch), step)
        write_package_set(target, stages, files)
    return _made(target) | {"packages": versions, "locked": stages == locked}


# A change of the archive's layout changes this and makes the archive anew.
_LAYOUT: Final = "1"
_ARCHIVES: Final = "var/cache/apt/archives"
# Linux's Documentation/admin-guide/devices.txt
_NODES: Final = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
_NO_SERVICES: Final = b"#!/bin/sh\nexit 101\n"


def package_stages(apt: Apt, spec: ImageSpec) -> dict[str, dict[str, str]]:
    """The packages of a minimal Debian, with the mirror's versions, in two stages.

    First the packages that Debian marks as essential, with their dependencies: nothing can be configured
    before them. Then the rest.
    """
    available = apt.available()
    marked = [each["Package"] for each in available if each.get("Essential") == "yes"]
    required = [each["Package"] for each in available if each.get("Priority") == "required"]
    essential = apt.closure(marked)
    everything = apt.closure([*marked, *required, *spec.installation])
    rest = {name: version for name, version in everything.items() if name not in essential}
    return {"essential": essential, "rest": rest}


def built_in_wanted(source: str, root: Path) -> dict[str, str]:
    """The inputs of one of Strata's own archives that the project in ``root`` states now."""
    spec = ImageSpec.read(root / "image")
    if source == LINUX_SOURCE:
        package = Recipe.read(root / "kernel").package
        return {"source": source, "package": package, "locked": spec.locked_kernel.get(package, "")}
    assert source == PACKAGES
    stages = {"essential": spec.locked_essential, "rest": spec.locked_rest}
    named = {stage: " ".join(f"{n}={locked[n]}" for n in sorted(locked)) for stage, locked in stages.items()}
    stated = {"layout": _LAYOUT, "release": spec.release, "packages": " ".join(spec.installation)}
    return {"source": source, **stated, **named}


def write_package_set(
    archive: Path, stages: Mapping[str, Mapping[str, str]], files: Mapping[str, Path]
) -> None:
    """Write the tar of these stages, given every package's file; a damaged one is a `LabError`."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(stages["essential"]):
            _extract(files[name], tar)
        for node, number in _NODES.items():
            member = _member(f"dev/{node}", 0o666, tarfile.CHRTYPE)
            member.devmajor, member.devminor = number
            tar.addfile(member)
        _add(tar, "usr/sbin/policy-rc.d", _NO_SERVICES, mode=0o755)
        for name in ("status", "available"):
            _add(tar, f"var/lib/dpkg/{name}", b"")
        for stage, versions in stages.items():
            for path in sorted(files[name] for name in versions):
                _add(tar, f"{_ARCHIVES}/{stage}/{path.name}", path.read_bytes())


def _extract(package: Path, tar: tarfile.TarFile) -> None:
    with (
        suppress(tarfile.TarError),
        subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process,
    ):
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as content:
            for member in content:
                tar.addfile(member, content.extractfile(member) if member.isreg() else None)
    if process.returncode != 0:
        raise LabError("the package is damaged", place=package.name, remedy="run the same command again")


def _member(name: str, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.type, member.mtime = mode, kind, int(DATE)
    member.uname = member.gname = "root"
    return member


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    member = _member(name, mode)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
