# SPDX-License-Identifier: Apache-2.0
"""Which lab is used: the user's or root's shared one, only if it is whole and belongs to these sources."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import shown_json
from strata.errors import LabError, ToolError
from strata.lab.cache import Cache, Entry, Inputs
from strata.lab.lab import ESSENTIAL, Part, Project, ensure_lab, find_lab, parts, require_lab
from strata.lab.programs import cargo_version, program_wanted
from strata.lab.progress import SILENCE
from strata.lab.upkeep import clean_caches

ROOT = Path(__file__).resolve().parents[2]
PARTS = parts(ROOT)
FILES = {"kernel": "linux", "image": "root.squashfs"}
PROFILE = "[profile.release.package"
FILES |= {"agent": "strata-agent", "load": "strata-load", "qemu-kernel": "vmlinuz"}


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Cache, Cache]:
    """The user's cache and the shared one, both empty and of this test alone."""
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("STRATA_SHARED_CACHE", str(tmp_path / "shared"))
    return Cache(tmp_path / "own"), Cache(tmp_path / "shared")


def put(cache: Cache, part: Part, *, found: str = "gcc 12", locked: bool = True) -> Entry:
    """Put a finished part into a cache, as its build would have."""

    def make(folder: Path) -> Mapping[str, Any]:
        text = f"{part} of {found}"
        (folder / FILES.get(part, "zfs.ko")).write_text(text)
        moved = [] if locked else ["fio: 3.39-1 -> 3.39-2"]
        made = {"sha256": f"hash of {text}", "size_bytes": len(text), "release": "7.2.3", "source": "7.2.3"}
        made |= {"interface": "the same", "modules": [["zfs", "hash"]]}
        made |= {"version": "7.2.3", "aliases": {}, "built_in": []}
        return made | {"locked": locked, "packages": {"fio": "3.39-1"}, "moved": moved, "compiler": "rustc"}

    kind = part if part in FILES else "modules"
    entry = cache.build(kind, Inputs(Project.read(ROOT).wanted(part), {"compiler": found}), make)
    cache.root.chmod(0o755)
    return entry


def test_a_lab_is_found_once_all_its_parts_are_there(caches: tuple[Cache, Cache]) -> None:
    for part in ESSENTIAL:
        assert find_lab() is None
        put(caches[0], part)

    found = find_lab()

    assert found is not None
    assert found.fingerprint.agent_sha256 == "hash of agent of gcc 12"
    assert found.unlocked == ()
    assert found.kernel.path.read_text() == "kernel of gcc 12"


def test_a_lab_is_one_without_the_load_generator(caches: tuple[Cache, Cache]) -> None:
    for part in ESSENTIAL:
        put(caches[0], part)
    assert require_lab().load is None

    put(caches[0], "load")

    found = require_lab().load
    assert found is not None
    assert (found.path.name, found.sha256) == ("strata-load", "hash of load of gcc 12")


def project_of(folder: Path) -> Path:
    """The project's crates, to be changed."""
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copyfile(ROOT / name, folder / name)
    shutil.copytree(ROOT / "crates", folder / "crates")
    return folder


