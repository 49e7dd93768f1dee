# SPDX-License-Identifier: Apache-2.0
"""Several workloads at once: what is refused, what is compiled, what is made of their outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.metric import Metric
from strata.model.step import Command, Step, Window
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.model.warning import Check
from strata.model.workload import Outputs, StepOutput, Workload
from strata.plan.compile import compile_trial, skipped
from strata.plan.model import Plan
from strata.workloads.fio import Fio
from strata.workloads.generator.load import Load
from strata.workloads.tenants import Tenants, TenantTable, fairness
from study_texts import mistakes, read

SAVED = Path(__file__).parents[1] / "golden" / "outputs"
FIO = 'workload = "fio", preset = "random-mix-4k", size = "16MiB", duration = "10s"'
SHOWN = ("operations_per_s", "read_latency_ns_p99", "write_latency_ns_p99")
MIX = Fio.model_validate({"preset": "random-mix-4k", "duration": "10s"})


TREE = 'before = {{ workload = "tree", archive = "{}.tar" }}'


def tenant(name: str, load: str = FIO, *, keys: str = "") -> str:
    return f'\n[[workloads.two.tenants]]\nname = "{name}"\nload = {{ {load} }}\n{keys}\n'


def study_text(
    *tenants: str, layers: str = '{ layer = "ext4" }', each: str = "", keys: str = "", head: str = ""
) -> str:
    return (
        f'[study]\nname = "small"\nquestion = "Which?"\nseeds = [1]\n{head}\n'
        '[devices.disk0]\nmodel = "wd-re4-500gb"\ncapacity = "8GiB"\n'
        f"[stacks.one]\nlayers = [{layers}]\neach = [{each}]\n"
        f'[workloads.two]\nworkload = "tenants"\n{keys}\n' + "".join(tenants)
    )


def compiled(folder: Path, text: str) -> Plan:
    return compile_trial(read(folder, text), "one", "two", 1)


def test_all_mistakes_of_loads_are_reported_at_once_at_their_keys(tmp_path: Path) -> None:
    text = study_text(
        tenant("db", 'workload = "pgbench", scale = 0, clients = 4, duration = "10s"'),
        tenant("mix", f"{FIO}, colour = 3"),
        tenant("other", 'workload = "fioo"'),
        tenant("Web", f'{FIO}, options = {{ runtime = "3" }}', keys='memry = "1GiB"'),
    )

    found = mistakes(tmp_path, text)

    assert set(found) == {
        "workloads.two.tenants[0].load.scale",
        "workloads.two.tenants[1].load.colour",
        "workloads.two.tenants[2].load.workload",
        "workloads.two.tenants[3].name",
        "workloads.two.tenants[3].memry",
    }
    assert 'did you mean "fio"' in found["workloads.two.tenants[2].load.workload"]
    assert 'did you mean "memory"' in found["workloads.two.tenants[3].memry"]


REFUSED = (
    ("tenants[1].load.duration", "10s", tenant("a"), tenant("b", FIO.replace("10s", "20s"))),
    ("tenants[0].load.duration", "no window", tenant("a", FIO.replace(', duration = "10s"', ""))),
    ("tenants[0].load", "no window", tenant("a", 'workload = "tree"')),
    ("tenants[0].load.scrub", "beside `tenants`", tenant("a", f"{FIO}, scrub = true")),
    ("tenants[0].load.snapshot_every", "beside", tenant("a", f'{FIO}, snapshot_every = "2s"')),
    ("tenants[0].load.before_measure", "beside", tenant("a", f'{FIO}, before_measure = ["snapshot"]')),
    ("tenants[0].before.scrub", "beside", tenant("a", keys=f"before = {{ {FIO}, scrub = true }}")),
    ("tenants[0].load.workload", "itself", tenant("a", 'workload = "tenants", tenants = []')),
    ("tenants[1].before", "different", *(tenant(name, keys=TREE.format(name)) for name in "ab")),
    ("tenants[1].name", "begins with it", tenant("a"), tenant("a-2")),
    ("tenants[1].name", "begins with it", tenant("a", keys="count = 2"), tenant("a-1")),
    ("tenants", "a layer of the stack one", tenant("ext4")),
    ("tenants", "a device", tenant("disk0")),
    ("tenants[0].memory", "too little memory", tenant("a", keys='memory = "16MiB"')),
    ("tenants", "missing"),
)


def test_what_cannot_be_is_refused_at_its_key(tmp_path: Path) -> None:
    found = [(key, words, mistakes(tmp_path, study_text(*parts))) for key, words, *parts in REFUSED]

    assert not [(key, words, said) for key, words, said in found if words not in said[f"workloads.two.{key}"]]


def test_what_was_there_before_counts_beside_the_loads_data(tmp_path: Path) -> None:
    def found(before: str, load: str) -> dict[str, str]:
        keys = f"before = {{ {FIO.replace('16MiB', before)} }}"
        return mistakes(tmp_path, study_text(tenant("a", FIO.replace("16MiB", load), keys=keys)))

    assert "8GiB" not in found("3GiB", "4GiB")
    assert (
        "data of `before` and `load` of 8GiB do not fit"
        in found("4GiB", "4GiB")["workloads.two.tenants[0].load"]
    )


def test_a_loads_refusal_names_its_part_of_the_stack_in_whole_mib(tmp_path: Path) -> None:
    large = FIO.replace("16MiB", "3GiB")
    thirds = mistakes(tmp_path, study_text(tenant("part", large, keys="count = 3")))

    assert not mistakes(tmp_path, study_text(tenant("one-half", large), tenant("other-half", large)))
    said = r"a tenant's part of it\) has room for \d{4}MiB; of"
    assert re.search(said, thirds["workloads.two.tenants[0].load.size"], re.M)


def test_a_window_of_a_given_length_needs_no_key_for_it_but_to_run_alone(tmp_path: Path) -> None:
    blog = 'workload = "blog", intervals = 5, interval = "2s"'

    assert not mistakes(tmp_path, study_text(tenant("a", blog), tenant("b")))
    longer = mistakes(tmp_path, study_text(tenant("b"), tenant("a", blog.replace("5", "6"))))
    alone = mistakes(tmp_path, study_text(tenant("a", blog), tenant("b"), keys='alone = "2s"'))
    assert "let its window be of 10s" in longer["workloads.two.tenants[1].load"]
    assert "blog cannot run alone for 2s" in alone["workloads.two.tenants[0].load"]


def test_more_memory_than_the_machine_has_is_refused_with_the_sum_and_what_to_write(tmp_path: Path) -> None:
    four, two = tenant("a", keys='count = 4\nmemory = "256MiB"'), tenant("a", keys="count = 2")
    limited, tmpfs = tenant("a", keys='count = 2\nmemory = "256MiB"'), '{ layer = "tmpfs", size = "640MiB" }'
    pool = '{ layer = "zpool", arc_max = "128MiB" }, { layer = "zfs" }'
    guests = '{ layer = "guest", memory = "512MiB" }, { layer = "ext4" }'

    def found(*tenants: str, **given: str) -> str:
        return mistakes(tmp_path, study_text(*tenants, **given)).get("workloads.two", "")

    said = found(four, layers=pool)
    assert "4 tenants may take 1280MiB in bursts" in said
    assert "together 1536MiB, but the machine has 1GiB" in said
    assert 'write memory = "1536MiB" in [study]' in said
    assert not found(four, layers=pool, head='memory = "1536MiB"')
    # What a tmpfs holds counts once: as the tenants', or where one has no limit as its own.
    assert not found(limited, layers=tmpfs)
    assert "640MiB" in found(limited, tenant("b"), layers=tmpfs)
    assert "2 tenants may take 1280MiB in bursts" in found(two, layers='{ layer = "lvm" }', each=guests)


def test_volumes_that_do_not_fit_beside_one_another_are_refused(tmp_path: Path) -> None:
    each = '{ layer = "ext4" }'
    two = tenant("a", keys="count = 2")

    fat = mistakes(tmp_path, study_text(two, layers='{ layer = "lvm", size = "5GiB" }', each=each))
    thin = mistakes(tmp_path, study_text(two, layers='{ layer = "lvm-thin", size = "5GiB" }', each=each))
    volume = '{ layer = "zvol", size = "5GiB" }, { layer = "ext4" }'
    zvol = mistakes(tmp_path, study_text(two, layers='{ layer = "zpool" }', each=volume))

    assert "2 volumes" in fat["stacks.one.layers[0].size"]
    assert "overcommit" in thin["stacks.one.layers[0].size"]
    assert "each of 2 tenants" in zvol["stacks.one.each[0].size"]


def test_what_cannot_be_shared_is_skipped_and_not_refused(tmp_path: Path) -> None:
    study = read(tmp_path, study_text(tenant("a"), layers='{ layer = "crypt" }', each='{ layer = "ext4" }'))

    assert "cannot share crypt" in skipped(study)[CellKey("one", "two")]


def test_what_a_load_binds_is_its_tenants_own() -> None:
    bind = Step(
        id="attach", phase="prepare", title="Attach", argv=("losetup",), binds="loop",
        undo=Command(argv=("losetup", "--detach", "${loop}")),
    )  # fmt: skip
    use = Step(id="use", phase="measure", title="Use", argv=("dd", "of=${loop}", "if=${mount}/$${loop}"))

    first, second = (step.of_tenant("db", "", {"loop"}) for step in (bind, use))

    assert first.binds == "db-loop"
    assert first.undo is not None
    assert first.undo.argv[-1] == "${db-loop}"
    assert second.argv[1] == "of=${db-loop}"


def outputs(*, alone: Mapping[str, StepOutput] = {}, **together: StepOutput) -> Outputs:
    """The outputs of fio's windows, by tenant."""
    windows: dict[Window, Mapping[str, StepOutput]] = {"": together, "alone": alone}
    return Outputs(
        {},
        {
            (name, window): {"fio-measure": output}
            for window, found in windows.items()
            for name, output in found.items()
        },
    )


