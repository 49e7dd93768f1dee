# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from execution_factory import fake_runner, study_in

from strata.disks.machine import mounts_under
from strata.errors import RunError, ToolError
from strata.execution.schedule import plan_study
from strata.lab.folder import private_folder
from strata.lab.programs import AgentBuild
from strata.model.layer import LayerContext, Provided
from strata.model.memory_limit import GroupLimits, limit_memory
from strata.model.step import Prerequisites
from strata.plan.compile import ENVIRONMENT
from strata.plan.model import Plan
from strata.runners.base import BINDINGS_NAME, Task
from strata.runners.block_devices import Connections
from strata.runners.host import HostRunner
from strata.runners.leftovers import Journal, processes_of, remove_leftovers
from strata.runners.machine import missing_tools, scratch_of, tool_versions
from strata.runners.watching import WindowWatch, follow


def runner_on(scratch: Path, results: Path) -> HostRunner:
    return HostRunner(AgentBuild(Path("/nonexistent/agent"), "0" * 64), scratch=scratch, journal=results)


def plans(tmp_path: Path) -> list[Plan]:
    return [each.plan for each in plan_study(study_in(tmp_path), fake_runner())[0]]


@pytest.mark.skipif(os.geteuid() == 0, reason="only other users are refused")
def test_without_root_the_host_runner_refuses_and_names_the_lab(scratch: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="needs root") as error:
        runner_on(scratch, tmp_path).check(plans(tmp_path))

    assert "the lab needs no root" in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to come so far")
class TestAsRoot:
    def test_a_missing_scratch_folder_is_named(self, scratch: Path, tmp_path: Path) -> None:
        with pytest.raises(ToolError, match="no such folder") as error:
            runner_on(scratch / "none", tmp_path).check(plans(tmp_path))

        assert str(scratch / "none") in str(error.value)

    @pytest.mark.parametrize("name", ["attack:scratch", "attack,scratch", "a b", "ä"])
    def test_a_path_that_programs_would_take_for_several_is_refused(
        self, scratch: Path, tmp_path: Path, name: str
    ) -> None:
        (scratch / name).mkdir()

        with pytest.raises(ToolError, match="take a part of this path for another one"):
            runner_on(scratch / name, tmp_path).check(plans(tmp_path))

    @pytest.mark.parametrize("mask", [0o000, 0o077])
    def test_what_a_run_makes_is_open_to_others_for_looking_only(
        self, scratch: Path, tmp_path: Path, mask: int
    ) -> None:
        before = os.umask(mask)
        try:
            with pytest.raises(ToolError, match="cannot keep the steps"):
                runner_on(scratch, tmp_path).check(plans(tmp_path))  # there is no such agent
            (scratch / "made").touch()
        finally:
            os.umask(before)

        assert (scratch / "made").stat().st_mode & 0o777 == 0o644

    def test_a_folder_that_others_cannot_enter_is_refused(self, scratch: Path, tmp_path: Path) -> None:
        scratch.chmod(0o700)

        with pytest.raises(ToolError, match="cannot enter"):
            runner_on(scratch, tmp_path).check(plans(tmp_path))


def test_what_this_machine_lacks_for_a_plan_is_said_in_one_sentence(tmp_path: Path) -> None:
    plan = plans(tmp_path)[0]
    needed = Prerequisites(tools=("cat", "mkfs.none"), features=("filesystem:none", "modelled-disks"))
    runner = runner_on(tmp_path, tmp_path)

    assert runner.unmet(plan.model_copy(update={"prerequisites": Prerequisites(tools=("cat",))})) is None
    assert runner.unmet(plan.model_copy(update={"prerequisites": needed})) == (
        "on this machine mkfs.none is not installed; the kernel has no filesystem none; "
        "only the lab has modelled disks, which obey a study"
    )


