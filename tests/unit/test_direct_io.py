# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from checked_trials import BUFFERED, LONG, checks, finished, judged

from strata.rules.direct_io import direct_io_warnings

ZFS = '{ layer = "zpool" }, { layer = "zfs", %s }'


def test_direct_io_that_is_not_direct_is_said_of_the_trial_and_by_the_study(tmp_path: Path) -> None:
    for layers, release, says in (
        ('{ layer = "ext4" }', "7.2.12-strata", ""),
        ('{ layer = "btrfs" }', "7.2.12-strata", "that have checksums through the page cache"),
        ('{ layer = "btrfs" }', "6.14.1", ""),
        ('{ layer = "btrfs", cow = false }', "7.2.12-strata", ""),
        ('{ layer = "btrfs", mount = ["nodatasum"] }', "7.2.12-strata", ""),
        (ZFS % 'recordsize = "128KiB"', "7.2.12-strata", "of less than a record (128KiB) through the ARC"),
        (ZFS % 'recordsize = "4KiB"', "7.2.12-strata", ""),
        (ZFS % 'properties = { direct = "disabled" }', "7.2.12-strata", "direct = disabled"),
        ('{ layer = "zpool" }, { layer = "zvol" }, { layer = "ext4" }', "7.2.12-strata", "a zvol's data"),
    ):
        text = LONG.replace('{ layer = "ext4" }', layers).replace('size = "3GiB"', 'size = "64MiB"')
        trial = finished(tmp_path, text=text)
        assert trial.events.start is not None
        start = trial.events.start.model_copy(update={"kernel": {"release": release}})
        found = {
            each.name: each for each in judged(replace(trial, events=replace(trial.events, start=start)))
        }

        assert found["direct-io"].verdict == ("no" if says else "yes")
        assert says in found["direct-io"].detail
        if not release.startswith("6"):
            assert [says in each.text for each in direct_io_warnings(trial.study)] == [True] * bool(says)


def test_what_is_not_written_or_not_direct_is_not_said_to_be_buffered(tmp_path: Path) -> None:
    btrfs = LONG.replace('{ layer = "ext4" }', '{ layer = "btrfs" }').replace(
        'size = "3GiB"', 'size = "64MiB"'
    )

    reading = checks(tmp_path, text=btrfs.replace("random-mix-4k", "random-read-4k"))

    assert reading["direct-io"].verdict == "yes"
    assert "direct-io" not in checks(tmp_path, text=BUFFERED)


def test_data_that_a_filesystem_keeps_out_of_memory_have_none_to_fit_into(tmp_path: Path) -> None:
    text = BUFFERED.replace('{ layer = "ext4" }', ZFS % 'primarycache = "metadata"')

    found = checks(tmp_path, text=text.replace('size = "3GiB"', 'size = "64MiB"'))["larger-than-memory"]

    assert (found.verdict, "primarycache = metadata" in found.detail) == ("yes", True)
