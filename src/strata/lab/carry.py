# SPDX-License-Identifier: Apache-2.0
"""A built lab on its way to another machine: its parts with their hashes, and an archive of them.

The archive is a plain tar: ``lab.json``, which names the parts, then each part's files below ``KIND/KEY/``,
as in the cache.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from strata.bundled import project_root
from strata.errors import LabError
from strata.files import explained, refuse_folder, sync, temporary_name
from strata.lab.cache import Cache, Entry, cache_root, find_entries, shared_root
from strata.lab.integrity import HASHES, damage
from strata.lab.lab import ESSENTIAL, Part, Project, parts
from strata.lab.model import MODEL, find_model, model_wanted
from strata.model.inputs import SmallHeaders
from strata.words import listed

_INDEX: Final = "lab.json"
_AGAIN: Final = "copy the file again, or write it again with `strata lab export`"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    part: Part
    kind: str = Field(pattern="^[a-z-]+$")
    key: str = Field(pattern="^[0-9a-f]{20}$")
    sha256: str  # see `Entry.sha256`


class _Index(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    parts: list[_Part]


def carried_parts() -> dict[Part, Entry]:
    """The built parts of the current lab that may be copied to another machine, by name.

    `Entry.sha256` says whether a copy is the same. OpenZFS's modules are missing: their licence, the CDDL,
    and the kernel's do not allow both to be given away together, so they are built where they are used. The
    disk models for user space, which are no part of a lab, spare the other machine a compiler.
    """
    project = Project.read(project_root())
    read_once = functools.cache(find_entries)  # all groups of modules are of one kind
    kernel = project.find("kernel")
    found = {part: project.find(part, kernel, read_once) for part in _portable(project) if part != MODEL}
    found[MODEL] = find_model(project.root)
    return {part: entry for part, entry in found.items() if entry is not None}


def _portable(project: Project) -> dict[Part, tuple[str, dict[str, str]]]:
    """The kind of each part that is carried, and the inputs that the project states."""
    groups = {each.name for each in project.recipe.groups if each.source is not None}
    names = [part for part in parts(project.root) if part not in groups]
    stated = {part: (project.kind(part), project.wanted(part)) for part in names}
    return stated | {MODEL: (MODEL, model_wanted(project.root))}


def export_lab(file: Path) -> dict[Part, Entry]:
    """Write the lab's parts to an archive and return them. Raises LabError, also if the lab is not built."""
    refuse_folder(file)
    found = carried_parts()
    if missing := [part for part in ESSENTIAL if part not in found]:
        raise LabError(f"the lab's {listed(missing)} must be built first", remedy="run `strata lab build`")
    index = _Index(
        parts=[_Part(part=part, kind=e.kind, key=e.key, sha256=e.sha256) for part, e in found.items()]
    )
    part = file.with_name(temporary_name(file.name))
    with explained(file, "write the lab", LabError):
        try:
            with tarfile.open(part, "w", format=tarfile.GNU_FORMAT, dereference=True) as archive:
                with _folder("export") as folder:
                    (folder / _INDEX).write_text(index.model_dump_json(indent=2) + "\n")
                    archive.add(folder / _INDEX, _INDEX, filter=_plain)
                for entry in found.values():
                    files = sorted(path for path in entry.path.rglob("*") if path.is_file())
                    for path in files:
                        name = f"{entry.kind}/{entry.key}/{path.relative_to(entry.path).as_posix()}"
                        archive.add(path, name, filter=_plain)
            sync(part)
            part.rename(file)
        finally:
            part.unlink(missing_ok=True)
    return found


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without owner and time, so that one lab makes one archive."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """An empty folder in the user's cache, deleted at the end."""
    cache = Cache(cache_root())
    folder = cache.root / "work" / name
    with cache.locked(name):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def import_lab(file: Path) -> dict[Part, Entry]:
    """Put the parts of an archive into the cache, and return them. As root into the shared cache, too.

    Nothing is taken from an archive with a path that leads elsewhere, a link, a wrong hash or a missing file,
    or of another version of Strata: LabError.
    """
    with _folder("import") as folder:
        with explained(file, "read the lab", LabError, reading=True):
            _unpack(file, folder)
        found = dict(_checked(file, folder))
        with explained(cache_root(), "keep the lab", LabError):
            taken = {part: Cache(cache_root()).publish(entry) for part, entry in found.items()}
            for entry in taken.values() if os.geteuid() == 0 else ():
                Cache(shared_root()).publish(entry)
    return taken


def _unpack(file: Path, folder: Path) -> None:
    try:
        with tarfile.open(file, "r:", tarinfo=SmallHeaders) as archive:
            while (member := archive.next()) is not None:
                _write(archive, member, folder)
    except (tarfile.TarError, EOFError, ValueError, FileExistsError, NotADirectoryError) as error:
        raise _refused(file, "it is no archive of a lab, or it is cut off") from error


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a file of an archive. Debian 12's Python has no filter of members, and this refuses more."""
    name = PurePosixPath(member.name)
    content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
    if content is None or name.is_absolute() or ".." in name.parts:
        raise tarfile.TarError(f"{member.name} is no plain file in the archive's folder")
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as written:
        shutil.copyfileobj(content, written, 1 << 20)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _checked(file: Path, folder: Path) -> Iterator[tuple[Part, Entry]]:
    try:
        index = _Index.model_validate_json((folder / _INDEX).read_bytes())
    except (OSError, ValueError) as error:
        raise _refused(file, "it has no list of parts that this version of Strata reads") from error
    if missing := sorted({*ESSENTIAL} - {each.part for each in index.parts}):
        raise _refused(file, f"its list of parts has no {listed(missing)}")
    stated, others = _portable(Project.read(project_root())), []
    for part in index.parts:
        entry = Cache(folder).read(part.kind, part.key)
        if (fault := "is missing" if entry is None else _fault(entry, part)) is not None or entry is None:
            raise _refused(file, f"its {part.part} {fault}")
        if stated.get(part.part) != (entry.kind, dict(entry.inputs.wanted)):
            others.append(part.part)
        yield part.part, entry
    if others:
        raise LabError(
            f"its {listed(others)} {'are' if others[1:] else 'is'} of another version of Strata",
            place=str(file),
            remedy="use one version on both machines; `strata --version` states it",
        )


def _fault(entry: Entry, stated: _Part) -> str | None:
    """What an unpacked part has that was not written, as a predicate; None for nothing."""
    hashes = entry.path / HASHES
    if not hashes.is_file() or entry.sha256 != stated.sha256 or entry.inputs.key != stated.key:
        return "has another hash than the list of parts states"
    if (found := damage(entry.path, None)) is not None:
        return f"is damaged: {found}"
    named = {*json.loads(hashes.read_bytes()), HASHES}
    more = sorted(path.name for path in entry.path.iterdir() if path.name not in named)
    return f"has a file without a hash: {more[0]}" if more else None


def _refused(file: Path, cause: str) -> LabError:
    return LabError(cause, place=str(file), remedy=_AGAIN)
