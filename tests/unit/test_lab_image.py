# SPDX-License-Identifier: Apache-2.0
"""The root image's definition, its lock, and what an image says when the mirror moved on."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from strata.errors import LabError, ToolError
from strata.lab import apt, image
from strata.lab.apt import backport_pins
from strata.lab.cache import Cache
from strata.lab.image import ImageSpec, build_image, installed_packages, moved_packages, write_lock
from strata.lab.progress import SILENCE

ROOT = Path(__file__).resolve().parents[2]


def definition(folder: Path, *, packages: str = '["fio"]', more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "packages.toml").write_text(f'release = "trixie"\nworkloads = {packages}\n{more}')
    (folder / "begin.sh").write_text("#!/bin/sh\n")
    (folder / "finish.sh").write_text("#!/bin/sh\n")
    return folder


def test_the_projects_image_is_locked_to_exact_versions() -> None:
    spec = ImageSpec.read(ROOT / "image")

    assert set(spec.packages) <= set(spec.locked)
    assert set(spec.modules) < set(spec.locked_kernel)
    assert not [name for name in spec.locked if "dkms" in name or name == "systemd"]


def test_the_image_is_another_one_when_anything_it_is_made_from_changes(tmp_path: Path) -> None:
    folder = definition(tmp_path / "image")
    seen = [ImageSpec.read(folder).wanted()]
    definition(folder, packages='["fio", "strace"]')
    seen.append(ImageSpec.read(folder).wanted())
    write_lock(folder, {"fio": "3.39-1"}, {}, {})
    seen.append(ImageSpec.read(folder).wanted())
    (folder / "finish.sh").write_text("#!/bin/sh\ntrue\n")
    seen.append(ImageSpec.read(folder).wanted())
    definition(folder, packages='["fio", "strace"]', more='[backports]\ncontrib = ["zfs-linux"]\n')
    seen.append(ImageSpec.read(folder).wanted())

    assert len({str(wanted) for wanted in seen}) == 5


def test_a_change_of_the_locked_kernel_does_not_make_the_image_stale(tmp_path: Path) -> None:
    folder = definition(tmp_path / "image")
    write_lock(folder, {"fio": "3.39-1"}, {"linux-source-7.2": "7.2.1-1"}, {})
    before = ImageSpec.read(folder).wanted()

    write_lock(folder, {"fio": "3.39-1"}, {"linux-source-7.2": "7.2.2-1"}, {})

    assert ImageSpec.read(folder).wanted() == before


def test_a_broken_definition_is_named(tmp_path: Path) -> None:
    for text in ("release = [", 'workloads = ["fio"]\n'):
        folder = definition(tmp_path / "image")
        (folder / "packages.toml").write_text(text)
        with pytest.raises(LabError) as caught:
            ImageSpec.read(folder)
        assert caught.value.place == str(folder / "packages.toml")


ZFS = '[backports]\ncontrib = ["zfs-linux"]\n\n[modules]\nzfs-dkms = "zfsutils-linux"\n'


def test_from_backports_comes_what_is_stated_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_DEBIAN_MIRROR", "http://mirror.example/debian")
    spec = ImageSpec.read(definition(tmp_path / "image", more=ZFS))

    sources = [line.split("] ")[1] for line in spec.image_sources.splitlines()]
    stated, rest = spec.image_preferences.strip().split("\n\n")

    mirror = "http://mirror.example/debian"
    assert sources == [f"{mirror} trixie main", f"{mirror} trixie-backports contrib"]
    assert stated == backport_pins("trixie-backports", {"contrib": ["zfs-linux"]}).strip()
    assert rest == "Package: *\nPin: release n=trixie-backports\nPin-Priority: -1"
    assert spec.packages == ("fio",)


def test_the_kernels_apt_sees_the_sources_of_its_modules_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").touch()
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "keys")
    monkeypatch.setenv("STRATA_DEBIAN_MIRROR", "http://mirror.example")
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path))
    folder = definition(tmp_path / "image", more=ZFS)
    write_lock(folder, {}, {"zfs-dkms": "2.4.4-1"}, {})

    ImageSpec.read(folder).source_apt()

    lines = (tmp_path / "apt/sources.list").read_text().splitlines()
    preferences = (tmp_path / "apt/preferences").read_text()
    assert [line.split("example ")[1] for line in lines] == [
        "trixie main contrib",
        "trixie-backports main contrib",
    ]
    assert preferences.startswith("Package: zfs-dkms\nPin: version 2.4.4-1\n")
    assert "Package: *" not in preferences  # the kernel's own source is a backport


def test_a_module_and_its_programs_must_have_the_same_version(tmp_path: Path) -> None:
    folder = definition(tmp_path / "image", more=ZFS)
    write_lock(folder, {"zfsutils-linux": "2.4.4-1"}, {"zfs-dkms": "2.4.4-1"}, {})
    assert ImageSpec.read(folder).modules == {"zfs-dkms": "zfsutils-linux"}
    write_lock(folder, {"zfsutils-linux": "2.4.4-1"}, {"zfs-dkms": "2.4.5-1"}, {})

    with pytest.raises(LabError, match=r"zfs-dkms 2\.4\.5-1 and zfsutils-linux 2\.4\.4-1") as caught:
        ImageSpec.read(folder)

    assert caught.value.place == str(folder / "packages.lock")
    assert "make lock" in (caught.value.remedy or "")
    assert ImageSpec.read(folder, check_lock=False).locked_kernel == {"zfs-dkms": "2.4.5-1"}  # as it does


def test_what_moved_on_the_mirror_is_said() -> None:
    locked = {"bash": "5.2", "fio": "3.39-1", "gone": "1"}

    moved = moved_packages(locked, {"bash": "5.2", "fio": "3.39-2", "new": "7"})

    assert moved == ["fio: 3.39-1 -> 3.39-2", "gone: 1 -> absent", "new: not locked -> 7"]
    assert moved_packages(locked, locked) == []


def test_only_installed_packages_are_listed(tmp_path: Path) -> None:
    status = (
        b"Package: bash\nStatus: install ok installed\nVersion: 5.2\nDescription: a shell\n Package: no\n\n"
        b"Package: old\nStatus: deinstall ok config-files\nVersion: 1\n\n"
    )
    archive = tmp_path / "root.tar"
    with tarfile.open(archive, "w") as files:
        member = tarfile.TarInfo("./var/lib/dpkg/status")
        member.size = len(status)
        files.addfile(member, io.BytesIO(status))

    assert installed_packages(archive) == {"bash": "5.2"}


def test_a_user_without_subordinate_ids_is_told_the_command_that_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0xFFFE)
    given = [tmp_path / "subuid", tmp_path / "subgid"]
    monkeypatch.setattr(image, "_SUBORDINATE", given)
    given[0].write_text("nobody:100000:65536\n")
    given[1].write_text("nobodyelse:100000:65536\n")

    with pytest.raises(ToolError, match="subordinate ids for nobody") as caught:
        build_image(Cache(tmp_path / "cache"), ImageSpec.read(ROOT / "image"), SILENCE)
    assert "usermod --add-subuids" in str(caught.value.remedy)


def test_the_machines_package_lists_are_not_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts empty /tmp, where mmdebstrap keeps the configuration that its own cleaning uses."""
    tool = tmp_path / "mmdebstrap"
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/words\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(image, "_mode", lambda: "root")

    with pytest.raises(LabError, match="installing the root image's packages"):
        build_image(Cache(tmp_path / "cache"), ImageSpec.read(ROOT / "image"), SILENCE)

    assert "--skip=cleanup/apt" in (tmp_path / "words").read_text().splitlines()
