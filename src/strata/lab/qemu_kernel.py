# SPDX-License-Identifier: Apache-2.0
"""The kernel of virtual machines under QEMU: Debian's own, of the default version with every kernel."""

from __future__ import annotations

import lzma
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from strata.errors import LabError
from strata.lab.apt import Apt
from strata.lab.cache import Build, Entry, Inputs, file_hash
from strata.lab.process import output_of
from strata.lab.source import Workshop
from strata.model.kernel import DEFAULT_VERSION
from strata.model.step import QEMU_KERNEL, Prerequisites
from strata.plan.model import Plan

KIND: Final = QEMU_KERNEL
FLAVOUR: Final = "cloud-amd64"
"""Debian's kernel without drivers of real hardware."""

_PACKAGES: Final = ("linux-binary", "linux-modules", "linux-base")
_BUILT_IN: Final = "modules.builtin"
_ALWAYS: Final = ("virtio_blk", "scsi_mod", "sd_mod", "virtio_scsi", "squashfs", "overlay")
# The kernel asks for these by name while the machine runs, and no program there could load them.
_WITH: Final[Mapping[str, Sequence[str]]] = {
    "filesystem:btrfs": ("crc32c-cryptoapi", "xxhash_generic"),
    "dm:crypt": ("aes", "xts", "essiv", "cbc", "dm-crypt"),
    "dm:integrity": ("crc32c-cryptoapi", "sha256"),
    "dm:cache": ("dm-cache-smq",),
    "dm:raid": ("raid0", "raid1", "raid10", "raid456"),
}


def uses_qemu(plan: Plan) -> bool:
    """Whether a plan starts virtual machines of QEMU."""
    return QEMU_KERNEL in plan.variables


def lacking_inside(plan: Plan, kernel: QemuKernelBuild | None) -> list[str]:
    """The needs of a plan's machines of QEMU that their kernel, if it is there, does not meet."""
    return [] if kernel is None or not uses_qemu(plan) else [*kernel.lacking(plan.inside)]


@dataclass(frozen=True)
class QemuKernelBuild(Build):
    """The unpacked kernel; its modules lie beside it."""

    FILE: ClassVar[str] = "vmlinuz"
    version: str
    # By a module's name: its file, and the modules that it needs.
    modules: Mapping[str, tuple[str, Sequence[str]]]
    # Names that the kernel loads a module by.
    aliases: Mapping[str, str]
    built_in: Sequence[str]

    def loaded_for(self, prerequisites: Prerequisites) -> dict[str, bytes]:
        """The modules for a machine's root and disk and for these features, by name in load order."""
        wanted = [*_ALWAYS, *filter(None, map(self._module_of, prerequisites.features))]
        wanted += [name for feature in prerequisites.features for name in _WITH.get(feature, ())]
        found: dict[str, bytes] = {}
        for name in wanted:
            for each in self._with_needs(self._named(name)):
                if each not in found:
                    packed = self.path.parent / self.modules[each][0]
                    found[each] = lzma.decompress(packed.read_bytes())
        return found

    def lacking(self, prerequisites: Prerequisites) -> Iterator[str]:
        """The features that the kernel does not have, each as half a sentence."""
        for feature in prerequisites.features:
            kind, _, name = feature.partition(":")
            if kind in _CANDIDATES and self._module_of(feature) is None and not self._has(feature):
                yield f"Debian's kernel of virtual machines has no {kind} {name}"
        yield from (
            f"Debian's kernel of virtual machines has no module {name}"
            for name in prerequisites.modules
            if self._named(name) not in self.modules
        )

    def _has(self, feature: str) -> bool:
        return any(self._named(name) in self.built_in for name in _names_of(feature))

    def _module_of(self, feature: str) -> str | None:
        return next((name for name in _names_of(feature) if self._named(name) in self.modules), None)

    def _named(self, name: str) -> str:
        plain = _plain(name)
        return self.aliases.get(plain, plain)

    def _with_needs(self, name: str) -> Iterator[str]:
        if name in self.modules:
            for needed in self.modules[name][1]:
                yield from self._with_needs(needed)
            yield name


# The names that the kernel itself asks for, by kind of feature.
_CANDIDATES: Final[Mapping[str, Sequence[str]]] = {
    "filesystem": ("fs-{}", "{}"),
    "md": ("md-{}", "{}"),
    "dm": ("dm-{}",),
    "driver": ("{}",),
    "bcache": ("bcache",),
}
_OF_DM_MOD: Final = ("linear", "striped")