def measured(speed: float = 1.0, *, block: float = 1.0) -> StepOutput:
    """A recorded window of fio, its operations times ``speed`` and its block size times ``block``."""
    found = json.loads((SAVED / "fio-3.39-random-mix.json").read_text())
    for job in found["jobs"]:
        for direction in ("read", "write"):
            job[direction]["iops"] *= speed
            job[direction]["bw_bytes"] *= speed * block
    return StepOutput(stdout=json.dumps(found, indent=2), duration_ns=10**10)


def tenants(*names: str, alone: bool = False) -> Tenants:
    members = [TenantTable(name=name, load=MIX) for name in names]
    return Tenants.model_validate({"members": members, "alone": "3s"} if alone else {"members": members})


def by_name(metrics: list[Metric]) -> dict[str, Metric]:
    assert len({each.name for each in metrics}) == len(metrics)
    return {each.name: each for each in metrics}


def test_rates_of_one_kind_are_added_and_jains_index_tells_how_fair_they_are() -> None:
    both = outputs(a=measured(), b=measured(3.0))
    found = by_name(tenants("a", "b").metrics(both))
    own = found["a_operations_per_s"].value

    assert found["aggregate_operations_per_s"].value == pytest.approx(4 * own)
    assert [each.name for each in found.values() if each.headline] == [
        "aggregate_operations_per_s",
        *(f"{name}_{each}" for name in "ab" for each in SHOWN),
    ]
    assert found["fairness"].value == pytest.approx(16 / (2 * 10))
    assert found["b_read_latency_ns_p99"].histogram is not None


