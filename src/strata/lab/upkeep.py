# SPDX-License-Identifier: Apache-2.0
"""What keeps the lab's caches small and its locked versions current."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from strata.lab.cache import KINDS, Cache, cache_root, shared_cache
from strata.lab.image import ImageBuild, ImageSpec, build_image, require_same_versions, write_lock
from strata.lab.lab import Project, installation_apt, parts, source_apt
from strata.lab.model_library import model_wanted
from strata.lab.package_set import built_in_wanted, package_stages
from strata.lab.progress import SetupProgress
from strata.lab.recipe import Recipe, project_root
from strata.spec.inputs import BUILT_IN_SOURCES


def clean_caches(*, everything: bool) -> int:
    """Delete what is no longer current from the caches that this user can write, and unfinished builds.

    Args:
        everything: Delete also what is current, the kernel's source and the logs.

    Returns:
        The bytes freed.
    """
    root = project_root()
    project = Project.read(root)
    shared = shared_cache()
    writable = [Cache(cache_root())]
    if shared is not None and os.access(shared.root, os.W_OK):
        writable.append(shared)
    freed_bytes = 0
    for cache in writable:
        keep: set[Path] = set()
        if not everything:
            current = (cache.current(project.kind(part), project.wanted(part)) for part in parts(root))
            keep = {entry.path for entry in current if entry is not None}
            keep |= {e.path for e in [cache.current("model", model_wanted(root))] if e is not None}
            now_read = [cache.current("input", built_in_wanted(each, root)) for each in BUILT_IN_SOURCES]
            keep |= {e.path for e in now_read if e is not None}
            # The next change of a patch needs them.
            keep |= {e.path for kind in ("source", "module-source") for e in cache.entries(kind)[:1]}
        for entry in (entry for kind in KINDS for entry in cache.entries(kind)):
            if entry.path not in keep:
                freed_bytes += cache.remove(entry)
        freed_bytes += cache.remove_leftovers(everything=everything)
    return freed_bytes


def refresh_lock(progress: SetupProgress, *, keep: bool = False) -> Path:
    """Rewrite ``image/packages.lock`` from what the mirror has now, by building an image without a lock.

    Args:
        progress: Where to report.
        keep: Keep the locked versions that the mirror still has.

    Raises:
        LabError: If the mirror cannot be reached or the image cannot be built.
    """
    root = project_root()
    recipe, spec = Recipe.read(root / "kernel"), ImageSpec.read(root / "image", check_lock=False)
    if not keep:
        spec = replace(spec, locked={}, locked_kernel={}, locked_essential={}, locked_rest={})
    apt = source_apt(spec)
    apt.update()
    kernel = {package: apt.candidate(package)[0] for package in (recipe.package, *spec.modules)}
    cache = Cache(cache_root())
    if (old := cache.current("image", spec.wanted())) is not None:
        cache.remove(old)  # built on another day, from what the mirror had then
    image = ImageBuild.of(build_image(cache, spec, progress))
    installation = installation_apt(spec)
    installation.update()
    path = root / "image" / "packages.lock"
    require_same_versions(spec.modules, kernel, image.packages, place=path)
    write_lock(root / "image", image.packages, kernel, package_stages(installation, spec))
    return path
