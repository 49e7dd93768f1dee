# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from execution_factory import TEXT, fake_runner, run_tiny
from typer.testing import CliRunner, Result

from command_line import shown_json
from golden_text import Golden
from made_results import made_results
from strata.cli import app
from strata.errors import ResultError, StudyError
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


def rewrite(folder: str, trial: TrialKey, changes: Callable[[ResultRecord], dict[str, Any]]) -> None:
    """Change a result and give it the hash that is right for it."""
    attempt = ResultsFolder.open(Path(folder)).attempts(trial)[-1]
    record = attempt.read_result()
    attempt.write_result(record.model_copy(update=changes(record)))


MAIL = "--workload mail --stack ext4"
# What is compared: how either side was made, and the words of the command.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "with itself": ({}, {}, f"{MAIL} --all-metrics"),
    "worse and better": ({}, {"gains": {"ext4.mail": 0.9, "xfs.postgresql": 1.2}}, ""),
    "the other way round": ({"gains": {"ext4.mail": 0.9}}, {}, MAIL),
    "within the threshold": ({}, {"gains": {"ext4.mail": 0.9}}, f"{MAIL} --threshold 15%"),
    "beyond the threshold": ({}, {"gains": {"ext4.mail": 0.98}}, f"{MAIL} --threshold 1%"),
    "a latency that grows is worse": ({}, {"gains": {"ext4": 0.8}}, f"{MAIL} --metric latency_ns_p9?"),
    "a cell has vanished": ({}, {"missing": [f"xfs.mail.s{seed}" for seed in range(1, 7)]}, ""),
    "two seeds are too few": ({}, {"seeds": (1, 2), "gains": {"ext4": 0.5}}, MAIL),
    "pairs find what their spread hides": ({"spread": 0.2}, {"spread": 0.2, "gains": {"ext4": 0.9}}, MAIL),
    "no seed in common": ({}, {"seeds": range(11, 17), "gains": {"ext4": 0.5}}, MAIL),
    "another name": ({}, {"stacks": ("ext4-new", "xfs", "btrfs")}, ""),
    "another name, mapped": ({}, {"stacks": ("ext4-new", "xfs", "btrfs")}, "--map ext4=ext4-new"),
    "a name that stands for another": ({}, {}, "--map ext4=xfs"),
    "the geometric mean": ({}, {"gains": {"ext4.mail": 0.5, "xfs.mail": 2.0, "btrfs.mail": 2.0}}, ""),
    "worst first": (
        {},
        {"gains": {"xfs.mail": 0.7, "btrfs.postgresql": 0.8, "ext4.mail": 1.3}},
        "--worst-first",
    ),
    "two hosts": ({"time_domain": "wall"}, {"time_domain": "wall", "drawn": 1, "gains": {"ext4": 0.7}}, MAIL),
}


def facts(found: Mapping[str, Any]) -> Iterator[str]:
    """Rows, means, likenesses and what is absent or differs."""

    def figures(comparison: Mapping[str, Any]) -> str:
        ratio, ends = comparison["ratio"], comparison["ratio"]["interval"] or {"low": 0, "high": 0}
        interval = f"{ratio['ratio']:.3f} ({ends['low']:.3f} to {ends['high']:.3f})"
        paired = "pairs" if ratio["paired"] else "seeds"
        return f"{interval} of {ratio['n']} {paired}, gain {comparison['gain']:.3f} {comparison['verdict']}"

    for row in found["rows"]:
        cell, kind = row["cell"], row["comparison"]["kind"]["name"]
        stacks = f"{cell['stack']}/{cell['other_stack']}"
        values = f"{row['first']:.4g}, {row['second']:.4g}"
        yield f"{cell['workload']} {stacks} {kind}: {values}: {figures(row['comparison'])}"
    yield from (
        f"{each['workload']} of {each['cells']}: {figures(each['comparison'])}" for each in found["overall"]
    )
    yield f"{found['trials']} pairs: {found['likenesses']}"
    yield from (f"absent {each['what']}: {each['why']}" for each in found["absent"])
    yield from (
        f"{each['area']} {each['name']}: {each['first']}, {each['second']}" for each in found["differences"]
    )


def test_what_is_compared_and_with_which_verdict(made: Made, golden: Golden) -> None:
    lines = []
    for name, (first, second, words) in CASES.items():
        lines += [f"# {name}", *facts(plain(made(**first), made(**second), *words.split())), ""]
    results = made()
    lines += ["# one stack with another", *facts(plain(f"{results}:ext4", f"{results}:btrfs"))]
    golden("compare.txt", "\n".join([*lines, ""]))


def test_the_answer_is_printed_as_text_and_markdown(made: Made) -> None:
    assert "identical byte for byte" in invoke(made(), made()).stdout
    assert "exactly 1" in invoke(made(), made()).stdout
    assert "| mail | ext4 | " in invoke(made(), made(), "--markdown").stdout


def test_mistakes_in_the_command_are_refused(made: Made) -> None:
    for words in (
        *(("--threshold", text) for text in ("3", "wide", "80%", "-3%")),
        *(("--map", text) for text in ("ext4", "=ext4", "ext4=")),
    ):
        assert invoke(made(), made(), *words).exit_code == 2, words
    with pytest.raises(StudyError, match="one form of output"):
        invoke(made(), made(), "--json", "--markdown")
    for first, more, cause, remedy in (
        (f"{made()}:zfs", (), 'no stack "zfs"', "ext4, xfs, btrfs"),
        (made(), ("--map", "ext4=nothing"), 'no stack and no workload "nothing"', ""),
        (made(), ("--map", "nothing=ext4"), 'no stack and no workload "nothing"', ""),
        (made(), ("--metric", "speed*"), "no workload has a metric", "latency_ns_p99"),
    ):
        with pytest.raises(ResultError, match=cause) as caught:
            invoke(first, made(), *more)
        assert remedy in (caught.value.remedy or "")


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
        assert ("worse: ext4 under mail (operations_per_s" in done.stderr) is bool(code), asked
    vanished = made(missing=[f"xfs.mail.s{seed}" for seed in range(1, 7)])
    done = invoke(made(), vanished, "--fail-on", "missing")
    assert (done.exit_code, "missing: xfs under mail" in done.stderr) == (1, True)


def test_steps_that_follow_from_another_stack_are_one_line(tmp_path: Path) -> None:
    run_tiny(
        tmp_path, fake_runner(), text=TEXT.replace('{ layer = "xfs"', '{ layer = "lvm" }, { layer = "xfs"')
    )
    one, two = (f"{tmp_path / 'results'}:{stack}" for stack in ("ext4", "xfs"))

    steps = [each["name"] for each in plain(one, two)["differences"] if each["area"] == "plans"]

    shown = invoke(one, two).stdout
    assert f"{len(steps)} differ" in shown
    assert not any(name in shown for name in steps)


def test_a_folder_with_a_colon_in_its_name_is_a_folder(made: Made, tmp_path: Path) -> None:
    folder = made_results(tmp_path / "day:ext4", stacks=STACKS, workloads=WORKLOADS)

    assert len(plain(made(), str(folder.path))["rows"]) == 6


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
