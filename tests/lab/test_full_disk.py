# SPDX-License-Identifier: Apache-2.0
"""No space left on the host: under the modelled disks, and under the results."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import STRATA, copy, environment, head, public_folder, records, shared_lab, stacks

from strata.errors import LabError, ResultError, RunError
from strata.lab import Lab

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a small filesystem"),
]

STUDY = head("full", [1, 2], "8GiB") + stacks("ext4") + copy()


@pytest.fixture(scope="module")
def ground(lab: Lab) -> Iterator[Path]:
    with public_folder() as path:
        shared_lab(lab, path / "shared")
        (path / "study.toml").write_text(STUDY)
        yield path


def run_with_small(
    ground: Path, folder: Path, size: str, results: Path, *, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the study while ``folder`` is a filesystem of that size, which only this run can see."""
    folder.mkdir()
    kept = ground / "kept"
    script = (
        'mount -t tmpfs -o "size=$1,mode=755" none "$2" || exit 99; keep=$3; small=$2; shift 3; '
        '"$@"; code=$?; mkdir -p "$keep"; cp -a "$small/." "$keep"; exit $code'
    )
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", script, "sh", size, str(folder), str(kept / folder.name)),
            *(*STRATA, "run", str(ground / "study.toml"), "--results", str(results), "--jobs", "1"),
        ],
        env=environment(cache or ground / "cache", ground / "shared"),
        cwd=ground,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 99, done.stderr
    return done


@pytest.mark.parametrize("size", ["12k", pytest.param("300k", marks=pytest.mark.slow), "1500k"])
def test_a_host_without_room_for_a_lab_ends_the_run_with_an_error_about_it(ground: Path, size: str) -> None:
    cache = ground / f"cache-{size}"
    cache.mkdir()

    done = run_with_small(ground, cache / "run", size, ground / f"no-lab-{size}", cache=cache)

    assert done.returncode == LabError.exit_code, done.stderr
    assert "No space left on device" in done.stderr
    assert "STRATA_CACHE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_without_room_for_a_disk_makes_invalid_results_that_say_so(ground: Path) -> None:
    (ground / "cache").mkdir(exist_ok=True)

    done = run_with_small(ground, ground / "cache" / "run", "5m", ground / "disk-full")

    assert done.returncode == RunError.exit_code, done.stderr
    found = records(ground / "disk-full")
    assert set(found) == {"ext4.copy.s1", "ext4.copy.s2"}
    for record in found.values():
        assert not record.validity.valid
        assert "the host could not hold a modelled disk's content" in record.validity.reasons[0]
        assert str(ground) not in record.validity.reasons[0]
        assert "STRATA_CACHE" in record.validity.reasons[0]


# A page at a time: the snapshot, the plan, the bindings, the console, the events and the record each meet it.
@pytest.mark.parametrize(
    "pages", [1, 9, 24, *(pytest.param(pages, marks=pytest.mark.slow) for pages in (4, 7, 8, 10, 11, 12, 16))]
)
def test_a_full_results_folder_ends_the_run_with_an_error_about_it(ground: Path, pages: int) -> None:
    results = ground / f"small-{pages}"

    done = run_with_small(ground, results, f"{4 * pages}k", results / "results")

    assert done.returncode == ResultError.exit_code, done.stderr
    assert "No space left on device" in done.stderr
    assert "make room" in done.stderr
    assert "Traceback" not in done.stderr