def test_with_a_window_alone_speeds_are_relative_to_it() -> None:
    windows = outputs(a=measured(0.5), b=measured(0.25), alone={"a": measured(), "b": measured()})
    found = by_name(tenants("a", "b", alone=True).metrics(windows))

    assert found["a_relative_speed"].value == pytest.approx(0.5)
    assert found["b_relative_speed"].value == pytest.approx(0.25)
    assert found["aggregate_relative_speed"].value == pytest.approx(0.375)
    assert found["a_alone_operations_per_s"].phase == "warmup"
    assert [each.name for each in found.values() if each.headline] == [
        "aggregate_relative_speed",
        *(f"{name}_{each}" for name in "ab" for each in SHOWN),
        "a_relative_speed",
        "b_relative_speed",
    ]


def test_a_tenant_whose_rate_was_chosen_answers_with_its_latency() -> None:
    load = Load.model_validate({"personality": "varmail", "duration": "10s", "rate": 50})
    members = [TenantTable(name="mail", load=load), TenantTable(name="mix", load=MIX)]
    both = Outputs({}, {("mail", ""): of_load(), **outputs(mix=measured()).tenants})

    found = Tenants.model_validate({"members": members}).metrics(both)

    headlines = [each.name for each in found if each.headline and each.tenant == "mail"]
    assert headlines == ["mail_pass_latency_ns_p99"]


