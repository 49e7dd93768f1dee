# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path

import pytest
from results_factory import EventLog, S, good_log, plan_of

from strata.errors import ResultError
from strata.results.events import read_events

PLAN = plan_of("ext4", "oltp", 1)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text(text)
    return path


def test_output_in_chunks_is_put_together_even_inside_a_character(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.add("step_start", step="load", phase="measure", argv=["x"])
    euro = "€".encode()
    log.add("output", step="load", stream="stdout", text="tps = 3")
    log.add("output", step="load", stream="stdout", base64=base64.b64encode(euro[:1]).decode())
    log.add("output", step="load", stream="stdout", base64=base64.b64encode(euro[1:]).decode())
    log.add("file", step="load", name="log", text="one\n", last=False)
    log.add("file", step="load", name="log", text="two\n", last=True)
    log.end("load", "ok", S)
    log.finish()

    events = read_events(written(tmp_path, log.text()))

    assert events.output("load") == "tps = 3€"
    assert events.outputs().file("load", "log") == "one\ntwo\n"
    assert events.outputs().step("load").duration_ns == S
    assert events.complete


def test_events_may_be_of_any_length_and_their_lines_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = good_log(PLAN, 300).text()
    longest = max(map(len, text.splitlines()))
    monkeypatch.setattr("strata.results.events.LINE_BYTES_MAX", longest + 2)
    assert len(text) > 10 * longest

    whole = read_events(written(tmp_path, text))

    assert (whole.complete, whole.sha256) == (True, sha256(text.encode()).hexdigest())
    for end in ("", "\n"):
        with pytest.raises(ResultError, match="not an event"):
            read_events(written(tmp_path, text + "x" * (longest + 2) + end))


def test_a_damaged_line_is_named_with_its_place(tmp_path: Path) -> None:
    lines = good_log(PLAN, 300).text().splitlines()
    lines[4] = lines[4][:30]
    path = written(tmp_path, "\n".join(lines) + "\n")

    with pytest.raises(ResultError, match="not an event") as caught:
        read_events(path)

    assert caught.value.place == f"{path}:5"
    assert "strata run" in (caught.value.remedy or "")


def test_a_line_of_nothing_but_brackets_is_named_too(tmp_path: Path) -> None:
    path = written(tmp_path, good_log(PLAN, 300).text() + "[" * 200_000 + "\n")

    with pytest.raises(ResultError, match="not an event"):
        read_events(path)


def test_a_lost_line_is_noticed(tmp_path: Path) -> None:
    lines = good_log(PLAN, 300).text().splitlines()
    del lines[3]

    with pytest.raises(ResultError, match="event 3 is missing"):
        read_events(written(tmp_path, "\n".join(lines) + "\n"))


def test_events_of_a_later_version_are_refused(tmp_path: Path) -> None:
    first = json.loads(good_log(PLAN, 300).lines[0])
    text = json.dumps({**first, "event_version": 2}) + "\n"

    with pytest.raises(ResultError, match="version 2, this Strata reads version 1"):
        read_events(written(tmp_path, text))


def test_a_kind_of_event_that_is_not_known_is_passed_over(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.add("weather", sky="blue")
    log.finish()

    assert read_events(written(tmp_path, log.text())).complete
