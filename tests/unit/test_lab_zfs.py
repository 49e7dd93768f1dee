# SPDX-License-Identifier: Apache-2.0
"""The build of modules: for which kernel, from which version, and what of both makes other modules.

The kernel and the source are tiny ones with a Makefile of their own, as in test_lab_kernel.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strata.bundled import project_root
from strata.errors import LabError
from strata.lab.apt import Apt
from strata.lab.cache import Cache, Entry, Inputs
from strata.lab.kernel import build_kernel, interface_of
from strata.lab.modules import ModulesBuild, build_modules
from strata.lab.progress import SILENCE
from strata.lab.recipe import ModuleSource, Recipe
from strata.lab.source import Workshop, module_source

VERSION = "2.4.4-1~bpo13+1"
OTHER = "2.4.3-1"
LINUX = """\
VERSION = 7
PATCHLEVEL = 2
SUBLEVEL = 3
.PHONY: linux modules_prepare fs/near.ko fs/far.ko
allnoconfig:
\t@cp $(KCONFIG_ALLCONFIG) .config
linux:
\t@mkdir -p include/config; echo 7.2.3-strata >include/config/kernel.release
\t@cat drivers/disk.c .config >linux; echo linux >>made; touch vmlinux.symvers
modules_prepare:
\t@test -e vmlinux.symvers
fs/near.ko fs/far.ko:
\t@echo "  CC [M]  $@"; mkdir -p fs; echo $@ >$@; echo $@ >>made
"""
CONFIGURE = """\
echo "checking $*"; test -e ${1#--with-linux=}/Module.symvers || exit 1
echo "$KCFLAGS" >flags; echo "$ARCH_UM" >variables
"""
ZFS = """\
all:
\t@echo "  CC [M]  arc.o"
\t@cp arc.c module/zfs.ko; cp arc.c module/spl.ko
"""
RECIPE = """\
series = "7.2"
patches = "*.patch"
config = "lab.config"
target = "linux"
[[copy]]
from = "disk"
files = ["disk.c"]
to = "drivers"
[make]
variables = ["ARCH=um"]
[modules.near]
features = ["near:*"]
files = ["fs/near"]
[modules.far]
features = ["far"]
needs = ["near"]
files = ["fs/far"]
[modules.zfs]
features = ["module:zfs"]
files = ["module/spl", "module/zfs"]
parameters = { spl = "host=1" }
[modules.zfs.source]
package = "zfs-dkms"
series = "2.4"
patches = "zfs/*.patch"
configure = []
flags = ["-map={source}=zfs"]
"""
PATCH = "--- a/arc.c\n+++ b/arc.c\n@@ -1 +1 @@\n-int arc;\n+int arc = 1;\n"


def no_mirror() -> Apt:
    raise AssertionError("everything is in the cache")


@dataclass
class Ground:
    """A cache with both sources, and a recipe to change."""

    cache: Cache
    recipe: Path
    tarball: Path

    def kernel(self) -> Entry:
        shop = Workshop(self.cache, Recipe.read(self.recipe), SILENCE, no_mirror, {}, jobs=1)
        return build_kernel(shop, self.tarball)

    def modules(self, *names: str, version: str = VERSION, kernel: Entry | None = None) -> list[Entry]:
        recipe = Recipe.read(self.recipe)
        shop = Workshop(self.cache, recipe, SILENCE, no_mirror, {"zfs-dkms": version}, jobs=1)
        return build_modules(shop, [recipe.group(name) for name in names], kernel or self.kernel())

    def zfs(self, *, version: str = VERSION) -> Entry:
        (entry,) = self.modules("zfs", version=version)
        return entry


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    tree = tmp_path / "linux-7.2.3"
    tree.mkdir()
    (tree / "Makefile").write_text(LINUX)
    subprocess.run(["tar", "-cJf", "linux-7.2.3.tar.xz", tree.name], cwd=tmp_path, check=True)
    recipe = tmp_path / "kernel"
    for name, text in (
        ("disk/disk.c", "int disk;\n"),
        ("lab.config", "CONFIG_LAB=y\n"),
        ("recipe.toml", RECIPE),
        ("zfs/0001-arc.patch", PATCH),
    ):
        (recipe / name).parent.mkdir(parents=True, exist_ok=True)
        (recipe / name).write_text(text)
    cache = Cache(tmp_path / "cache")

    def source(folder: Path) -> Mapping[str, Any]:
        (folder / "source/module").mkdir(parents=True)
        for name, text in (("configure", CONFIGURE), ("Makefile", ZFS), ("arc.c", "int arc;\n")):
            (folder / "source" / name).write_text(text)
        return {"package_version": VERSION, "sha256": "of the package"}

    for locked in (VERSION, OTHER):  # the mirror has the first alone
        wanted = {"package": "zfs-dkms", "series": "2.4", "locked": locked}
        cache.build("module-source", Inputs(wanted, {"version": VERSION}), source)
    # These are no object files.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/strip").write_text("#!/bin/sh\n")
    (tmp_path / "bin/strip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return Ground(cache, recipe, tmp_path / "linux-7.2.3.tar.xz")


def test_modules_are_the_patched_source_built_in_the_kernels_tree(ground: Ground) -> None:
    built = ModulesBuild.of(ground.zfs())

    assert [module.name for module in built.modules] == ["spl", "zfs"]
    assert built.path.read_text() == "int arc = 1;\n"
    assert (built.source, built.locked) == (VERSION, True)
    (tree,) = (ground.cache.root / "work").glob("zfs-tree-*/zfs")
    assert (tree / "flags").read_text() == f"-map={tree}=zfs\n"
    assert (tree / "variables").read_text().startswith("ARCH=um ")


def test_groups_and_the_groups_that_they_need_are_compiled_only_once(ground: Ground) -> None:
    kernel = ground.kernel()

    (far,) = ground.modules("far")
    again, near = ground.modules("far", "near")

    assert ground.kernel().path == kernel.path
    assert again.path == far.path
    assert ModulesBuild.of(far).path.read_text() == "fs/far.ko\n"
    assert [each.name for each in ModulesBuild.of(near).modules] == ["near"]
    (made,) = (ground.cache.root / "work").glob("kernel-tree-*/linux/made")
    lines = [line for line in made.read_text().splitlines() if line != "linux"]
    assert lines == ["fs/near.ko", "fs/far.ko", "fs/near.ko"]


def test_another_driver_needs_no_other_modules_but_another_configuration_does(ground: Ground) -> None:
    kernel, first = ground.kernel(), ground.zfs()

    (ground.recipe / "disk/disk.c").write_text("int other;\n")
    assert ground.zfs().path == first.path
    assert ground.kernel().manifest["sha256"] != kernel.manifest["sha256"]

    (ground.recipe / "lab.config").write_text("CONFIG_LAB=y\nCONFIG_MORE=y\n")
    second = ground.zfs()
    assert second.path != first.path
    assert interface_of(second) == interface_of(ground.kernel()) != interface_of(first)


def test_the_kernels_tree_is_made_again_if_it_is_gone(ground: Ground) -> None:
    ground.kernel()
    subprocess.run(["rm", "-r", str(ground.cache.root / "work")], check=True)

    assert ModulesBuild.of(ground.zfs()).path.exists()


def test_without_the_kernels_source_its_tree_cannot_be_made_again(ground: Ground) -> None:
    ground.kernel()
    kernel = ground.kernel()
    ground.cache.remove(ground.cache.entries("source")[0])

    with pytest.raises(LabError, match="is no longer there") as caught:
        ground.modules("zfs", kernel=kernel)

    assert "strata lab remove --all" in (caught.value.remedy or "")


def test_a_mirror_with_another_series_is_refused(tmp_path: Path) -> None:
    class Mirror(Apt):
        def __init__(self) -> None:
            pass

        def update(self) -> None:
            pass

        def candidate(self, package: str) -> tuple[str, int]:
            assert package == "zfs-dkms"
            return "2.5.0-1", 1

    shop = Workshop(Cache(tmp_path), Recipe.read(project_root() / "kernel"), SILENCE, Mirror, {})

    with pytest.raises(LabError, match=r"zfs-dkms is 2\.5\.0-1, and the lab's patches are for 2\.4"):
        module_source(shop, ModuleSource("zfs-dkms", "2.4", (), (), ()))
