# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.errors import StudyError
from strata.model.study import unlike
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from study_texts import SOUND, mistakes, read


def test_a_sound_study_is_read_whole(tmp_path: Path) -> None:
    study = read(tmp_path, SOUND)

    assert study.trial_count == 8
    assert study.stacks["btrfs"].devices == ("disk0", "disk1")
    assert study.stacks["ext4"].devices == ("disk0",)
    assert study.devices["disk0"].capacity_bytes == 500_107_862_016
    assert study.time_limit_ns == 30 * 60 * 10**9
    assert study.workloads["oltp"].duration_ns_min == 70 * 10**9


def test_a_number_of_seeds_stands_for_the_seeds_from_one_on(tmp_path: Path) -> None:
    assert read(tmp_path, SOUND.replace("seeds = [1, 2]", "seeds = 3")).seeds == (1, 2, 3)


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    text = (
        SOUND.replace('name = "small"', 'name = "Small Study"')
        .replace("seeds = [1, 2]", "seeds = [1, 1]")
        .replace('model = "null"', 'model = "nul"')
        .replace("mount = [", "mout = [")
        .replace('duration = "60s"', 'duration = "60"')
        .replace('preset = "random-mix-4k"', 'preset = "random-mix"')
    )

    found = mistakes(tmp_path, text)

    assert set(found) == {
        "study.name",
        "study.seeds",
        "devices.disk1.model",
        "stacks.ext4.layers[0].mout",
        "workloads.oltp.duration",
        "workloads.mix.preset",
    }


def test_what_is_wrong_is_named_with_its_remedy(tmp_path: Path) -> None:
    for sound, wrong, key, cause, remedy in (
        ("seeds = [1, 2]", "seeds = []", "study.seeds", "no trials", "seeds = [1, 2, 3]"),
        ("seeds = [1, 2]", "", "study.seeds", "missing", "seeds = [1, 2, 3]"),
        ("seeds = [1, 2]", "seeds = 0", "study.seeds", "no trials", "seeds = [1, 2, 3]"),
        ("seeds = [1, 2]", "seeds = 10001", "study.seeds", "10,001 seeds are more than 10,000", "usual"),
        ("seeds = [1, 2]", "seeds = 2.0", "study.seeds", "list", ""),
        ("seeds = [1, 2]", "seeds = [1, -2]", "study.seeds", "-2", "use 1, 2, 3"),
        ("seeds = [1, 2]", "seeds = [1, true]", "study.seeds[1]", "whole number", ""),
        ("seeds = [1, 2]", "seeds = [1, 1, 2]", "study.seeds", "duplicate seed: 1", "once"),
        ('question = "Which?"', 'question = " "', "study.question", "empty", "one sentence"),
        ('name = "small"', 'name = "small_one"', "study.name", "kebab", '"small-one"'),
        ("[study]", "[study]\ntime_limit = 60", "study.time_limit", "unit", "30m"),
        (
            "[study]",
            '[study]\ntime_limit = "1m"',
            "workloads.oltp",
            "at least 70 s",
            "raise study.time_limit",
        ),
        ("[stacks.ext4]", "[stacks.Ext4]", "stacks.Ext4", "kebab", '"ext4"'),
        ("[devices.disk1]", "[devices.mount]", "devices.mount", "mount", "another"),
        ("[devices.disk1]", "[devices.nbd-disk]", "devices.nbd-disk", "nbd-disk", "another"),
        ('devices = ["disk0"]', 'devices = ["disk"]', "stacks.ext4.devices[0]", '"disk"', "disk0"),
        ('devices = ["disk0"]', 'devices = ["disk0", "disk0"]', "stacks.ext4.devices[1]", "twice", "once"),
        ('devices = ["disk0"]', "devices = []", "stacks.ext4.devices", "needs a device", "leave the key out"),
        ('model = "null"', 'model = "none"', "devices.disk1.model", "no device", '"null"'),
        ('model = "null"', 'model = "./gone.toml"', "devices.disk1.model", "No such file", "path"),
        ('model = "null"', 'model = "null"\ncapacity = "1TiB"', "devices.disk1.capacity", "64GiB", "leave"),
        ('model = "null"', 'model = "null"\ncapacity = "513B"', "devices.disk1.capacity", "512B", "512"),
        ('model = "null"', 'model = "null"\ncapacity = 64', "devices.disk1.capacity", "unit", "GiB"),
        ('layer = "ext4"', 'layer = "ext5"', "stacks.ext4.layers[0].layer", '"ext5"', 'did you mean "ext4"'),
        ('layer = "ext4", ', "", "stacks.ext4.layers[0].layer", "missing", "btrfs"),
        ('workload = "fio"', 'workload = "foi"', "workloads.mix.workload", '"foi"', 'did you mean "fio"'),
        ("scale = 10", 'scale = "10"', "workloads.oltp.scale", "whole number", ""),
        ("scale = 10", "scale = 0", "workloads.oltp.scale", "is too small", ""),
        ("scale = 10", "", "workloads.oltp.scale", "missing", "scale = 20"),
        ("scale = 10", "scale = 100000", "workloads.oltp.scale", "tables and logs", "shrink scale"),
        ("scale = 10", "scale = 10\njobs = 11", "workloads.oltp.jobs", "more threads", "lower jobs"),
        ('data = "raid1"', 'data = "raid6"', "stacks.btrfs.layers[0].data", "needs 3 disks", "raid10"),
        ('data = "raid1"', 'data = "raid2"', "stacks.btrfs.layers[0].data", "not valid", "raid"),
    ):
        assert sound in SOUND
        found = mistakes(tmp_path, SOUND.replace(sound, wrong, 1))
        assert key in found, found
        assert cause in found[key]
        assert remedy in found[key]