def _names_of(feature: str) -> list[str]:
    kind, _, name = feature.partition(":")
    if kind == "dm" and name in _OF_DM_MOD:
        return ["dm-mod"]
    return [each.format(name) for each in _CANDIDATES.get(kind, ())]


def build_qemu_kernel(shop: Workshop) -> Entry:
    """Unpack the kernel, downloading it unless it is in the cache."""
    wanted = qemu_kernel_wanted(shop.locked)
    if (entry := shop.cache.current(KIND, wanted)) is not None:
        return entry
    apt = shop.apt()
    with shop.progress.step(f"{KIND}: reading Debian's package lists"):
        apt.update()
    release, version = _newest(apt, wanted["series"], wanted["locked"])

    def make(folder: Path) -> Mapping[str, Any]:
        exact = {f"{name}-{release}-{FLAVOUR}": version for name in _PACKAGES}
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            with shop.progress.step(f"{KIND}: downloading Debian's Linux {version}") as step:
                files = apt.download_all(exact, Path(scratch), step)
            unpacked = Path(scratch) / "unpacked"
            for deb in files.values():
                output_of(["dpkg-deb", "-x", str(deb), str(unpacked)])
            (tree,) = (unpacked / "usr/lib/modules").iterdir()
            shutil.move(tree / "vmlinuz", folder / QemuKernelBuild.FILE)
            shutil.move(tree / "kernel", folder / "modules")
            built_in = (tree / _BUILT_IN).read_text().split()
        kernel = folder / QemuKernelBuild.FILE
        modules, aliases = _index(folder)
        return {
            "sha256": file_hash(kernel),
            "size_bytes": kernel.stat().st_size,
            "version": version,
            "modules": modules,
            "aliases": aliases,
            "built_in": sorted(_name(Path(each)) for each in built_in),
        }

    return shop.cache.build(KIND, Inputs(wanted, {"version": version}), make)


def qemu_kernel_wanted(locked: Mapping[str, str]) -> dict[str, str]:
    """The inputs of the kernel that the project states."""
    package = f"linux-source-{DEFAULT_VERSION}"
    return {"series": DEFAULT_VERSION, "flavour": FLAVOUR, "locked": locked.get(package, "")}


def _newest(apt: Apt, series: str, locked: str) -> tuple[str, str]:
    """The release and version of the package: the locked one, else the newest of the series."""
    form = re.compile(rf"linux-binary-({re.escape(series)}\.(\d+)\+\w+)-{re.escape(FLAVOUR)}")
    found = [
        (fields["Version"] == locked, int(match[2]), match[1], fields["Version"])
        for fields in apt.available()
        if (match := form.fullmatch(fields.get("Package", "")))
    ]
    if not found:
        raise LabError(
            f"the Debian mirror has no kernel {series} for virtual machines",
            place=f"linux-binary-{series}.*-{FLAVOUR}",
            remedy="set STRATA_DEBIAN_MIRROR to a mirror that has it, or run the study without QEMU",
        )
    return max(found)[2:]


def _index(folder: Path) -> tuple[dict[str, tuple[str, list[str]]], dict[str, str]]:
    """The modules below a folder, by name, and their aliases."""
    modules: dict[str, tuple[str, list[str]]] = {}
    aliases: dict[str, str] = {}
    for path in sorted(folder.glob("modules/**/*.ko.xz")):
        said = re.findall(rb"\0(depends|alias)=([^\0]*)", lzma.decompress(path.read_bytes()))
        stated = [(key.decode(), value.decode()) for key, value in said]
        needs = [name for key, value in stated if key == "depends" for name in value.split(",") if name]
        modules[_name(path)] = (str(path.relative_to(folder)), [_plain(each) for each in needs])
        # Aliases with a colon or a wildcard are of hardware.
        names = (value for key, value in stated if key == "alias" and not re.search(r"[:*]", value))
        aliases |= {_plain(name): _name(path) for name in names}
    return modules, aliases


def _name(path: Path) -> str:
    return _plain(path.name.partition(".")[0])


def _plain(name: str) -> str:
    return name.replace("-", "_")


def module_names(loaded: Iterable[str]) -> list[str]:
    """The paths of modules in a machine's initial root, in load order."""
    return [f"strata/modules/{index:02d}-{name}.ko" for index, name in enumerate(loaded)]
