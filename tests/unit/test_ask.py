# SPDX-License-Identifier: Apache-2.0
"""`strata ask`: the study that it writes, what it refuses before it runs, and the use that it advises by."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from search_studies import capacity_runner

from advice_studies import around, study, use, weight
from command_line import refusal, shown, shown_json
from strata.actions import ask as asking
from strata.actions.ask import question, stack_to_build
from strata.actions.new_study import StudyUse
from strata.advice.advise import advise
from strata.advice.uses import bundled_uses
from strata.cli.application import INTERRUPTED_EXIT
from strata.errors import LabError
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.commands import build_commands
from strata.plan.compile import skipped
from strata.reading.load import load_study
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled
from strata.units import parse_duration

ROOT = Path(__file__).parents[2]
HOME = ("new", "study", "home", "--use", "home-server")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(*words: object) -> Study:
    """The study of a home server that these answers make."""
    shown(*HOME, *words)
    return load_study(Path("home.toml"), catalogue())


def test_it_writes_a_study_of_six_seeds_and_says_how_long_it_takes() -> None:
    found = shown_json(*HOME, "--disk", "wd-re4-500gb", "--price", "180 EUR")

    assert found["wrote"] == ["home.toml"]
    assert found["estimate_real_s"] > 0
    written = load_study(Path("home.toml"), catalogue())
    assert written.seeds == (1, 2, 3, 4, 5, 6)
    disks = [(used.device.name, str(used.price)) for used in written.devices.values()]
    assert disks == [("wd-re4-500gb", "180.00 EUR")] * 2


def test_a_volume_whose_rate_follows_from_its_size_keeps_its_size() -> None:
    for named, model, gib_and_iops in (
        ("home-server", "aws-ebs-gp2", (500, 1500)),  # a mirror
        ("four-guests", "aws-ebs-gp2", (250, 750)),  # mirrors that are striped
        ("database-nvme", "aws-ebs-gp3", (47, 3000)),  # its rate is bought, not its size's
    ):
        shown("new", "study", named, "--use", named, "--disk", model, "--data", "500GiB")
        used = load_study(Path(f"{named}.toml"), catalogue()).devices["disk0"]
        assert (used.capacity_bytes >> 30, used.device.number("operation_rate")) == gib_and_iops


def test_answers_that_make_no_study_are_refused_by_their_options_and_leave_no_file(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = tmp_path_factory.mktemp("disks") / "tiny.toml"
    model.write_text((ROOT / "devices/wd-re4-500gb.toml").read_text().replace("500107862016", "2147483648"))
    for words, causes in (
        (
            "--use database-nvme --disk samsung-870-evo-1tb --data 1TiB",
            ["--data: 1 TiB do not fit on 1 disk (samsung-870-evo-1tb), which hold"],
        ),
        ("--use four-guests --data 4TiB", ["--data: 4 TiB do not fit", "with 2 copies of everything"]),
        ("--use home-server --memory 64MiB", ["--memory: 64MiB is too little", "at least 512MiB"]),
        # That the parts of four guests are too small is known to the study alone.
        (
            f"--use four-guests --disk {model} --data 1GiB --memory 512MiB",
            ["the study that these answers make: 1 mistake", "--data: tables and logs of 1279MiB do not fit"],
        ),
        ("--use database-nvme --must disk-loss", ["no stack on one disk survives the loss of any disk"]),
        ("--use home-server --price 180", ["a price has a currency"]),
        ("--use home-server --price 180EUR --price 60EUR --price 1EUR", ["3 prices for 2 disks"]),
        ("--use home-server --price 180EUR --price 60USD", ["currenc"]),
    ):
        said = str(refusal("new", "study", "much", *words.split()))
        assert all(cause in said for cause in causes), said
        assert not re.search(r"\bline \d|\.toml|devices\.", said), said
        assert list(folder.iterdir()) == []
    for words, cause in (
        ("--use home-server --must flying", 'there is no capability "flying"'),
        ("--use ci-gate", "a gate compares two kernels or days, not stacks"),
        ("", "no use is named"),
    ):
        assert cause in str(refusal("ask", "x", *words.split()))


def test_where_every_stack_gives_durability_away_durable_is_refused(folder: Path) -> None:
    made()
    file = folder / "home.toml"
    lying = file.read_text().replace('capacity = "', 'faults = [{ fault = "ignores-flush" }]\ncapacity = "')
    file.write_text(lying)

    assert "no stack is power-fail safe" in str(refusal("ask", "home", "--must", "durable"))
    assert file.read_text() == lying


def test_a_study_that_is_there_is_gone_on_with_and_not_written_over(folder: Path) -> None:
    made()
    before = (folder / "home.toml").read_text()

    again = question("home")

    assert (again.written, again.changed) == (None, {})
    assert "has its own answers, not 2GiB" in str(refusal("ask", "home", "--memory", "2GiB"))
    assert "the file is there already" in str(refusal(*HOME))
    assert (folder / "home.toml").read_text() == before


def test_what_is_asked_stands_in_the_file_and_is_changed_there(folder: Path) -> None:
    file = folder / "home.toml"
    first = made("--seeds", "3", "--must", "disk-loss")
    assert (first.use, first.must, first.seeds) == ("home-server", ("disk-loss",), (1, 2, 3))
    before = file.read_text()

    changed = question("home", seeds=6)
    assert changed.changed == {"seeds": [1, 2, 3, 4, 5, 6]}
    assert changed.study.must == ("disk-loss",), "what is not asked anew stays"
    assert file.read_text() == before.replace("[1, 2, 3]", "[1, 2, 3, 4, 5, 6]"), "comments stay"

    question("home", must=("durable", "snapshot"))
    last = question("home", StudyUse.FOUR_GUESTS, seeds=2).study
    assert (last.use, last.must, last.seeds) == ("vm-host", ("durable", "snapshot"), (1, 2))

    file.write_text(file.read_text().replace("seeds = [1, 2] ", "seeds = [7, 2]"))
    assert question("home", seeds=4).study.seeds == (7, 2, 1, 3), "the user's own are kept"


def test_a_study_without_a_use_gets_that_of_which_it_measures_most() -> None:
    for template, expected in (
        (StudyUse.HOME_SERVER, "home-server"),
        (StudyUse.DATABASE_NVME, "postgresql-server"),
        (StudyUse.FOUR_GUESTS, "vm-host"),
    ):
        file = Path(f"{template.value}.toml")
        shown("new", "study", file.stem, "--use", template.value)
        assert load_study(file, catalogue()).use == expected
        lines = [line for line in file.read_text().splitlines() if not line.startswith("use = ")]
        file.write_text("\n".join(lines))
        assert question(file.stem).study.use == expected


def test_the_commands_are_of_the_choice_or_of_the_stack_that_leads_so_far() -> None:
    for a, b, spread in ((100, 150, 0.002), (100, 101, 0.002), (100, 110, 0.2)):  # clear, either, undecided
        results = study({"a": {"database": around(a, 0.002)}, "b": {"database": around(b, spread)}})
        [advice] = advise(results, [use(weight("database", 1))], None)
        assert stack_to_build(advice) == "b"


def test_one_command_goes_from_the_question_to_the_commands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacities = {"ext4": 900.0, "xfs": 3000.0, "btrfs-nocow": 700.0, "zfs": 800.0}
    runner = capacity_runner(capacities, {1: 1.0, 2: 1.01, 3: 0.99})
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: runner)
    words = ("ask", "orders", "--use", "database-nvme", "--seeds", "3", "--price", "300 EUR", "--jobs", "1")

    text = " ".join(shown(*words, "--sensitivity", "0s").split())

    assert "choose xfs" in text
    assert "300.00 EUR" in text
    assert "mkfs.xfs" in text
    assert "Nothing was tried in this time. strata ask orders --sensitivity 20m" in text.replace("- ", "")
    found = shown_json("ask", "orders", "--sensitivity", "5s", "--jobs", "1")
    assert found["stack"] == "xfs"
    assert found["sensitivity"]["leaders"] == ["xfs"]
    assert "mkfs.xfs" in " ".join(found["commands"])

    def lost(*_: object, **__: object) -> None:
        raise LabError("the host's memory is full", remedy="free some")

    monkeypatch.setattr("strata.actions.ask.experiment_on", lost)
    found = shown_json("ask", "orders", "--sensitivity", "5s", "--jobs", "1")
    assert "mkfs.xfs" in " ".join(found["commands"]), "a search that fails costs nothing that is known"


def test_where_no_stack_keeps_what_it_acknowledged_none_is_chosen_or_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacities = {"ext4": 900.0, "xfs": 3000.0, "btrfs-nocow": 700.0, "zfs": 800.0}
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: capacity_runner(capacities))
    shown("new", "study", "lying", "--use", "database-nvme", "--seeds", "3")
    file = folder / "lying.toml"
    faults = 'faults = [{ fault = "ignores-flush" }]\ncapacity ='
    file.write_text(file.read_text().replace("capacity =", faults))

    found = shown_json("ask", "lying", "--jobs", "1")

    assert (found["stack"], found["commands"]) == (None, [])


def test_the_commands_are_for_the_users_machine_and_leave_the_users_shell_alone(folder: Path) -> None:
    disks = ("generic-nearline-hdd", "generic-nearline-hdd", "generic-sata-ssd")
    named = (word for disk in disks for word in ("--disk", disk))
    shown(*HOME, *named, "--memory", "8GiB")
    file = folder / "home.toml"
    study = load_study(file, catalogue())

    commands = build_commands(study, "zfs-ssd-log")

    assert (study.memory_bytes, study.machine_memory_bytes) == (512 << 20, 8 << 30)
    assert f"tee /sys/module/zfs/parameters/zfs_arc_max <<< {4 << 30}" in commands
    pool = next(line for line in commands if line.startswith("zpool create"))
    assert pool.endswith('log "${disk2_log}"'), "a part of the SSD, not the whole"
    assert 'disk2_log=$(realpath --canonicalize-existing "${disk2}-part1")' in commands
    [divided] = [line for line in commands if line.startswith("sfdisk")]
    sizes = [int(size) for size in re.findall(r"size=(\d+)MiB", divided)]
    assert (sizes[0], sizes[1] > 400 << 10) == (4096, True), (
        "the rest of the user's disk, not of the lab's part"
    )
    assert not any("dmsetup" in line for line in commands), "it would not outlive a restart"
    pasted = "\n".join([commands[0], "false", "echo not here", commands[-1], "echo still here"])
    done = subprocess.run(["bash"], input=pasted, capture_output=True, text=True, check=False)
    assert done.stdout == "still here\n", "an error ends the commands, not the shell"

    file.write_text("\n".join(line for line in file.read_text().splitlines() if "machine_memory" not in line))
    said = "\n".join(build_commands(load_study(file, catalogue()), "zfs-ssd-log"))
    assert "# sizes of memory are those of 512MiB: give them the same share of your machine's" in said
    assert f"zfs_arc_max <<< {256 << 20}" in said


def test_an_ssd_beside_mirrored_disks_is_tried_as_log_cache_and_special_device(folder: Path) -> None:
    for ssds in (1, 2):
        disks = ["generic-nearline-hdd"] * 2 + ["generic-sata-ssd"] * ssds
        named = [word for disk in disks for word in ("--disk", disk)]
        shown("new", "study", f"with-{ssds}", "--use", "home-server", *named, "--data", "1TiB")
        study = load_study(folder / f"with-{ssds}.toml", catalogue())
        assert {"zfs-l2arc", "zfs-and-ssd", "bcache-ext4", "dm-cache-ext4", "dm-writecache-ext4"} <= {
            *study.stacks
        }
        assert not skipped(study)
        cache = study.devices["disk2"]
        assert cache.capacity_bytes / cache.device.capacity_bytes == pytest.approx(1 / 64, rel=0.2)
        lone = [
            name
            for name, each in study.stacks.items()
            if any(layer.sole_copies() for layer in each.every_layer)
        ]
        assert ("zfs-and-ssd" in lone) is (ssds == 1), "two SSDs are mirrors"
        use = bundled_uses(catalogue())["home-server"]
        keys = [each.model_dump(mode="json") for each in study.workloads.values()]
        assert all(any(fit.fits(each) for fit in weight.fits for each in keys) for weight in use.weights)


def test_the_commands_refuse_disks_in_use_and_make_the_stack_come_up_at_boot(folder: Path) -> None:
    named = [
        word
        for disk in ("generic-nearline-hdd", "generic-nearline-hdd", "generic-sata-ssd")
        for word in ("--disk", disk)
    ]
    study = made(*named)
    for stack in study.stacks:
        commands = build_commands(study, stack)
        script = "\n".join(commands)
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), stack
        assert any(line.startswith("for disk in") for line in commands[:6])
        fstab = [line for line in commands if line.endswith(">> /etc/fstab")]
        assert len(fstab) == sum(line.startswith("mount ") for line in commands), stack
        assert not [line for line in commands if "is not repeated" in line], stack
        at_boot = "\n".join(commands[commands.index(fstab[0]) :])
        assert ("systemctl enable zfs-import-cache" in script) is ("zpool create" in script)
        assert ("/etc/mdadm/mdadm.conf" in script) is ("mdadm --create" in script)
        assert ("zfs_arc_max" in at_boot or "zfs_arc_max" in script.split("systemd/system")[0]) is (
            "zfs_arc_max" in script
        )
    run = "\n".join(
        each.replace("/dev/disk/by-id/CHOOSE", "/dev/null") for each in build_commands(study, "mirror-ext4")
    )
    done = subprocess.run(["bash"], input=run + "\necho on", capture_output=True, text=True, check=False)
    assert "/dev/null is no disk, or is in use" in done.stderr
    assert done.stdout == "on\n", "nothing was made, and the shell goes on"


def measured_by_near_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure by a runner under which two stacks are alike within what seeds differ by."""
    capacities = {"ext4": 3000.0, "xfs": 2950.0, "btrfs-nocow": 700.0, "zfs": 800.0}
    runner = capacity_runner(capacities, {seed: 1 + (seed % 3 - 1) * 0.1 for seed in range(1, 30)})
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: runner)