def of_load() -> dict[str, StepOutput]:
    """A varmail as it was recorded."""
    return {
        f"load-{part}": StepOutput(
            (SAVED / "load" / f"0.1-varmail-{part}.json").read_text(), duration_ns=10**10
        )
        for part in ("prepare", "measure")
    }


def test_only_loads_of_one_kind_do_operations_of_one_kind() -> None:
    varmail = Load.model_validate({"personality": "varmail", "duration": "10s"})
    other = varmail.model_copy(update={"personality": "fileserver"})
    three = Outputs({}, {("a", ""): of_load(), ("b", ""): of_load(), **outputs(c=measured()).tenants})

    def check(*loads: Workload) -> Check:
        members = [TenantTable(name=name, load=load) for name, load in zip("abc", loads, strict=False)]
        found = Tenants.model_validate({"members": members}).checks(three)
        return next(each for each in found if each.name == "aggregate")

    assert check(varmail, varmail).verdict == "yes"
    assert "operations_per_s of load varmail, and added" in check(varmail, varmail).detail
    assert check(varmail, other).verdict == "no"
    assert "a: operations_per_s of load varmail" in check(varmail, other).detail
    beside = check(varmail, varmail, MIX)
    assert (beside.verdict, "c: operations_per_s of fio" in beside.detail) == ("no", True)


def test_windows_that_end_far_apart_were_not_common() -> None:
    def check(first_ms: int, last_ms: int) -> Check:
        windows = [replace(measured(), duration_ns=ms * 10**6) for ms in (first_ms, last_ms)]
        found = tenants("a", "b").checks(outputs(a=windows[0], b=windows[1]))
        return next(each for each in found if each.name == "common-window")

    assert check(10_000, 5_000).verdict == "no"
    assert check(60_000, 55_000).verdict == "yes"
    # A program's start is part of its step.
    assert check(2_060, 2_480).verdict == "yes"
    assert "1 s apart at most" in check(2_060, 2_480).detail


def test_a_tenant_that_left_no_output_is_named() -> None:
    with pytest.raises(RunError, match="tenant b"):
        tenants("a", "b").metrics(outputs(a=measured()))


def test_jains_index_is_as_its_authors_define_it() -> None:
    found = [fairness(shares) for shares in ([1, 1, 1], [1, 0, 0, 0], [2, 4])]

    assert found == pytest.approx([1.0, 0.25, 0.9])


def test_a_study_tells_its_tenants_with_all_their_keys(tmp_path: Path) -> None:
    study: Study = read(tmp_path, study_text(tenant("a", keys='memory = "64MiB"')))

    described = study.describe().workloads["two"].keys

    assert described["members"][0]["load"]["size_bytes"] == 16 << 20


def test_an_application_is_a_tenant_if_it_says_how_long_it_takes(tmp_path: Path) -> None:
    text = study_text(tenant("a"), tenant("app", 'workload = "command", load = ["sleep 10"]'))
    assert "has no window of a given length" in "; ".join(mistakes(tmp_path, text).values())

    text = text.replace('["sleep 10"]', '["sleep ${duration}"], duration = "10s"')
    (step,) = (each for each in compiled(tmp_path, text).steps if each.id == "app-run-load-1")
    assert step.argv == ("sleep", "10")


def test_a_load_with_sessions_warms_up_as_long_as_those_beside_it_and_anew_for_each_window(
    tmp_path: Path,
) -> None:
    database = 'workload = "pgbench", scale = 1, clients = 2, warmup = "2s", duration = "10s"'
    tenants = (tenant("db", database), tenant("io", f'{FIO}, warmup = "7s"'))

    together = compiled(tmp_path, study_text(*tenants))
    with_alone = compiled(tmp_path, study_text(*tenants, keys='alone = "3s"'))

    loads = {step.id: step for step in together.steps if "--log" in step.argv}
    assert [*loads] == ["db-pgbench-load"]
    assert "--time=18" in loads["db-pgbench-load"].argv
    order = [step.id for step in with_alone.steps if step.phase in {"warmup", "measure"}]
    first, again = order.index("db-alone-pgbench-load"), order.index("db-pgbench-load")
    assert order[first : first + 5] == [
        f"db-alone-pgbench-{name}" for name in ("load", "warmup", "begin", "measure", "end")
    ]
    assert first < order.index("io-alone-fio-measure") < order.index("settled-together") < again
    assert again < order.index("db-pgbench-begin") < order.index("io-fio-measure")