@pytest.mark.parametrize(("end", "said"), [("kill -KILL $$", "signal 9"), ("exit 3", "exit status 3")])
def test_an_agent_that_ends_too_early_is_said_with_its_signal_or_status(
    tmp_path: Path, end: str, said: str
) -> None:
    """Killed in the middle of a trial, by the kernel for want of memory or by anybody."""
    task = Task(plan=plans(tmp_path)[0], devices={}, folder=tmp_path)
    with subprocess.Popen(["sh", "-c", end]) as agent, pytest.raises(RunError) as raised:
        follow(task, agent, create_autospec(Connections), create_autospec(WindowWatch))

    assert f"the agent ended with {said} before it was done" in str(raised.value)


def test_tenants_are_held_against_this_machines_memory_and_not_the_labs(tmp_path: Path) -> None:
    runner = runner_on(tmp_path, tmp_path)
    plan = plans(tmp_path)[0].model_copy(update={"prerequisites": Prerequisites(tools=("cat",))})
    context = LayerContext("guest", 1, lower=(), provided=Provided("block", ()))

    def unmet(memory_bytes: int) -> str | None:
        limits = limit_memory(context, GroupLimits(memory_bytes), "the guest")
        return runner.unmet(plan.model_copy(update={"steps": (*limits, *limits, *plan.steps)}))

    assert unmet(64 << 20) is None
    # A quarter more in a burst; limits that are set again count once.
    assert "the guests and tenants may take 640 TiB of memory" in (unmet(1 << 49) or "")


def test_a_missing_program_is_named_with_its_package(tmp_path: Path) -> None:
    (tmp_path / "sh").touch(0o755)

    assert list(missing_tools(["mkfs.f2fs", "sh"], {"PATH": str(tmp_path)})) == [
        "mkfs.f2fs is not installed (Debian's package f2fs-tools)"
    ]
    assert list(missing_tools(["zpool"], {"PATH": "/nowhere"})) == [
        "zpool is not installed (Debian's package zfsutils-linux)"
    ]


