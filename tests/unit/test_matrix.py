# SPDX-License-Identifier: Apache-2.0
"""The matrix of a study: its combinations, its mistakes, and the effects of its factors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from results_factory import good_log, plan_of, snapshot_of, store_trial

from command_line import shown, shown_json
from strata.errors import DiagnosticsError, StudyError
from strata.model.matrix import Factor, FactorLevel, Matrix, Variant
from strata.model.metric import Metric
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, trials
from strata.reading.load import load_study
from strata.report.data import TABLES
from strata.report.page import page_of
from strata.results.store import ResultsFolder
from strata.statistics.effects import designs, effects, interactions
from strata.statistics.study import gather
from study_texts import HEAD, disk, pgbench

TEXT = HEAD.replace("[1]", "[1, 2]") + disk("disk0", "null", "20GiB")
TEXT += """[stacks.zfs]
layers = [{ layer = "zpool" }, { layer = "zfs" }]
[stacks.ext4]
layers = [{ layer = "ext4" }]
"""
TEXT += (
    pgbench("oltp")
    + """
[matrix]
recordsize = { key = "stacks.zfs.layers.zfs.recordsize", values = ["8KiB", "128KiB"] }
clients = { key = "workloads.oltp.clients", values = [1, 4] }
"""
)
FACTORS = TEXT.partition("[matrix]\n")[2]
CLIENTS = "workloads.oltp.clients"


def read(tmp_path: Path, text: str) -> Study:
    file = tmp_path / "study.toml"
    file.write_text(text)
    return load_study(file, catalogue())


def mistakes(tmp_path: Path, factors: str) -> list[tuple[str | None, str]]:
    with pytest.raises(DiagnosticsError) as caught:
        read(tmp_path, TEXT.replace(FACTORS, factors))
    return [(each.key, each.cause) for each in caught.value.diagnostics if isinstance(each, StudyError)]


def test_every_combination_is_a_stack_and_a_workload(tmp_path: Path) -> None:
    study = read(tmp_path, TEXT)

    assert list(study.stacks) == ["zfs-recordsize-8kib", "zfs-recordsize-128kib", "ext4"]
    assert list(study.workloads) == ["oltp-clients-1", "oltp-clients-4"]
    sizes = [
        study.stacks[name].layers[-1].model_dump()["recordsize_bytes"] for name in list(study.stacks)[:2]
    ]
    assert sizes == [8 << 10, 128 << 10]
    assert len(trials(study)) == 3 * 2 * 2


def test_an_excluded_combination_is_not_run(tmp_path: Path) -> None:
    study = read(tmp_path, TEXT + '[[exclude]]\nrecordsize = "128KiB"\nclients = [4]\n')

    cells = {(trial.stack, trial.workload) for trial in trials(study)}

    assert ("zfs-recordsize-128kib", "oltp-clients-4") not in cells
    assert len(cells) == 5


def test_a_key_of_all_stacks_and_values_with_names(tmp_path: Path) -> None:
    factors = (
        'top = { key = "stacks.*.layers.0", values = { raw = { layer = "ext4" }, log = { layer = "xfs" } } }'
    )
    text = TEXT.replace(FACTORS, factors).replace(
        '{ layer = "zpool" }, { layer = "zfs" }', '{ layer = "f2fs" }'
    )

    study = read(tmp_path, text)

    found = {name: stack.layers[0].layer for name, stack in study.stacks.items()}
    assert found["zfs-top-raw"] == "ext4"
    assert found["zfs-top-log"] == "xfs"
    assert study.matrix.same == {"ext4-top-raw": "zfs-top-raw", "ext4-top-log": "zfs-top-log"}


DEVICES = """
[devices.ssd]
model = "null"
capacity = "20GiB"

[stacks.logged]
devices = ["disk0"]
layers = [
    { layer = "partition", disk = "ssd", sizes = { log = "1GiB" } },
    { layer = "zpool", log = ["ssd.log"] },
    { layer = "zfs" },
]

