# SPDX-License-Identifier: Apache-2.0
"""Studies too small for what they compare: structures that their data do not touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from layer_factory import GIB, context, on, refused_keys

from strata.layers.md import Md
from strata.model.trial import CellKey
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.rules.untouched import exhausted_warnings, untouched, untouched_warnings
from study_texts import read

HEAD: Final = '[study]\nname = "small"\nquestion = "What does it cost?"\nseeds = [1]\n'
PROJECT: Final = Path(__file__).parents[2]


def text(devices: dict[str, str], stacks: dict[str, str], size: str, *, direct: bool = True) -> str:
    """A study of random writes of one file; a device is a model and perhaps a capacity."""
    made = HEAD
    for name, device in devices.items():
        model, _, capacity = device.partition(" ")
        made += f'\n[devices.{name}]\nmodel = "{model}"\n' + (
            f'capacity = "{capacity}"\n' if capacity else ""
        )
    for name, stack in stacks.items():
        made += f"\n[stacks.{name}]\n{stack}\n"
    options = f'rw = "randwrite", bs = "4k", ioengine = "libaio", iodepth = 32, direct = {int(direct)}'
    load = f'workload = "fio"\noptions = {{ {options} }}\nsize = "{size}"\nduration = "15s"'
    return f"{made}\n[workloads.rw]\n{load}\n"


DISKS: Final = {f"d{number}": "generic-desktop-hdd 8GiB" for number in range(8)}
BITMAPS: Final = {
    # ../shared/cases/md-bitmap-small.toml
    "bitmap": 'layers = [{ layer = "md", level = 5, bitmap = "internal" }]',
    "no-bitmap": 'layers = [{ layer = "md", level = 5, bitmap = "none" }]',
}
HDD_AND_SSD: Final = {"d0": "generic-desktop-hdd 64GiB", "ssd": "generic-sata-ssd 8GiB"}


def found(folder: Path, study: str) -> dict[str, str]:
    return {
        str(cell): "; ".join(each.text for each in what)
        for cell, what in untouched(read(folder, study)).items()
    }


def test_a_bitmap_of_which_the_data_touch_19_regions_is_warned_of(tmp_path: Path) -> None:
    study = text(DISKS, BITMAPS, "8GiB")

    assert list(found(tmp_path, study)) == ["bitmap.rw"]
    [warning] = untouched_warnings(read(tmp_path, study))
    assert warning.text.startswith("bitmap.rw: 8 GiB of data lie in 19 regions of the bitmap of 448 MiB each")
    assert warning.grave


def test_a_bitmap_whose_regions_are_small_enough_is_met(tmp_path: Path) -> None:
    fine = BITMAPS["bitmap"].replace("}", ', bitmap_chunk = "512KiB" }')

    assert not found(tmp_path, text(DISKS, {**BITMAPS, "bitmap": fine}, "8GiB"))
    assert list(found(tmp_path, text(DISKS, {"fine": fine, "bitmap": BITMAPS["bitmap"]}, "8GiB"))) == [
        "bitmap.rw"
    ]


def test_what_the_stacks_have_in_common_or_differ_in_among_much_else_is_not_warned_of(tmp_path: Path) -> None:
    level = {
        "raid5": 'layers = [{ layer = "md", level = 5 }, { layer = "ext4" }]',
        "raid10": 'layers = [{ layer = "md", level = 10 }, { layer = "ext4" }]',
        "one": 'devices = ["d0"]\nlayers = [{ layer = "ext4" }]',
    }

    assert not found(tmp_path, text(DISKS, level, "1GiB"))


def test_a_bundled_study_is_not_warned_of_what_it_does_not_compare() -> None:
    for name in ("showcase", "layers", "four-guests", "quickstart", "database-nvme", "lost-disk"):
        assert not untouched(load_study(PROJECT / "studies" / f"{name}.toml", catalogue()))


def test_a_cache_larger_than_the_data_is_warned_of_beside_the_stack_without_it(tmp_path: Path) -> None:
    for layer, keys in (
        ("bcache", ', mode = "writeback"'),
        ("dm-cache", ', mode = "writeback"'),
        ("dm-writecache", ""),
    ):
        cache = f'{{ layer = "{layer}", cache = "ssd"{keys} }}'
        stacks = {
            "cached": f'devices = ["d0"]\nlayers = [{cache}, {{ layer = "ext4" }}]',
            "plain": 'devices = ["d0"]\nlayers = [{ layer = "ext4" }]',
        }

        small = found(tmp_path, text(HDD_AND_SSD, stacks, "4GiB"))

        assert list(small) == ["cached.rw"]
        assert f"4 GiB of data fit into the cache of {layer} of 8 GiB" in small["cached.rw"]
        assert not found(tmp_path, text(HDD_AND_SSD, stacks, "16GiB"))


def test_a_second_cache_of_zfs_and_a_log_of_a_size_are_structures_too(tmp_path: Path) -> None:
    pools = {
        "l2arc": 'devices = ["d0"]\nlayers = [{ layer = "zpool", cache = ["ssd"] }, { layer = "zfs" }]',
        "plain": 'devices = ["d0"]\nlayers = [{ layer = "zpool" }, { layer = "zfs" }]',
    }
    logs = {
        "large": 'devices = ["d0"]\nlayers = [{ layer = "xfs", mkfs = ["-l", "size=1g"] }]',
        "small": 'devices = ["d0"]\nlayers = [{ layer = "xfs", mkfs = ["-l", "size=64m"] }]',
    }
    journals = {
        "large": 'devices = ["d0"]\nlayers = [{ layer = "ext4", mkfs = ["-J", "size=1024"] }]',
        "small": 'devices = ["d0"]\nlayers = [{ layer = "ext4", mkfs = ["-J", "size=64"] }]',
    }
    groups = {
        "few": 'devices = ["d0"]\nlayers = [{ layer = "xfs", mkfs = ["-d", "agcount=4"] }]',
        "many": 'devices = ["d0"]\nlayers = [{ layer = "xfs", mkfs = ["-d", "agcount=64"] }]',
    }

    assert (
        "second cache of the pool (L2ARC) of 8 GiB"
        in found(tmp_path, text(HDD_AND_SSD, pools, "2GiB"))["l2arc.rw"]
    )
    for stacks, name in ((logs, "log of XFS"), (journals, "journal of ext4")):
        small = found(tmp_path, text(HDD_AND_SSD, stacks, "512MiB"))
        assert list(small) == ["large.rw"]
        assert f"512 MiB of data fit into the {name} of 1 GiB" in small["large.rw"]
    assert list(found(tmp_path, text(HDD_AND_SSD, groups, "8GiB"))) == ["few.rw"]


def test_a_media_cache_of_a_shingled_disk_is_warned_of_beside_a_disk_without_one(tmp_path: Path) -> None:
    disks = {"smr": "generic-smr-hdd", "cmr": "generic-desktop-hdd"}
    stacks = {name: f'devices = ["{name}"]\nlayers = [{{ layer = "ext4" }}]' for name in disks}

    study = read(tmp_path, text(disks, stacks, "2GiB"))
    [(cell, [small])] = untouched(study).items()

    assert cell == CellKey("smr", "rw")
    assert "media cache of a shingled disk" in small.text
    assert small.counter == "cleanings"
    assert small.written_bytes_min > GIB


def test_the_limit_of_dirty_pages_is_warned_of_where_memories_differ_and_writes_are_buffered(
    tmp_path: Path,
) -> None:
    stacks = {
        name: f'devices = ["d0"]\nlayers = [{{ layer = "guest", memory = "{memory}" }}, {{ layer = "ext4" }}]'
        for name, memory in (("small", "256MiB"), ("large", "768MiB"))
    }
    buffered = text(HDD_AND_SSD, stacks, "128MiB", direct=False).replace("libaio", "sync")

    assert list(found(tmp_path, buffered)) == ["large.rw"]
    assert not found(tmp_path, text(HDD_AND_SSD, stacks, "128MiB"))


def test_metadata_of_a_thin_pool_too_small_for_the_data_are_warned_of(tmp_path: Path) -> None:
    """../shared/cases/thin-metadata.toml: 24 GiB in chunks of 64 KiB over 4 MiB of metadata."""
    stacks = {
        "small-meta": 'layers = [{ layer = "lvm-thin", metadata_size = "4MiB" }, { layer = "ext4" }]',
        "normal": 'layers = [{ layer = "lvm-thin" }, { layer = "ext4" }]',
    }
    study = text({"d0": "generic-sata-ssd 64GiB"}, stacks, "24GiB")

    [warning] = exhausted_warnings(read(tmp_path, study))

    assert warning.code == "layer-exhausted"
    assert warning.text.startswith(
        "small-meta.rw: the pool's metadata of 4MiB are full before 24 GiB of data are written: 393,216 "
    )
    assert not exhausted_warnings(read(tmp_path, study.replace('"24GiB"', '"8GiB"')))
    larger = study.replace('"4MiB"', '"4MiB", chunk = "256KiB"')
    assert not exhausted_warnings(read(tmp_path, larger))


def test_the_regions_of_a_bitmap_are_those_of_mdadm() -> None:
    def region_bytes(disk_gib: int, **keys: object) -> int:
        [structure] = Md.model_validate({"level": 5, **keys}).structures(on(*[disk_gib] * 3), {})
        return structure.unit_bytes

    assert region_bytes(8) == region_bytes(1000) == 64 << 20
    assert region_bytes(8, bitmap_chunk="1MiB") == 1 << 20
    assert region_bytes(4_000_000) == 4 << 30  # of 1,046,528 bits, in powers of two
    layer = Md.model_validate({"level": 5, "bitmap_chunk": "128MiB"})
    assert any("--bitmap-chunk=131072" in step.argv for step in layer.build(context("md", 3)))


def test_a_region_that_the_bitmap_cannot_have_is_refused() -> None:
    keys: dict[str, Any]
    for keys in (
        {"level": 0, "bitmap_chunk": "64MiB"},
        {"level": 5, "bitmap": "none", "bitmap_chunk": "64MiB"},
        {"level": 5, "bitmap_chunk": "4KiB"},
    ):
        assert refused_keys(Md.model_validate(keys), on(8, 8, 8)) == ["bitmap_chunk"]
