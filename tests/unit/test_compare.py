# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from execution_factory import TEXT, fake_runner, run_tiny
from typer.testing import CliRunner, Result

from command_line import shown_json
from made_results import made_results
from strata.cli import app
from strata.errors import ResultError
from strata.model.trial import TrialKey
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder

STACKS = ("ext4", "xfs", "btrfs")
WORKLOADS = ("postgresql", "mail")
Made = Callable[..., str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Results as ``made_results`` makes them, each kind once."""
    known: dict[str, str] = {}

    def make(**given: Any) -> str:
        key = repr(sorted(given.items()))
        if key not in known:
            path = tmp_path_factory.mktemp("made") / "results"
            given = {"stacks": STACKS, "workloads": WORKLOADS, "checks": (), **given}
            known[key] = str(made_results(path, **given).path)
        return known[key]

    return make


def invoke(*words: str, width: int = 160) -> Result:
    return CliRunner().invoke(app, ["compare", *words], env={"COLUMNS": str(width)}, catch_exceptions=False)


def plain(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = shown_json("compare", *words)
    return found


def verdicts(found: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    return {
        (row["cell"]["stack"], row["cell"]["workload"]): row["comparison"]["verdict"] for row in found["rows"]
    }


def rewrite(folder: str, trial: TrialKey, changes: Callable[[ResultRecord], dict[str, Any]]) -> None:
    """Change a result and give it the hash that is right for it."""
    attempt = ResultsFolder.open(Path(folder)).attempts(trial)[-1]
    record = attempt.read_result()
    attempt.write_result(record.model_copy(update=changes(record)))


def test_a_result_compared_with_itself_is_identical_and_exactly_1(made: Made) -> None:
    found = plain(made(), made(), "--all-metrics")

    assert found["likenesses"] == {"identical": found["trials"], "the same numbers": 0, "different": 0}
    assert {row["comparison"]["ratio"]["ratio"] for row in found["rows"]} == {1.0}
    assert {row["comparison"]["verdict"] for row in found["rows"]} == {"equal"}
    assert found["differences"] == found["absent"] == []
    assert "identical byte for byte" in invoke(made(), made()).stdout
    assert "exactly 1" in invoke(made(), made()).stdout


def test_what_got_worse_and_better_is_found_where_it_is(made: Made) -> None:
    after = made(gains={"ext4.mail": 0.9, "xfs.postgresql": 1.2})

    found = plain(made(), after)

    assert verdicts(plain(after, made()))["ext4", "mail"] == "better"

    assert verdicts(found) == {
        ("ext4", "postgresql"): "equal",
        ("xfs", "postgresql"): "better",
        ("btrfs", "postgresql"): "equal",
        ("ext4", "mail"): "worse",
        ("xfs", "mail"): "equal",
        ("btrfs", "mail"): "equal",
    }
    (worse,) = [row for row in found["rows"] if row["comparison"]["verdict"] == "worse"]
    assert worse["comparison"]["ratio"]["ratio"] == pytest.approx(0.9)
    assert worse["second"] / worse["first"] == pytest.approx(0.9)


def test_a_latency_that_grows_is_worse_although_its_ratio_is_above_1(made: Made) -> None:
    found = plain(made(), made(gains={"ext4": 0.8}), "--metric", "latency_ns_p9?", "--stack", "ext4")

    assert {row["comparison"]["kind"]["name"] for row in found["rows"]} == {
        "latency_ns_p95",
        "latency_ns_p99",
    }
    assert all(
        row["comparison"]["ratio"]["ratio"] > 1.2 and row["comparison"]["verdict"] == "worse"
        for row in found["rows"]
    )


def test_the_threshold_says_what_is_of_no_consequence(made: Made) -> None:
    after = made(gains={"ext4.mail": 0.9})

    assert verdicts(plain(made(), after, "--threshold", "15%"))["ext4", "mail"] == "equal"
    assert verdicts(plain(made(), after, "--threshold", "1%"))["ext4", "mail"] == "worse"


def test_mistakes_in_the_command_are_refused(made: Made) -> None:
    for words in (
        *(("--threshold", text) for text in ("3", "wide", "80%", "-3%")),
        *(("--map", text) for text in ("ext4", "=ext4", "ext4=")),
        ("--json", "--markdown"),
    ):
        assert invoke(made(), made(), *words).exit_code == 2, words


def test_the_exit_code_tells_ci_what_it_asked_for(made: Made) -> None:
    slower = made(gains={"ext4.mail": 0.9})
    for asked, code in (
        ("", 0),
        ("--fail-on worse", 1),
        ("--fail-on undecided", 0),
        ("--fail-on undecided --fail-on worse", 1),
        ("--fail-on worse --threshold 20%", 0),
        ("--fail-on worse --workload postgresql", 0),
        ("--fail-on missing", 0),
    ):
        done = invoke(made(), slower, *asked.split())
        assert done.exit_code == code, asked
        assert ("worse: ext4 under mail (operations_per_s 1,448 /s → 1,303 /s)" in done.stderr) is bool(
            code
        ), asked


def test_a_cell_that_has_vanished_can_fail_ci(made: Made) -> None:
    vanished = made(missing=tuple(f"xfs.mail.s{seed}" for seed in range(1, 7)))

    assert invoke(made(), vanished, "--fail-on", "worse").exit_code == 0
    done = invoke(made(), vanished, "--fail-on", "missing")

    assert done.exit_code == 1
    assert "missing: xfs under mail" in done.stderr
    assert plain(made(), vanished)["absent"] == [
        {"what": "xfs under mail", "why": "no valid result in B (not run yet)"}
    ]


def test_two_seeds_are_too_few_to_decide(made: Made) -> None:
    two = made(seeds=(1, 2), gains={"ext4": 0.5})

    found = plain(made(), two)

    assert set(verdicts(found).values()) == {"too few seeds"}
    assert {row["comparison"]["ratio"]["n"] for row in found["rows"]} == {2}
    assert invoke(made(), two, "--fail-on", "undecided").exit_code == 1
    assert "2 of 6" in invoke(made(), two).stdout


def test_trials_are_paired_by_their_seeds(made: Made) -> None:
    """Without pairs the spread between seeds would hide a difference of 5 %."""
    before, after = made(spread=0.2), made(spread=0.2, gains={"ext4": 0.9})

    assert verdicts(plain(before, after))["ext4", "mail"] == "worse"


def test_results_that_share_no_seed_are_compared_without_pairs(made: Made) -> None:
    found = plain(made(), made(seeds=range(11, 17), gains={"ext4": 0.5}))

    assert not any(row["comparison"]["ratio"]["paired"] for row in found["rows"])
    assert verdicts(found)["ext4", "mail"] == "worse"
    assert found["trials"] == 0


def test_one_stack_is_compared_with_another(made: Made) -> None:
    results = made()

    found = plain(f"{results}:ext4", f"{results}:btrfs")

    assert [(row["cell"]["stack"], row["cell"]["other_stack"]) for row in found["rows"]] == [
        ("ext4", "btrfs")
    ] * 2
    assert all(row["comparison"]["ratio"]["ratio"] < 0.9 for row in found["rows"])
    assert found["absent"] == []
    [layers] = [each for each in found["differences"] if each["area"] == "stacks"]
    assert (layers["name"], layers["first"]) == (
        "ext4 → btrfs: layers",
        "md · level 10 / ext4 on 4 x wd-re4-500gb",
    )


def test_steps_that_follow_from_another_stack_are_one_line(tmp_path: Path) -> None:
    run_tiny(
        tmp_path, fake_runner(), text=TEXT.replace('{ layer = "xfs"', '{ layer = "lvm" }, { layer = "xfs"')
    )
    one, two = (f"{tmp_path / 'results'}:{stack}" for stack in ("ext4", "xfs"))

    steps = [each["name"] for each in plain(one, two)["differences"] if each["area"] == "plans"]

    shown = invoke(one, two).stdout
    assert f"{len(steps)} differ" in shown
    assert not any(name in shown for name in steps)


def test_the_error_about_an_unknown_stack_lists_the_known_ones(made: Made) -> None:
    with pytest.raises(ResultError, match='no stack "zfs"') as caught:
        invoke(f"{made()}:zfs", made())

    assert caught.value.remedy == "it has ext4, xfs, btrfs"


def test_a_folder_with_a_colon_in_its_name_is_a_folder(made: Made, tmp_path: Path) -> None:
    folder = made_results(tmp_path / "day:ext4", stacks=STACKS, workloads=WORKLOADS)

    assert len(plain(made(), str(folder.path))["rows"]) == 6


def test_what_is_named_differently_is_paired_by_map(made: Made) -> None:
    renamed = made(stacks=("ext4-new", "xfs", "btrfs"))

    alone = plain(made(), renamed)
    mapped = plain(made(), renamed, "--map", "ext4=ext4-new")

    assert {each["what"]: each["why"] for each in alone["absent"]} == {
        "the stack ext4": "only in A",
        "the stack ext4-new": "only in B",
    }
    assert mapped["absent"] == []
    assert ("ext4", "ext4-new") in {
        (row["cell"]["stack"], row["cell"]["other_stack"]) for row in mapped["rows"]
    }


def test_a_name_that_stands_for_another_does_not_stand_for_itself_as_well(made: Made) -> None:
    found = plain(made(), made(), "--map", "ext4=xfs")

    assert [(row["cell"]["stack"], row["cell"]["other_stack"]) for row in found["rows"]] == [
        ("ext4", "xfs"),
        ("btrfs", "btrfs"),
    ] * 2
    assert found["absent"] == [
        {"what": "the stack xfs", "why": "only in A"},
        {"what": "the stack ext4", "why": "only in B"},
    ]


def test_a_map_of_what_is_not_there_is_refused(made: Made) -> None:
    for renaming in ("ext4=nothing", "nothing=ext4"):
        with pytest.raises(ResultError, match='no stack and no workload "nothing"'):
            invoke(made(), made(), "--map", renaming)


def test_the_error_about_an_unknown_metric_lists_the_known_ones(made: Made) -> None:
    with pytest.raises(ResultError, match="no workload has a metric") as caught:
        invoke(made(), made(), "--metric", "speed*")

    assert "latency_ns_p99" in (caught.value.remedy or "")


def test_the_whole_is_the_geometric_mean_of_how_much_better_the_cells_are(made: Made) -> None:
    after = made(gains={"ext4.mail": 0.5, "xfs.mail": 2.0, "btrfs.mail": 2.0})

    overall = {each["workload"]: each for each in plain(made(), after)["overall"]}

    assert overall["mail"]["comparison"]["gain"] == pytest.approx(2 ** (1 / 3))
    assert overall["postgresql"]["comparison"]["gain"] == 1.0
    assert overall[None]["comparison"]["gain"] == pytest.approx(2 ** (1 / 6))
    assert (overall["mail"]["cells"], overall[None]["cells"]) == (3, 6)
    assert overall["mail"]["comparison"]["verdict"] == "better"


def test_in_the_mean_a_shorter_latency_is_a_gain(tmp_path: Path) -> None:
    folders = []
    for name, factor in (("a", 1.0), ("b", 0.5)):
        made = made_results(tmp_path / name, stacks=["ext4", "xfs"], workloads=["mail"], seeds=3, checks=())
        folders.append(str(made.path))
        for trial in made.study().trials:
            rewrite(folders[-1], trial, lambda record, factor=factor: _latency_alone(record, factor))  # type: ignore[misc]

    found = plain(*folders)

    assert {row["comparison"]["ratio"]["ratio"] for row in found["rows"]} == {0.5}
    assert {row["comparison"]["verdict"] for row in found["rows"]} == {"better"}
    assert [each["comparison"]["gain"] for each in found["overall"]] == [pytest.approx(2.0)]


def _latency_alone(record: ResultRecord, factor: float) -> dict[str, Any]:
    found = record.metric("latency_ns_p99")
    assert found is not None
    changes = {"value": found.value * factor, "headline": True}
    return {"metrics": (found.model_copy(update=changes),), "histograms": {}}


def test_the_cells_are_in_the_studys_order(made: Made) -> None:
    rows = plain(made(), made())["rows"]

    assert [(row["cell"]["workload"], row["cell"]["stack"]) for row in rows] == [
        (workload, stack) for workload in WORKLOADS for stack in STACKS
    ]


def test_worst_first_is_one_table_from_the_worst_on(made: Made) -> None:
    after = made(gains={"xfs.mail": 0.7, "btrfs.postgresql": 0.8, "ext4.mail": 1.3})

    rows = plain(made(), after, "--worst-first")["rows"]

    assert [(row["cell"]["stack"], row["cell"]["workload"]) for row in rows[:2]] == [
        ("xfs", "mail"),
        ("btrfs", "postgresql"),
    ]
    assert (rows[-1]["cell"]["stack"], rows[-1]["cell"]["workload"]) == ("ext4", "mail")
    assert invoke(made(), after, "--worst-first").stdout.index("xfs under mail") > 0


def test_virtual_and_wall_time_are_never_compared(made: Made) -> None:
    for sides in ((made(), made(time_domain="wall")), (made(time_domain="wall"), made())):
        with pytest.raises(ResultError, match="never mixed"):
            invoke(*sides)


def test_two_hosts_are_compared(made: Made) -> None:
    found = plain(made(time_domain="wall"), made(time_domain="wall", drawn=1, gains={"ext4": 0.7}))

    assert verdicts(found)["ext4", "mail"] == "worse"


def test_the_kernel_and_a_package_that_differ_are_named_and_no_others(tmp_path: Path) -> None:
    one, two = (
        str(made_results(tmp_path / name, stacks=["ext4"], workloads=["mail"], seeds=3, checks=()).path)
        for name in "ab"
    )
    for seed in (1, 2, 3):
        rewrite(
            two,
            TrialKey("ext4", "mail", seed),
            lambda record: {
                "versions": record.versions.model_copy(
                    update={
                        "kernel": "7.3.0-strata",
                        "packages": record.versions.packages | {"fio": "3.40-1"},
                    }
                ),
                "charges": record.charges.model_copy(update={"syscall_ns": 400, "reclaim_ns": 7}),
                "real_time": record.real_time.model_copy(update={"host": "another machine"}),
            },
        )

    found = plain(one, two)["differences"]

    assert [(each["area"], each["name"], each["first"], each["second"]) for each in found] == [
        ("versions", "kernel", "7.2.12-strata", "7.3.0-strata"),
        ("packages", "fio", "3.39-1", "3.40-1"),
        ("lab", "charge per system call, ns", "200", "400"),
        ("lab", "charge per page looked at in reclaim, ns", "0", "7"),
        ("host", "machine", "a made machine", "another machine"),
    ]
    shown = invoke(one, two).stdout
    assert "package fio" in shown
    assert "mariadb-server" not in shown
    assert "Every number is the same in all 3 pairs of trials" in shown


def test_a_specification_that_differs_without_a_trace_in_the_plan_is_named(tmp_path: Path) -> None:
    one, two = (
        made_results(tmp_path / name, stacks=["ext4"], workloads=["mail"], seeds=1) for name in ("a", "b")
    )
    rewrite(str(two.path), TrialKey("ext4", "mail", 1), lambda _: {"spec_sha256": "0" * 64})
    study = json.loads(two.study_path.read_text())
    (old, study["trials"][0]["sha256"]) = (study["trials"][0]["sha256"], "0" * 64)
    two.study_path.write_text(json.dumps(study))
    (two.path / "records" / old).rename(two.path / "records" / ("0" * 64))

    (found,) = plain(str(one.path), str(two.path))["differences"]

    assert (found["area"], found["first"]) == ("devices", "?")


def test_keys_of_the_study_that_differ_are_named_where_they_stand(made: Made, tmp_path: Path) -> None:
    other = made_results(tmp_path / "other", stacks=STACKS, workloads=WORKLOADS)
    study = json.loads(other.study_path.read_text())
    study["workloads"]["postgresql"]["keys"]["scale"] = 20
    study["stacks"]["ext4"]["layers"][0]["keys"]["level"] = 1
    other.study_path.write_text(json.dumps(study))

    found = plain(made(), str(other.path))["differences"]

    assert {(each["area"], each["name"], each["first"], each["second"]) for each in found} == {
        ("stacks", "ext4: layers[0].level", "10", "1"),
        ("workloads", "postgresql: scale", "10", "20"),
    }


def test_results_on_different_processors_say_so(tmp_path: Path) -> None:
    for cpu in ("generic-server-2024", "free"):
        (tmp_path / cpu).mkdir()
        run_tiny(tmp_path / cpu, fake_runner(), text=TEXT.replace("seeds =", f'cpu = "{cpu}"\nseeds =', 1))
    folders = [str(tmp_path / cpu / "results") for cpu in ("generic-server-2024", "free")]

    found = plain(*folders)["differences"]

    models = {
        each["area"]: (each["first"], each["second"]) for each in found if each["name"] == "processor.model"
    }
    assert models == {"study": ("generic-server-2024", "free")}
    assert "processor.model" in invoke(*folders).stdout


def test_a_terminal_of_80_columns_holds_every_table(made: Made) -> None:
    for words in ((), ("--worst-first",), ("--all-metrics",)):
        shown = invoke(made(), made(seeds=4, gains={"ext4": 0.9}), *words, width=80).stdout

        assert all(len(line) <= 80 for line in shown.splitlines())
        assert "undecided" in shown or "worse" in shown
        assert "…" not in shown.replace("… and", "")


def test_markdown_has_the_same_rows(made: Made) -> None:
    done = invoke(made(), made(gains={"ext4.mail": 0.9}), "--markdown")

    rows = [line for line in done.stdout.splitlines() if line.startswith("| mail |")]
    assert rows[0].startswith("| mail | ext4 | operations per second ↑ | 0.900 |")
    assert "**worse**" in rows[0]
    assert "No version, setting, option or plan differs" in done.stdout
