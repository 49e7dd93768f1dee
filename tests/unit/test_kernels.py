# SPDX-License-Identifier: Apache-2.0
"""The kernel of a study's lab, and of its stacks: versions, git trees, tarballs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planted_tree import git
from strata.bundled import project_root
from strata.errors import LabError, StudyError, ToolError
from strata.lab.own_source import OwnSource, own_source
from strata.lab.recipe import Recipe
from strata.model.kernel import DEFAULT_KERNEL, DEFAULT_VERSION, KERNELS, Kernel, find_kernel
from strata.plan.compile import compile_trial
from study_texts import SOUND, mistakes, read

MAKEFILE = "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 3\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "linux"
    tree.mkdir()
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / ".gitignore").write_text("*.o\n")
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "first")
    return tree


def own(tree: Path, revision: str | None = None) -> OwnSource:
    own_source.cache_clear()
    return own_source(Kernel(str(tree), tree, revision))


def test_the_recipe_has_every_version_and_the_first_is_the_default() -> None:
    folder = project_root() / "kernel"

    assert Recipe.read(folder).series == DEFAULT_VERSION
    for version in KERNELS:
        recipe = Recipe.read(folder, Kernel(version))
        assert recipe.package == f"linux-source-{version}"


def test_a_study_and_a_stack_name_their_kernels(tmp_path: Path, tree: Path) -> None:
    text = SOUND.replace("seeds = [1, 2]\n", 'seeds = [1, 2]\nkernel = "./linux@main"\n')
    text = text.replace("[stacks.btrfs]\n", f'[stacks.btrfs]\nkernel = "{DEFAULT_VERSION}"\n')

    study = read(tmp_path, text)

    plans = {stack: compile_trial(study, stack, "mix", 1) for stack in study.stacks}
    assert plans["ext4"].kernel == Kernel("./linux@main", tmp_path / "linux", "main")
    assert plans["btrfs"].kernel == DEFAULT_KERNEL
    assert study.describe().kernel == "./linux@main"
    assert study.describe().kernels == {"btrfs": DEFAULT_VERSION}
    assert "under Linux ./linux@main" in study.stack_title(study.stacks["ext4"])
    assert "Linux" not in study.stack_title(study.stacks["btrfs"])


@pytest.mark.parametrize("name", ["li@nux", "me@there/linux"])
def test_a_path_may_have_the_sign_that_begins_a_revision(tmp_path: Path, tree: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    moved = tree.rename(tmp_path / name)

    assert find_kernel(name, tmp_path) == Kernel(name, moved)
    assert find_kernel(f"{name}@v7.2", tmp_path) == Kernel(f"{name}@v7.2", moved, "v7.2")


def test_a_plans_file_is_the_same_with_each_kernel(tmp_path: Path, tree: Path) -> None:
    other = read(tmp_path, SOUND.replace("seeds = [1, 2]\n", 'seeds = [1, 2]\nkernel = "./linux"\n'))

    plans = [compile_trial(each, "ext4", "mix", 1).to_json() for each in (read(tmp_path, SOUND), other)]

    assert plans[0] == plans[1]
    assert "kernel" not in json.loads(plans[0])


def test_the_kernel_is_a_factor_of_a_matrix(tmp_path: Path, tree: Path) -> None:
    text = (
        SOUND + f'[matrix]\nkernel = {{ key = "study.kernel", values = ["{DEFAULT_VERSION}", "./linux"] }}\n'
    )

    study = read(tmp_path, text)

    kernels = {name: study.of(name).kernel.name for name in study.stacks}
    assert len(kernels) == 4
    assert sorted(kernels.values()) == ["./linux", "./linux", DEFAULT_VERSION, DEFAULT_VERSION]


def test_an_unknown_kernel_is_refused_with_the_known_ones(tmp_path: Path, tree: Path) -> None:
    for name, cause in (
        ("6.13", 'there is no kernel "6.13"'),
        ("./absent", "there is no kernel source at ./absent"),
        (".", "is no git tree"),
        ("./linux@--upload-pack=x", "is no revision"),
    ):
        with pytest.raises(StudyError) as caught:
            find_kernel(name, tmp_path)
        assert cause in caught.value.cause
        [place] = mistakes(tmp_path, SOUND.replace("[stacks.ext4]\n", f'[stacks.ext4]\nkernel = "{name}"\n'))
        assert place == "stacks.ext4.kernel"


def test_a_tree_is_known_by_its_content_committed_or_not(tree: Path) -> None:
    first = own(tree)
    (tree / "built.o").write_text("ignored")
    assert own(tree) == first

    (tree / "new.c").write_text("int new;\n")
    changed = own(tree)

    assert changed.sha != first.sha
    assert own(tree, "main").sha == first.sha
    assert git(tree, "status", "--porcelain") == "?? new.c"  # not even the index is written to
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "second")
    assert own(tree, "main").sha == changed.sha == own(tree).sha


def test_a_tree_that_is_no_kernel_or_has_no_such_revision_is_refused(tree: Path) -> None:
    with pytest.raises(LabError, match="git rev-parse failed"):
        own(tree, "v9")
    git(tree, "mv", "Makefile", "Other")
    git(tree, "commit", "--quiet", "--message", "no Makefile")
    with pytest.raises(LabError, match="Makefile"):
        own(tree, "main")


def test_another_repository_in_the_environment_is_not_read(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = own(tree).sha
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # as in a hook
        monkeypatch.setenv(name, str(tmp_path / "another"))

    assert own(tree).sha == sha


def test_without_git_the_error_names_it(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolError, match="git is missing"):
        own(tree)


def test_a_source_is_built_as_the_newest_version_that_is_not_newer(tree: Path) -> None:
    (tree / "Makefile").write_text(MAKEFILE.replace("= 2", "= 4"))
    own_source.cache_clear()
    assert Recipe.read(project_root() / "kernel", Kernel(str(tree), tree)).series == DEFAULT_VERSION

    (tree / "Makefile").write_text(MAKEFILE.replace("= 7", "= 6").replace("= 2", "= 13"))
    own_source.cache_clear()
    assert Recipe.read(project_root() / "kernel", Kernel(str(tree), tree)).series == "6.12"

    (tree / "Makefile").write_text(MAKEFILE.replace("= 7", "= 4"))
    own_source.cache_clear()
    with pytest.raises(LabError, match=r"this is Linux 4\.2\.3"):
        Recipe.read(project_root() / "kernel", Kernel(str(tree), tree))
