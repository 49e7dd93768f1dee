# SPDX-License-Identifier: Apache-2.0
"""The CI templates of docs/how-to/ci by their shell steps: act and gitlab-runner are not in Debian.

Steps that install packages and the servers' own actions are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import yaml
from test_gate_in_lab import STUDY, flush

from planted_tree import git
from strata.lab import Lab

__all__ = ["flush"]

pytestmark = pytest.mark.slow  # a dozen trials each, and two kernels

CI = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "ci"
CHANGES = {"green": "", "red": '{ layer = "ext4", mount = ["nobarrier"] }'}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose study protects a filesystem's options."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "storage.toml").write_text(STUDY.format(seeds=[1, 2, 3], changed=""))
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", "ci")
    git(tmp_path, "commit", "--quiet", "--message", "base")
    return tmp_path


def steps(script: list[str], folder: Path, base: str) -> list[int]:
    """The exit codes of steps until one fails, as a server runs them."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    more = {"PATH": path, "BASE": base, "GITHUB_STEP_SUMMARY": "summary.md"}
    codes = []
    for step in script:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step], cwd=folder, env={**os.environ, **more}, check=False
        )
        codes.append(done.returncode)
        if done.returncode:
            break
    return codes


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("server", ["github", "gitlab"])
def test_a_servers_steps_are_green_without_a_change_and_red_with_one(
    lab: Lab, repository: Path, server: str, change: str
) -> None:
    base = git(repository, "rev-parse", "HEAD")
    study = repository / "ci" / "storage.toml"
    if CHANGES[change]:
        study.write_text(study.read_text().replace('{ layer = "ext4" }', CHANGES[change]))
    template: Any = yaml.safe_load((CI / f"{server}.yml").read_text())
    if server == "github":
        found = template["jobs"]["gate"]["steps"]
        script = [step["run"] for step in found if "run" in step and step["name"] != "Install"]
    else:
        script = template["storage"]["script"]

    codes = steps(script, repository, base)

    assert codes == [0] * (len(script) - 1) + [int(change == "red")]
    [suite] = Xml.parse(repository / "gate.xml").getroot()
    assert (suite.get("failures") != "0") is (change == "red")
    if server == "github":
        assert f"The gate is {change}" in (repository / "summary.md").read_text()
    else:
        issues = json.loads((repository / "gl-code-quality.json").read_text())
        assert [each["location"]["path"] for each in issues][:1] == ["ci/storage.toml"] * (change == "red")


def test_the_makefile_of_a_kernels_tree_is_red_at_a_planted_flush(flush: Path, tmp_path: Path) -> None:
    (tmp_path / "storage.toml").write_text(STUDY.format(seeds=[1, 2, 3], changed='kernel = "7.2"'))
    make = f"make -f {CI / 'kernel.mk'} TREE={flush}"

    assert steps([f"{make} BASE=HEAD", f"{make} BASE=base"], tmp_path, "") == [0, 2]

    assert len([*tmp_path.glob("results/*/study.json")]) == 2
