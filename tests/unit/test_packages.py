# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from strata.bundled import project_root
from strata.errors import LabError, StudyError
from strata.lab import variant
from strata.lab.image import ImageSpec
from strata.lab.progress import SILENCE
from strata.model.packages import lock_path
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.reading.load import load_study
from study_texts import SOUND, mistakes

OWN = """
[workloads.own]
workload = "command"
packages = ["nginx-light", "sqlite3"]
load = ["nginx -v"]
"""


class Mirror:
    """A mirror with one package, which needs another and the C library."""

    asked: int = 0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def update(self) -> None:
        Mirror.asked += 1

    def candidate(self, package: str) -> tuple[str, int]:
        if package != "nginx-light":
            raise LabError("there is none")
        return "1.26", 1

    def closure(self, packages: Sequence[str]) -> Mapping[str, str]:
        return {"nginx-light": "1.26", "nginx-common": "1.26", "libc6": "2.41"}


@pytest.fixture(autouse=True)
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "Apt", Mirror)


def test_versions_are_locked_once_and_are_part_of_the_plans_that_need_them(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SOUND + OWN)

    first = variant.lock_packages(load_study(file, catalogue()), SILENCE)
    asked = Mirror.asked
    again = variant.lock_packages(load_study(file, catalogue()), SILENCE)

    study = load_study(file, catalogue())
    own = compile_trial(study, "ext4", "own", 1).prerequisites.packages
    assert (first, again, Mirror.asked) == (True, False, asked)
    assert own == ("nginx-common=1.26", "nginx-light=1.26")
    assert compile_trial(study, "ext4", "oltp", 1).prerequisites.packages == ()
    wanted = variant.variant_spec(own)
    assert set(wanted.packages) - set(ImageSpec.read(project_root() / "image").packages) == {
        "nginx-common",
        "nginx-light",
    }
    assert wanted.locked["nginx-light"] == "1.26"


def test_a_package_that_does_not_exist_is_told_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SOUND + OWN.replace("nginx-light", "nginx-lihgt"))

    with pytest.raises(StudyError, match="has no package nginx-lihgt") as found:
        variant.lock_packages(load_study(file, catalogue()), SILENCE)

    assert (found.value.place or "").endswith("study.toml: workloads.own.packages")
    assert not lock_path(file).exists()


def test_packages_of_the_image_need_no_lock(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SOUND + OWN.replace('"nginx-light", ', ""))

    assert not variant.lock_packages(load_study(file, catalogue()), SILENCE)
    assert not lock_path(file).exists()


def test_what_is_no_name_and_no_lock_is_refused(tmp_path: Path) -> None:
    found = mistakes(tmp_path, SOUND + OWN.replace("nginx-light", "../nginx"))
    (tmp_path / "study.packages.lock").write_text("asked = 1\n")

    assert [*found] == ["workloads.own.packages[0]"]
    assert "no lock of packages" in str(mistakes(tmp_path, SOUND + OWN))


def test_a_lock_holds_names_and_versions_alone(tmp_path: Path) -> None:
    """They become part of a script that root runs while the image is built."""
    for text in (
        'asked = ["nginx-light"]\n[packages]\n"nginx-light" = "1\\nEND\\ntouch /tmp/planted\\n"\n',
        'asked = ["nginx-light"]\n[packages]\n"nginx-light" = "$(id)"\n',
        'asked = ["nginx-light"]\n[packages]\n"a\\nPackage: *" = "1.26"\n',
        'asked = ["--setup-hook=id"]\n[packages]\n"nginx-light" = "1.26"\n',
    ):
        (tmp_path / "study.packages.lock").write_text(text)
        assert "no lock of packages" in str(mistakes(tmp_path, SOUND + OWN))
