# SPDX-License-Identifier: Apache-2.0
"""The checks of ``strata lab validate``, the demerit figure, and the comparison with measured latencies."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from command_line import refusal, shown, shown_json
from strata.datasheet.measure import Pattern, Subject
from strata.datasheet.sheet import Rating
from strata.devices.device import find_device
from strata.devices.kind import Parameter
from strata.errors import ResultError
from strata.validation.measured import compare, demerit, model_ns, read_measured
from strata.validation.page import render
from strata.validation.subject import ExaminedSubject, ModelCheck, near, totals
from strata.validation.subjects import SUBJECTS
from strata.validation.subjects.flash import analytic
from strata.validation.subjects.published import judge
from strata.validation.subjects.rotating import published_seek_ms, published_service_ms

RE4 = "wd-re4-500gb"


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(each, marks=[pytest.mark.slow] * (each in {"published", "real-drives"}))
        for each in SUBJECTS
    ],
)
def test_the_models_pass_every_quick_check(subject: str) -> None:
    section = SUBJECTS[subject](True)

    assert section.name == subject
    assert section.checks
    assert [check for check in section.checks if check.verdict == "failed"] == []


@pytest.mark.parametrize(
    ("model", "real", "expected"),
    [
        ([1, 2, 3], [3, 1, 2], 0.0),
        ([2, 3, 4], [1, 2, 3], 0.5),  # 1 apart everywhere, the real mean is 2
        ([2], [1, 3], 0.5),  # 1 apart in both halves, the real mean is 2
        ([1, 1, 3, 3], [1, 3], 0.0),  # the same distribution from twice the values
        ([1], [1, 3], math.sqrt(0.5 * 2**2) / 2),
        ([0, 3], [1, 1, 4], math.sqrt((1 / 3 + 1 / 6) * 1 + 1 / 6 * 2**2 + 1 / 3 * 1) / 2),
    ],
)
def test_the_demerit_figure_is_what_a_hand_works_out(
    model: list[float], real: list[float], expected: float
) -> None:
    assert demerit(model, real) == pytest.approx(expected)


def test_the_demerit_figure_takes_histograms() -> None:
    assert demerit([1, 1, 1, 3], [5, 2, 2], real_counts=[0, 1, 1]) == pytest.approx(0.5)
    assert demerit([1, 3], [1, 1, 1, 3], model_counts=[3, 1]) == 0.0


@pytest.mark.parametrize(("model", "real"), [([], [1]), ([1], []), ([1], [0, 0])])
def test_a_demerit_figure_needs_latencies(model: list[float], real: list[float]) -> None:
    with pytest.raises(ValueError, match=r"values|mean"):
        demerit(model, real)


def test_the_literatures_seek_curve_is_continuous_where_its_pieces_meet() -> None:
    assert published_seek_ms(383) == pytest.approx(11.07, abs=0.01)
    assert published_seek_ms(384) == pytest.approx(11.07, abs=0.01)
    assert published_seek_ms(1961) == pytest.approx(23.69, abs=0.01)
    assert published_service_ms() == pytest.approx(2.2 + 12.8 + 7.5 + 1.8, abs=0.2)


def test_the_analytic_write_amplification_is_near_the_rule_of_thumb() -> None:
    for spare in (0.07, 0.12, 0.28):
        assert analytic(spare) == pytest.approx((1 + spare) / (2 * spare), rel=0.1)


def test_a_model_that_is_not_the_drive_fails_its_checks() -> None:
    """The suite can fail: with another spindle, the analytic service time is missed."""
    drive = Subject(find_device(RE4))
    slow = drive.with_values({"rotation_speed": 5400})
    fast_ms, slow_ms = (
        model_ns(subject.device, Pattern("randread", 4096, 1)).mean() for subject in (drive, slow)
    )

    assert near("mean", slow_ms, fast_ms, part=0.02).verdict == "failed"


@pytest.mark.parametrize(
    ("estimate", "value", "ratio", "expected"),
    [
        (False, 100.0, 1.09, ("read", "passed")),
        (False, 100.0, 0.89, ("read", "failed")),
        (True, 100.0, 0.89, ("recalled", "noted")),
        (True, 128.0, 1.0, ("input", "passed")),
        (True, 128.0, 0.89, ("input", "failed")),
    ],
)
def test_a_published_figure_is_judged_by_where_it_is_from(
    estimate: bool, value: float, ratio: float, expected: tuple[str, str]
) -> None:
    published = Parameter(value=value, unit="MB/s", source="a sheet", estimate=estimate)
    figure = Rating("sequential_read_outer", "outer", "MB/s", value * ratio, published)

    check = judge(find_device(RE4), figure)  # whose sustained_rate_outer is 128 MB/s

    assert (check.basis, check.verdict) == expected


def test_totals_tell_predictions_from_what_is_read_back() -> None:
    checks = (
        ModelCheck("a", "1", "1", "passed"),
        ModelCheck("b", "1", "1", "passed", basis="input"),
        ModelCheck("c", "1", "2", "noted", basis="recalled"),
    )

    lines = totals([ExaminedSubject("one", "One", "Text.", checks)]).splitlines()

    assert lines == [
        "3 checks: 2 passed, 1 noted",
        "of these against figures that were recalled or estimated: 1 noted",
        "of these against figures that are the model's own inputs: 1 passed",
    ]


def failing() -> ExaminedSubject:
    return ExaminedSubject(
        "one", "One", "Text.", (ModelCheck("a < b", "1", "2", "failed"), ModelCheck("c", "1", "1", "passed"))
    )


def test_the_page_shows_failures_and_needs_nothing_from_elsewhere() -> None:
    page = render([failing(), SUBJECTS["flush"](True)], quick=True)

    assert "1 failed" in page
    assert "a &lt; b" in page
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_the_same_checks_give_the_same_page() -> None:
    assert render([SUBJECTS["queue-depth"](True)]) == render([SUBJECTS["queue-depth"](True)])


def test_a_failure_is_the_commands_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "new" / "page.html"
    (good,) = shown_json("lab", "validate", "flush", "--quick", "-o", page)["subjects"]
    monkeypatch.setitem(SUBJECTS, "flush", lambda _: failing())

    assert good["name"] == "flush"
    assert "1 failed" in shown("lab", "validate", "flush", "--quick", "-o", page, exit_code=1)
    assert "1 failed" in page.read_text()


def fio_output(folder: Path, latencies_ns: list[float], **options: str) -> Path:
    """The output of ``fio --output-format=json+``, reduced to the parts that are read."""
    values, counts = np.unique(np.round(latencies_ns), return_counts=True)
    bins = {str(int(value)): int(count) for value, count in zip(values, counts, strict=True)}
    job = {"jobname": "random", "job options": options, "read": {"clat_ns": {"bins": bins}}, "write": {}}
    file = folder / "fio.json"
    file.write_text(json.dumps({"fio version": "fio-3.33", "global options": {"bs": "4k"}, "jobs": [job]}))
    return file


def test_a_drive_that_is_its_model_has_no_demerit(tmp_path: Path) -> None:
    device = find_device(RE4)
    load = Pattern("randread", 4096, 4)
    file = fio_output(tmp_path, list(model_ns(device, load)), rw="randread", iodepth="4")

    (measured,) = read_measured(file)
    figure, mean = compare(device, measured).checks

    assert measured.pattern == load
    assert figure.found.startswith("0")
    assert (figure.verdict, mean.verdict) == ("passed", "passed")


def test_a_slower_drive_has_a_larger_demerit_figure(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    load = Pattern("randread", 4096, 1)
    slower = 1.5 * model_ns(find_device(RE4), load)
    file.write_text(json.dumps({"rw": "randread", "bs": 4096, "latencies_ns": slower.tolist()}))

    words = ("lab", "validate", "--measured", file, "--device", RE4, "-o", tmp_path / "m.html")
    (section,) = shown_json(*words)["subjects"]

    assert [check["verdict"] for check in section["checks"]] == ["noted", "noted"]
    assert float(section["checks"][0]["found"].split()[0]) == pytest.approx(100 / 3 * 1.05, rel=0.1)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"jobs": [{}]}',
        '{"rw": "trim", "latencies_ns": [1]}',
        '{"rw": "read", "latencies_ns": []}',
    ],
)
def test_what_is_no_measurement_is_refused_with_a_remedy(tmp_path: Path, content: str) -> None:
    file = tmp_path / "junk.json"
    file.write_text(content)

    with pytest.raises(ResultError) as caught:
        read_measured(file)

    assert "fio" in str(caught.value.remedy)
    assert "Error" not in str(caught.value)


def test_an_unknown_subject_is_refused_with_the_nearest() -> None:
    assert "flush" in str(refusal("lab", "validate", "flsh").remedy)


def test_a_measurement_that_is_not_there_has_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ResultError) as caught:
        read_measured(tmp_path / "none.json")

    assert "fio" in str(caught.value.remedy)


@pytest.mark.parametrize("ignored", ["flush", "--quick"])
def test_what_a_measurement_would_ignore_is_refused(ignored: str) -> None:
    error = refusal("lab", "validate", ignored, "--measured", "fio.json", "--device", RE4)

    assert ignored in str(error)
    assert error.remedy
