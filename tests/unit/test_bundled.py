# SPDX-License-Identifier: Apache-2.0
"""An installed Strata has every file that one in a clone reads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from strata import bundled
from strata.bundled import clone_root, project_root, study_path
from strata.errors import ToolError

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ("Cargo.*", "applications", "cpus", "crates", "devices", "image", "kernel", "scripts/packages")


def test_the_wheel_has_every_file_of_the_code_and_of_the_bundled_folders() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "src", "studies", *BUNDLED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = {path for path in listed.stdout.splitlines() if (ROOT / path).exists()}
    wanted = {p.removeprefix("src/") if p.startswith("src/") else f"strata/bundled/{p}" for p in tracked}

    packed = {each.distribution_path for each in WheelBuilder(str(ROOT)).recurse_included_files()}

    assert len(wanted) > 500
    assert wanted <= packed
    assert not [path for path in packed - wanted if not path.endswith(".py")]  # files not yet tracked


def test_only_one_place_knows_where_the_files_are() -> None:
    """A path that a module makes from its own place leads nowhere in a wheel."""
    told = [
        path.name
        for path in (ROOT / "src").rglob("*.py")
        if "__file__).resolve().parents" in (text := path.read_text()) or "parents[3]" in text
    ]

    assert not told


def test_a_bundled_study_is_found_by_name_and_by_path_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quickstart, kvm = ROOT / "studies/quickstart.toml", ROOT / "studies/published/kvm.toml"
    for name, file in {
        "quickstart": quickstart,
        "studies/quickstart.toml": quickstart,
        "kvm": kvm,
        "studies/published/kvm.toml": kvm,
        "../quickstart": Path("../quickstart"),
        "nonsense": Path("nonsense"),
    }.items():
        assert study_path(name) == file, name

    (tmp_path / "quickstart").mkdir()  # the user's own comes first
    assert study_path("quickstart") == Path("quickstart")


def test_a_command_that_changes_the_sources_names_a_clone_as_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clone_root("a skeleton") == project_root() == ROOT
    monkeypatch.setattr(bundled, "project_root", lambda: Path(bundled.__file__).parent)

    with pytest.raises(ToolError, match="a skeleton needs a clone"):
        clone_root("a skeleton")
