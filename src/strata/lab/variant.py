# SPDX-License-Identifier: Apache-2.0
"""Variants of the root image: the same packages, and those that a study asks for, in locked versions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from strata.bundled import project_root
from strata.errors import LabError, StudyError
from strata.files import explained
from strata.lab.apt import Apt, version_pins
from strata.lab.cache import Cache, cache_root
from strata.lab.image import ImageBuild, ImageSpec, build_image
from strata.lab.progress import SetupProgress
from strata.model.packages import PackageLock, asked_packages, lock_path, read_lock, write_lock
from strata.model.study import Study

_STANDALONE: Final = "systemd-standalone-"
"""The beginning of the names of packages that have a part of systemd, and conflict with all of it."""


def lock_packages(study: Study, progress: SetupProgress) -> bool:
    """Write the versions of the packages that a study adds to the image, unless its lock has them.

    Packages that the image has need no lock. Returns whether the file is new: the study must be read again.
    Raises StudyError for a package that there is not, LabError without a mirror.
    """
    spec = ImageSpec.read(project_root() / "image")
    asked = tuple(name for name in asked_packages(study.workloads.values()) if name not in spec.locked)
    known = read_lock(study.file)
    if known.asked == asked:
        return False
    apt = Apt(
        cache_root() / "apt" / "variant",
        (spec.release,),
        preferences=version_pins({**known.versions, **spec.locked}),
    )
    if asked:
        with progress.step("packages: reading Debian's package lists"):
            apt.update()
    for name in asked:
        try:
            apt.candidate(name)
        except LabError as error:
            workload = next(key for key, load in study.workloads.items() if name in asked_packages([load]))
            raise StudyError(
                f"Debian {spec.release} has no package {name}",
                place=f"{study.file}: workloads.{workload}.packages",
                remedy="`apt-cache search` finds names; only `main` is used",
            ) from error
    needed = apt.closure(asked) if asked else {}
    versions = {name: version for name, version in needed.items() if name not in spec.locked}
    with explained(lock_path(study.file), "lock the packages", StudyError):
        progress.say(f"wrote {write_lock(study.file, PackageLock(asked, versions))}")
    return True


def additions(spec: ImageSpec) -> dict[str, dict[str, str]]:
    """The versions of all packages that each addition of the definition brings into the image."""
    apt = spec.addition_apt()
    apt.update()
    # Without the image's own choice apt would take all of systemd for any group.
    chosen = [name for name in spec.packages if name.startswith(_STANDALONE)]
    needed = {
        name: apt.closure([*group, *([] if "systemd-container" in group else chosen)])
        for name, group in spec.additions.items()
    }
    return {
        name: {each: version for each, version in versions.items() if each not in spec.locked}
        for name, versions in needed.items()
    }


def variant_spec(exact: Sequence[str]) -> ImageSpec:
    """The image's definition with further packages, each ``name=version`` or the name of an addition."""
    spec = ImageSpec.read(project_root() / "image")
    versions: dict[str, str] = {}
    for each in exact:
        name, _, version = each.partition("=")
        versions |= {name: version} if version else spec.locked_additions[name]
    out = {name for name in spec.locked if name.startswith(_STANDALONE) and "systemd" in versions}
    packages = tuple(sorted({*spec.packages, *versions} - out))
    kept = {name: version for name, version in spec.locked.items() if name not in out}
    return replace(spec, packages=packages, locked={**kept, **versions})


def find_variant(exact: tuple[str, ...]) -> ImageBuild | None:
    """The image with further packages if it is in the cache."""
    entry = Cache(cache_root()).current("image", _wanted(exact))
    return None if entry is None else ImageBuild.of(entry)


@functools.cache
def _wanted(exact: tuple[str, ...]) -> Mapping[str, str]:
    return variant_spec(exact).wanted()


def provide_variant(exact: Sequence[str], progress: SetupProgress) -> ImageBuild:
    """The image with further packages, built unless it is in the cache.

    Raises LabError if the mirror no longer has a version.
    """
    spec = variant_spec(exact)
    built = ImageBuild.of(build_image(Cache(cache_root()), spec, progress))
    names = set(spec.locked) - set(ImageSpec.read(project_root() / "image").locked)
    if moved := [each for each in built.moved if each.partition(":")[0] in names]:
        raise LabError(
            f"the mirror has other versions than the study's lock: {'; '.join(moved)}",
            place="packages",
            remedy="delete the file NAME.packages.lock beside the study, and run it again",
        )
    return built
