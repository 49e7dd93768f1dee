# SPDX-License-Identifier: Apache-2.0
"""Cloud volumes of any size and rate: the providers' rules, what they refuse, and the machine's limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Typed
from strata.devices.device import Device, device_folder, find_device, load_device
from strata.devices.provisioning import provision
from strata.errors import DiagnosticsError
from study_texts import HEAD, disk, fio, read

GIB = 1 << 30
MIB = 1 << 20
STUDY = (
    HEAD
    + "{study}\n"
    + disk("disk0", "{model}")
    + "{keys}\n[stacks.raw]\nlayers = []\n"
    + fio("fio", "256MiB")
)


def provisioned(
    model: str, gib: int | None = None, iops: int | None = None, mib: int | None = None
) -> Device:
    device, refused = provision(find_device(model), gib and gib * GIB, iops, mib and mib * MIB)
    assert not refused, [str(each) for each in refused]
    return device


def rates(device: Device) -> tuple[float, float]:
    return device.number("operation_rate"), device.number("byte_rate")


def study_device(folder: Path, model: str, keys: str, study: str = "") -> Device:
    return read(folder, STUDY.format(model=model, keys=keys, study=study)).devices["disk0"].device


def test_gp2_has_rates_by_its_size() -> None:
    for gib, iops, mib_per_s in (
        (1, 100, 128),
        (33, 100, 128),
        (100, 300, 128),
        (170, 510, 128),
        (171, 513, 250),
        (16_384, 16_000, 250),
    ):
        assert rates(provisioned("aws-ebs-gp2", gib)) == (iops, mib_per_s)


def test_gp2_of_a_thousand_gib_needs_no_credits() -> None:
    for gib, credits in ((999, 5_400_000), (1000, 0), (4000, 0)):
        assert provisioned("aws-ebs-gp2", gib).number("operation_credits") == credits


def test_gp3_includes_its_rates_at_every_size_and_more_are_chosen() -> None:
    assert rates(provisioned("aws-ebs-gp3", 1)) == (3000, 125)
    assert rates(provisioned("aws-ebs-gp3", 500, 6000, 250)) == (6000, 250)
    assert rates(provisioned("aws-ebs-gp3", 65_536, 80_000, 2000)) == (80_000, 2000)


def test_io2_s_throughput_follows_from_its_operations() -> None:
    assert rates(provisioned("aws-ebs-io2", 100, 10_000)) == (10_000, 2560)
    assert rates(provisioned("aws-ebs-io2", 1000, 256_000)) == (256_000, 4000)


def test_the_study_refuses_what_the_provider_does_not_offer(tmp_path: Path) -> None:
    for model, keys, shown in (
        ("aws-ebs-gp3", "iops = 60000", "choose 3000 to 50000 1/s, at most 500 for each GiB of capacity"),
        ("aws-ebs-gp3", "iops = 2999", "does not offer 2999 1/s"),
        ("aws-ebs-gp3", 'capacity = "65TiB"', "choose 1 to 65536 GiB"),
        ("aws-ebs-gp3", 'capacity = "1500MiB"', "whole GiB"),
        (
            "aws-ebs-gp3",
            'throughput = "1000MiB/s"',
            "choose 125 to 750 MiB/s, at most 0.25 for each operation",
        ),
        ("aws-ebs-gp3", 'throughput = "250"', "is not a rate"),
        ("aws-ebs-gp2", "iops = 3000", "the provider sets this by the size: 300 1/s"),
        ("aws-ebs-gp2", 'throughput = "250MB/s"', "the provider sets this by the size: 128 MiB/s"),
        ("wd-re4-500gb", "iops = 300", "wd-re4-500gb has its rates from its device file"),
        ("wd-re4-500gb", 'throughput = "100MB/s"', "leave the key out, or take a cloud volume"),
    ):
        with pytest.raises(DiagnosticsError) as caught:
            study_device(tmp_path, model, keys)
        assert shown in str(caught.value)
        assert f"devices.disk0.{keys.split(maxsplit=1)[0]}" in str(caught.value)


def test_a_study_s_volume_has_its_size_and_rates_in_the_identity(tmp_path: Path) -> None:
    keys = 'capacity = "500GiB"\niops = 6000\nthroughput = "250MB/s"'
    identity = study_device(tmp_path, "aws-ebs-gp3", keys).identity()["parameters"]

    assert (identity["capacity"], identity["operation_rate"]) == (500 * GIB, 6000)
    assert identity["byte_rate"] == 250_000_000 / MIB


def test_the_machine_s_limit_is_part_of_the_identity_and_leaves_the_volume_as_it_was_bought(
    tmp_path: Path,
) -> None:
    limits = 'machine_iops = 2000\nmachine_throughput = "200MiB/s"'
    small = study_device(tmp_path, "aws-ebs-gp3", "", limits)

    assert rates(small) == (3000, 125)
    assert small.identity()["machine"] == {"iops": 2000, "bytes_per_s": 200 * MIB}
    assert "machine" not in study_device(tmp_path, "aws-ebs-gp3", "").identity()
    with pytest.raises(DiagnosticsError, match="no cloud volume that this could limit"):
        study_device(tmp_path, "wd-re4-500gb", "", limits)


def test_a_mistake_in_the_rules_is_named(tmp_path: Path) -> None:
    for old, new, shown in (
        ("iops = {", "iopses = {", 'unknown rule "iopses"'),
        ("iops = {", "iopses = {", "this rule is missing"),
        ('unit = "GiB"', 'unit = "GB"', 'must be "GiB"'),
        ("[parameters]", "[parameters]\nbyte_rate = 1", "a rule of [provisioning] sets this"),
        ("minimum = 3000,", "", "minimum"),
    ):
        text = (device_folder() / "aws-ebs-gp3.toml").read_text()
        assert old in text
        file = tmp_path / "volume.toml"
        file.write_text(text.replace(old, new))

        with pytest.raises(DiagnosticsError) as caught:
            load_device(file)

        assert shown in str(caught.value)


def test_the_data_sheet_of_a_volume_names_every_mistake_at_once(typed: Typed) -> None:
    words = ("list", "devices", "aws-ebs-gp3", "--capacity", "1.5GiB", "--iops", 90000)
    code, _, errors = typed(*words)

    assert code == 2
    assert "--capacity: volumes are sold in whole GiB" in errors
    assert "--iops: the provider does not offer 90000" in errors
