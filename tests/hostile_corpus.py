# SPDX-License-Identifier: Apache-2.0
"""The attacks that people found (issue 11), each by its name, and their relatives."""

from __future__ import annotations

from hostile_options import Attack, Decoys


def _mkfs(decoys: Decoys) -> dict[str, tuple[str, list[str]]]:
    file, new, device = str(decoys.file), decoys.new, decoys.device
    return {
        "btrfs takes a further device": ("btrfs", [device]),
        "btrfs copies a folder": ("btrfs", ["--rootdir", str(decoys.file.parent)]),
        "btrfs copies a folder, shortened": ("btrfs", [f"--root={decoys.file.parent}"]),
        "ext4 keeps an undo file": ("ext4", ["-z", new]),
        "ext4 keeps an undo file, joined": ("ext4", [f"-z{new}"]),
        "ext4 copies a folder": ("ext4", ["-d", str(decoys.file.parent)]),
        "ext4 has its journal elsewhere": ("ext4", ["-J", f"device={device}"]),
        "ext4 makes a journal of a device": ("ext4", ["-O", "journal_dev", device]),
        "ext4 takes a further device": ("ext4", [device]),
        "ext3 reads a list of bad blocks": ("ext3", ["-l", file]),
        "xfs has its log elsewhere": ("xfs", ["-l", f"logdev={device}"]),
        "xfs has its log elsewhere, joined": ("xfs", [f"-linternal=0,logdev={device}"]),
        "xfs has its files elsewhere": ("xfs", ["-r", f"rtdev={device}"]),
        "xfs makes a file": ("xfs", ["-d", f"file,name={new},size=300m"]),
        "xfs reads a prototype": ("xfs", ["-p", file]),
        "xfs reads a configuration": ("xfs", ["-c", f"options={file}"]),
        "f2fs takes a further device": ("f2fs", ["-c", device]),
    }


def _mount(decoys: Decoys) -> dict[str, tuple[str, list[str]]]:
    new, device = decoys.new, decoys.device
    return {
        "xfs mounts a log": ("xfs", [f"logdev={device}"]),
        "xfs mounts files": ("xfs", [f"rtdev={device}"]),
        "ext4 mounts a journal": ("ext4", [f"journal_path={device}"]),
        "btrfs scans a device": ("btrfs", [f"DEVICE={device}"]),
        "mount makes a loop device": ("ext4", [f"loop={device}"]),
        "mount makes a folder": ("ext4", [f"X-mount.subdir=../../..{new}"]),
        "mount uses a helper": ("ext4", ["uhelper=attack"]),
    }


def _fio(decoys: Decoys) -> dict[str, dict[str, str]]:
    file, new, device = str(decoys.file), decoys.new, decoys.device
    return {
        "fio reads a log": {"read_iolog": file},
        "fio writes a log": {"write_iolog": new},
        "fio writes a log, in capitals": {"WRITE_IOLOG": new},
        "fio writes a log, shortened": {"write_io": new},
        "fio maps a file": {"iomem": f"mmap:{file}"},
        "fio maps a file, by an alias": {"mem": f"mmapshared:{file}"},
        "fio runs a program": {"ioengine": "exec", "program": "/bin/touch", "arguments": new},
        "fio loads a library": {"ioengine": f"external:{new}.so"},
        "fio merges traces": {"merge_blktrace_file": new},
        "fio runs before": {"exec_prerun": f"touch {new}"},
        "fio runs before, in capitals": {"Exec_Prerun": f"touch {new}"},
        "fio writes figures": {"write_bw_log": new},
        "fio chooses a scheduler": {"ioscheduler": "none"},
        "fio makes a control group": {"cgroup": "attack"},
        "fio redirects a replay": {"replay_redirect": device},
        "fio takes a pattern from a file": {"buffer_pattern": f"'{file}'"},
        "fio writes another file": {"filename": device},
        "fio looks into another folder": {"opendir": str(decoys.file.parent)},
    }


