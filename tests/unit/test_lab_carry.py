# SPDX-License-Identifier: Apache-2.0
"""A built lab is carried to another machine whole and unchanged, or not at all."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from test_lab_parts import PARTS, put

import strata.lab.cache
import strata.lab.upkeep
from command_line import refusal, shown_json
from strata.errors import LabError
from strata.lab.cache import Cache, Entry
from strata.lab.carry import carried_parts, export_lab, import_lab
from strata.lab.lab import find_lab
from strata.lab.upkeep import clean_caches

Rewrite = Callable[[dict[str, bytes]], object]


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of a machine with every part; from then on the caches are another machine's."""
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "there"))
    monkeypatch.setenv("STRATA_SHARED_CACHE", str(tmp_path / "there-shared"))
    for part in PARTS:
        put(Cache(tmp_path / "there"), part)
    file = tmp_path / "lab.tar"
    export_lab(file)
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("STRATA_SHARED_CACHE", str(tmp_path / "here-shared"))
    return file


def rewritten(file: Path, change: Rewrite, more: tuple[tarfile.TarInfo, ...] = ()) -> None:
    """The archive with other content below its names, and with further members."""
    with tarfile.open(file) as archive:
        content = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    change(content)
    with tarfile.open(file, "w") as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in more:
            archive.addfile(member, io.BytesIO(bytes(member.size)))


def linked(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


def filled(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, 4
    return member


def test_another_machine_has_the_same_lab_but_openzfs(exported: Path, tmp_path: Path) -> None:
    assert find_lab() is None

    taken = import_lab(exported)

    found = find_lab()
    assert found is not None
    assert found.kernel.path.is_relative_to(tmp_path / "here")
    assert set(taken) == set(PARTS) - {"zfs"}
    assert set(found.modules) == set(taken) - {"kernel", "image", "agent", "load", "qemu-kernel"}
    assert {part: entry.sha256 for part, entry in carried_parts().items()} == {
        part: entry.sha256 for part, entry in taken.items()
    }
    again = tmp_path / "again.tar"
    export_lab(again)
    assert again.read_bytes() == exported.read_bytes()


def test_the_commands_state_the_same_hashes(exported: Path, tmp_path: Path) -> None:
    taken = shown_json("lab", "import", str(exported))
    assert taken["kernel"]["sha256"]
    assert shown_json("lab", "export", str(tmp_path / "again.tar")) == taken


def test_a_hostile_or_damaged_archive_is_refused_and_nothing_of_it_is_kept(
    exported: Path, tmp_path: Path
) -> None:
    whole = exported.read_bytes()
    with tarfile.open(exported) as archive:
        names = archive.getnames()
    kernel = next(name for name in names if name.endswith("/linux"))
    hashes = kernel.replace("linux", "hashes.json")
    outside = tmp_path / "outside"

    def forged(content: dict[str, bytes]) -> None:
        """Another kernel, whose own hashes fit."""
        content[kernel] += b"!"
        stated = json.loads(content[hashes])
        stated["linux"] = "0" * 64
        content[hashes] = json.dumps(stated).encode()

    def renamed(content: dict[str, bytes]) -> None:
        """A part whose key is not the hash of its inputs."""
        index = json.loads(content["lab.json"])
        key = index["parts"][0]["key"]
        index["parts"][0]["key"] = "0" * 20
        content["lab.json"] = json.dumps(index).encode()
        for name in [name for name in content if f"/{key}/" in name]:
            content[name.replace(key, "0" * 20)] = content.pop(name)

    def of_another_version(content: dict[str, bytes]) -> None:
        text = content["lab.json"].replace(b'"part": "agent"', b'"part": "load"')
        content["lab.json"] = text

    cases: dict[str, tuple[Rewrite, tuple[tarfile.TarInfo, ...]]] = {
        "a path upwards": (len, (filled("../outside"),)),
        "an absolute path": (len, (filled(str(outside)),)),
        "a symbolic link": (len, (linked("kernel/link", str(tmp_path)), filled("kernel/link/outside"))),
        "a hard link": (len, (linked("agent/x", kernel, tarfile.LNKTYPE),)),
        "a device": (len, (filled("agent/x", tarfile.CHRTYPE),)),
        "a file twice": (len, (filled(kernel),)),
        "a file as a folder": (len, (filled(f"{kernel}/x"),)),
        "a file without a hash": (len, (filled(kernel.replace("linux", "more")),)),
        "a flipped byte": (lambda content: content.update({kernel: content[kernel][:-1] + b"?"}), ()),
        "a forged hash": (forged, ()),
        "a forged key": (renamed, ()),
        "a missing file": (lambda content: content.pop(kernel), ()),
        "a missing part": (lambda content: [content.pop(n) for n in names if n.startswith("kernel/")], ()),
        "no list of parts": (lambda content: content.pop("lab.json"), ()),
        "another version": (of_another_version, ()),
        "an empty list": (lambda content: content.update({"lab.json": b'{"parts": []}'}), ()),
        "a list of another kind": (lambda content: content.update({"lab.json": b'{"parts": [{}]}'}), ()),
    }
    wrong = []
    for name, (change, more) in cases.items():
        exported.write_bytes(whole)
        rewritten(exported, change, more)
        wrong += [f"{name}: {fault}" for fault in faults_of_refusal(exported)]
    for cut_bytes in (0, 1, 700, len(whole) // 2, len(whole) - (10 << 10)):
        exported.write_bytes(whole[:cut_bytes])
        wrong += [f"cut off at {cut_bytes}: {fault}" for fault in faults_of_refusal(exported)]

    assert not wrong
    assert not outside.exists()


def test_a_folder_is_no_place_for_an_archive(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (".", "/", tmp_path):
        assert refusal("lab", "export", place).cause == "it is a folder"


def faults_of_refusal(file: Path) -> list[str]:
    """The differences from a refusal in two lines that keeps nothing."""
    try:
        taken: dict[str, Entry] = import_lab(file)
    except LabError as error:
        kept = [f"{part} is kept" for part in carried_parts()]
        lines = str(error).splitlines()
        return [*kept, *([] if len(lines) == 2 and str(file) in lines[0] else [str(error)])]
    return [f"taken: {list(taken)}"]


def test_a_packaged_lab_is_used_and_left_as_it_is(exported: Path, tmp_path: Path) -> None:
    """The parts of the distribution strata-storage-lab; the root image is the user's own."""
    packaged, own = Cache(tmp_path / "packaged"), Cache(tmp_path / "here")
    for part, entry in import_lab(exported).items():
        packaged.publish(entry)
        if part != "image":
            own.remove(own.read(entry.kind, entry.key) or entry)
    before = sorted(packaged.root.rglob("*"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STRATA_SHARED_CACHE", str(tmp_path / "none"))
        patched.setattr(strata.lab.cache, "packaged_root", lambda: packaged.root)
        patched.setattr(strata.lab.upkeep, "packaged_root", lambda: packaged.root)
        found = find_lab()
        assert found is not None
        assert found.kernel.path.is_relative_to(packaged.root)
        assert found.image.path.is_relative_to(own.root)
        clean_caches(everything=True)
    assert sorted(packaged.root.rglob("*")) == before
    assert not own.entries("image")
