# SPDX-License-Identifier: Apache-2.0
"""A gallery: static pages whose links lead somewhere, and records that others check, use and run again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fsspec
import pytest
from execution_factory import TEXT, RecordingDisplay, fake_runner, run_tiny, study_in
from typer.testing import CliRunner

from command_line import refusal, shown_json
from made_results import made_results
from record_hashes import hashes
from shared_stores import s3_store
from strata.cli import app
from strata.experiment.run import run_study
from strata.results.shared import SharedStore
from strata.results.store import ResultsFolder


def measured(folder: Path, text: str = TEXT) -> Path:
    folder.mkdir()
    run_tiny(folder, fake_runner(), text=text)
    return folder / "results"


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "folder":
        yield str(tmp_path / "public")
        return
    with s3_store(monkeypatch) as url:
        yield url


def content(place: str) -> dict[str, bytes]:
    files, root = fsspec.url_to_fs(place)
    files.invalidate_cache()
    return {name.removeprefix(f"{root}/"): files.cat_file(name) for name in files.find(root)}


def test_what_is_published_is_found_checked_and_run_again_by_others(tmp_path: Path, place: str) -> None:
    mine = measured(tmp_path / "mine")

    done = shown_json("publish", mine, place)

    assert done["records"] == 4
    found = content(place)
    index = json.loads(found["index.json"])
    cells = [(each["workload"], each["stack"], each["seeds"]) for each in index]
    assert len(cells) == len(set(cells)) == 2
    assert {record for each in index for record in each["records"]} == {
        name for name in found if name.startswith("records/")
    }
    page = found["index.html"].decode()
    links = set(re.findall(r'href="([^"#]+)"', page))
    assert links == {"reports/tiny.html", "reports/tiny.toml"} <= found.keys()
    assert "xfs" in page
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    said: list[str] = []
    for fresh, from_store in ((False, 4), (True, 0)):
        folder = ResultsFolder(theirs / f"results-{fresh}", shared=SharedStore(place, say=said.append))
        study = study_in(theirs, found["reports/tiny.toml"].decode())
        summary = run_study(study, folder, fake_runner(), RecordingDisplay(), fresh=fresh)
        assert summary.from_store == from_store
        assert hashes(folder.path) == hashes(mine)
    assert said == []
    url = place if "://" in place else f"file://{place}"
    compared = shown_json("compare", f"{url}#tiny", mine)
    assert compared["likenesses"]["identical"] == compared["trials"] == 4


def test_studies_are_added_and_one_of_the_same_text_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "public"
    made = made_results(tmp_path / "made", stacks=2, workloads=1, time_domain="wall").path
    one, other = measured(tmp_path / "one"), measured(tmp_path / "two", TEXT.replace('"xfs"', '"btrfs"', 1))

    first = shown_json("publish", one, made, place)
    again = shown_json("publish", one, place)

    assert (first["records"], first["studies"]) == (4, ["tiny", "made"])  # a host's records are its own
    assert sorted(again["studies"]) == ["made", "tiny"]
    assert len(again["cells"]) == len(first["cells"]) == 4
    before = content(str(place))
    assert 'has another study "tiny"' in refusal("publish", other, place).cause
    assert content(str(place)) == before
    assert 'of a study "tiny"' in refusal("publish", one, other, tmp_path / "new").cause


def test_bad_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    results, place = measured(tmp_path / "one"), tmp_path / "public"
    place.mkdir()
    (place / "index.json").write_text("{}")
    taken = tmp_path / "taken"
    taken.write_text("")
    for words in (
        (tmp_path / "none", tmp_path / "new"),
        (results, place),
        (results, taken),
        (results, "nowhere://bucket"),
    ):
        error = refusal("publish", *words)
        assert error.exit_code == 6, words
        assert error.place
        assert error.remedy
        assert len(str(error).splitlines()) <= 2
    assert not (tmp_path / "new").exists()
    assert [*place.iterdir()] == [place / "index.json"]
    assert CliRunner().invoke(app, ["publish", str(results)]).exit_code == 2