[matrix]
model = { key = "devices.ssd.model", values = ["generic-sata-ssd", "generic-nvme-consumer"] }
capacity = { key = "devices.disk0.capacity", values = ["20GiB", "40GiB"] }
"""


def with_device_factors() -> str:
    return TEXT.partition("[matrix]")[0].replace("layers", 'devices = ["disk0"]\nlayers') + DEVICES


def test_a_factor_of_a_device_makes_variants_of_the_stacks_that_stand_on_it(tmp_path: Path) -> None:
    study = read(tmp_path, with_device_factors())

    assert study.matrix.stacks["ext4-capacity-40gib"].levels == {"capacity": "40gib"}
    assert len([name for name in study.stacks if name.startswith("logged-")]) == 4
    logged = study.stacks["logged-model-generic-nvme-consumer-capacity-40gib"]
    assert logged.all_devices == ("disk0-capacity-40gib", "ssd-model-generic-nvme-consumer")
    used = {each.name: (each.device.name, each.capacity_bytes) for each in study.stack_devices(logged.name)}
    assert used["ssd-model-generic-nvme-consumer"] == ("generic-nvme-consumer", 20 << 30)
    assert used["disk0-capacity-40gib"] == ("null", 40 << 30)
    assert len(trials(study)) == (4 + 2 + 2) * 2


def test_a_stack_without_a_list_of_devices_has_their_variants(tmp_path: Path) -> None:
    factors = 'capacity = { key = "devices.*.capacity", values = ["20GiB", "40GiB"] }'

    study = read(tmp_path, TEXT.replace(FACTORS, factors))

    assert study.stacks["ext4-capacity-40gib"].devices == ("disk0-capacity-40gib",)
    assert list(study.devices) == ["disk0-capacity-20gib", "disk0-capacity-40gib"]


def test_a_mistake_is_told_where_it_stands(tmp_path: Path) -> None:
    for factor, values, more, key, cause in (
        ("stacks.zfs.layers.zfs.recordsize", '["8KiB"]', "", "matrix.x.values", "two values"),
        ("stacks.nfs.layers.zfs.atime", "[1, 2]", "", "matrix.x.key", 'no "nfs" in stacks'),
        ("stacks.zfs.layers.xfs.atime", "[1, 2]", "", "matrix.x.key", 'has no "xfs"'),
        ("study.seeds", "[1, 2]", "", "matrix.x.key", "not a key of a device, a stack or a workload"),
        (CLIENTS, "[4, 4]", "", "matrix.x.values[1]", 'called "4", too'),
        (CLIENTS, "[[1], [2]]", "", "matrix.x.values[0]", "gives no name"),
        (CLIENTS, "[4, -1]", "", "matrix.x.values[1]", "too small"),
        (CLIENTS, "[4, 8]", "[[exclude]]\nx = 5", "exclude[0].x", "no value of x"),
        (CLIENTS, "[4, 8]", "[[exclude]]\nx = [4, 8]", "workloads.oltp", "leaves nothing of it"),
        (
            *(CLIENTS, "[4, 8]", f'y = {{ key = "{CLIENTS}", values = [1, 2] }}'),
            *("matrix.y", "another factor sets"),
        ),
    ):
        found = mistakes(tmp_path, f'x = {{ key = "{factor}", values = {values} }}\n{more}')
        assert any(where == key and cause in what for where, what in found), found


MACHINE = """
cpus = { key = "study.cpus", values = [1, 4] }
memory = { key = "study.memory", values = ["512MiB", "1GiB"] }
"""


def test_keys_of_the_study_make_variants_of_every_stack(tmp_path: Path) -> None:
    study = read(tmp_path, TEXT.replace(FACTORS, MACHINE))
    plans = {name: compile_trial(study, name, "oltp", 1) for name in study.stacks}

    assert len(plans) == 8
    small, large = plans["ext4-cpus-1-memory-512mib"], plans["ext4-cpus-4-memory-1gib"]
    assert (small.memory_bytes, large.memory_bytes) == (512 << 20, 1 << 30)
    assert ("processors 1" in small.processor, "processors 4" in large.processor) == (True, True)
    assert study.memory_bytes_max == 1 << 30
    assert {each.levels["cpus"] for each in study.matrix.stacks.values()} == {"1", "4"}


def test_a_wrong_value_of_a_key_of_the_study_is_led_back_to_the_factor(tmp_path: Path) -> None:
    for values, cause in (
        ('key = "study.cpus", values = [1, 99]', "99 is too large"),
        ('key = "study.cpu", values = ["free", "no"]', "no"),
        ('key = "devices.disk0.model", values = ["null", "no-such-disk"]', "no-such-disk"),
    ):
        found = mistakes(tmp_path, f"x = {{ {values} }}")
        assert [where for where, what in found] == ["matrix.x.values[1]"]
        assert cause in found[0][1]


def test_too_many_combinations_are_refused_before_they_are_made(tmp_path: Path) -> None:
    values = list(range(1, 60))
    factors = "\n".join(
        f'{name} = {{ key = "workloads.oltp.{name}", values = {values} }}'
        for name in ("clients", "scale", "threads")
    )

    assert any("more than 100,000" in cause for _, cause in mistakes(tmp_path, factors))


MATRIX = Matrix(
    factors={
        "recordsize": Factor(
            name="recordsize",
            levels=(
                FactorLevel(name="8kib", text="8KiB", number=8192),
                FactorLevel(name="128kib", text="128KiB", number=131072),
            ),
            unit="B",
        ),
        "clients": Factor(
            name="clients",
            levels=tuple(FactorLevel(name=str(count), text=str(count), number=count) for count in (1, 4, 16)),
            unit="1",
        ),
    },
    stacks={f"zfs-{size}": Variant(base="zfs", levels={"recordsize": size}) for size in ("8kib", "128kib")},
    workloads={
        f"oltp-{count}": Variant(base="oltp", levels={"clients": count}) for count in ("1", "4", "16")
    },
)


def measured(path: Path, rate: Callable[[str, str], float]) -> ResultsFolder:
    """A finished study of the matrix; each seed moves all cells alike."""
    stacks, seeds = dict.fromkeys(MATRIX.stacks, 1.0), (1, 2, 3, 4, 5, 6)
    snapshot = snapshot_of(stacks, seeds, tuple(MATRIX.workloads))
    folder = ResultsFolder.create(path, snapshot.model_copy(update={"matrix": MATRIX}))
    for stack, of_stack in MATRIX.stacks.items():
        for workload, of_workload in MATRIX.workloads.items():
            for seed in seeds:
                value = rate(of_stack.levels["recordsize"], of_workload.levels["clients"]) * (1 + seed / 50)
                metric = Metric(
                    name="transactions_per_s", value=value, unit="1/s", better="higher", headline=True
                )
                plan = plan_of(stack, workload, seed)
                store_trial(folder, plan, [metric], good_log(plan, value))
    return folder


def test_effects_are_the_factors_of_a_product(tmp_path: Path) -> None:
    clients = {"1": 1.0, "4": 3.0, "16": 5.0}
    sizes = {"8kib": 2.0, "128kib": 1.0}
    results = gather(measured(tmp_path / "r", lambda size, count: 100 * sizes[size] * clients[count]))
    (design,) = designs(results)
    kind = results.metrics("oltp-1")[0]

    main = {(each.factor, each.level): each.comparison for each in effects(results, design, kind)}
    mixed = interactions(results, design, kind)

    assert main["recordsize", "128kib"].ratio.ratio == pytest.approx(0.5)
    assert main["recordsize", "128kib"].verdict == "worse"
    assert main["clients", "16"].ratio.ratio == pytest.approx(5.0)
    assert [each.comparison.ratio.ratio for each in mixed] == pytest.approx([1.0, 1.0])
    assert {each.comparison.verdict for each in mixed} == {"equal"}


def test_an_interaction_is_the_ratio_of_two_effects(tmp_path: Path) -> None:
    # With many clients small records gain three times as much as with one.
    gains = {("8kib", "1"): 1.0, ("8kib", "4"): 2.0, ("8kib", "16"): 3.0}
    results = gather(measured(tmp_path / "r", lambda size, count: 100 * gains.get((size, count), 1.0)))
    (design,) = designs(results)

    mixed = interactions(results, design, results.metrics("oltp-1")[0])

    found = {(each.where or ("", "", ""))[1]: each.comparison.ratio.ratio for each in mixed}
    assert found == pytest.approx({"4": 1 / 2, "16": 1 / 3})


def test_page_terminal_and_json_show_the_effects(tmp_path: Path) -> None:
    sizes = {"8kib": 2.0, "128kib": 1.0}
    folder = measured(tmp_path / "r", lambda size, count: 100 * sizes[size] * int(count) ** 0.5)

    page = page_of(folder)
    said = shown("show", folder.path)
    plain = shown_json("show", folder.path)

    assert "What each factor does" in page
    assert "by clients" in page
    assert "The largest effect: clients 16" in page
    assert "Effects on transactions per second, zfs under oltp" in said
    (recordsize,) = [
        each["comparison"] for each in plain["effects"][0]["found"] if each["factor"] == "recordsize"
    ]
    assert recordsize["ratio"]["ratio"] == pytest.approx(0.5)
    assert recordsize["verdict"] == "worse"


def test_factors_are_columns_of_every_table(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    results = gather(measured(folder, lambda size, count: 100.0))
    factors = results.snapshot.matrix.factors
    names = [name.replace("-", "_") for name in factors]

    for name, table in TABLES.items():
        made = table.of(results)
        assert [each.key for each in made.columns][-len(names) :] == names, name
    rows = shown_json("query", folder, "select * from metrics")["rows"]
    cells = {(row["stack"], row["workload"]): [row[name] for name in names] for row in rows}

    assert len(cells) == len({tuple(map(str, levels)) for levels in cells.values()}) == len(results.cells)
    assert set(names) <= set(shown("show", folder, "--csv").partition("\n")[0].split(","))
