# SPDX-License-Identifier: Apache-2.0
"""Records that are shared: found by others to the byte, checked, and never a reason to lose a measurement."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import fsspec
import pytest
from execution_factory import TEXT, TRIALS, RecordingDisplay, fake_runner, study_in

from command_line import refusal, shown
from record_hashes import hashes
from shared_stores import gcs_store, s3_store, small_disk, ssh_store
from strata.actions.gate import side_of
from strata.actions.sharing import name_records, results_at, shared_store
from strata.errors import ResultError, ToolError
from strata.execution.schedule import Shard
from strata.experiment.run import RunSummary, run_study
from strata.model.trial import TrialKey
from strata.results.findings import Finding, keep_finding
from strata.results.record import Fingerprint
from strata.results.shared import SharedStore
from strata.results.store import ResultsFolder

OTHER = (
    TEXT.replace('"tiny"', '"huge"')
    .replace("stacks.ext4", "stacks.a")
    .replace("workloads.mix", "workloads.w")
)


@dataclass
class User:
    """Somebody who runs the study into a folder of their own, with a store."""

    folder: Path
    url: str
    said: list[str] = field(default_factory=list)

    def run(self, text: str = TEXT, **options: bool) -> RunSummary:
        self.folder.mkdir(exist_ok=True)
        self.shared = SharedStore(self.url, say=self.said.append)
        self.results = ResultsFolder(self.folder / "results", shared=self.shared)
        study = study_in(self.folder, text)
        return run_study(study, self.results, fake_runner(), RecordingDisplay(), **options)  # type: ignore[arg-type]

    @property
    def key(self) -> tuple[str, Fingerprint]:
        """Of the first trial."""
        reading = self.results.readings()[0]
        assert reading.record is not None
        return reading.record.spec_sha256, reading.record.fingerprint


@pytest.fixture(params=["folder", "s3", "gcs", "ssh"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ExitStack() as running:
        match request.param:
            case "s3":
                yield running.enter_context(s3_store(monkeypatch))
            case "gcs":
                yield running.enter_context(gcs_store(monkeypatch))
            case "ssh":
                yield running.enter_context(ssh_store(tmp_path, monkeypatch))
            case _:
                yield str(tmp_path / "store")


def objects(url: str) -> dict[str, bytes]:
    """What a store has, by its names."""
    files, root = fsspec.url_to_fs(url, **({"known_hosts": ()} if url.startswith("ssh") else {}))
    files.invalidate_cache()
    return {name: files.cat_file(name) for name in sorted(files.find(root))}


def overwrite(url: str, name: str, content: bytes) -> None:
    fsspec.url_to_fs(url, **({"known_hosts": ()} if url.startswith("ssh") else {}))[0].pipe_file(
        name, content
    )


def test_what_one_has_measured_is_found_by_another_to_the_byte_and_checked(url: str, tmp_path: Path) -> None:
    first, second, third = (User(tmp_path / name, url) for name in ("first", "second", "third"))

    assert (len(first.run().valid), len(second.run(OTHER).valid)) == (4, 0)

    assert second.run(OTHER).from_store == 0  # they are here now
    mine, theirs = (each.results.store for each in (first, second))
    for identity in mine.identities():
        one, two = (each.attempts(identity)[0].path for each in (mine, theirs))
        assert {each.name: each.read_bytes() for each in one.iterdir()} == {
            each.name: each.read_bytes() for each in two.iterdir()
        }
    there = objects(url)
    assert len(there) == 4
    assert not any(each.said for each in (first, second))

    # A truncated record, one of another trial, and one whose events were changed.
    names = list(there)
    with zipfile.ZipFile(BytesIO(there[names[2]])) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    changed = BytesIO()
    with zipfile.ZipFile(changed, "w") as archive:
        for name, content in {**files, "events.jsonl": files["events.jsonl"] + b"\n"}.items():
            archive.writestr(name, content)
    overwrite(url, names[0], there[names[0]][:-200])
    overwrite(url, names[1], there[names[3]])
    overwrite(url, names[2], changed.getvalue())

    summary = third.run()

    assert (summary.from_store, len(summary.valid)) == (1, 3)
    assert hashes(third.folder / "results") == hashes(first.folder / "results")
    causes = ("truncated or damaged", "of another trial", "events.jsonl does not match")
    for name, cause in zip(names, causes, strict=False):
        assert any(cause in text and name.rpartition("/")[2] in text for text in third.said), (
            cause,
            third.said,
        )
    assert all(text.count("\n") <= 1 for text in third.said)


def test_of_two_that_race_both_end_well_and_another_content_is_an_error_that_names_both(
    url: str, tmp_path: Path
) -> None:
    users = [User(tmp_path / str(number), url) for number in range(3)]
    racing = [threading.Thread(target=each.run) for each in users]
    for each in racing:
        each.start()
    for each in racing:
        each.join()

    assert not any(each.said for each in users)
    assert len(objects(url)) == 4

    liar = User(tmp_path / "liar", url)
    liar.run()
    (attempt,) = liar.results.store.attempts(liar.key[0])
    record = attempt.read_result()
    wrong = record.model_copy(update={"phases_ns": {"measure": 1}})
    attempt.write_result(wrong)
    with pytest.raises(ResultError, match="another record of this trial") as caught:
        liar.shared.put(attempt.path)

    assert str(attempt.path) in caught.value.cause
    assert url in (caught.value.place or "")


def test_a_store_that_cannot_be_used_is_said_once_and_measuring_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as running:
        s3 = running.enter_context(s3_store(monkeypatch))
        (tmp_path / "file").write_text("no folder")
        cases = {
            "no bucket": s3.replace("bucket", "none"),
            "no folder": str(tmp_path / "file"),
            "nobody listens": "ssh://127.0.0.1:1/store",
        }
        for name, url in cases.items():
            user = User(tmp_path / name, url)
            assert len(user.run().valid) == 4
            assert len(user.said) == 1, (name, user.said)
            assert url in user.said[0]
            assert user.said[0].count("\n") <= 2


def test_a_store_without_rights_or_space_is_said_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as running:
        read_only = running.enter_context(small_disk(tmp_path / "ro", "ro"))
        full = running.enter_context(small_disk(tmp_path / "full", "size=8k,mode=777"))
        for place, cause in ((read_only, "Read-only file system"), (full, "No space left")):
            user = User(tmp_path / f"of-{place.name}", str(place / "store"))

            summary = user.run()

            assert len(summary.valid) == 4
            assert cause in user.said[0]
            assert len(user.said) == 1
            assert all(reading.usable for reading in user.results.readings())
        left = [each.name for each in full.rglob("*.zip*")]
        assert all(name.endswith(".zip") for name in left), left
        (tmp_path / "server").mkdir()
        forced = "ForceCommand internal-sftp -R"
        url = running.enter_context(
            ssh_store(tmp_path / "server", monkeypatch, "Subsystem sftp internal-sftp", forced)
        )
        user = User(tmp_path / "of-ssh", url)
        assert len(user.run().valid) == 4
        assert len(user.said) == 1


def test_serial_shards_merged_and_a_store_filled_by_another_give_equal_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    serial = User(tmp_path / "serial", str(tmp_path / "store"))
    serial.run()
    name_records(serial.results)
    parts = [tmp_path / f"part{number}" for number in (1, 2, 3)]
    done: list[TrialKey] = []
    for number, part in enumerate(parts, start=1):
        part.mkdir()
        shard = Shard(number, 3)
        display = RecordingDisplay()
        done += run_study(study_in(part), part / "results", fake_runner(), display, shard=shard).valid
    assert sorted(map(str, done)) == sorted(map(str, TRIALS))  # each in one part
    places = [str(part / "results") for part in parts]
    for part, subject in zip(parts, ("a", "b", "b"), strict=True):
        keep_finding(ResultsFolder(part / "results"), Finding(kind="what-if", subject=subject))

    shown("merge", *places, tmp_path / "merged")
    shown("merge", *places, tmp_path / "merged")  # what is there already is left

    for merged in (tmp_path / "merged", results_at(",".join(places), pytest.fail)):
        kept = json.loads((merged / "findings.json").read_text())["findings"]
        assert [each["subject"] for each in kept] == ["a", "b"]
    for words in (
        ("explain", ",".join(places), min(map(str, TRIALS))),
        ("serve", f"file://{tmp_path / 'store'}"),
    ):
        assert "`strata merge`" in str(refusal(*words))
    assert side_of(results_at(",".join(places), pytest.fail)).name == ",".join(places)  # not of the cache
    other = User(tmp_path / "other", str(tmp_path / "store"))
    assert other.run().from_store == 4
    cells, records = set[bytes](), list[dict[str, str]]()
    for place in (
        *(serial.folder / "results", tmp_path / "merged", other.folder / "results"),
        *(",".join(places), f"file://{tmp_path / 'store'}"),
    ):
        target = tmp_path / "out" / str(len(records))
        shown("export", place, "--format", "csv", "-o", target)
        cells.add((target / "cells.csv").read_bytes())
        records.append(hashes(results_at(str(place), pytest.fail)))
    assert len(cells) == 1
    assert all(each == records[0] for each in records)


def test_two_studies_of_one_name_and_two_records_of_one_trial_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    store = str(tmp_path / "store")
    users = [User(tmp_path / name, store) for name in ("one", "two", "three")]
    users[0].run()
    users[1].run(TEXT.replace("1GiB", "2GiB"))
    users[2].run(TEXT.replace('"tiny"', '"another"'))
    for each in users:
        name_records(each.results)
    places = [str(each.folder / "results") for each in users]

    said = str(refusal("merge", places[0], places[1], tmp_path / "into"))

    assert 'another study called "tiny"' in said
    assert 'not "tiny"' in str(refusal("show", f"{places[0]},{places[2]}"))
    assert users[0].said == users[2].said == []
    assert 'another study called "tiny"' in users[1].said[0]  # its records are shared all the same
    assert len([name for name in objects(store) if name.endswith(".zip")]) == 8
    assert "another, tiny" in str(refusal("show", f"file://{store}"))
    assert shown("show", f"file://{store}#another")

    (attempt,) = users[0].results.store.attempts(users[0].key[0])
    again = User(tmp_path / "again", str(tmp_path / "other-store"))
    again.run()
    attempt.write_result(attempt.read_result().model_copy(update={"phases_ns": {"measure": 1}}))
    assert "differs from the record of the same trial" in str(
        refusal("merge", places[0], again.folder / "results", tmp_path / "into2")
    )
    for bad in ("0/2", "3/2", "half"):
        assert "no part of a study" in str(refusal("run", users[0].folder / "tiny.toml", "--shard", bad))


def test_the_store_of_the_configuration_file_is_used_and_a_mistake_in_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert shared_store(None, pytest.fail) is None
    (tmp_path / "strata").mkdir()
    file = tmp_path / "strata/config.toml"
    file.write_text(f'store = "{tmp_path}/there"\nstore_traces = true\n')

    found = shared_store(None, pytest.fail)

    assert found is not None
    assert (found.url, found.traces) == (f"{tmp_path}/there", True)
    assert shared_store("none", pytest.fail) is None
    for text in ("store = 1\n", 'stoer = "x"\n', "store ="):
        file.write_text(text)
        with pytest.raises(ToolError, match=r"config\.toml"):
            shared_store(None, pytest.fail)
    with pytest.raises(ResultError, match="nfs"):
        SharedStore("nfs://host/x")
