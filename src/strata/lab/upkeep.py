# SPDX-License-Identifier: Apache-2.0
"""Upkeep: deletion of stale cache entries, and new locked versions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from strata.bundled import clone_root, project_root
from strata.lab.cache import KINDS, Cache, Entry, cache_root, caches, packaged_root
from strata.lab.image import ImageBuild, ImageSpec, build_image, require_same_versions, write_lock
from strata.lab.inputs import built_in_wanted, package_stages
from strata.lab.lab import Project, parts
from strata.lab.model import model_wanted
from strata.lab.progress import SetupProgress
from strata.lab.recipe import Recipe
from strata.lab.variant import additions
from strata.model.inputs import BUILT_IN_SOURCES
from strata.model.kernel import KERNELS, Kernel


def clean_caches(*, everything: bool) -> int:
    """Delete stale entries and unfinished builds from the caches that this user can write.

    ``everything`` includes current entries, the kernel's source and the logs. Returns the bytes freed.
    """
    root = project_root()
    projects = [Project.read(root, Kernel(version)) for version in KERNELS]
    current = [(each.kind(part), each.wanted(part)) for each in projects for part in parts(root)]
    current += [("model", model_wanted(root))]
    current += [("input", built_in_wanted(each, root)) for each in BUILT_IN_SOURCES]
    freed_bytes = 0
    for cache in (each for each in caches() if each.root != packaged_root()):
        if cache.root != cache_root() and not os.access(cache.root, os.W_OK):
            continue
        keep = [] if everything else _kept(cache, current)
        for entry in (entry for kind in KINDS for entry in cache.entries(kind)):
            if entry not in keep:
                freed_bytes += cache.remove(entry)
        freed_bytes += cache.remove_leftovers(everything=everything)
    return freed_bytes


def _kept(cache: Cache, current: Iterable[tuple[str, Mapping[str, str]]]) -> list[Entry | None]:
    """The current entries, and the sources, which the next change of a patch needs."""
    kept = [cache.current(kind, wanted) for kind, wanted in current]
    for kind in ("source", "module-source"):
        kept += cache.entries(kind)[: len(KERNELS)]
    return kept


def refresh_lock(progress: SetupProgress, *, keep: bool = False) -> Path:
    """Rewrite ``image/packages.lock`` from what the mirror has now, by building an image without a lock.

    With ``keep`` the versions stay that the mirror still has.
    """
    root = clone_root("image/packages.lock")
    spec = ImageSpec.read(root / "image", check_lock=False)
    sources = [Recipe.read(root / "kernel", Kernel(version)).package for version in KERNELS]
    if not keep:
        spec = replace(spec, locked={}, locked_kernel={}, locked_additions={})
        spec = replace(spec, locked_essential={}, locked_rest={})
    apt = spec.source_apt()
    apt.update()
    kernel = {package: apt.candidate(package)[0] for package in (*sources, *spec.modules)}
    cache = Cache(cache_root())
    if (old := cache.current("image", spec.wanted())) is not None:
        cache.remove(old)  # built on another day, from what the mirror had then
    image = ImageBuild.of(build_image(cache, spec, progress))
    installation = spec.installation_apt()
    installation.update()
    path = root / "image" / "packages.lock"
    require_same_versions(spec.modules, kernel, image.packages, place=path)
    added = additions(replace(spec, locked=image.packages))
    write_lock(root / "image", image.packages, kernel, package_stages(installation, spec), added)
    return path
