# SPDX-License-Identifier: Apache-2.0
"""The packages that the workload ``os-installation`` installs: a minimal Debian, as one tar.

The archive holds what an installer brings to an empty filesystem, so that a plan needs no package's name:

- the files of the essential packages, as ``dpkg-deb --extract`` would put them there: nothing could be run in
  the new root without them;
- all packages, in two folders of apt's archives: ``essential`` and ``rest``, to be installed in this order;
- an empty database of dpkg, the device nodes that every system has, and a policy that starts no services.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.lab.apt import Apt
from strata.lab.image import DATE, ImageSpec
from strata.lab.recipe import Recipe
from strata.spec.inputs import LINUX_SOURCE, PACKAGES

# A change of the archive's layout changes this and makes the archive anew.
_LAYOUT: Final = "1"
_ARCHIVES: Final = "var/cache/apt/archives"
# Linux's Documentation/admin-guide/devices.txt
_NODES: Final = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
_NO_SERVICES: Final = b"#!/bin/sh\nexit 101\n"


def package_stages(apt: Apt, spec: ImageSpec) -> dict[str, dict[str, str]]:
    """The packages of a minimal Debian, with the mirror's versions, in two stages.

    First the packages that Debian marks as essential, with their dependencies: nothing can be configured
    before them. Then the rest.
    """
    available = apt.available()
    marked = [each["Package"] for each in available if each.get("Essential") == "yes"]
    required = [each["Package"] for each in available if each.get("Priority") == "required"]
    essential = apt.closure(marked)
    everything = apt.closure([*marked, *required, *spec.installation])
    rest = {name: version for name, version in everything.items() if name not in essential}
    return {"essential": essential, "rest": rest}


def built_in_wanted(source: str, root: Path) -> dict[str, str]:
    """The inputs of one of Strata's own archives that the project in ``root`` states now."""
    spec = ImageSpec.read(root / "image")
    if source == LINUX_SOURCE:
        package = Recipe.read(root / "kernel").package
        return {"source": source, "package": package, "locked": spec.locked_kernel.get(package, "")}
    assert source == PACKAGES
    stages = {"essential": spec.locked_essential, "rest": spec.locked_rest}
    named = {stage: " ".join(f"{n}={locked[n]}" for n in sorted(locked)) for stage, locked in stages.items()}
    stated = {"layout": _LAYOUT, "release": spec.release, "packages": " ".join(spec.installation)}
    return {"source": source, **stated, **named}


def write_package_set(
    archive: Path, stages: Mapping[str, Mapping[str, str]], files: Mapping[str, Path]
) -> None:
    """Write the tar of these stages, given every package's file; a damaged one is a `LabError`."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(stages["essential"]):
            _extract(files[name], tar)
        for node, number in _NODES.items():
            member = _member(f"dev/{node}", 0o666, tarfile.CHRTYPE)
            member.devmajor, member.devminor = number
            tar.addfile(member)
        _add(tar, "usr/sbin/policy-rc.d", _NO_SERVICES, mode=0o755)
        for name in ("status", "available"):
            _add(tar, f"var/lib/dpkg/{name}", b"")
        for stage, versions in stages.items():
            for path in sorted(files[name] for name in versions):
                _add(tar, f"{_ARCHIVES}/{stage}/{path.name}", path.read_bytes())


def _extract(package: Path, tar: tarfile.TarFile) -> None:
    with (
        suppress(tarfile.TarError),
        subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process,
    ):
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as content:
            for member in content:
                tar.addfile(member, content.extractfile(member) if member.isreg() else None)
    if process.returncode != 0:
        raise LabError("the package is damaged", place=package.name, remedy="run the same command again")


def _member(name: str, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.type, member.mtime = mode, kind, int(DATE)
    member.uname = member.gname = "root"
    return member


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    member = _member(name, mode)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
