# SPDX-License-Identifier: Apache-2.0
"""The wheels, installed far from the clone: commands, a run in the packaged lab, a report; no compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from strata.lab.cache import Cache
from strata.lab.carry import carried_parts
from strata.lab.lab import Lab
from strata.lab.model import library

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
STUDY = """\
[study]
name = "tiny"
question = "Which?"
seeds = [1]

[devices.disk0]
model = "wd-re4-500gb"

[stacks.striped]
layers = [{ layer = "lvm" }, { layer = "ext4" }]

[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
size = "64MiB"
warmup = "1s"
duration = "2s"
"""


@pytest.fixture(scope="module")
def elsewhere(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheels, whose cache has the root image and nothing else."""
    library()  # compiled, to be packed
    folder = tmp_path_factory.mktemp("elsewhere")
    for place in (ROOT, ROOT / "packaging/lab"):
        argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")]
        subprocess.run(argv, cwd=place, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "v"], check=True)
    python, wheels = folder / "v/bin/python", sorted((folder / "wheels").glob("*.whl"))
    argv = ["scripts/setup", "--run-uv", "pip", "install", "-q", "--no-deps", "--python", str(python)]
    subprocess.run([*argv, *map(str, wheels)], cwd=ROOT, check=True)
    (site,) = (folder / "v").glob("lib/python*/site-packages")
    # The libraries, but not this clone: a .pth file in a folder that a .pth file adds is not read.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "v/bin/setpriv").symlink_to(str(shutil.which("setpriv")))  # of what every Debian has
    Cache(folder / "cache").publish(carried_parts()["image"])
    return folder


def said(folder: Path, *words: str) -> str:
    """The output of a command, run where neither the clone nor a compiler is found."""
    environment = {
        "PATH": str(folder / "v/bin"),
        "HOME": str(folder),
        "STRATA_CACHE": str(folder / "cache"),
        "STRATA_SHARED_CACHE": str(folder / "none"),
        "TERM": "dumb",
    }
    done = subprocess.run(
        [folder / "v/bin/strata", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert not done.returncode, f"strata {' '.join(words)}: {done.stdout}{done.stderr}"
    assert str(ROOT) not in done.stdout + done.stderr
    return done.stdout


def test_what_needs_no_results_works_and_every_module_loads(elsewhere: Path) -> None:
    load = "import importlib, pkgutil, strata\n"
    load += (
        "for each in pkgutil.walk_packages(strata.__path__, 'strata.'):\n importlib.import_module(each.name)"
    )
    subprocess.run([elsewhere / "v/bin/python", "-c", load], cwd=elsewhere, check=True)

    for shown, *words in (
        ("wd-re4-500gb", "list", "devices"),
        ("draws these curves", "list", "devices", "wd-re4-500gb"),  # by the packaged models
        ("generic-server-2024", "list", "processors"),
        ("redis", "list", "workloads", "command"),
        ("36 trials", "check", "quickstart"),
        ("no mistakes", "check", "studies/showcase.toml"),
        ("zfs-16k", "plan", "studies/showcase.toml", "--stacks"),
        ("", "new", "study", "home", "--use", "home-server"),
        ("", "man", "--output", "man"),
        ("--port", "serve", "--help"),
    ):
        assert shown in said(elsewhere, *words), words
    assert (elsewhere / "home.toml").is_file()
    assert (elsewhere / "man/strata-run.1").is_file()


def test_a_study_runs_in_the_packaged_lab_and_is_reported(elsewhere: Path, lab: Lab) -> None:
    (elsewhere / "tiny.toml").write_text(STUDY)
    shown = json.loads(said(elsewhere, "lab", "show", "--json"))
    assert shown["fingerprint"] == vars(lab.fingerprint)

    said(elsewhere, "run", "tiny.toml")
    said(elsewhere, "report", "results/tiny", "--output", "tiny.html")

    assert "striped" in said(elsewhere, "show", "results/tiny")
    assert (elsewhere / "tiny.html").stat().st_size > 10_000
    kinds = {path.name for path in (elsewhere / "cache").iterdir()}
    assert not kinds & {"kernel", "agent", "load", "modules", "model", "source"}  # nothing was built
    assert not [*elsewhere.glob("v/lib/*/site-packages/strata_lab/*.json")]  # the package is only read
