# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.devices.device import Device, find_device
from strata.devices.kinds import mechanism, rotating
from strata.errors import LabError
from strata.lab import boot, disk
from strata.lab.boot import kernel_arguments
from strata.lab.folder import private_folder, remove_stale, stale_folders


def test_the_command_line_is_a_function_of_disks_and_seed() -> None:
    assert kernel_arguments(2, 7) == kernel_arguments(2, 7)
    assert kernel_arguments(2, 7) != kernel_arguments(2, 8)
    assert not [argument for argument in kernel_arguments(2, 7) if "/" in argument]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHARGES_NS", {**boot.CHARGES_NS, "syscall": 201}),
        ("START_NS", boot.START_NS + 1),
    ],
)
def test_a_change_of_the_command_line_changes_the_setting_that_results_state(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    before = boot.boot_setting()

    monkeypatch.setattr(boot, name, value)

    assert boot.boot_setting() != before


def test_another_fit_of_the_seek_curve_changes_the_drivers_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disks = [disk.LabDisk("sda", find_device("wd-re4-500gb", Path.cwd()))]
    before = disk.disk_texts(disks)
    fitted = mechanism.mechanism
    assert disk.disk_texts(disks) == before

    def another(device: Device) -> mechanism.Mechanism:
        found = fitted(device)
        return dataclasses.replace(found, seek_curve_ns=tuple(ns + 1 for ns in found.seek_curve_ns))

    monkeypatch.setattr(rotating, "mechanism", another)

    assert disk.disk_texts(disks) != before


def test_every_disk_has_a_description_of_its_own() -> None:
    disks = next(a for a in kernel_arguments(3, 1) if a.startswith("strata.disks="))

    numbers = disks.partition("=")[2].split(",")
    assert len(set(numbers)) == 4  # the root image is one more


def test_a_lab_stays_on_one_cpu_whether_one_is_named_or_not() -> None:
    def cpu(wiring: boot.Wiring) -> int:
        line = boot._launch_line(wiring, [])
        return int(line[line.index("taskset") + 2])

    named = max(os.sched_getaffinity(0))
    assert cpu(boot.Wiring(Path("/"), 1, 2, cpu=named)) == named
    assert cpu(boot.Wiring(Path("/"), 1, 2)) in os.sched_getaffinity(0)


def test_only_a_trial_runs_in_virtual_time() -> None:
    assert any(a.startswith("time-travel") for a in kernel_arguments(1, 1))
    assert not any(a.startswith("time-travel") for a in kernel_arguments(1, 1, virtual=False, keyboard=0))


def test_a_private_folder_is_gone_when_its_context_ends(tmp_path: Path) -> None:
    with private_folder(tmp_path) as folder:
        (folder.path / "file").write_text("x")

    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_announced_before_it_is_made(tmp_path: Path) -> None:
    announced: list[bool] = []

    with private_folder(tmp_path, before=lambda path: announced.append(path.exists())):
        pass

    assert announced == [False]


def test_a_folder_goes_however_deep_the_trees_in_it_are(tmp_path: Path) -> None:
    with private_folder(tmp_path) as folder:
        place = os.open(folder.path, os.O_RDONLY)
        for _ in range(2000):
            os.mkdir("d", dir_fd=place)
            place, above = os.open("d", os.O_RDONLY, dir_fd=place), place
            os.close(above)
        os.close(place)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_not_stale(tmp_path: Path) -> None:
    with private_folder(tmp_path) as folder:
        assert stale_folders(tmp_path) == []
        assert remove_stale(tmp_path) == []
        assert folder.path.is_dir()


def test_a_killed_owner_leaves_a_stale_folder_which_is_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from strata.lab.folder import private_folder\n"
        "with private_folder(Path(sys.argv[1])) as f:\n"
        "    (f.path / 'content').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)

    left = list(tmp_path.iterdir())
    assert len(left) == 1
    assert remove_stale(tmp_path) == left
    assert list(tmp_path.iterdir()) == []


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()

    assert remove_stale(tmp_path) == []
    assert (tmp_path / "mine").is_dir()


def test_a_child_of_the_owner_does_not_keep_the_folder(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys; from pathlib import Path\n"
        "from strata.lab.folder import private_folder\n"
        "with private_folder(Path(sys.argv[1])):\n"
        "    subprocess.Popen(['sleep', '2'], close_fds=False); os._exit(0)\n"
    )

    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)

    assert len(remove_stale(tmp_path)) == 1


def test_a_place_that_is_a_file_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(LabError) as error, private_folder(tmp_path / "file"):
        pass

    assert error.value.remedy
