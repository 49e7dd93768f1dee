# SPDX-License-Identifier: Apache-2.0
"""A cached file with one flipped bit is found before it is used, and made again."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from strata.cli.lab.show import cache_row
from strata.lab.cache import KINDS, Cache, Inputs, is_sound
from strata.lab.disk_image import DiskImage
from strata.lab.integrity import MEMORY, damage, data_hash

INPUTS = Inputs({"source": "1"}, {"compiler": "gcc 12"})
HOLE_BYTES = 1 << 30


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    return Cache(tmp_path / "cache")


def fill(folder: Path) -> Mapping[str, Any]:
    """An entry with each form of content: a program, a folder of files and links, a sparse disk."""
    (folder / "linux").write_bytes(b"kernel" * 50_000)
    (folder / "modules" / "deep").mkdir(parents=True)
    (folder / "modules" / "deep" / "zfs.ko").write_bytes(b"module" * 100)
    (folder / "modules" / "link").symlink_to("deep/zfs.ko")
    with (folder / "0.disk").open("wb") as disk:
        disk.seek(HOLE_BYTES)
        disk.write(b"123456789" * 1000)
        disk.truncate(2 * HOLE_BYTES)
    return {"sha256": "ab", "size_bytes": 300_000}


def flip(path: Path, at: int) -> None:
    """Flip one bit, and put the time of change back, as an attacker would."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


FLIPS = {
    "linux": 299_999,
    "modules/deep/zfs.ko": 5,
    "0.disk": HOLE_BYTES + 4,
    "inputs.json": 30,
    "manifest.json": 15,
    "hashes.json": 20,
}


@pytest.mark.parametrize("name", FLIPS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_flipped_bit_is_found_and_the_entry_is_made_again(
    kind: str, name: str, cache: Cache, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = cache.build(kind, INPUTS, fill)
    assert cache.find(kind, INPUTS) == entry
    assert cache_row(entry, {})["what"], "every kind has a description"
    flip(entry.path / name, FLIPS[name])

    assert cache.find(kind, INPUTS) is None
    assert cache.current(kind, INPUTS.wanted) is None
    again = cache.build(kind, INPUTS, fill)

    assert cache.find(kind, INPUTS) == again
    assert (again.path / "linux").read_bytes() == b"kernel" * 50_000
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("cache: ")]
    unreadable = name in {"inputs.json", "manifest.json"} and not said  # it was no JSON any more
    assert unreadable or [f"cache: {kind}/{entry.key}: " in line for line in said] == [True]


def test_what_is_damaged_while_a_run_lasts_is_found_although_it_was_compared_before(cache: Cache) -> None:
    entry = cache.build("kernel", INPUTS, fill)
    time.sleep(2.1)  # from now on it is remembered
    assert is_sound(entry)
    assert is_sound(entry)

    flip(entry.path / "linux", 7)

    assert not is_sound(entry)


def test_what_was_compared_is_remembered_by_other_processes(cache: Cache) -> None:
    entry = cache.build("kernel", INPUTS, fill)
    time.sleep(2.1)
    assert is_sound(entry)

    remembered = json.loads((cache.root / MEMORY).read_text())

    assert set(remembered) == {str(path) for path in entry.path.iterdir() if path.name != "hashes.json"}


def test_a_memory_that_is_damaged_is_as_good_as_none(cache: Cache, tmp_path: Path) -> None:
    entry = cache.build("kernel", INPUTS, fill)
    for index, text in enumerate(("[1]", '{"a": 1}', "{", '{"a": [1]}', "null")):
        memory = tmp_path / f"memory-{index}"
        memory.write_text(text)
        assert damage(entry.path, memory) is None


def test_an_entry_without_hashes_or_without_a_file_is_not_used(cache: Cache) -> None:
    for missing in ("hashes.json", "linux", "0.disk"):
        entry = cache.build("kernel", INPUTS, fill)
        (entry.path / missing).unlink()
        assert cache.find("kernel", INPUTS) is None


@pytest.mark.parametrize("link", ["another target", "a file in its place"])
def test_a_link_is_compared_as_a_link(link: str, cache: Cache) -> None:
    entry = cache.build("source", INPUTS, fill)
    path = entry.path / "modules" / "link"
    path.unlink()
    if link == "another target":
        path.symlink_to("/etc/passwd")
    else:
        shutil.copyfile(entry.path / "modules" / "deep" / "zfs.ko", path)

    assert not is_sound(entry)


def test_the_status_says_what_is_damaged(cache: Cache) -> None:
    entry = cache.build("kernel", INPUTS, fill)
    used = {("kernel", entry.key): entry.path}
    assert cache_row(entry, used)["state"] == "current"

    flip(entry.path / "linux", 0)

    assert cache_row(entry, used)["state"] == "damaged"


@pytest.fixture
def images(tmp_path: Path) -> Iterator[tuple[DiskImage, DiskImage]]:
    with DiskImage(tmp_path) as one, DiskImage(tmp_path) as other:
        yield one, other


def test_a_hole_and_zeros_are_the_same_content(images: tuple[DiskImage, DiskImage]) -> None:
    for image, zeros in zip(images, (0, 1 << 20), strict=True):
        os.pwrite(image.descriptor, bytes(zeros), 1 << 20)
        os.pwrite(image.descriptor, b"data", 5 << 20)
        os.ftruncate(image.descriptor, 8 << 20)

    assert images[0].sha256() == images[1].sha256()
    assert images[0].copy().sha256() == images[0].sha256()


def test_the_place_of_data_counts(images: tuple[DiskImage, DiskImage]) -> None:
    for image, at in zip(images, (1 << 20, 2 << 20), strict=True):
        os.pwrite(image.descriptor, b"data", at)
        os.ftruncate(image.descriptor, 8 << 20)

    assert images[0].sha256() != images[1].sha256()


def test_extents_that_share_a_block_count_it_once(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        for at in (0, 8192, 20480, 1 << 20):  # with holes of a block of the filesystem between them
            file.seek(at)
            file.write(b"x" * 4096)
        file.truncate(2 << 20)
    dense = tmp_path / "dense"
    dense.write_bytes(path.read_bytes())

    hashes = []
    for each in (path, dense):
        with each.open("rb") as file:
            hashes.append(data_hash(file.fileno()))

    assert hashes[0] == hashes[1]