def test_an_entry_that_was_cut_short_is_dropped(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.record(tmp_path / "strata-one")
    (tmp_path / ".journal" / "strata-two.part").write_text('{"fold')

    assert list(journal.folders()) == [tmp_path / "strata-one"]
    assert not (tmp_path / ".journal" / "strata-two.part").exists()


def test_cleaning_deletes_the_folder_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "strata-abc"
    folder.mkdir()
    (folder / ".owner").touch()
    (folder / "disk0.img").write_text("x")
    (folder / "scratch").mkdir()
    Journal(tmp_path).record(folder)

    said = Journal(tmp_path).clean()

    assert said == [f"deleted {folder}"]
    assert not folder.exists()
    assert list(Journal(tmp_path).folders()) == []


def test_programs_state_their_versions_and_the_scratch_folder_its_filesystem(tmp_path: Path) -> None:
    said = tool_versions(["cat", "false", "no-such-program"], ENVIRONMENT)

    assert said["cat"].startswith("cat (")
    assert "no-such-program" not in said
    filesystems = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    assert scratch_of(tmp_path).filesystem in filesystems
    assert scratch_of(Path("/proc")).filesystem == "proc"


def test_another_disk_under_the_scratch_folder_is_another_setting(tmp_path: Path) -> None:
    here, there = (runner_on(Path(place), tmp_path).identity for place in (tmp_path, "/proc"))

    assert here.setting_sha256 == runner_on(tmp_path, tmp_path).identity.setting_sha256
    assert here.setting_sha256 != there.setting_sha256


def precious(folder: Path, name: str = "strata-abc", *, owner: bool = True) -> Path:
    path = folder / name
    path.mkdir()
    (path / "kept").write_text("of value")
    if owner:
        (path / ".owner").touch()
    return path


def entry(results: Path, name: str, folder: object) -> None:
    (results / ".journal").mkdir(exist_ok=True)
    (results / ".journal" / f"{name}.json").write_text(json.dumps({"folder": folder}))


def test_an_entry_that_names_no_trials_folder_removes_nothing_at_all(tmp_path: Path) -> None:
    left = precious(tmp_path, "strata-aaa")
    Journal(tmp_path).record(left)
    link = tmp_path / "strata-link"
    link.symlink_to(precious(tmp_path, "linked"))
    unmarked = precious(tmp_path, "strata-unmarked", owner=False)
    cases = [
        ("precious", str(precious(tmp_path, "precious"))),
        ("strata-other", str(tmp_path / "precious")),
        ("strata-link", str(link)),
        ("strata-unmarked", str(unmarked)),
        ("strata-relative", "strata-relative"),
        ("strata-number", 7),
    ]
    for name, folder in cases:
        entry(tmp_path, name, folder)

        with pytest.raises(RunError, match="nothing was removed") as error:
            Journal(tmp_path).clean()

        assert f"{name}.json" in str(error.value)
        (tmp_path / ".journal" / f"{name}.json").unlink()
    assert (left / "kept").exists()
    assert all((path / "kept").exists() for path in (unmarked, tmp_path / "precious", tmp_path / "linked"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make another user's folder")
def test_another_users_folder_is_not_removed(tmp_path: Path) -> None:
    folder = precious(tmp_path)
    os.chown(folder, 65534, 65534)
    Journal(tmp_path).record(folder)

    with pytest.raises(RunError, match="another user"):
        Journal(tmp_path).clean()

    assert (folder / "kept").exists()


def test_a_folder_in_use_is_not_removed(tmp_path: Path) -> None:
    with private_folder(tmp_path) as folder:
        Journal(tmp_path).record(folder.path)

        with pytest.raises(RunError, match="in use"):
            Journal(tmp_path).clean()

        assert folder.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_mounts_under_a_name_with_a_space_and_an_umlaut_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "strata-für mich \\040"
    (folder / "mount").mkdir(parents=True)
    script = 'mount -t tmpfs none "$1" && echo mounted && exec sleep 60'
    line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(folder / "mount")]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"mounted\n":
                pytest.skip("nothing can be mounted here")
            assert processes_of(folder) == [process.pid]
            assert processes_of(tmp_path / "strata-fü") == []
        finally:
            process.kill()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(folder / "mount")], check=True)
    try:
        assert mounts_under(folder) == [folder / "mount"]
    finally:
        subprocess.run(["umount", str(folder / "mount")], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_a_process_that_has_only_copied_a_mount_is_not_the_trials(tmp_path: Path) -> None:
    folder = tmp_path / "strata-abc"
    (folder / "mount").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(folder / "mount")], check=True)
    try:
        line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo started && exec sleep 60"]
        with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"started\n"
                assert mounts_under(folder, Path(f"/proc/{process.pid}/mountinfo")) == [folder / "mount"]
                assert processes_of(folder) == []
            finally:
                process.kill()
    finally:
        subprocess.run(["umount", str(folder / "mount")], check=True)


def orphan(*arguments: str) -> int:
    """A process that sleeps, has these further arguments, and does not descend from this one."""
    line = ["sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh"]
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    done = subprocess.run([*line, *sleep, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_an_agent_that_outlived_strata_is_ended_and_others_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "strata-abc"
    folder.mkdir()
    agent = orphan("--bindings", str(folder / BINDINGS_NAME))
    other = orphan(str(folder))
    try:
        while agent not in processes_of(folder):
            time.sleep(0.01)  # until it has its arguments

        said = remove_leftovers(folder)

        assert said == [f"ended process {agent}", f"deleted {folder}"]
        assert Path(f"/proc/{other}/cmdline").read_bytes()
    finally:
        os.kill(other, signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make another user's folder")
def test_a_left_folder_whose_place_another_user_can_exchange_is_not_removed(tmp_path: Path) -> None:
    """They could have put another folder of root's there."""
    place = tmp_path / "place"
    place.mkdir()
    folder = precious(place)
    os.chown(place, 65534, 65534)
    Journal(tmp_path).record(folder)

    with pytest.raises(RunError, match="nothing was removed") as error:
        Journal(tmp_path).clean()

    assert f"{place}: it belongs to nobody" in str(error.value)
    assert (folder / "kept").exists()
