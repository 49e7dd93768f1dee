# SPDX-License-Identifier: Apache-2.0
"""A kernel's source controls its build, and must not control the machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planted_tree import git
from strata.errors import LabError, ToolError
from strata.lab.cache import Cache
from strata.lab.confined import can_confine, confined, copy_from, refuse_strange
from strata.lab.kernel import build_kernel, run_in
from strata.lab.lab import ensure_for, find_lab, groups_of
from strata.lab.own_source import git as git_of_commits
from strata.lab.own_source import own_source
from strata.lab.progress import SILENCE
from strata.lab.recipe import Recipe
from strata.lab.source import Workshop, source_of_user
from strata.model.consent import give_consent, withdraw_consent
from strata.model.kernel import Kernel
from strata.reading.load import load_study

needs_namespaces = pytest.mark.skipif(not can_confine(), reason="this machine gives no namespaces")
MAKEFILE = "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 3\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    own_source.cache_clear()
    yield
    withdraw_consent()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "work" / "linux"
    tree.mkdir(parents=True)
    (tree / "Makefile").write_text(MAKEFILE)
    return tree


def said(tree: Path, script: str) -> str:
    """What a confined shell prints; its errors are no matter."""
    log = tree.parent.parent / "log"
    log.unlink(missing_ok=True)
    run_in(tree, log, "the program", "sh", "-c", f"{script}; true")
    return "\n".join(line for line in log.read_text().splitlines()[1:])


@needs_namespaces
@pytest.mark.parametrize(
    "script",
    [
        "echo x >SECRET",
        "echo x >FOLDER/new",
        "echo x >../beside",
        "cp /bin/true /usr/bin/planted",
        "mount -t tmpfs none FOLDER",
        "unshare --mount true",
        "chown 0:0 Makefile",
        "mknod disk b 8 0",
        "kill -9 PID",
    ],
)
def test_a_build_changes_nothing_but_its_tree(script: str, tree: Path, tmp_path: Path) -> None:
    secret = tmp_path / "outside" / "secret"
    secret.parent.mkdir()
    secret.write_text("secret")
    script = script.replace("SECRET", str(secret)).replace("FOLDER", str(secret.parent))

    shown = said(tree, f"{script.replace('PID', str(os.getpid()))} && echo it worked")

    assert "it worked" not in shown
    assert secret.read_text() == "secret"
    assert [path.name for path in secret.parent.iterdir()] == ["secret"]
    assert not Path("/usr/bin/planted").exists()


@needs_namespaces
def test_a_build_sees_no_files_processes_or_network_of_the_machine(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        shown = said(
            tree,
            f"cat {tmp_path}/secret /etc/shadow /root/.bashrc; ls {tmp_path}; ls -d /home/* /root/*; "
            f"ls -d /proc/[0-9]* | wc -l; python3 -c 'import socket; "
            f'socket.create_connection(("127.0.0.1", {port})); print("connected")\'',
        )

    assert "the secret" not in shown
    assert "root:" not in shown
    assert "connected" not in shown
    assert "\nwork\n" in f"\n{shown}\n"  # the way to its own tree is all that it sees of the folder
    assert "secret\n" not in shown.replace(f"{tmp_path}/secret", "")
    assert any(line.isdigit() and int(line) < 10 for line in shown.splitlines())


@needs_namespaces
def test_a_build_has_no_privileges(tree: Path) -> None:
    shown = said(tree, "grep -E '^(Cap(Eff|Prm|Bnd|Inh)|NoNewPrivs)' /proc/self/status; id -u")

    numbers = [line.split()[-1] for line in shown.splitlines() if ":" in line and line.split()[-1].isalnum()]
    assert [int(each, 16) for each in numbers if len(each) == 16] == [0, 0, 0, 0]
    assert "NoNewPrivs:\t1" in shown
    if os.geteuid() == 0:
        assert shown.splitlines()[-1] == "65534"


@needs_namespaces
def test_a_build_writes_to_its_tree_and_its_status_is_passed_on(tree: Path) -> None:
    said(tree, "echo built >made; chmod 755 made")

    assert (tree / "made").read_text() == "built\n"
    with pytest.raises(LabError, match="exit status 7"):
        run_in(tree, tree.parent.parent / "log", "the program", "sh", "-c", "exit 7")


@needs_namespaces
def test_what_a_build_starts_ends_with_it(tree: Path) -> None:
    said(tree, "setsid sh -c 'while :; do echo x >>alive; sleep 0.05; done' >/dev/null 2>&1 & sleep 0.3")
    size = (tree / "alive").stat().st_size if (tree / "alive").exists() else 0

    subprocess.run(["sleep", "0.3"], check=True)

    assert ((tree / "alive").stat().st_size if (tree / "alive").exists() else 0) == size


@needs_namespaces
def test_a_killed_set_up_ends_its_confined_programs(tree: Path) -> None:
    line = [*confined(cwd=tree, writable=[tree]), "sh", "-c", "while :; do echo x >>alive; sleep 0.05; done"]
    running = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *line])
    while not (tree / "alive").exists():
        subprocess.run(["sleep", "0.05"], check=True)

    running.kill()
    running.wait()

    subprocess.run(["sleep", "0.2"], check=True)
    size = (tree / "alive").stat().st_size
    subprocess.run(["sleep", "0.3"], check=True)
    assert (tree / "alive").stat().st_size == size


def over_a_link(tree: Path) -> None:
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "a").symlink_to("deep/er")
    (tree / "b").symlink_to("a/../../../outside")


LINKS: dict[str, Callable[[Path], None]] = {
    "an absolute link": lambda tree: (tree / "drivers").symlink_to("/etc"),
    "a link upwards": lambda tree: (tree / "drivers").symlink_to("../../.."),
    "a link to what is not there yet": lambda tree: (tree / "x").symlink_to("/var/tmp/new"),
    "a link over a link": over_a_link,
    "a pipe": lambda tree: os.mkfifo(tree / "pipe"),
}


@pytest.mark.parametrize("kind", LINKS)
def test_a_tree_with_a_way_out_is_refused(kind: str, tree: Path) -> None:
    refuse_strange(tree)
    LINKS[kind](tree)

    with pytest.raises(LabError, match="the kernel's source is refused"):
        refuse_strange(tree)


def test_links_within_a_tree_are_sound(tree: Path) -> None:
    (tree / "arch" / "um").mkdir(parents=True)
    (tree / "arch" / "um" / "make").symlink_to("../../Makefile")
    (tree / "gone").symlink_to("arch/no-such-file")

    refuse_strange(tree)


def test_a_file_is_taken_from_a_tree_only_if_it_lies_there(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tree / "linux").symlink_to(tmp_path / "secret")

    with pytest.raises(LabError, match="is no file of it"):
        copy_from(tree, "linux", tmp_path / "taken")

    assert not (tmp_path / "taken").exists()


def hostile(tree: Path, proof: Path) -> None:
    """A git tree that runs a program by each way that its own settings have."""
    script = tree.parent / "run.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >>{proof}\ncat\n')
    script.chmod(0o755)
    git(tree, "init", "--quiet", "--initial-branch=main")
    (tree / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (tree / "inner").mkdir()
    (tree / "inner" / "file").write_text("text\n")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "first")
    settings = ["core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "gpg.program"]
    settings += ["filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv"]
    for name in (
        *settings,
        "diff.evil.command",
        "diff.external",
        "tar.tar.command",
        "core.alternateRefsCommand",
    ):
        git(tree, "config", name, str(script))
    git(tree, "config", "log.showSignature", "true")
    for hook in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor"):
        path = tree / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(script.read_text())
        path.chmod(0o755)
    (tree / "Makefile").write_text(f"{MAKEFILE}# changed\n")
    proof.unlink(missing_ok=True)


def shop_of(tmp_path: Path, folder: Path) -> Workshop:
    def no_apt() -> object:
        raise AssertionError("a tree needs no mirror")

    return Workshop(Cache(tmp_path / "cache"), Recipe.read(folder), SILENCE, no_apt, {}, jobs=1)  # type: ignore[arg-type]


def project_folder() -> Path:
    return Path(__file__).resolve().parents[2] / "kernel"


@pytest.mark.parametrize("revision", [None, "main"])
def test_reading_a_git_tree_runs_nothing_of_it(revision: str | None, tree: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    hostile(tree, proof)

    own = own_source(Kernel("linux", tree, revision))
    source = source_of_user(shop_of(tmp_path, project_folder()), own)
    git_of_commits(tree, "rev-list", "--bisect-all", "main")
    git_of_commits(tree, "log", "-1", "--format=%s", "main")

    assert not proof.exists()
    text = (source.path / "linux" / "Makefile").read_text()
    assert text == (MAKEFILE if revision else f"{MAKEFILE}# changed\n")
    assert (source.path / "linux" / "inner" / "file").read_text() == "text\n"


@pytest.mark.parametrize("committed", [False, True])
def test_a_repository_in_the_tree_is_refused(committed: bool, tree: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    hostile(tree, proof)
    inner = tree / "sub"
    inner.mkdir()
    (inner / "Makefile").write_text(MAKEFILE)
    hostile(inner, proof)
    if committed:
        listed = f"160000,{git(inner, 'rev-parse', 'HEAD')},sub"
        git(tree, "update-index", "--add", "--cacheinfo", listed)
        git(tree, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "with another")
        proof.unlink(missing_ok=True)

    for _ in range(2):
        own_source.cache_clear()
        with pytest.raises(LabError, match="sub is another git repository"):
            own_source(Kernel("linux", tree))

    assert not proof.exists()


def test_a_tree_s_path_may_have_a_colon(tmp_path: Path) -> None:
    tree = tmp_path / 'a:"b' / "linux"
    tree.mkdir(parents=True)
    (tree / "Makefile").write_text(MAKEFILE)
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "first")

    assert own_source(Kernel("linux", tree)).sha == own_source(Kernel("linux", tree, "main")).sha


def test_the_settings_of_a_repository_name_no_other_folder(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "secret").write_text("secret")
    hostile(tree, tmp_path / "proof")
    git(tree, "config", "core.worktree", str(other))

    source = source_of_user(shop_of(tmp_path, project_folder()), own_source(Kernel("linux", tree)))

    assert not (source.path / "linux" / "secret").exists()


def test_a_tarball_with_a_link_out_of_it_is_refused(tree: Path, tmp_path: Path) -> None:
    (tree / "drivers").symlink_to(tmp_path)
    packed = tree.parent / "linux-7.2.3.tar.xz"
    subprocess.run(["tar", "-cJf", packed.name, "linux"], cwd=tree.parent, check=True)
    shop = shop_of(tmp_path, project_folder())

    with pytest.raises(LabError, match="drivers is a link out of it"):
        build_kernel(shop, packed)

    assert shop.cache.entries("source") == []


def test_a_study_needs_consent_for_a_kernel_of_its_own(tree: Path, tmp_path: Path) -> None:
    from strata.lab.lab import Lab  # noqa: PLC0415
    from strata.plan.catalogue import catalogue  # noqa: PLC0415
    from strata.plan.compile import compile_trial  # noqa: PLC0415
    from study_texts import SOUND  # noqa: PLC0415

    (tmp_path / "cache").mkdir()
    git(tree, "init", "--quiet")
    text = SOUND.replace("seeds = [1, 2]\n", f'seeds = [1, 2]\nkernel = "{tree}"\n')
    (tmp_path / "study.toml").write_text(text)
    plan = compile_trial(load_study(tmp_path / "study.toml", catalogue()), "ext4", "mix", 1)
    lab = Lab(None, None, None, of=plan.kernel)  # type: ignore[arg-type]

    for use in (
        lambda: find_lab(plan.kernel),
        lambda: groups_of(plan),
        lambda: ensure_for(lab, plan, SILENCE),
    ):
        with pytest.raises(ToolError, match="as you") as caught:
            use()
        assert "--allow-kernel-source" in (caught.value.remedy or "")
    assert list((tmp_path / "cache").iterdir()) == []  # git has read nothing

    give_consent(kernel_source=True)
    assert ensure_for(lab, plan, SILENCE) is not None