def test_a_study_without_one_of_its_factors_is_refused(tmp_path: Path) -> None:
    for kind in ("devices", "stacks", "workloads"):
        text = "\n\n".join(part for part in SOUND.split("\n\n") if not part.startswith(f"[{kind}"))
        found = mistakes(tmp_path, text)
        assert f"there are no {kind}" in found[kind]
        assert f"[{kind}." in found[kind]


def test_a_device_too_small_for_its_filesystem_is_refused(tmp_path: Path) -> None:
    found = mistakes(tmp_path, SOUND.replace('model = "null"', 'model = "null"\ncapacity = "100MiB"'))

    assert "btrfs needs devices of at least 256MiB" in found["stacks.btrfs.layers[0]"]


def test_a_syntax_error_states_its_line(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="line 4") as caught:
        read(tmp_path, SOUND.replace("seeds = [1, 2]", "seeds = [1, 2"[:-2] + "@"))

    assert "not valid TOML" in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    for name, cause in (("gone.toml", "No such file"), ("latin.toml", "UTF-8"), (".", "it is a folder")):
        with pytest.raises(StudyError, match=cause):
            load_study(tmp_path / name, catalogue())


def test_mistakes_in_a_device_file_show_through_the_study(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('title = "x"\nkind = "null"\n[parameters]\n')

    found = mistakes(tmp_path, SOUND.replace('model = "null"', 'model = "mine.toml"'))

    assert (
        "parameters.queue_depth" in found["devices.disk1.model"]
        or "parameters.capacity" in found["devices.disk1.model"]
    )


def test_a_file_that_fits_the_disks_but_not_their_profile_is_refused(tmp_path: Path) -> None:
    both = SOUND.replace('model = "wd-re4-500gb"', 'model = "null"').replace(
        'model = "null"', 'model = "null"\ncapacity = "4GiB"'
    )
    text = both.replace(
        'devices = ["disk0"]\nlayers = [{ layer = "ext4", mount = ["noatime"] }]',
        'layers = [{ layer = "btrfs" }]',
    )
    text = text.replace('workload = "fio"', 'workload = "fio"\nsize = "5GiB"')

    assert read(tmp_path, text.replace('data = "raid1"', 'data = "raid0"')).trial_count == 8
    assert "has room for 3686MiB" in mistakes(tmp_path, text)["workloads.mix.size"]


README = Path(__file__).parents[2] / "README.md"


BLOCKS = re.findall(r"^```toml\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
REST = """
[study]
name = "readme"
question = "Is it sound?"
seeds = [1]
[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
duration = "10s"
"""
DISKS = "".join(f'[devices.disk{number}]\nmodel = "wd-re4-500gb"\n' for number in range(4))


def test_the_example_study_of_the_readme_is_sound(tmp_path: Path) -> None:
    (whole,) = (block for block in BLOCKS if "[study]" in block)
    file = tmp_path / "study.toml"
    file.write_text(whole)

    assert load_study(file, catalogue()).trial_count > 1


def test_the_example_stack_of_the_readme_is_sound(tmp_path: Path) -> None:
    (part,) = (block for block in BLOCKS if "[study]" not in block)
    file = tmp_path / "study.toml"
    file.write_text(REST + DISKS + part)

    assert len(load_study(file, catalogue()).stacks["guest"].layers) == 7


def test_memory_is_scaled_with_data_that_would_fit_and_only_then(tmp_path: Path) -> None:
    text = (
        '[study]\nname = "small"\nquestion = "Which?"\nseeds = [1]\nmemory = "4GiB"\n'
        '[devices.disk0]\nmodel = "wd-re4-500gb"\n'
        '[stacks.zfs]\nlayers = [{{ layer = "zpool", arc_max = "2GiB" }}, {{ layer = "zfs" }}]\n'
        '{stack}[workloads.write]\nworkload = "dd"\ncontent = "random"\nsize = "{size}"\n'
    )
    guests = '[stacks.guest]\nlayers = [{ layer = "guest", memory = "3GiB" }, { layer = "ext4" }]\n'

    def scaled(size: str, share: float, stack: str = "") -> tuple[int, int | None]:
        file = tmp_path / "small.toml"
        file.write_text(text.format(size=size, stack=stack))
        study = load_study(file, catalogue(), scale=share)
        return study.memory_bytes >> 20, getattr(study.stacks["zfs"].layers[0], "arc_max_bytes", 0) >> 20

    assert scaled("16GiB", 0.25) == (1024, 512)  # 4 GiB of data
    assert scaled("16GiB", 0.25, guests) == (1024, 512)
    assert scaled("16GiB", 0.01) == (512, 256)  # never less
    for size in ("64GiB", "2GiB"):  # does not fit anyway; fitted before
        assert scaled(size, 0.25) == (4096, 2048)


def test_a_load_that_no_scale_makes_smaller_says_something_else_with_less_memory(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(
        '[study]\nname = "small"\nquestion = "Which?"\nseeds = [1]\nmemory = "4GiB"\n'
        '[devices.disk0]\nmodel = "wd-re4-500gb"\n[stacks.xfs]\nlayers = [{ layer = "xfs" }]\n'
        '[workloads.sources]\nworkload = "tree"\n'
        '[workloads.write]\nworkload = "dd"\ncontent = "random"\nsize = "16GiB"\n'
    )
    full = load_study(tmp_path / "small.toml", catalogue())

    assert [*unlike(full, 0.25, 1 << 30)] == ["sources"]
    assert [*unlike(full, 0.25, 4 << 30)] == ["write"]
