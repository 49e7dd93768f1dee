# SPDX-License-Identifier: Apache-2.0
"""`strata new layer`: the skeleton is a layer already, but for its documentation and its golden plan."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from strata.cli import app, new
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.spec.layer import Layer
from strata.spec.load import load_study
from strata.spec.registry import Catalogue, Registry
from study_texts import SOUND


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    layers = tmp_path / "src" / "strata" / "layers"
    layers.mkdir(parents=True)
    monkeypatch.setattr(new, "project_root", lambda: tmp_path)
    return layers


def read_layer(file: Path) -> type[Layer]:
    spec = importlib.util.spec_from_file_location("skeleton_under_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Layer)]
    return next(value for value in found if value is not Layer)


def test_a_skeleton_compiles_to_steps_in_a_stack(clone: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["new", "layer", "fast-store"])
    assert done.exit_code == 0, done.output
    layer = read_layer(clone / "fast_store.py")
    layers = Registry[Layer]("layer", [*catalogue().layers.values(), layer])
    study = tmp_path / "study.toml"
    study.write_text(SOUND.replace('[{ layer = "ext4",', '[{ layer = "fast-store" }, { layer = "ext4",'))

    read = load_study(study, Catalogue(layers=layers, workloads=catalogue().workloads))
    steps = {step.id: step for step in compile_trial(read, "ext4", "mix", 1).steps}

    assert steps["fast-store-make"].destroys == ("disk0",)
    assert steps["fast-store-start"].undo is not None
    assert steps["ext4-make"].argv[-1] == "/dev/mapper/${stack}_fast_store"


@pytest.mark.parametrize(
    ("name", "said"), [("ext4", "already"), ("Fast Store", "fast-store"), ("2fs", "begin with a letter")]
)
def test_a_name_that_is_taken_or_no_name_is_refused(clone: Path, name: str, said: str) -> None:
    done = CliRunner().invoke(app, ["new", "layer", name])

    assert done.exit_code != 0
    assert said in str(done.exception)
    assert list(clone.iterdir()) == []


def test_what_exists_is_not_overwritten(clone: Path) -> None:
    (clone / "mine.py").write_text("precious")

    done = CliRunner().invoke(app, ["new", "layer", "mine"])

    assert done.exit_code != 0
    assert (clone / "mine.py").read_text() == "precious"
