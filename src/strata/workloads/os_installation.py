# SPDX-License-Identifier: Apache-2.0
"""The installation of an operating system: dpkg unpacks and configures a minimal Debian in a fresh root."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, Literal

from strata.diagnostics.names import Diagnostic
from strata.model.duties import CostsRealTime
from strata.model.inputs import PACKAGES
from strata.model.metric import Metric, MetricSpec
from strata.model.page_cache import SYNC_LIMIT_NS, synced
from strata.model.stack import space_diagnostics
from strata.model.step import Phase, Step, literal
from strata.model.warning import Check
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.units import NS_PER_S
from strata.workloads.keys import key, yes_or_no

_INPUT: Final = "packages"
_FILE: Final = f"${{input-{_INPUT}}}"
_ARCHIVES: Final = "/var/cache/apt/archives"
_LIMIT_NS: Final = 7200 * NS_PER_S
# Files of 117 MiB, packages of 31 MiB beside them until they are deleted, and the blocks' rounding.
_INSTALLED_BYTES: Final = 200 << 20
_PARTS: Final = ("unpack", "essential", "rest", "clean")
_QUIET: Final = {"DEBIAN_FRONTEND": "noninteractive"}
_PACKAGE: Final = re.compile(r"^(\S+)\s+\S+ (\d+)$", re.MULTILINE)
_INSTALLED: Final = "ii"


class OsInstallation(CostsRealTime, Workload):
    """A minimal Debian is installed into a new folder, as debootstrap does, with dpkg's own fsyncs.

    Prepare: a folder is made, and dirty data are written back. Measure: the packages are put into the new
    root's archive folder, and the files of the essential ones into their places; the new root's own dpkg
    installs these, then the rest, with all their scripts; the packages are deleted; `sync`, timed apart.
    """

    rationale: ClassVar[str] = (
        "A virtual machine or a container that is installed: the package manager writes thousands of small "
        "files, forces each package's out with fsync before it renames them into place, rewrites its "
        "database, and runs shell scripts in between. It stresses small synchronous writes, renames and "
        "directory updates, one at a time, as updates of a running system do, too. It leaves out the network "
        "that packages come from."
    )
    tools: ClassVar[tuple[str, ...]] = ("chroot", "install", "rm", "sync", "tar")
    check_questions: ClassVar[Mapping[str, str]] = {
        "packages-installed": "is every package installed and configured?"
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("installation_ns", "ns", "lower", "all of it, without the final sync"),
        MetricSpec("packages_per_s", "1/s", "higher", "packages installed in that time"),
        MetricSpec(
            f"{{{','.join(_PARTS)}}}_ns",
            "ns",
            "lower",
            "its parts: packages, and the essential ones' files, put into place; these installed; the rest "
            "installed; the packages deleted",
        ),
        MetricSpec("sync_ns", "ns", "lower", "writing back the data in memory at its end"),
        MetricSpec("packages", "1", "higher", "how many are installed"),
        MetricSpec("installed_bytes", "B", "higher", "their size, as dpkg reports it"),
    )

    workload: Literal["os-installation"] = "os-installation"
    package_set: Literal["minimal"] = key(
        "minimal",
        "What is installed. minimal: the 78 packages of Debian 13 that debootstrap's variant "
        "minbase installs, 31 MiB of packages with 117 MiB of files",
        "minimal",
        alias="set",
    )

    @property
    def work_real_s(self) -> float:
        return 35.0  # of a core, measured on a rotating disk

    def inputs(self) -> Mapping[str, str]:
        return {_INPUT: PACKAGES}

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        yield from space_diagnostics("an installation", _INSTALLED_BYTES, capacity_bytes, key="set")

    def steps(self, context: WorkloadContext) -> list[Step]:
        root = f"{context.mount_path}/root"
        dpkg = ("chroot", root, "dpkg", "--install", "--force-depends", "--recursive")
        unpack = ("tar", "--extract", f"--file={_FILE}", f"--directory={root}", "--numeric-owner")
        unpacked = "Put the packages, and the files of the essential ones, into the new root"
        measured = {
            "unpack": (unpacked, *unpack),
            "essential": ("Install the essential packages", *dpkg, f"{_ARCHIVES}/essential"),
            "rest": ("Install the other packages", *dpkg, f"{_ARCHIVES}/rest"),
            "clean": ("Delete the packages", "rm", "--recursive", f"{root}{_ARCHIVES}"),
            # Tenants install side by side, so the other filesystems are not synced.
            "sync": ("Write back what the installation has left in memory", "sync", "--file-system", root),
        }
        status = literal("--showformat=${db:Status-Abbrev} ${Package} ${Installed-Size}\n")
        query = ("chroot", root, "dpkg-query", "--show", status)
        return [
            _step(context, "root", "prepare", "Make the new root", "install", "-d", root),
            synced(context, "install-settle", "prepare", "Write back dirty data before it begins"),
            *(_step(context, name, "measure", *title_and_argv) for name, title_and_argv in measured.items()),
            _step(context, "status", "inspect", "List the installed packages", *query),
        ]

    def metrics(self, outputs: Outputs) -> list[Metric]:
        parts = {part: outputs.step(f"install-{part}").duration_ns for part in _PARTS}
        whole_ns = sum(parts.values())
        installed = [size for status, size in _packages(outputs) if status == _INSTALLED]
        times = {"sync": outputs.step("install-sync").duration_ns, **parts}
        return [
            Metric.of("installation_ns", float(whole_ns), "ns", headline=True),
            Metric.of("packages_per_s", len(installed) * NS_PER_S / max(whole_ns, 1), "1/s"),
            *(Metric.of(f"{name}_ns", float(took_ns), "ns") for name, took_ns in times.items()),
            Metric.of("packages", float(len(installed)), "1", phase="inspect"),
            Metric.of("installed_bytes", float(sum(installed) << 10), "B", phase="inspect"),
        ]

    def checks(self, outputs: Outputs) -> Iterator[Check]:
        broken = [status for status, _ in _packages(outputs) if status != _INSTALLED]
        detail = f"{len(broken)} packages are not configured" if broken else "every package is configured"
        yield yes_or_no("packages-installed", not broken, detail, required=True)


def _packages(outputs: Outputs) -> list[tuple[str, int]]:
    text = outputs.step("install-status").stdout
    found = [(status, int(size)) for status, size in _PACKAGE.findall(text)]
    if not found:
        raise unreadable("install-status", "no package is installed", text)
    return found


def _step(context: WorkloadContext, name: str, phase: Phase, title: str, *argv: str) -> Step:
    how = {"environment": _QUIET, "time_limit_ns": SYNC_LIMIT_NS if name == "sync" else _LIMIT_NS}
    return context.step(f"install-{name}", phase, title, argv, user="root", **how)
