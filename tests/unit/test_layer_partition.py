# SPDX-License-Identifier: Apache-2.0
"""Partitions: where they lie, what may be named after them, and mistakes."""

from __future__ import annotations

from pathlib import Path

from command_line import shown
from strata.plan.compile import compile_trial
from strata.report.stack import draw
from strata.units import GIB, MIB
from study_texts import HEAD, SSD, disk, fio, mistakes, read

STUDY = f"{HEAD}{disk('hdd')}{disk('ssd', SSD, '64GiB')}[stacks.home]\n"
STUDY += "devices = {devices}\nlayers = [{layers}]\n" + fio("mix")
ROLES = 'log = "8GiB", special = "25%", database = "rest"'
POOL = '{ layer = "zpool", log = ["ssd.log"], special = ["ssd.special"] }, { layer = "zfs" }'
PLACE = "stacks.home.layers[0]"


def study(sizes: str = ROLES, above: str = POOL, *, more: str = "", devices: str = '["hdd"]') -> str:
    partition = f'{{ layer = "partition", disk = "ssd", sizes = {{ {sizes} }}{more} }}'
    return STUDY.format(devices=devices, layers=f"{partition}, {above}")


def test_sizes_shares_and_the_rest_have_their_places_on_the_disk(tmp_path: Path) -> None:
    found = read(tmp_path, study('log = "8GiB", database = "rest", special = "25%"'))
    capacities = found.stacks["home"].capacities(found.capacities_bytes)

    assert capacities["ssd.log"] == 8 * GIB
    assert capacities["ssd.special"] == 16 * GIB
    # 1 MiB at either end is the table's.
    assert capacities["ssd.database"] == 40 * GIB - 2 * MIB


def test_the_rest_ends_where_a_later_partition_is_to_begin(tmp_path: Path) -> None:
    text = study('log = "rest", special = "25%"', more=', starts = { special = "32GiB" }')
    found = read(tmp_path, text)

    assert found.stacks["home"].capacities(found.capacities_bytes)["ssd.log"] == 32 * GIB - MIB


def test_a_stack_can_stand_on_a_partition(tmp_path: Path) -> None:
    found = read(tmp_path, study(above='{ layer = "ext4" }', devices='["ssd.database"]'))
    made = next(step for step in compile_trial(found, "home", "mix", 1).steps if step.id == "ext4-make")

    assert made.argv[-1] == "${ssd.database}"
    assert found.stacks["home"].all_devices == ("ssd",)
    assert found.stacks["home"].offers(found.capacities_bytes)[-1].smallest_bytes == 40 * GIB - 2 * MIB


def test_partitions_that_cannot_be_made_are_refused(tmp_path: Path) -> None:
    for text, key, words in (
        (
            study('log = "8GiB", special = "60GiB"'),
            "sizes.special",
            "the partitions do not fit: ssd has room",
        ),
        (study('log = "64GiB", special = "rest"'), "sizes.log", "do not fit"),
        (study('log = "90%", special = "20%"'), "sizes.special", "do not fit"),
        (study('log = "rest", special = "rest"'), "sizes.special", 'not both "log" and "special"'),
        (study('log = "8GiB", special = "1000kB"'), "sizes.special", "between whole MiB"),
        (study('log = "8GiB", special = "120%"'), "sizes.special", "no share of a disk"),
        (study('log = "8GiB", special = "much"'), "sizes.special", "size"),
        (study('log = "8GiB", Special = "8GiB"'), "sizes.Special", "kebab"),
        (
            study(more=', starts = { special = "4GiB" }'),
            "starts.special",
            'within the partition "log", which ends at 8193MiB',
        ),
        (study(more=', starts = { special = "12345KiB" }'), "starts.special", "not a multiple of 1MiB"),
        (study(more=', starts = { cache = "16GiB" }'), "starts", 'there is no partition "cache"'),
    ):
        found = mistakes(tmp_path, text)
        place = next(each for each in found if each.startswith(f"{PLACE}.{key}"))
        assert words in found[place]


def test_a_name_must_be_of_a_partition_and_have_one_use(tmp_path: Path) -> None:
    for text, place, words in (
        (study('log = "8GiB"'), "stacks.home.layers[1].special", 'there is no device "ssd.special"'),
        (study(devices='["hdd", "ssd.log"]'), "stacks.home.layers[1].log", "used elsewhere in this stack"),
        (study(devices='["hdd", "ssd"]'), f"{PLACE}.disk", "used elsewhere in this stack"),
        (study(devices='["ssd.databse"]'), "stacks.home.devices[0]", 'did you mean "ssd.database"'),
    ):
        assert words in mistakes(tmp_path, text)[place]


def test_partitions_are_made_before_any_layer_stands_on_them(tmp_path: Path) -> None:
    partition = '{ layer = "partition", disk = "ssd", sizes = { log = "1GiB" } }'
    text = STUDY.format(devices='["hdd"]', layers=f'{{ layer = "crypt" }}, {partition}, {{ layer = "ext4" }}')

    assert "do not exist yet for crypt" in mistakes(tmp_path, text)["stacks.home.layers[1]"]


def test_a_partition_is_not_divided_again(tmp_path: Path) -> None:
    again = '{ layer = "partition", disk = "ssd.database", sizes = { a = "1GiB" } }'

    assert "cannot be divided again" in str(mistakes(tmp_path, study(above=f"{again}, {POOL}")))


def test_a_disk_with_several_roles_is_a_single_point_of_failure(tmp_path: Path) -> None:
    file = tmp_path / "home.toml"
    file.write_text(study())
    said = " ".join(shown("plan", file, "--stacks").split())

    assert "ssd is a single point of failure: its partitions serve as zpool's log and zpool's special" in said

    file.write_text(study(above='{ layer = "ext4" }'))
    assert "single point" not in shown("plan", str(file), "--stacks")


TWO = STUDY.replace("[stacks.home]", disk("other", SSD, "64GiB") + "[stacks.home]")
HALVES = ", ".join(
    f'{{ layer = "partition", disk = "{disk}", sizes = {{ a = "8GiB", b = "rest" }} }}'
    for disk in ("ssd", "other")
)


def test_copies_on_other_disks_count(tmp_path: Path) -> None:
    for devices, above, points in (
        ('["ssd.a", "other.a"]', '{ layer = "btrfs", data = "raid1" }', set()),
        ('["ssd.a", "ssd.b"]', '{ layer = "md", level = 1 }, { layer = "ext4" }', {"ssd"}),
        (
            '["hdd"]',
            POOL.replace('"ssd.log"', '"ssd.a", "other.a"').replace('"ssd.special"', '"ssd.b", "other.b"'),
            set(),
        ),
        (
            '["hdd"]',
            '{ layer = "zpool", log = ["ssd.a"], special = ["ssd.b", "other.b"] }, { layer = "zfs" }',
            {"ssd"},
        ),
    ):
        found = draw(read(tmp_path, TWO.format(devices=devices, layers=f"{HALVES}, {above}")), "home")
        assert {point.split()[0] for point in found.single_points} == points
