# SPDX-License-Identifier: Apache-2.0
"""`strata new`: every skeleton is well formed, and works with its test before anything is added."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from strata.actions.new_study import StudyUse
from strata.cli import app, new
from strata.diagnostics.registry import Registry
from strata.disks.machine import Machine
from strata.disks.resemblance import resembling
from strata.model.layer import Layer
from strata.model.packages import asked_packages
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.reading.entries import Catalogue
from strata.reading.load import load_study
from study_texts import SOUND

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(new, "clone_root", lambda doing: tmp_path)
    return tmp_path


def read_layer(file: Path) -> type[Layer]:
    spec = importlib.util.spec_from_file_location("skeleton_under_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Layer)]
    return next(value for value in found if value is not Layer)


def test_a_skeleton_compiles_to_steps_in_a_stack(clone: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["new", "layer", "fast-store"])
    assert done.exit_code == 0, done.output
    layer = read_layer(clone / "src/strata/layers/fast_store.py")
    layers = Registry[Layer]("layer", [*catalogue().layers.values(), layer])
    study = tmp_path / "study.toml"
    study.write_text(SOUND.replace('[{ layer = "ext4",', '[{ layer = "fast-store" }, { layer = "ext4",'))

    read = load_study(study, Catalogue(layers=layers, workloads=catalogue().workloads))
    steps = {step.id: step for step in compile_trial(read, "ext4", "mix", 1).steps}

    assert steps["fast-store-make"].destroys == ("disk0",)
    assert steps["fast-store-start"].undo is not None
    assert steps["ext4-make"].argv[-1] == "/dev/mapper/${stack}_fast_store"


@pytest.mark.parametrize("what", ["filesystem", "layer", "workload", "device-kind"])
def test_a_skeleton_has_a_test_keeps_the_style_and_says_what_comes_next(clone: Path, what: str) -> None:
    done = CliRunner().invoke(app, ["new", what, "fast-store"])
    assert done.exit_code == 0, done.output

    files = [path for path in clone.rglob("*") if path.is_file()]
    python = [str(path) for path in files if path.suffix == ".py"]
    assert any(path.name.startswith("test_") for path in files)
    assert "Next" in done.output
    words = ("check", "--ignore", "INP001,D,RUF012", "--config", str(ROOT / "pyproject.toml"))
    command = [sys.executable, "-m", "ruff", *words, *python]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("what", "name", "said"),
    [
        ("layer", "ext4", "already"),
        ("filesystem", "xfs", "already"),
        ("workload", "fio", "already"),
        ("device-kind", "flash", "already"),
        ("layer", "Fast Store", "fast-store"),
        ("workload", "2fs", "begin with a letter"),
    ],
)
def test_a_name_that_is_taken_or_no_name_is_refused(clone: Path, what: str, name: str, said: str) -> None:
    done = CliRunner().invoke(app, ["new", what, name])

    assert done.exit_code != 0
    assert said in str(done.exception)
    assert list(clone.iterdir()) == []


def test_what_exists_is_not_overwritten(clone: Path) -> None:
    mine = clone / "src/strata/layers/mine.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")

    done = CliRunner().invoke(app, ["new", "layer", "mine"])

    assert done.exit_code != 0
    assert mine.read_text() == "precious"
    assert [path for path in clone.rglob("*") if path.is_file()] == [mine]


def test_a_study_of_a_program_is_written_from_a_few_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = ["--load", 'ask ${data} "it\'s"', "--prepare", "make", "--serve", "served", "--ready", "ping"]
    answers += ["--packages", "git jq"]

    done = CliRunner().invoke(
        app, ["new", "workload", "own", "--command", *answers, "--metric", "asked_per_s=did ([0-9]+)"]
    )

    assert done.exit_code == 0, done.output
    study = load_study(tmp_path / "own.toml", catalogue())
    steps = {step.id: step for step in compile_trial(study, "ext4", "own", 1).steps}
    assert steps["run-load-1"].argv == ("ask", "${mount}", "it's")
    assert steps["command-server"].ready is not None
    assert asked_packages(study.workloads.values()) == ("git", "jq")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("workload own --command", "nothing is measured"),
        ("workload Own --command --load true", "not in kebab case"),
        ("workload own --command --load 'a | b'", "no shell"),
        ("workload own --command --load a --metric x=a", "0 groups"),
        ("study mine", "no use is named"),
        ("study mine --use ci-gate --disk floppy", "floppy"),
        ("study mine --use ci-gate --disk null --disk null", "the use takes 1"),
        ("study mine --use ci-gate --memory much", "much"),
        ("study mine --use ci-gate --data 1MiB", "too little"),
        ("study mine --use four-guests --memory 256MiB", "256MiB is too little"),
    ],
)
def test_answers_that_make_no_study_leave_no_file(
    words: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(app, ["new", *shlex.split(words)])

    assert done.exit_code != 0
    assert cause in str(done.exception) + done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("use", [*StudyUse])
def test_a_study_of_a_common_use_is_sound_short_and_to_scale(
    use: StudyUse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = ["--use", use.value, "--memory", "64GiB", "--data", "128GiB", "--disk", "intel-p5510-3840gb"]

    done = CliRunner().invoke(app, ["new", "study", "mine", *answers])

    assert done.exit_code == 0, done.output
    text = (tmp_path / "mine.toml").read_text()
    study = load_study(tmp_path / "mine.toml", catalogue())
    assert len(text.splitlines()) <= (75 if use is StudyUse.HOME_SERVER else 60)
    assert {each.device.name for stack in study.stacks for each in study.stack_devices(stack)} == {
        "intel-p5510-3840gb"
    }
    held_bytes = 2 * study.memory_bytes  # the data are twice the memory
    files = {StudyUse.HOME_SERVER: held_bytes >> 17, StudyUse.FOUR_GUESTS: held_bytes // 4 >> 17}
    expected = f"files = {files[use]}" if use in files else f"scale = {held_bytes // (15 << 20)}"
    assert expected in text


def test_an_ssd_beside_hard_disks_serves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    models = ["generic-nearline-hdd", "samsung-870-evo-1tb", "generic-nearline-hdd"]
    named = [word for each in models for word in ("--disk", each)]

    CliRunner().invoke(app, ["new", "study", "mine", "--use", "home-server", *named])

    study = load_study(tmp_path / "mine.toml", catalogue())
    assert {each.devices for each in study.stacks.values()} == {("disk0", "disk2")}
    assert study.stacks["zfs-and-ssd"].all_devices == ("disk0", "disk2", "disk1")
    assert study.workloads["album"].place == "database"


def test_a_device_file_stands_for_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-disk.toml").write_bytes((ROOT / "devices" / "wd-re4-500gb.toml").read_bytes())
    words = ["new", "study", "orders", "--use", "database-nvme", "--disk", "./my-disk.toml"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert load_study(tmp_path / "orders.toml", catalogue()).devices["disk0"].device.name == "my-disk"


def test_the_disks_of_a_machine_are_modelled_by_kind_and_capacity(tmp_path: Path) -> None:
    disks = {
        "sda": ("1", 4 * 10**12),
        "sdc": ("1", 12 * 10**12),
        "sdb": ("0", 10**12),
        "nvme0n1": ("0", 2 * 10**12),
    }
    for name, (rotational, size_bytes) in disks.items():
        place = tmp_path / "sys/block" / name
        (place / "queue").mkdir(parents=True)
        (place / "queue/rotational").write_text(rotational)
        (place / "size").write_text(str(size_bytes // 512))

    found = {disk.name: model.name for disk, model in resembling(Machine(tmp_path))}

    assert found == {
        "nvme0n1": "generic-nvme-data-centre",
        "sda": "generic-nearline-hdd-4tb",
        "sdc": "generic-nearline-hdd",
        "sdb": "generic-sata-ssd",
    }


@pytest.mark.parametrize(("typed", "sound"), [("ci-gate\n\n\n\n", True), ("desktop\n", False)])
def test_a_person_at_a_terminal_is_asked_for_a_study(
    typed: str, sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "strata.cli.questions.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    )

    done = CliRunner().invoke(app, ["new", "study", "mine"], input=typed)

    assert (done.exit_code == 0) is sound, done.output
    assert not isinstance(done.exception, AssertionError)
    assert (tmp_path / "mine.toml").exists() is sound