def _postgres(decoys: Decoys) -> dict[str, dict[str, object]]:
    file, new = str(decoys.file), decoys.new
    return {
        "postgres archives by a command": {"archive_mode": True, "archive_command": f"touch {new}"},
        "postgres loads a library": {"shared_preload_libraries": new},
        "postgres looks for libraries": {"dynamic_library_path": str(decoys.file.parent)},
        "postgres reads a password by a command": {"ssl": True, "ssl_passphrase_command": f"touch {new}"},
        "postgres notes its number": {"external_pid_file": new},
        "postgres reads another configuration": {"config_file": file},
        "postgres listens": {"LISTEN_ADDRESSES": "*"},
    }


def _mariadb(decoys: Decoys) -> dict[str, dict[str, object]]:
    file, new = str(decoys.file), decoys.new
    return {
        "mariadb loads a library": {"plugin_load_add": new},
        "mariadb looks for libraries": {"loose_plugin_dir": str(decoys.file.parent)},
        "mariadb writes a log": {"general_log": True, "general_log_file": new},
        "mariadb writes a log, shortened": {"general_log": True, "general_log_fil": new},
        "mariadb reads statements": {"init_file": file},
        "mariadb has its files elsewhere": {"innodb_data_home_dir": str(decoys.file.parent)},
        "mariadb keeps its buffer elsewhere": {"innodb_buffer_pool_filename": f"../../../../..{new}"},
    }


def _scripts(decoys: Decoys) -> dict[str, str]:
    new = decoys.new
    return {
        "pgbench runs a shell": f"\\shell touch {new}\nSELECT 1;",
        "pgbench asks a shell": f"\\setshell x touch {new}\nSELECT 1;",
        "pgbench runs a shell, in capitals": f"\\SHELL touch {new}\nSELECT 1;",
        "pgbench runs a shell, continued": f"SELECT 1;\n  \\shell \\\n touch {new}\n",
    }


def _zfs(decoys: Decoys) -> dict[str, tuple[str, str, object]]:
    file, new, device = str(decoys.file), decoys.new, decoys.device
    return {
        "zpool is noted in a file": ("zpool", "properties", {"CACHEFILE": new}),
        "zpool reads a set of features": ("zpool", "compatibility", f"../../../..{file}"),
        "zfs reads its key": (
            "zfs",
            "properties",
            {"encryption": "on", "keyformat": "raw", "keylocation": f"file://{file}"},
        ),
        "zfs mounts elsewhere": ("zfs", "properties", {"mountpoint": str(decoys.file.parent)}),
        "zfs is exported": ("zfs", "properties", {"sharenfs": "on"}),
        "zpool moves the list of pools": ("zpool", "parameters", {"spa_config_path": new}),
        "zpool chooses another module's parameter": (
            "zpool",
            "parameters",
            {"../../printk/parameters/time": 1},
        ),
        "zpool mirrors onto a device": ("zpool", "log", [device]),
        "md takes a spare": ("md", "spares", [device]),
    }


def corpus(decoys: Decoys) -> dict[str, Attack]:
    """The attacks by name, on these decoys."""
    return {
        **{
            name: Attack("layers", layer, "mkfs", value, name)
            for name, (layer, value) in _mkfs(decoys).items()
        },
        **{
            name: Attack("layers", layer, "mount", value, name)
            for name, (layer, value) in _mount(decoys).items()
        },
        **{
            name: Attack("layers", layer, key, value, name)
            for name, (layer, key, value) in _zfs(decoys).items()
        },
        **{name: Attack("workloads", "fio", "options", value, name) for name, value in _fio(decoys).items()},
        **{
            name: Attack("workloads", "pgbench", "settings", value, name)
            for name, value in _postgres(decoys).items()
        },
        **{
            name: Attack("workloads", "sql-suite", "settings", value, name)
            for name, value in _mariadb(decoys).items()
        },
        **{
            name: Attack("workloads", "pgbench", "script_text", value, name)
            for name, value in _scripts(decoys).items()
        },
    }
