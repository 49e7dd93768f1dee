# SPDX-License-Identifier: Apache-2.0
"""The lists of what a study may set, held against the lab's kernel and programs: each option does mount."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from lab_factory import bare_task, carried_out, shell_step

from option_samples import LAYERS, making, names_of, settings_of, words_for
from strata.lab import Lab
from strata.layers.zfs.options import FILESYSTEM, PARAMETERS, POOL, VOLUME
from strata.model.layer import LayerContext, Provided
from strata.model.step import literal
from strata.plan.catalogue import catalogue

CAPACITY_BYTES: Final = 2 << 30
MADE: Final = {
    "ext2": "mkfs.ext2 -q -F",
    "ext3": "mkfs.ext3 -q -F",
    "ext4": "mkfs.ext4 -q -F",
    "xfs": "mkfs.xfs -q -f -d su=64k,sw=2",
    "btrfs": "mkfs.btrfs -q -f -R ^free-space-tree",
    "f2fs": "mkfs.f2fs -q -f -O extra_attr,compression,flexible_inline_xattr,quota",
    "tmpfs": "true",
}
_DAX: Final = {"dax", "dax=always", "dax=inode", "dax=never"}
# Options that this kernel or these disks lack. Linux has no nobarrier for XFS any more: trials are skipped.
ELSEWHERE: Final = {
    "ext4": _DAX,
    "xfs": {*_DAX, "nobarrier"},
    "tmpfs": {
        *("huge=advise", "huge=always", "huge=within_size", "mpol=local"),
        *("quota", "grpquota", "usrquota"),
    },
}


def refused_in_lab(lab: Lab, folder: Path, script: str, *, modules: tuple[str, ...] = ()) -> set[str]:
    """The lines that a script prints in the lab, on one disk."""
    task = bare_task(
        folder / "attempt",
        "null",
        (shell_step("try", literal(script).replace("DISK", "${disk0}").replace("MOUNT", "${mount}")),),
        capacity_bytes=CAPACITY_BYTES,
        modules=modules,
        features=("filesystem:f2fs",) if "f2fs" in script else (),
    )
    return set(carried_out(lab, task).output("try").splitlines())


def quoted(values: Iterable[str]) -> str:
    return " ".join(map(shlex.quote, values))


@pytest.mark.parametrize(
    "layer", [pytest.param(each, marks=[pytest.mark.slow] * (each in ("ext2", "ext3"))) for each in MADE]
)
def test_the_kernel_takes_the_mount_options_that_a_study_may_give(
    layer: str, lab: Lab, tmp_path: Path
) -> None:
    options = quoted(settings_of(catalogue().layers[layer].allowed["mount"]))
    script = (
        f"{MADE[layer]} DISK >&2; mkdir -p MOUNT; for option in {options}; do "
        f"mount -t {layer} -o $option DISK MOUNT >&2 && umount MOUNT || echo $option; done"
    )

    assert refused_in_lab(lab, tmp_path, script) == ELSEWHERE.get(layer, set())


def test_mkfs_of_f2fs_takes_the_options_that_a_study_may_give(lab: Lab, tmp_path: Path) -> None:
    lines = []
    context = LayerContext("f2fs", 1, ("${disk0}",), Provided("block", (CAPACITY_BYTES,)))
    for name, form in names_of(LAYERS["f2fs"].allowed["mkfs"]):
        words = making("f2fs", words_for("f2fs", name, form)).make_options(context)
        lines.append(f"{shlex.join(words)} DISK >/dev/null || echo {shlex.quote(name)}")

    assert refused_in_lab(lab, tmp_path, "\n".join(lines)) == {"-b"}


@pytest.mark.slow
def test_zfs_takes_the_properties_and_parameters_that_a_study_may_give(lab: Lab, tmp_path: Path) -> None:
    create = "zpool create -f -o cachefile=none -m none -O volmode=dev"
    script = f"""
        mkdir /dev/pool; cp -a DISK /dev/pool/a
        for parameter in {quoted(settings_of(PARAMETERS))}; do
            file=/sys/module/zfs/parameters/${{parameter%%=*}}
            case $parameter in *_impl=*|*_allocator=*) value=${{parameter#*=}};; *) value=$(cat $file);; esac
            echo "$value" | tee $file >&2 || echo $parameter
        done
        for property in {quoted(settings_of(POOL))}; do
            {create} -o $property p /dev/pool/a && zpool destroy p || echo $property
        done
        {create} p /dev/pool/a >&2
        for property in {quoted(settings_of(FILESYSTEM))}; do
            zfs create -o $property p/f && zfs destroy p/f || echo $property
        done
        for property in {quoted(settings_of(VOLUME))}; do
            zfs create -V 64M -o $property p/v && udevadm settle && zfs destroy p/v || echo $property
        done
        zpool export p
    """

    refused = refused_in_lab(lab, tmp_path, script, modules=("zfs",))

    # The lab's kernel has the plain implementations alone.
    assert {setting for setting in refused if "_impl=" not in setting} == set()
