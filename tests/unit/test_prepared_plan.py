# SPDX-License-Identifier: Apache-2.0
"""Plans of studies that prepare once: who shares what, what comes up again, and who cannot."""

from __future__ import annotations

from pathlib import Path

from command_line import checked, shown
from strata.model.study import Study
from strata.plan.aspects.restart import parts_of
from strata.plan.compile import compile_trial, skipped
from strata.plan.model import Plan
from study_texts import HEAD, disk, read

STUDY = HEAD.replace("[1]", "[1, 2]") + 'prepare = "once"\n'
STUDY += disk("disk0", "generic-desktop-hdd", "20GiB") + disk("disk1", "generic-desktop-hdd", "20GiB")
PGBENCH = (
    '[workloads.{name}]\nworkload = "pgbench"\nscale = {scale}\nclients = {clients}\nduration = "{s}s"\n'
)
LOADS = "".join(
    PGBENCH.format(name=name, scale=scale, clients=clients, s=seconds)
    for name, scale, clients, seconds in (("few", 2, 1, 5), ("many", 2, 100, 9), ("large", 3, 1, 5))
)
EXT4 = '[stacks.ext4]\ndevices = ["disk0"]\nlayers = [{ layer = "ext4" }]\n'


def study_of(text: str, folder: Path, head: str = STUDY) -> Study:
    return read(folder, head + text)


def parts(study: Study, stack: str, workload: str, seed: int = 1) -> tuple[Plan, Plan]:
    found = parts_of(compile_trial(study, stack, workload, seed))
    assert found is not None
    return found


def test_loads_that_differ_only_in_the_load_share_the_first_boot(tmp_path: Path) -> None:
    study = study_of(EXT4 + LOADS, tmp_path)

    first = {name: parts(study, "ext4", name)[0].to_json() for name in ("few", "many", "large")}

    assert first["few"] == first["many"] != first["large"]
    assert parts(study, "ext4", "few", 2)[0].to_json() != first["few"]


def test_stacks_that_differ_only_in_their_name_share_it_too(tmp_path: Path) -> None:
    study = study_of(EXT4 + EXT4.replace("stacks.ext4", "stacks.same") + LOADS, tmp_path)

    assert parts(study, "ext4", "few")[0].to_json() == parts(study, "same", "few")[0].to_json()


def test_the_second_boot_brings_up_the_stack_and_starts_the_server_for_its_own_clients(
    tmp_path: Path,
) -> None:
    study = study_of(EXT4 + LOADS, tmp_path)

    second = parts(study, "ext4", "many")[1]

    assert [step.id for step in second.steps] == [
        *("ext4-again-mount", "pgbench-folders-again", "pgbench-server-again", "drawn-pause"),
        *("pgbench-load", "pgbench-warmup", "pgbench-begin", "pgbench-measure", "pgbench-end"),
    ]
    assert "max_connections=110" in second.steps[2].argv
    assert not any(step.destroys for step in second.steps)


def test_with_aged_all_loads_of_a_stack_share_what_was_aged_and_prepare_their_own(tmp_path: Path) -> None:
    head = STUDY.replace('prepare = "once"', 'prepare = "aged"\nage = { fill = "50%", overwrites = 1 }')
    study = study_of(EXT4 + LOADS, tmp_path, head)

    first, second = zip(*(parts(study, "ext4", name) for name in ("few", "many", "large")), strict=True)

    assert len({each.to_json() for each in first}) == 1, "paid once a stack, and a seed"
    purposes = {step.purpose.what for step in first[0].steps if step.purpose}
    assert {"age-fill", "age-churn", "age-sync"} <= purposes
    for plan in second:
        steps = [step.id for step in plan.steps]
        assert steps[0] == "ext4-again-mount"
        assert "pgbench-initialise" in steps
        assert not any(step.destroys for step in plan.steps)
        assert not any(step.purpose and step.purpose.what.startswith("age") for step in plan.steps)
    unaged = study_of(EXT4 + LOADS, tmp_path, STUDY.replace('"once"', '"aged"'))
    assert all("the study has no `age`" in why for why in skipped(unaged).values())
    assert len(skipped(unaged)) == 3


def test_check_and_plan_say_who_shares(tmp_path: Path) -> None:
    study_of(EXT4 + LOADS, tmp_path)
    file = str(tmp_path / "study.toml")

    said = shown("check", file)
    planned = shown("plan", file, "--trial", "ext4.few.s1")
    plain = checked(file)

    assert "prepared once for each seed: 2 sets of disks for 3 cells" in said
    assert "[restart]" in planned
    assert "up to the restart shared with: ext4.many" in planned
    assert sorted(map(len, plain["shared"])) == [1, 2]
    assert {"ext4.few", "ext4.many"} in map(set, plain["shared"])


LIFE = '[workloads.life]\nworkload = "filesystem-life"\n'
AT_HOME = """[workloads.own]
workload = "command"
prepare = [{ shell = "echo a > $HOME/a" }]
load = ["ls"]
"""
TMPFS = '[stacks.memory]\ndevices = []\nlayers = [{ layer = "tmpfs", size = "2GiB" }]\n'
TENANTS = """\
[workloads.two]
workload = "tenants"
tenants = [
    { name = "a", load = { workload = "fio", preset = "random-mix-4k", size = "8MiB", duration = "1s" } },
    { name = "b", load = { workload = "fio", preset = "random-mix-4k", size = "8MiB", duration = "1s" } },
]
"""
FAULTY = STUDY.replace(
    'capacity = "20GiB"\n', 'capacity = "20GiB"\nfaults = [{ fault = "gone", at = "30s" }]\n', 1
)


def test_a_trial_that_cannot_start_anew_is_refused_with_the_reason(tmp_path: Path) -> None:
    for head, text, why in (
        (STUDY, EXT4 + LIFE, "takes down layers itself"),
        (STUDY, EXT4 + AT_HOME, "writes into ${HOME}, which is empty then"),
        (STUDY, TMPFS + LOADS, "tmpfs keeps its content in memory"),
        (STUDY, EXT4 + TENANTS, "tenants make their shares of the stack themselves"),
        (FAULTY, EXT4 + LOADS, "faults count from the start of the machine, and disk0 has some"),
    ):
        found = skipped(study_of(text, tmp_path, head))
        assert found
        assert all(why in reason for reason in found.values())
