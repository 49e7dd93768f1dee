# SPDX-License-Identifier: Apache-2.0
"""The library of disk models: compiled when it is needed, from the sources that the kernel has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernel_model import Geometry
from strata.bundled import project_root
from strata.errors import LabError, ToolError
from strata.lab.cache import Cache
from strata.lab.model import (
    FOLDER,
    READ,
    WRITE,
    ModelledDisk,
    account_names,
    build_model,
    model_wanted,
    part_names,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of nothing but a small library."""
    folder = tmp_path / "project" / FOLDER
    folder.mkdir(parents=True)
    (folder / "Makefile").write_text("SOURCES := one.c \\\n\ttwo.c\n")
    (folder / "one.c").write_text('#include "both.h"\nint one(void) { return ONE; }\n')
    (folder / "two.c").write_text('#include "both.h"\nint two(void) { return ONE + ONE; }\n')
    (folder / "both.h").write_text("#define ONE 1\n")
    return tmp_path / "project"


def test_the_library_is_compiled_once_and_again_when_a_source_changes(project: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    first = build_model(cache, project)
    again = build_model(cache, project)
    (project / FOLDER / "both.h").write_text("#define ONE 2\n")
    changed = build_model(cache, project)

    assert first == again
    assert first.is_file()
    assert changed != first
    assert changed.is_file()


def test_the_error_about_a_missing_compiler_says_what_to_install(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolError, match="no C compiler") as caught:
        build_model(Cache(tmp_path / "cache"), project)

    assert "gcc" in str(caught.value.remedy)


def test_sources_that_do_not_compile_are_named(project: Path, tmp_path: Path) -> None:
    (project / FOLDER / "two.c").write_text("int two(void) { return nothing; }\n")

    with pytest.raises(LabError, match=r"two\.c.*nothing"):
        build_model(Cache(tmp_path / "cache"), project)


def test_every_source_of_the_makefile_counts_and_exists() -> None:
    wanted = model_wanted(project_root())
    sources = [name for name in wanted if name.endswith(".c")]

    assert {"library.c", "disk.c", "rotating.c", "flash.c"} <= set(sources)
    assert "model.h" in wanted


def test_a_disk_goes_on_from_one_list_to_the_next() -> None:
    disk = ModelledDisk(Geometry().text())
    first = disk.closed_loop(READ, [0, 80_000_000], 8, depth=1)
    second = disk.closed_loop(READ, [0], 8, depth=1)

    assert second.arrival_ns[0] == first.complete_ns.max() == disk.account()["busy_ns"] - second.latency_ns[0]
    assert disk.account()["reads"] == 3


def test_standing_idle_moves_the_clock_and_nothing_else() -> None:
    disk = ModelledDisk(Geometry().text())
    disk.advance(5_000)

    assert disk.now_ns == 5_000
    assert set(disk.account().values()) == {0}


def test_a_queue_that_is_too_short_is_an_error() -> None:
    with pytest.raises(ValueError, match="queue was full"):
        ModelledDisk(Geometry(queue_depth=4, window=4).text()).closed_loop(READ, np.arange(10), 8, depth=5)


def test_a_wrong_text_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match="line 2"):
        ModelledDisk("name=sda\nnonsense=1\n")


def test_parts_and_counters_come_from_the_library() -> None:
    assert set(part_names()) < set(account_names())
    assert {"queue_ns", "seek_ns", "flush_ns", "fault_ns"} <= set(part_names())


def test_an_io_beyond_the_capacity_is_refused_before_it_does_harm() -> None:
    geometry = Geometry()
    disk = ModelledDisk(geometry.text())

    with pytest.raises(ValueError, match="beyond"):
        disk.closed_loop(WRITE, [0, geometry.capacity_sectors - 7], 8, depth=1)

    last = disk.closed_loop(WRITE, [geometry.capacity_sectors - 8], 8, depth=1)
    assert len(last.order) == 1
