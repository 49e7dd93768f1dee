# SPDX-License-Identifier: Apache-2.0
"""The names of other programs' options: those that no list may hold, and all that are known, for drawing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Final

from strata.model.allowed import Forms
from strata.plan.catalogue import catalogue

# They name a file or a device, reach what is not the trial's, outlive the trial, or take a decision that is
# Strata's. Behind the semicolon stand options within others, such as ``-E offset``.
_MOUNT: Final = """
loop offset sizelimit bind rbind move remount ro rw shared rshared private user users owner group
X-mount.mkdir X-mount.idmap X-mount.subdir X-mount.owner X-mount.mode x-systemd.automount x-gvfs-show
x-systemd.requires helper uhelper verity.hashdevice context fscontext comment nofail _netdev uid gid
resuid resgid journal_dev journal_path usrjquota grpjquota jqfmt norecovery test_dummy_encryption abort
upperdir sb noload prjquota pquota nouuid logdev rtdev device subvol subvolid fatal_errors rescue
fault_injection checkpoint
"""
_ZFS: Final = """
mountpoint canmount sharenfs sharesmb keylocation keyformat encryption zoned mlslabel readonly context
volmode volsize
"""
_NEVER: Final = {
    ("layers.ext4", "mkfs"): """-c -d -l -M -n -q -F -S -U -V -z; -J device, -O journal_dev, -E offset,
        -E root_owner, -E test_fs, -E hash_seed, -E root_perms, -E revision""",
    ("layers.xfs", "mkfs"): """-c -p -f -K -N -V; -c options, -l logdev, -l name, -l file, -r extsize,
        -r file, -r rtdev, -r name, -d name, -d file, -d size, -m uuid""",
    ("layers.btrfs", "mkfs"): """-b -d -f -K -m -r -U --byte-count --data --force --metadata --root
        --rootdir --uuid --compress --device-uuid --inode-flags --nodiscard --subvol; -O list-all""",
    ("layers.f2fs", "mkfs"): "-A -c -d -f -g -R -r -S -T -t -U -V",
    **{(f"layers.{name}", "mount"): _MOUNT for name in ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")},
    ("layers.tmpfs", "mount"): f"{_MOUNT} mode size",
    ("layers.zfs", "properties"): _ZFS,
    ("layers.zvol", "properties"): _ZFS,
    ("layers.zpool", "properties"): "cachefile altroot bootfs comment multihost readonly ashift",
    ("layers.zpool", "parameters"): "spa_config_path zfs_deadman_failmode zfs_flags zfs_arc_max",
    ("workloads.fio", "options"): """read_iolog write_iolog replay_redirect merge_blktrace_file iomem mem
        exec_prerun exec_postrun filename directory opendir write_bw_log program arguments cgroup
        ioscheduler verify_state_load aux-path verify_dump include""",
    ("workloads.pgbench", "settings"): """archive_command archive_library restore_command config_file
        data_directory hba_file external_pid_file unix_socket_directories listen_addresses port
        shared_preload_libraries local_preload_libraries dynamic_library_path log_directory jit_provider
        ssl_passphrase_command primary_conninfo temp_tablespaces""",
    ("workloads.sql-suite", "settings"): """plugin_dir plugin_load plugin_load_add init_file init_connect
        datadir general_log_file log_error tmpdir socket pid_file port user innodb_data_home_dir
        innodb_data_file_path innodb_undo_directory""",
}
_PROGRAMS: Final = {
    "layers.btrfs.mkfs": (r"(?<![\w-])(--?[a-zA-Z][\w-]*)", ("mkfs.btrfs", "--help")),
    "workloads.fio.options": (r"(?m)^(\w+)\s+:", ("fio", "--cmdhelp=all")),
    "workloads.pgbench.settings": (r"(?m)^(\w+)\t", ("postgres", "--describe-config")),
    "workloads.sql-suite.settings": (
        r"(?m)^([a-z][a-z-]{2,})  ",
        ("mariadbd", "--no-defaults", "--verbose", "--help"),
    ),
}
"""How programs that are installed here list their options."""
_META_COMMANDS: Final = (
    "\\set \\setshell \\shell \\sleep \\if \\endif \\gset \\aset \\startpipeline \\! \\o \\i \\copy \\g"
)


def _split(text: str) -> frozenset[str]:
    alone, _, within = text.partition(";")
    return frozenset((*alone.split(), *(" ".join(each.split()) for each in within.split(",") if each)))


NEVER: Final = {place: _split(text) for place, text in _NEVER.items()}
"""Names that a list must not hold, by the layer or workload and its key."""


def names_in(forms: Forms) -> Iterator[str]:
    """The options of a list that a study may give, those within another one as ``-E stride``."""
    for name, form in forms.items():
        yield from (f"{name} {part}" for part in names_in(form.parts or {}))
        if form.parts is None and form.instead is None:
            yield name


@cache
def names_for(place: str, key: str) -> tuple[str, ...]:
    """The names of the options that ``place``, such as ``layers.ext4``, has in one of its keys."""
    if key == "script_text":
        return tuple(_META_COMMANDS.split())
    kind, _, name = place.partition(".")
    known = {*NEVER.get((place, key), ()), *names_in(getattr(catalogue(), kind)[name].allowed.get(key, {}))}
    if (program := _PROGRAMS.get(f"{place}.{key}")) is not None:
        known |= {*re.findall(program[0], _said(*program[1]))}
    return tuple(sorted(known)) or ("name",)


def _said(*argv: str) -> str:
    """A program's output; empty if the program is not installed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout + done.stderr
