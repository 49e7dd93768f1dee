# SPDX-License-Identifier: Apache-2.0
"""A virtual machine from a user's disk image: its plan, what is refused, what a result says of its system."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from strata.actions.check import CheckedStudy, check_study
from strata.errors import DiagnosticsError, StrataError
from strata.lab.inputs import input_setting, provide_inputs, provided_inputs
from strata.lab.progress import SILENCE
from strata.plan.compile import compile_trial, skipped
from strata.plan.model import Plan
from study_texts import HEAD, disk, read, written

IMAGE = bytes(510) + b"\x55\xaa"
VM = '{ layer = "vm", image = "system.raw", memory = "1GiB" }'
OLTP = '[workloads.load]\nworkload = "pgbench"\nscale = 1\nclients = 2\nwarmup = "5s"\nduration = "20s"\n'
TEXT = (
    HEAD
    + 'memory = "4GiB"\n'
    + disk("disk0", capacity="40GiB")
    + "[stacks.stack]\nlayers = [{layers}]\n{load}"
)


def text_of(folder: Path, layers: str = f'{VM}, {{ layer = "ext4" }}', load: str = OLTP) -> str:
    (folder / "system.raw").write_bytes(IMAGE)
    return TEXT.replace("{layers}", layers).replace("{load}", load)


def plan_of(folder: Path, *texts: str) -> Plan:
    return compile_trial(read(folder, text_of(folder, *texts)), "stack", "load", 1)


def refused(folder: Path, *texts: str) -> str:
    with pytest.raises(StrataError) as caught:
        plan_of(folder, *texts)
    error = caught.value
    return str(error) if isinstance(error, DiagnosticsError) else f"{error} {error.remedy}"


def words_of(argv: tuple[str, ...]) -> str:
    """What a shell of the machine reads, without its own quotes."""
    return " ".join(shlex.split(" ".join(argv)))


def test_everything_above_runs_in_the_machine_by_one_login(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    steps = {step.id: step for step in plan.steps}

    above = [step for step in plan.steps if step.id.startswith(("ext4", "pgbench", "owner"))]
    assert len(above) > 8
    assert all("ssh -F ${scratch}/vm/ssh machine" in words_of(step.argv) for step in above)
    # The machine is thrown away: nothing of it is undone, and its own users run the programs.
    assert all(step.undo is None and step.machine is None and step.user == "root" for step in above)
    assert "su -m postgres -c" in words_of(steps["pgbench-cluster"].argv)
    assert steps["ext4-make"].argv[-1].endswith(" /dev/vdb")
    ready = steps["pgbench-server"].ready
    assert ready is not None
    assert "pg_isready" in words_of(ready.argv)
    # What ssh answers when the server's login is stopped is no failure of the trial; elsewhere it is.
    assert (steps["pgbench-server"].expect_exit, steps["pgbench-role"].expect_exit) == ((0, 255), (0,))
    # The transactions' log is fetched from the machine.
    (collected,) = steps["pgbench-load"].collect
    assert words_of(steps["pgbench-load"].argv).endswith(f"> {collected.path}")
    assert steps["vm-start"].destroys == ("disk0",)
    assert not {"mkfs.ext4", "pgbench", "initdb"} & {*plan.prerequisites.tools}


def test_commands_of_the_study_make_a_filesystem(tmp_path: Path) -> None:
    own = '{ layer = "vm", image = "system.raw", memory = "1GiB", disk = "/dev/vtbd1" }'
    made = '{ layer = "commands", make = ["zpool create -f -m ${mount} tank ${disk} # $HOME"] }'

    plan = plan_of(tmp_path, f"{own}, {made}")

    (step,) = [step for step in plan.steps if step.id == "commands-make-1"]
    assert words_of(step.argv).endswith("sh -c zpool create -f -m ${mount} tank /dev/vtbd1 # $$HOME")


def test_the_image_is_a_part_of_the_trials_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    study = read(tmp_path, text_of(tmp_path))
    plan = compile_trial(study, "stack", "load", 1)
    provide_inputs(plan, study.inputs.values(), SILENCE)
    (provided,) = provided_inputs(plan)
    text = text_of(tmp_path)
    (tmp_path / "system.raw").write_bytes(bytes(1024) + IMAGE[:510] + IMAGE[510:])  # no boot sector any more

    assert provided.path.read_bytes() == IMAGE
    assert input_setting(plan) == {"inputs": {"machine-image": provided.sha256}}
    with pytest.raises(DiagnosticsError, match="not the image of a disk that its name says"):
        read(tmp_path, text)
    (tmp_path / "system.raw").write_bytes(b"\x90" + IMAGE[1:])
    assert compile_trial(read(tmp_path, text), "stack", "load", 1).inputs != plan.inputs


def test_what_cannot_run_is_refused_with_a_remedy(tmp_path: Path) -> None:
    qcow2 = b"QFI\xfb\x00\x00\x00\x03"
    (tmp_path / "backed.qcow2").write_bytes(qcow2 + b"\x00\x00\x00\x00\x00\x00\x02\x00" + bytes(600))
    (tmp_path / "packed.qcow2").write_bytes(b"\xfd7zXZ\x00" + bytes(600))
    ext4 = '{ layer = "ext4" }'
    cases = {
        'image = "none.raw", memory = "1GiB"': "there is no file",
        'image = "backed.qcow2", memory = "1GiB"': "lies in another file",
        'image = "packed.qcow2", memory = "1GiB"': "unpack it",
        'image = "system.raw"': "does not start in 256MiB",
        'image = "system.raw", memory = "1GiB", emulator = "uml"': "starts no disk image",
        'disk = "/dev/vtbd1"': "leave the key out",
        'image = "system.iso", memory = "1GiB"': "layers[0].image",
        'image = "a b.raw;x", memory = "1GiB"': "layers[0].image",
        'image = "system.raw", memory = "1GiB", disk = "/dev/vdb x"': "layers[0].disk",
    }
    wrong = {
        keys: said
        for keys, expected in cases.items()
        if expected not in (said := refused(tmp_path, f'{{ layer = "vm", {keys} }}, {ext4}'))
    }
    assert not wrong
    made = '{ layer = "commands", make = ["mount ${disk} ${mount}"] }'
    assert "only a machine from the user's own image" in refused(tmp_path, made)
    assert "no command mounts" in refused(tmp_path, f'{VM}, {{ layer = "commands", make = ["true"] }}')
    mail = '[workloads.load]\nworkload = "load"\npersonality = "varmail"\nduration = "10s"\n'
    assert "needs load of the machine below" in refused(tmp_path, f"{VM}, {ext4}", mail)
    fio = '[workloads.load]\nworkload = "fio"\npreset = "random-read-4k"\nduration = "60s"\n'
    for load in (OLTP, fio):
        said = refused(tmp_path, f"{VM}, {ext4}", f'{load}until = "1%"\n')
        assert "its window ends early by a signal" in said
        assert said.endswith("leave `until` out")
    for layers in (
        f'{{ layer = "guest" }}, {ext4}',
        f'{ext4}, {{ layer = "raw" }}, {{ layer = "guest" }}, {ext4}',
    ):
        assert "it is limited by a control group" in refused(tmp_path, f"{VM}, {layers}")


def test_extensions_are_asked_only_of_the_system_that_postgresql_runs_on(tmp_path: Path) -> None:
    load = (
        f'{OLTP}extensions = ["pg_trgm"]\nscript_text = "SELECT 1;"\ninit_text = "CREATE TABLE a (b int);"\n'
    )
    native, machine = '{ layer = "ext4" }', '{ layer = "vm", memory = "1GiB" }, { layer = "ext4" }'
    plans = [plan_of(tmp_path, layers, load) for layers in (native, machine, f"{VM}, {native}")]

    asked = [
        ["postgresql:pg_trgm" in needs.features for needs in (plan.needs_outside, plan.inside)]
        for plan in plans
    ]
    assert asked == [[True, False], [False, True], [False, False]]


def test_a_study_that_prepares_once_skips_the_machine(tmp_path: Path) -> None:
    for prepare in ("once", "aged"):
        study = read(tmp_path, text_of(tmp_path))
        (why,) = skipped(replace(study, prepare=prepare)).values()
        assert "a machine from an image runs on a host only" in why


def test_check_says_that_the_lab_cannot_run_it(tmp_path: Path) -> None:
    file = written(tmp_path / "study.toml", text_of(tmp_path))

    checked = check_study(file, list, 1)

    assert isinstance(checked, CheckedStudy)
    assert not checked.lab_only
    ((why, stacks),) = checked.host_only.items()
    assert (stacks, "--runner host" in why) == (["stack"], True)
