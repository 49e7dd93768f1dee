# SPDX-License-Identifier: Apache-2.0
"""The kernel's build: what makes it another kernel, and what is said when it fails.

The trees here are tiny ones with a Makefile of their own, because what is tested is the preparation,
the resumption and the messages; `tests/lab` boots the real kernel.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from planted_tree import git
from strata.errors import LabError
from strata.lab.apt import Apt
from strata.lab.cache import Cache, Inputs
from strata.lab.kernel import KernelBuild, build_kernel, check_config
from strata.lab.progress import SILENCE
from strata.lab.recipe import Recipe
from strata.lab.source import LEFT_OUT, Workshop, source_from_tarball
from strata.model.kernel import KERNELS, Kernel

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = """\
VERSION = 7
PATCHLEVEL = 2
SUBLEVEL = 3
.PHONY: always
allnoconfig:
\t@cp $(KCONFIG_ALLCONFIG) .config
linux: drivers/block/strata/disk.c always
\t@test -e first.o || { echo "  CC      first.o"; cp hello.c first.o; }
\t@echo "  CC      disk.o"
\t@grep -q BROKEN drivers/block/strata/disk.c && { echo "disk.c:1:1: error: this is broken"; exit 1; } || true
\t@mkdir -p include/config; echo 7.2.3-strata >include/config/kernel.release
\t@cat first.o drivers/block/strata/disk.c >linux.new && mv linux.new linux
"""
PATCH = """\
--- a/hello.c
+++ b/hello.c
@@ -1 +1 @@
-int hello;
+int hello = 1;
"""
RECIPE = """\
series = "7.2"
patches = "*.patch"
config = "lab.config"
target = "linux"
[[copy]]
from = "disk"
files = ["disk.c"]
to = "drivers/block/strata"
[make]
variables = ["ARCH=um"]
[modules]
"""


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    tree = tmp_path / "linux-7.2.3"
    (tree / "drivers/block").mkdir(parents=True)
    (tree / "Documentation/admin").mkdir(parents=True)
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "hello.c").write_text("int hello;\n")
    (tree / "Documentation/Kconfig").write_text("# needed\n")
    (tree / "Documentation/admin/long.rst").write_text("not needed\n")
    subprocess.run(["tar", "-cJf", "linux-7.2.3.tar.xz", "linux-7.2.3"], cwd=tmp_path, check=True)
    return tmp_path / "linux-7.2.3.tar.xz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kernel"
    (folder / "disk").mkdir(parents=True)
    (folder / "disk/disk.c").write_text("int disk;\n")
    (folder / "hello.patch").write_text(PATCH)
    (folder / "lab.config").write_text("CONFIG_LAB=y\n# CONFIG_SMP is not set\n")
    (folder / "recipe.toml").write_text(RECIPE)
    return folder


def no_apt() -> Apt:
    raise AssertionError("a tarball needs no mirror")


def workshop(root: Path, folder: Path) -> Workshop:
    return Workshop(Cache(root), Recipe.read(folder), SILENCE, no_apt, {}, jobs=1)


def build(root: Path, folder: Path, tarball: Path) -> KernelBuild:
    return KernelBuild.of(build_kernel(workshop(root, folder), tarball))


def test_a_kernel_is_the_source_with_our_files_and_patches(
    tmp_path: Path, folder: Path, tarball: Path
) -> None:
    kernel = build(tmp_path / "cache", folder, tarball)

    assert kernel.path.read_text() == "int hello = 1;\nint disk;\n"
    assert (kernel.release, kernel.source, kernel.locked) == ("7.2.3-strata", "7.2.3", False)
    assert kernel.path.stat().st_mode & 0o111
    source = source_from_tarball(workshop(tmp_path / "cache", folder), tarball).path / "linux"
    assert (source / "hello.c").read_text() == "int hello;\n"
    assert (source / "Documentation/Kconfig").exists()
    assert not (source / "Documentation/admin/long.rst").exists()


def test_a_build_that_fails_shows_the_error_the_log_and_the_remedy(
    tmp_path: Path, folder: Path, tarball: Path
) -> None:
    (folder / "disk/disk.c").write_text("BROKEN\n")

    with pytest.raises(LabError) as caught:
        build(tmp_path / "cache", folder, tarball)

    assert "compiling the kernel failed" in caught.value.cause
    assert "disk.c:1:1: error: this is broken" in caught.value.cause
    assert "the build continues" in (caught.value.remedy or "")
    log = Path(caught.value.place or "")
    assert "CC      first.o" in log.read_text()
    assert Cache(tmp_path / "cache").entries("kernel") == []


def test_an_unfinished_build_is_continued_not_begun_again(
    tmp_path: Path, folder: Path, tarball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "cache"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    killed = tmp_path / "bin/cat"  # stands in for a kill in the middle of the build
    killed.write_text("#!/bin/sh\nexit 137\n")
    killed.chmod(0o755)
    with pytest.raises(LabError):
        build(root, folder, tarball)
    killed.unlink()

    kernel = build(root, folder, tarball)

    log = (root / "logs" / f"kernel-{kernel.path.parent.name}.log").read_text()
    assert log.count("CC      first.o") == 1
    assert log.count("allnoconfig") == 1
    assert log.count("CC      disk.o") == 2


def test_after_a_change_of_a_patch_only_what_it_touches_is_new(
    tmp_path: Path, folder: Path, tarball: Path
) -> None:
    (folder / "more.patch").write_text("--- /dev/null\n+++ b/added.c\n@@ -0,0 +1 @@\n+int added;\n")
    build(tmp_path / "cache", folder, tarball)
    [tree] = (tmp_path / "cache/work").glob("*/linux")
    makefile_date = (tree / "Makefile").stat().st_mtime_ns
    (tree / "first.o").unlink()  # what make would do with a rule for it
    (folder / "more.patch").unlink()
    (folder / "hello.patch").write_text(PATCH.replace("1;", "2;"))

    second = build(tmp_path / "cache", folder, tarball)

    assert second.path.read_text() == "int hello = 2;\nint disk;\n"
    assert not (tree / "added.c").exists()
    assert (tree / "Makefile").stat().st_mtime_ns == makefile_date


def test_a_revision_of_a_git_tree_is_compiled_where_the_one_before_was(
    tmp_path: Path, folder: Path, tarball: Path
) -> None:
    tree, root = tmp_path / "linux-7.2.3", tmp_path / "cache"
    for number, text in enumerate(["int first;\n", "int second;\n"]):
        (tree / "drivers/block/other.c").write_text(text)
        (tree / f"of-{number}.c").write_text(text)
        (tree / f"of-{number - 1}.c").unlink(missing_ok=True)
        git(tree, *(("init", "--quiet") if number == 0 else ("status",)))
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "--message", f"{number}")

    kernels = []
    for revision in ("HEAD~1", "HEAD"):
        kernel = Kernel(f"{tree}@{revision}", tree, revision)
        shop = Workshop(Cache(root), Recipe.read(folder, kernel), SILENCE, no_apt, {}, jobs=1)
        kernels.append(build_kernel(shop))

    [compiled] = (root / "work").glob("*/linux")
    assert (compiled / "drivers/block/other.c").read_text() == "int second;\n"
    assert not (compiled / "of-0.c").exists()
    assert (compiled / "hello.c").read_text() == "int hello = 1;\n"
    log = (root / "logs" / f"kernel-{kernels[1].key}.log").read_text()
    assert "CC      first.o" not in log
    assert kernels[0].inputs.wanted["own"] != kernels[1].inputs.wanted["own"]


def test_any_change_of_what_it_is_built_from_makes_another_kernel(folder: Path) -> None:
    def change(name: str, text: str) -> str:
        (folder / name).write_text(text)
        return str(Recipe.read(folder).wanted())

    seen = [str(Recipe.read(folder).wanted())]
    seen.append(change("disk/disk.c", "int other;\n"))
    seen.append(change("hello.patch", PATCH.replace("1;", "2;")))
    seen.append(change("lab.config", "CONFIG_LAB=n\n"))
    seen.append(change("more.patch", PATCH))
    seen.append(change("recipe.toml", (folder / "recipe.toml").read_text().replace("ARCH=um", "ARCH=x86")))

    assert len(set(seen)) == len(seen)


def test_an_older_version_has_the_defaults_machine_and_its_own_patches(tmp_path: Path, folder: Path) -> None:
    cache = Cache(tmp_path / "cache")
    for series in ("7.2", "6.12"):

        def make(place: Path, series: str = series) -> dict[str, str]:
            (place / "linux/arch/um").mkdir(parents=True)
            (place / "linux/arch/um/machine.c").write_text(series)
            (place / "linux/Makefile").write_text(MAKEFILE)
            (place / "linux/hello.c").write_text(f"int hello;\nint of_{series[0]};\n")
            (place / "linux/other.c").write_text("int other;\n")
            return {"version": series, "package_version": series, "tarball_sha256": series}

        wanted = {"package": f"linux-source-{series}", "left_out": " ".join(LEFT_OUT)}
        cache.build("source", Inputs(wanted, {}), make)
    part = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -{1},1 +{1},1 @@\n-{2}\n+{3}\n"
    shared = part.format("other.c", 1, "int other;", "int changed;")
    (folder / "hello.patch").write_text(shared + part.format("hello.c", 1, "int of_7;", "int seven;"))
    (folder / "none.patch").write_text(part.format("absent.c", 1, "int x;", "int y;"))
    (folder / "6.12").mkdir()
    (folder / "6.12/hello.patch").write_text(part.format("hello.c", 2, "int of_6;", "int six;"))
    (folder / "6.12/none.patch").write_text("Not needed\n\ndiff --git a/absent.c b/absent.c\n")
    (folder / "6.12/more.config").write_text("CONFIG_LAB=n\n")
    older = '[older."6.12"]\nmachine = ["arch/um"]\npatches = "6.12/*.patch"\nconfig = "6.12/more.config"\n'
    (folder / "recipe.toml").write_text(RECIPE + older)
    recipe = Recipe.read(folder, Kernel("6.12"))

    kernel = build_kernel(Workshop(cache, recipe, SILENCE, no_apt, {}, jobs=1))

    [tree] = (tmp_path / "cache/work").glob("*/linux")
    assert (kernel.path / "linux").read_text() == "int hello;\nint six;\nint disk;\n"
    assert (tree / "other.c").read_text() == "int changed;\n"
    assert (tree / "arch/um/machine.c").read_text() == "7.2"
    assert (kernel.path / "config").read_text().splitlines()[::2] == ["CONFIG_LAB=y", "CONFIG_LAB=n"]
    assert kernel.inputs.found["machine_sha256"] == "7.2"


def test_a_patch_that_does_not_apply_is_named(tmp_path: Path, folder: Path, tarball: Path) -> None:
    (folder / "hello.patch").write_text(PATCH.replace("-int hello;", "-int goodbye;"))

    with pytest.raises(LabError) as caught:
        build(tmp_path / "cache", folder, tarball)

    assert "applying hello.patch failed" in caught.value.cause
    assert "FAILED at 1" in caught.value.cause
    assert "7.2" in (caught.value.remedy or "")


def test_an_option_that_the_configuration_dropped_is_named(tmp_path: Path) -> None:
    fragment, config = tmp_path / "lab.config", tmp_path / ".config"
    fragment.write_text("CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\nCONFIG_D=4\n# CONFIG_E is not set\n")
    config.write_text("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_D=2\n")

    with pytest.raises(LabError) as caught:
        check_config(fragment, config)

    assert caught.value.cause.endswith("does not take B=y (it is n), D=4 (it is 2)")


def test_an_option_that_another_one_selects_is_reported(tmp_path: Path) -> None:
    fragment, config = tmp_path / "lab.config", tmp_path / ".config"
    fragment.write_text("CONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_C is not set\n")
    config.write_text("CONFIG_A=y\nCONFIG_B=y\n")

    assert check_config(fragment, config) == ["B"]


@pytest.mark.parametrize(
    ("makefile", "said"),
    [
        ("all:\n", "not the source of a Linux kernel"),
        (
            "VERSION = 6\nPATCHLEVEL = 20\nSUBLEVEL = 0\n",
            "this is Linux 6.20.0, and the lab's patches are for 7.2",
        ),
    ],
)
def test_a_tarball_of_something_else_is_refused(
    tmp_path: Path, folder: Path, makefile: str, said: str
) -> None:
    tree = tmp_path / "other"
    tree.mkdir()
    (tree / "Makefile").write_text(makefile)
    subprocess.run(["tar", "-cJf", "other.tar.xz", "other"], cwd=tmp_path, check=True)

    with pytest.raises(LabError, match=said) as caught:
        build(tmp_path / "cache", folder, tmp_path / "other.tar.xz")

    assert caught.value.place == str(tmp_path / "other.tar.xz")


def test_a_tarball_that_is_cut_off_is_refused(tmp_path: Path, folder: Path, tarball: Path) -> None:
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(tarball.read_bytes()[:-40])

    with pytest.raises(LabError, match="unpacking the kernel's source failed"):
        build(tmp_path / "cache", folder, cut)

    with pytest.raises(LabError, match="no such file"):
        build(tmp_path / "cache", folder, tmp_path / "absent.tar.xz")


@pytest.mark.parametrize("version", KERNELS)
def test_nothing_of_our_recipe_lies_in_what_is_left_out_of_the_source(version: str) -> None:
    recipe = Recipe.read(ROOT / "kernel", Kernel(version))

    patches = ((recipe.folder / name).read_text() for name in recipe.patches)
    patched = {path for text in patches for path in re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", text, re.M)}

    assert recipe.patches
    assert not [path for path in patched for pattern in LEFT_OUT if Path(f"linux/{path}").match(pattern)]
