# SPDX-License-Identifier: Apache-2.0
"""The lab's cache: complete entries or none, one builder at a time, stale when an input changes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from strata.errors import LabError
from strata.lab.cache import Cache, Inputs, cache_root, shared_cache, tree_hashes

INPUTS = Inputs({"source": "1"}, {"compiler": "gcc 12"})


def fill(folder: Path) -> Mapping[str, Any]:
    (folder / "thing").write_text("made")
    return {"sha256": "ab"}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def build_slowly(root: Path, log: Path) -> None:
    def make(folder: Path) -> Mapping[str, Any]:
        with log.open("a") as file:
            file.write("building\n")
        time.sleep(0.5)
        return fill(folder)

    Cache(root).build("agent", INPUTS, make)


def test_two_builds_of_one_entry_do_not_collide(cache: Cache, tmp_path: Path) -> None:
    log = tmp_path / "log"
    builders = [multiprocessing.Process(target=build_slowly, args=(cache.root, log)) for _ in range(3)]

    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()

    assert [builder.exitcode for builder in builders] == [0, 0, 0]
    assert log.read_text() == "building\n"


def build_forever(root: Path, started: Path) -> None:
    def make(folder: Path) -> Mapping[str, Any]:
        (folder / "half").write_text("half")
        with Cache(root).kept_work("objects", INPUTS) as work:
            (work / "object").write_text("compiled")
            started.touch()
            time.sleep(60)
        return {}

    Cache(root).build("agent", INPUTS, make)


def test_a_killed_build_leaves_no_entry_and_its_work_is_continued(cache: Cache, tmp_path: Path) -> None:
    started = tmp_path / "started"
    builder = multiprocessing.Process(target=build_forever, args=(cache.root, started))
    builder.start()
    while not started.exists():
        time.sleep(0.01)
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    assert cache.find("agent", INPUTS) is None

    def make(folder: Path) -> Mapping[str, Any]:
        with cache.kept_work("objects", INPUTS) as work:
            assert (work / "object").read_text() == "compiled"
        return fill(folder)

    entry = cache.build("agent", INPUTS, make)

    assert [path.name for path in (cache.root / "agent").iterdir()] == [entry.key]


def test_objects_are_kept_for_one_set_of_inputs_at_a_time(cache: Cache) -> None:
    other = Inputs({"source": "2"}, {})
    with cache.kept_work("objects", INPUTS) as old:
        (old / "object").write_text("old")
    with pytest.raises(LabError), cache.kept_work("objects", other):
        raise LabError("it does not compile")
    assert old.exists()

    with cache.kept_work("objects", other) as new:
        (new / "object").write_text("new")

    assert list((cache.root / "work").iterdir()) == [new]


def test_cleaning_leaves_alone_what_a_running_build_works_on(cache: Cache) -> None:
    def make(folder: Path) -> Mapping[str, Any]:
        with cache.kept_work("objects", INPUTS) as work:
            cache.remove_leftovers(everything=True)

            assert work.is_dir()
        assert folder.is_dir()
        return fill(folder)

    cache.build("agent", INPUTS, make)


def test_of_several_current_entries_the_chosen_one_is_preferred(cache: Cache) -> None:
    first = cache.build("agent", INPUTS, fill)
    second = cache.build("agent", Inputs(INPUTS.wanted, {"compiler": "gcc 13"}), fill)
    os.utime(first.path, (1, 1))
    os.utime(second.path, (2, 2))
    assert cache.current("agent", INPUTS.wanted) == second

    cache.choose(first)

    assert cache.current("agent", INPUTS.wanted) == first


def test_a_damaged_entry_is_built_again(cache: Cache) -> None:
    entry = cache.build("agent", INPUTS, fill)
    (entry.path / "manifest.json").write_text("{")

    again = cache.build("agent", INPUTS, fill)

    assert again.manifest == {"sha256": "ab"}
    assert cache.entries("agent") == [again]


def test_what_root_publishes_can_be_read_by_others(cache: Cache, tmp_path: Path) -> None:
    def make(folder: Path) -> Mapping[str, Any]:
        for name, mode in (("program", 0o700), ("image", 0o600)):
            (folder / name).write_text("x")
            (folder / name).chmod(mode)
        return {}

    entry = cache.build("agent", INPUTS, make)

    shared = Cache(tmp_path / "shared").publish(entry)

    modes = {path.name: path.stat().st_mode & 0o777 for path in shared.path.iterdir()}
    stated = dict.fromkeys(("inputs.json", "manifest.json", "hashes.json"), 0o644)
    assert modes == {"program": 0o755, "image": 0o644, **stated}
    for folder in (shared.path, shared.path.parent, shared.path.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o755
    assert Cache(tmp_path / "shared").current("agent", INPUTS.wanted) == shared


def test_what_another_build_has_just_published_stays(cache: Cache, tmp_path: Path) -> None:
    entry = cache.build("agent", INPUTS, fill)

    class Late(Cache):
        @contextmanager
        def locked(self, *names: str) -> Iterator[int]:
            (Cache(self.root).publish(entry).path / "in use").touch()
            with super().locked(*names) as index:
                yield index

    there = Late(tmp_path / "shared").publish(entry)

    assert (there.path / "in use").exists()


def test_a_shared_cache_that_anybody_can_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_SHARED_CACHE", str(tmp_path))
    tmp_path.chmod(0o755)
    assert shared_cache() is not None

    tmp_path.chmod(0o777)

    assert shared_cache() is None


@pytest.mark.parametrize("uid", [0, 1234])
@pytest.mark.parametrize("place", ["cache", "above", "link"])
def test_a_cache_that_others_may_write_to_is_refused_for_everybody(
    place: str, uid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = tmp_path / "above"
    (above / "cache").mkdir(parents=True)
    (above / "link").symlink_to("cache")
    monkeypatch.setenv("STRATA_CACHE", str(above / ("link" if place == "link" else "cache")))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert cache_root().parent == above

    (above if place == "above" else above / "cache").chmod(0o777)

    with pytest.raises(LabError, match="other users may write to this folder") as caught:
        cache_root()
    assert "chmod go-w" in (caught.value.remedy or "")


@pytest.mark.parametrize("open_folder", ["kind", "entry"])
def test_an_entry_that_others_could_have_put_there_is_not_used(open_folder: str, cache: Cache) -> None:
    entry = cache.build("kernel", INPUTS, fill)
    assert cache.find("kernel", INPUTS) == entry

    (entry.path.parent if open_folder == "kind" else entry.path).chmod(0o777)

    assert cache.find("kernel", INPUTS) is None
    assert cache.entries("kernel") == []


def test_a_cache_that_cannot_be_written_says_so_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(LabError) as caught:
        Cache(tmp_path / "file" / "cache").build("agent", INPUTS, fill)

    assert caught.value.place == str(tmp_path / "file" / "cache")
    assert "STRATA_CACHE" in (caught.value.remedy or "")


def test_hashes_of_a_tree_change_with_a_name_a_byte_and_the_executable_bit(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    paths = (tmp_path / "a", tmp_path / "two", tmp_path / "not there")
    before = tree_hashes(tmp_path, *paths)
    assert sorted(before) == ["a/one", "two"]

    (tmp_path / "two").chmod(0o755)
    executable = tree_hashes(tmp_path, *paths)
    (tmp_path / "a" / "one").write_text("x")
    changed = tree_hashes(tmp_path, *paths)

    assert executable != before
    assert changed["a/one"] != executable["a/one"]
