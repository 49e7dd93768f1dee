# SPDX-License-Identifier: Apache-2.0
"""Every kind of device is declared, documented, driven, measured and drawn."""

from __future__ import annotations

import importlib

import pytest

from strata.datasheet.kinds import SHEETS, sheet_of
from strata.devices.device import Device, bundled_devices, find_device
from strata.devices.kinds import KINDS
from strata.lab.disk import driver_config
from strata.lab.model import READ, ModelledDisk


def example(kind: str) -> Device:
    """The first bundled device of a kind."""
    found = next((d for d in map(find_device, bundled_devices()) if d.kind == kind), None)
    assert found is not None, f"devices/ has no device of the kind {kind}"
    return found


def test_every_kind_has_a_data_sheet() -> None:
    assert set(SHEETS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_introduces_itself_and_its_parameters(kind: str) -> None:
    declared = KINDS[kind]

    assert declared.title
    assert declared.introduction.endswith(".")
    assert {"capacity", "queue_depth"} <= set(declared.parameters)
    for name, spec in declared.parameters.items():
        assert spec.meaning, name
        assert spec.text or spec.minimum <= float(spec.default or spec.minimum) <= spec.maximum, name
    keys = [spec.key for spec in declared.parameters.values() if spec.key]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_takes_the_drivers_lines_of_a_kind(kind: str) -> None:
    device = example(kind)
    text = driver_config(device, name="sda", backing_fd=3, capacity_bytes=1 << 20)

    trace = ModelledDisk(text).closed_loop(READ, [0, 8], 8, depth=1)

    assert f"model={kind}" in text.splitlines()
    assert len(trace.complete_ns) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_time_is_measured_drawn_and_validated(kind: str) -> None:
    device = example(kind)
    sheet = sheet_of(device, quick=True)
    trace = ModelledDisk(driver_config(device, name="sda", backing_fd=3)).closed_loop(READ, [0], 8, depth=1)
    takes_time = bool(trace.latency_ns.any())

    assert bool(sheet.measurements()) == takes_time
    assert bool(sheet.pictures()) == takes_time
    if takes_time:
        importlib.import_module(f"strata.validation.subjects.{kind}")
