# SPDX-License-Identifier: Apache-2.0
"""The commands of the documentation that are not run as they stand, each with the reason.

A command is meant by how it begins; the first line that fits counts. What stands in neither table is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NOT_RUN: Final = {
    "make": "a target is made of what the tests run one by one; that there is one is checked",
    "sudo strata run": "needs root and loop devices: tests/lab/test_host.py",
    "sudo strata lab clean": "needs root and loop devices: tests/lab/test_killed.py",
    "sudo strata list disks": "shows the disks of the machine that it is typed on: tests/unit/test_disks.py",
    "sudo strata confirm": "needs root and disks: tests/unit/test_confirm.py, tests/lab/test_real_disks.py",
    "sudo strata calibrate": "needs root and a disk that nothing uses: tests/unit/test_calibration.py",
    **{
        f"{root}strata disks serve": "needs FUSE, root or fusermount3: tests/lab/test_served_on_host.py"
        for root in ("sudo ", "")
    },
    "sudo losetup": "needs root and loop devices: tests/lab/test_real_disks.py",
    "sudo mkfs.ext4": "needs root and loop devices: tests/lab/test_real_disks.py",
    "sudo .venv/bin/python -m bench.processor": "takes the better part of an hour, root and loop devices",
    "truncate": "makes the files of loop devices: tests/lab/test_real_disks.py",
    "sudo strata lab selftest": "needs root and loop devices: tests/unit/test_selftest_cli.py",
    "strata lab price": "takes minutes, and root for all of it: tests/unit/test_pricing.py",
    "strata lab enter": "asks for a terminal: tests/lab/test_shell.py",
    "strata lab build": "takes a quarter of an hour without its cache; `make setup` is this command",
    "strata lab export": "writes the whole lab: tests/unit/test_lab_carry.py",
    "strata lab import": "would replace the lab that the other tests run in: tests/unit/test_lab_carry.py",
    'sudo "$(command -v strata)" lab build': "needs root, and is `strata lab build`",
    "sudo apt-get": "changes the machine",
    "pipx": "installs from an index: tests/lab/test_installed.py installs the wheels",
    "podman": "needs a container engine and minutes",
    "mkdir": "makes the folder that a container writes to",
    "strata lab remove": "would remove the lab that the other tests run in: tests/unit/test_lab_cache.py",
    "sudo strata record --disk": "needs root and a disk in use: tests/unit/test_block_events.py",
    "sudo strata record --pid": "attaches to a server: tests/unit/test_record.py",
    "strata bisect": "needs a git tree of Linux: tests/lab/test_bisect_in_lab.py",
    "strata trace sda.blktrace.0": "needs the recording of a real disk: tests/unit/test_foreign_traces.py",
    "strata claims results/lxd --anchor": "runs trials for minutes: tests/unit/test_anchor.py",
    "strata claims results/quickstart --claims beliefs.claims.toml --what-if": "runs trials for minutes: "
    "tests/unit/test_what_if.py",
    "strata claims results/vps": "reads results of hours: tests/unit/test_claims_page.py",
    "strata claims results/quickstart --claims beliefs.claims.toml --fail-on reversed": "the file is of "
    "docs/how-to/test-a-belief.md, where the same is run",
    "strata explain results/four-guests": "reads traces of four guests: tests/lab/test_tenants_in_lab.py",
    **{
        f"strata gate results/baseline {words}": "invented results are not steady: tests/unit/test_gate.py"
        for words in ("--see", "results/candidate --see")
    },
    "strata calibrate --fio results/": "reads fio's output of a real disk: tests/unit/test_calibration.py",
    **{
        f"strata {command}": "measures a disk in the lab for minutes: tests/lab/test_calibrate_in_lab.py"
        for command in ("run measure.toml", "calibrate --fio results/measure-generic-desktop-hdd")
    },
    "strata run hosting.toml": "runs machines and containers for minutes: tests/lab/test_vm_in_lab.py",
    "strata sensitivity": "runs trials for minutes: tests/lab/test_sensitivity_in_lab.py",
    **{
        f"strata ask {name}": "runs trials for minutes: tests/unit/test_ask.py"
        for name in ("cloud", "home", "orders", "guests")
    },
    **{
        f"strata {words}": "runs trials for minutes: tests/unit/test_rebuild.py and test_scale.py"
        for words in ("rebuild", "run home.toml --full")
    },
    "strata serve": "serves until it is stopped: tests/unit/test_serve.py",
    "strata lab selftest": "runs a study of a hundred trials: tests/unit/test_selftest_cli.py",
    "strata new workload copy": "writes into the current folder: tests/unit/test_new_cli.py",
    "strata run study.toml --cluster": "starts a cluster, as docs/how-to/cluster.md does",
    **{
        f"strata new {kind}": "writes into the sources: tests/unit/test_new_cli.py"
        for kind in ("filesystem", "layer", "workload", "device-kind")
    },
    "strata record --folder data -- ./application": "records the reader's own: tests/unit/test_record.py",
    "fio": "reads a real disk",
    "DISK=/dev/disk/by-id/ata-MODEL_SERIAL fio": "reads a real disk",
    "duckdb": "DuckDB's own command line, which Strata does not need",
}
"""By the beginning of the command."""


@dataclass(frozen=True)
class Stand:
    """A cheaper command that stands in for one.

    Attributes:
        words: All words after ``strata``; if empty, the words of the replaced command.
        without: Words of the replaced command, and their replacements.
        more: Words appended.
    """

    words: tuple[str, ...] = ()
    without: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    def of(self, own: tuple[str, ...]) -> tuple[str, ...]:
        """The words for a command that has these after ``strata``."""
        return (*(self.words or (self.without.get(word, word) for word in own)), *self.more)


_FLUSH: Final = Stand(words=("lab", "validate", "flush", "--quick", "--output", "validation.html"))
_REAL_DISK: Final = Path(__file__).parents[1] / "devices" / "real" / "hdd-samsung-f1-1tb-7200.csv"
_SERVER: Final = len("ssh://storage/srv/strata")
_SERVED: Final = [f"ssh://storage/srv/strata{study}" for study in ("", "#team")]
INSTEAD: Final = {
    "strata lab validate": _FLUSH,
    "strata capabilities studies/capabilities.toml": Stand(
        more=("--stack", "ext4-raid10", "--probe", "nesting", "--probe", "snapshot")
    ),
    "strata capabilities studies/layers.toml --stack": Stand(
        without={"corruption-healed": "snapshot", "send": "snapshot"}
    ),
    "strata capabilities studies/layers.toml": Stand(more=("--stack", "btrfs-raid10", "--probe", "snapshot")),
    # The bundled study is not cut.
    "strata run quickstart": Stand(words=("run", "studies/quickstart.toml")),
    # Cut short, some are not sound.
    "strata check studies": Stand(words=("check", str(Path(__file__).parents[1] / "studies"))),
    "strata capabilities guests.toml": Stand(more=("--stack", "lvm", "--results", "probed")),
    "strata run mirror.toml": Stand(without={"*.s1": "zfs.*.s1"}),
    # The workloads of studies that are cut have ended by then.
    "strata lab power-cut": Stand(without={"12s": "3s", "25s": "3s", "5000": "600"}),
    "strata list devices": Stand(more=("--quick",)),
    # The servers of the pages are a folder here; SSH and S3: tests/unit/test_shared_store.py.
    **{
        f"strata {command}": Stand(without={each: f"store{each[_SERVER:]}" for each in _SERVED})
        for command in (
            "run team.toml --store",
            *(f"{verb} {_SERVED[1]}" for verb in ("show", "merge", "report")),
        )
    },
    # A glob is the shell's.
    **{
        f"strata history results/2026-11-*{said}": Stand(
            words=("history", "results/baseline", "results/candidate", *more)
        )
        for said, more in {
            " --page history.html": ("--page", "history.html"),
            " --metric 'flushes_per_operation'": ("--metric", "flushes_per_operation"),
            "": (),
        }.items()
    },
    # Results that are invented are not of the measured study.
    "strata merge results/part-1": Stand(without={"results/quickstart": "joined"}),
    "strata merge ssh://host/srv/strata#quickstart": Stand(words=("merge", "results/quickstart", "fetched")),
    "strata publish": Stand(without={"s3://bucket/gallery": "gallery"}),
    # Written by fio on a real disk.
    "strata calibrate --fio results.json": Stand(without={"results.json": str(_REAL_DISK)}),
    "strata calibrate --fio my-disk.csv": Stand(without={"my-disk.csv": str(_REAL_DISK)}),
    # Written by `strata lab price`.
    "strata list processors ./my-server.toml": Stand(without={"./my-server.toml": "small-vps"}),
}
"""Cheaper commands, run in place of commands that would take minutes."""

INVENTED: Final[Mapping[str, tuple[str, ...]]] = {
    "new": ("ext4-m0", "xfs", "btrfs"),
    "hosting": ("host", "guest-lvm", "vm-lvm", "folder", "nspawn"),
}
"""Stacks of results that pages name and no test measures."""