def test_an_undecided_answer_names_its_next_step_and_takes_it_within_its_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_by_near_leaders(monkeypatch)
    words = ("ask", "orders", "--use", "database-nvme", "--seeds", "3", "--jobs", "1", "--sensitivity", "0s")
    again = ("ask", "orders", "--jobs", "1", "--sensitivity", "0s")
    assert shown_json(*words)["next"]["seeds"] == 6
    assert "Next: strata ask orders --seeds 6: 6 seeds of every stack take about" in shown(*again)
    assert len(load_study(folder / "orders.toml", catalogue()).seeds) == 3
    assert shown_json(*again, "--more", "30h")["next"] is None, "twice as many decide"
    assert len(load_study(folder / "orders.toml", catalogue()).seeds) == 6


def test_an_interrupted_question_goes_on_in_its_folder_with_the_time_that_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_by_near_leaders(monkeypatch)
    shown("new", "study", "orders", "--use", "database-nvme", "--seeds", "3")
    (folder / "my studies").mkdir()
    (folder / "orders.toml").rename(folder / "my studies" / "orders.toml")
    said: list[str] = []
    run_question, whole = asking.run_question, [False, False, True]  # the last is asked first

    def run(*words: Any) -> ResultsFolder:
        if whole.pop():
            return run_question(*words)
        raise Cancelled

    monkeypatch.setattr("strata.actions.ask.run_question", run)
    monkeypatch.setattr(
        "strata.cli.ask.notes", lambda: SimpleNamespace(print=lambda text, **_: said.append(text))
    )
    words = ("--jobs", "1", "--sensitivity", "0s", "--more", "30h")
    for _ in ("in the second round", "in the first"):
        shown("ask", "my studies/orders", *words, exit_code=INTERRUPTED_EXIT)
        again = shlex.split(said[-1].removeprefix("Interrupted; go on with: "))
        assert again[:-1] == ["strata", "ask", "my studies/orders", "--more"]
        assert 0 < parse_duration(again[-1]) <= parse_duration("30h")
    assert again[-1] == "30h"
    assert len(load_study(folder / "my studies" / "orders.toml", catalogue()).seeds) == 6