def test_a_program_is_built_again_when_what_it_is_made_of_changes(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    (library,) = (key for key in program_wanted("agent", project) if key.startswith("library sha2 "))
    name, version = library.split()[1:]
    at = f'name = "{name}"\nversion = '
    for file, old, new, stale in (
        ("crates/agent/src/new.rs", "", "// new", {"agent"}),
        ("crates/load/src/new.rs", "", "// new", {"load"}),
        ("crates/load/personalities/new.toml", "", " ", {"load"}),
        ("crates/load/tests/new.rs", "", "// new", set()),
        ("rust-toolchain.toml", "", "[toolchain]", {"agent", "load"}),
        ("Cargo.lock", f'{at}"{version}"', f'{at}"99.0.0"', {"agent"}),  # a library of one program
        ("Cargo.toml", f"{PROFILE}.strata-load]", f"{PROFILE}.strata-load]\ncodegen-units = 7", {"load"}),
        ("Cargo.toml", "", f'\n{PROFILE}."*"]\nopt-level = 1\n', {"agent", "load"}),
    ):
        before = {part: program_wanted(part, project) for part in ("agent", "load")}
        text = (project / file).read_text() if (project / file).exists() else ""
        assert old in text
        (project / file).parent.mkdir(exist_ok=True)
        (project / file).write_text(text.replace(old, new, 1) if old else text + new)

        found = {part for part, was in before.items() if program_wanted(part, project) != was}
        assert found == stale, (file, new)


def test_a_damaged_list_of_libraries_is_named(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    (project / "Cargo.lock").write_text("not TOML")

    with pytest.raises(LabError, match="the list of libraries cannot be read"):
        program_wanted("agent", project)


def test_what_must_be_built_is_named(caches: tuple[Cache, Cache]) -> None:
    put(caches[0], "image")

    with pytest.raises(LabError, match="the lab's kernel and agent must be built first") as caught:
        require_lab()

    assert caught.value.remedy == "run `strata lab build`"


def test_an_ordinary_user_has_the_lab_that_root_has_shared(caches: tuple[Cache, Cache]) -> None:
    for part in PARTS:
        put(caches[1], part)

    found = require_lab()

    assert found.image.path.is_relative_to(caches[1].root)


def test_a_part_with_a_flipped_bit_is_not_used(caches: tuple[Cache, Cache]) -> None:
    paths = {each: put(caches[0], each).path / FILES.get(each, "zfs.ko") for each in PARTS}
    for part in (*FILES, "zfs"):
        sound = paths[part].read_bytes()
        paths[part].write_bytes(sound[:3] + bytes([sound[3] ^ 1]) + sound[4:])

        assert Project.read(ROOT).find(part) is None
        assert (find_lab() is None) == (part in ESSENTIAL)

        paths[part].write_bytes(sound)
        assert Project.read(ROOT).find(part) is not None


def test_another_compiler_does_not_make_a_built_kernel_stale(caches: tuple[Cache, Cache]) -> None:
    for part in PARTS:
        put(caches[0], part)
    newer = put(caches[0], "kernel", found="gcc 14")

    caches[0].choose(newer)

    assert require_lab().kernel.sha256 == "hash of kernel of gcc 14"


def test_a_lab_of_other_versions_than_the_tested_ones_says_so(caches: tuple[Cache, Cache]) -> None:
    for part in PARTS:
        put(caches[0], part, locked=part != "image")

    assert require_lab().unlocked == ("fio: 3.39-1 -> 3.39-2",)


def test_what_is_there_is_not_built_again(
    caches: tuple[Cache, Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")  # no compiler, no apt: building anything would fail
    for part in PARTS:
        put(caches[1], part)

    assert ensure_lab(SILENCE) == require_lab()


def test_cleaning_keeps_what_is_current(caches: tuple[Cache, Cache]) -> None:
    kept = [put(caches[0], part) for part in PARTS]
    stale = caches[0].build("agent", Inputs({"old": "1"}, {}), lambda folder: {})

    assert clean_caches(everything=False) > 0

    assert not stale.path.exists()
    assert [entry.path.exists() for entry in kept] == [True] * len(PARTS)


def test_cleaning_everything_leaves_nothing(caches: tuple[Cache, Cache]) -> None:
    for cache in caches:
        for part in PARTS:
            put(cache, part)

    clean_caches(everything=True)

    assert find_lab() is None
    kinds = ("kernel", "modules", "image", "agent", "load")
    assert [path for cache in caches for kind in kinds for path in (cache.root / kind).iterdir()] == []


def test_status_tells_machines_what_is_built_and_what_is_missing(caches: tuple[Cache, Cache]) -> None:
    put(caches[0], "image", locked=False)
    caches[0].build("agent", Inputs({"old": "1"}, {}), lambda folder: {"compiler": "rustc"})

    status = shown_json("lab", "show")

    assert (status["ready"], status["missing"]) == (False, [part for part in PARTS if part != "image"])
    states = {(row["kind"], row["state"], row["locked"]) for row in status["entries"]}
    assert states == {("image", "current", False), ("agent", "stale", None)}


@pytest.mark.parametrize("said", [None, "cargo 1.63.0", "nonsense"])
def test_the_error_about_a_missing_or_old_cargo_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    if said is not None:
        (tmp_path / "cargo").write_text(f"#!/bin/sh\necho '{said}'\n")
        (tmp_path / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolError) as caught:
        cargo_version()

    assert "cargo-web" in (caught.value.remedy or "")
