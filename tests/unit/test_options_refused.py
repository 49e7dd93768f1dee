# SPDX-License-Identifier: Apache-2.0
"""Options with which a study could reach what is not the trial's: `strata check` refuses every one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from for_all import for_all
from option_names import NEVER, names_in
from option_samples import LIMITED
from strata.model.allowed import (
    Limits,
    features,
    given,
    item_diagnostics,
    one_of,
    suboptions,
    word_diagnostics,
)
from strata.plan.catalogue import catalogue
from study_texts import mistakes, read, stack_text, toml

FIO: Final = 'workload = "fio"\npreset = "random-mix-4k"\nsize = "64MiB"\nduration = "10s"'
EXT: Final = ("ext2", "ext3", "ext4")
OF_ALL: Final = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
ON_ALL: Final = (*OF_ALL, "tmpfs")
ZPOOL: Final = '{ layer = "zpool" }'

# Wrong values of options that are listed, and listed options in a form that a program understands, too.
WRONG: Final[list[tuple[tuple[str, ...], str, object]]] = [
    *(
        (OF_ALL, "mkfs", words)
        for words in (
            *(["/dev/loop0"], ["disk"], ["--", "/dev/loop0"], ["-b 4096"], ["-L", "rootfs"], ["-L", "a/b"]),
            *(["-L"], ["-qF/dev/loop0"]),
        )
    ),
    *(
        (EXT, "mkfs", words)
        for words in (
            *(["-Dz", "/etc/passwd"], ["-J", "size=8,device=UUID=5c1e"], ["-O", "has_journal,journal_dev"]),
            *(["-O", "Journal_Dev"], ["-E", "stride=16,/dev/loop0"], ["-e", "panic"], ["-b", "4096", "1000"]),
        )
    ),
    (("xfs",), "mkfs", ["-l", "LOGDEV=/dev/loop0"]),
    (("xfs",), "mkfs", ["-d", "agcount=4,"]),
    (("btrfs",), "mkfs", ["--node", "16k"]),
    (("btrfs",), "mkfs", ["--nodesize", "16k", "/dev/loop0"]),
    (("btrfs",), "mkfs", ["--mixed=/dev/loop0"]),
    (("btrfs",), "mkfs", ["-M", "/dev/loop0"]),
    (("f2fs",), "mkfs", ["-ic", "/dev/loop0"]),
    *((ON_ALL, "mount", [option]) for option in ("noatime=/dev/loop0", "NOATIME", "noatim", "atime ")),
    *((EXT, "mount", [option]) for option in ("errors=panic", "commit=5\n", "commit=\u0665")),
    (("tmpfs",), "mount", ["mpol=bind:/dev"]),
    *(
        (("zfs",), "properties", {name: value})
        for name, value in (("relatime", "/"), ("a:b", "x"), ("", "x"))
    ),
    (("zpool",), "properties", {"failmode": "panic"}),
    (("zpool",), "properties", {"feature@/etc": "enabled"}),
    (("zpool",), "parameters", {"zfs_txg_timeout": "5; reboot"}),
    (("zpool",), "parameters", {"zfs_txg_timeout": -1}),
    (("zpool",), "parameters", {"../../../x": 1}),
    *((("zpool",), "compatibility", name) for name in ("/etc/passwd", "a,/b", "", "a\nb", "..")),
]


@for_all(("place", "key"), NEVER)
def test_no_list_holds_what_reaches_beyond_the_trial(place: str, key: str) -> None:
    kind, _, name = place.partition(".")
    forms = getattr(catalogue(), kind)[name].allowed[key]

    assert NEVER[place, key].isdisjoint(names_in(forms))


def refused(folder: Path, layer: str, key: str, value: object) -> dict[str, str]:
    """The mistakes that `strata check` finds in a stack whose layer has this key."""
    below = f"{ZPOOL}, " if layer in ("zfs", "zvol") else ""
    above = ', { layer = "zfs" }' if layer == "zpool" else ', { layer = "ext4" }' if layer == "zvol" else ""
    layers = f"{below}{{ layer = {toml(layer)}, {key} = {toml(value)} }}{above}"
    return mistakes(folder, stack_text(layers, 1, FIO, model="null", capacity="8GiB"))


def is_refused(folder: Path, layer: str, key: str, value: object) -> None:
    found = refused(folder, layer, key, value)
    place = 1 if layer in ("zfs", "zvol") else 0

    [(path, said)] = found.items()
    assert path.startswith(f"stacks.stack.layers[{place}].{key}")
    assert "Traceback" not in said
    assert len(said.splitlines()) >= 2, "there is a remedy"


@for_all(("layer", "key", "value"), [(layer, key, value) for layers, key, value in WRONG for layer in layers])
def test_a_value_or_a_form_that_is_not_listed_is_refused(
    layer: str, key: str, value: object, tmp_path: Path
) -> None:
    is_refused(tmp_path, layer, key, value)


@for_all(("layer", "key", "words", "cause"), LIMITED)
def test_a_value_that_the_program_or_the_kernel_would_refuse_is_refused(
    layer: str, key: str, words: list[str], cause: str, tmp_path: Path
) -> None:
    found = refused(tmp_path, layer, key, words)

    assert [*found] == [f"stacks.stack.layers[0].{key}"]
    assert cause in next(iter(found.values()))


def test_options_of_mkfs_and_mount_are_held_against_one_another(tmp_path: Path) -> None:
    layer = '{ layer = "ext4", mkfs = ["-O", "^has_journal"], mount = ["data=journal"] }'

    found = mistakes(tmp_path, stack_text(layer, 1, FIO, model="null", capacity="8GiB"))

    assert "-O ^has_journal and data exclude each other" in found["stacks.stack.layers[0].mount"]


def test_limits_read_sizes_as_mkfs_and_the_kernel_do() -> None:
    for text, is_refused in (
        ("16k", False),
        ("256K", False),
        ("0", False),
        ("65536", False),
        ("8k", True),
        ("48k", True),
        ("1g", True),
    ):
        limits = Limits(16 << 10, 256 << 10, "fs/xfs/xfs_super.c", is_power=True, default=0)
        assert limits.refuse(text) is is_refused
        assert str(limits) == "a power of two, 16k to 256k"


def test_layers_of_tenants_are_held_to_the_same_lists(tmp_path: Path) -> None:
    each = '{ layer = "ext4", mkfs = ["-z", "/etc/passwd"] }'
    text = stack_text('{ layer = "lvm-thin" }', 1, FIO, model="null", capacity="8GiB", each=each)

    assert "stacks.stack.each[0].mkfs" in mistakes(tmp_path, text)


FORMS: Final = {
    "-b": one_of("512", "4096"),
    "--block-size": one_of("512", "4096"),
    "-E": suboptions(
        {"stride": one_of("16"), "seed": given("leave it out"), "lazy": one_of("1", optional=True)}
    ),
    "-O": features("journal quota"),
    "-U": given("leave it out"),
}


def test_each_wrong_word_is_reported_once() -> None:
    words: list[str]
    causes: list[str]
    for words, causes in (
        (["-b512", "-b", "4096", "--block-size=512", "-E", "stride=16,lazy", "-O^quota,journal"], []),
        (["-b"], ["the option -b cannot be without a value"]),
        (
            ["-E", "stride=17,seed=1"],
            ['the option -E stride cannot be "17"', "Strata gives the option -E seed itself"],
        ),
        (["-U", "5c1e", "-b512"], ["Strata gives the option -U itself"]),
        (["-x", "value", "-b512"], ['the option "-x" is not one that a study may give']),
        (["-O", "^^quota"], ['the option -O "^^quota" is not one that a study may give']),
        (["--block", "512"], ['the option "--block" is not one that a study may give']),
    ):
        found = list(word_diagnostics("option", words, FORMS, key="mkfs"))
        assert [each.cause for each in found] == causes
        assert all(each.remedy for each in found)


def test_a_remedy_names_the_option_that_was_meant() -> None:
    [diagnostic] = item_diagnostics(
        "mount option", ["NoAtime"], {"noatime": one_of(), "nodev": one_of()}, key="mount"
    )

    assert diagnostic.remedy is not None
    assert "noatime" in diagnostic.remedy


def test_what_the_tools_of_the_trade_write_is_accepted(tmp_path: Path) -> None:
    for layers, disks, same in (
        (
            '{ layer = "md", level = "raid5", chunk = "64K" }',
            3,
            '{ layer = "md", level = 5, chunk = "64KiB" }',
        ),
        (
            '{ layer = "zpool", vdev = "raidz" }, { layer = "zfs", recordsize = "16k" }',
            3,
            '{ layer = "zpool", vdev = "raidz1" }, { layer = "zfs", recordsize = "16KiB" }',
        ),
        ('{ layer = "lvm", size = "2g" }', 1, '{ layer = "lvm", size = "2GiB" }'),
    ):
        workload = FIO if "zfs" in layers else FIO.replace("64MiB", "64m")
        one, other = (
            read(tmp_path, stack_text(each, disks, workload, model="null", capacity="8GiB")).stacks["stack"]
            for each in (layers, same)
        )
        assert one == other
