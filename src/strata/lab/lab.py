# SPDX-License-Identifier: Apache-2.0
"""The lab as a whole: the kernel, the root image and the agent that belong to this version of the project."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import strata
from strata.errors import LabError
from strata.lab.agent import AgentBuild, ProgramBuild, build_program, program_wanted
from strata.lab.apt import Apt, version_pins
from strata.lab.cache import KINDS, Cache, Entry, cache_root, shared_cache, shared_root
from strata.lab.image import ImageBuild, ImageSpec, build_image, require_same_versions, write_lock
from strata.lab.kernel import KernelBuild, build_kernel, interface_of
from strata.lab.load import LoadBuild
from strata.lab.model_library import model_wanted
from strata.lab.package_set import built_in_wanted, package_stages
from strata.lab.progress import SetupProgress
from strata.lab.recipe import Recipe
from strata.lab.toolchain import require
from strata.lab.zfs import ZfsBuild, build_zfs
from strata.spec.inputs import BUILT_IN_SOURCES

Part = Literal["kernel", "zfs", "image", "agent", "load"]
PARTS: Final[tuple[Part, ...]] = ("kernel", "zfs", "image", "agent", "load")
ESSENTIAL: Final[tuple[Part, ...]] = ("kernel", "zfs", "image", "agent")
"""The parts without which there is no lab; the load generator only some plans need."""


@dataclass(frozen=True)
class Fingerprint:
    """The hashes of the three files that every lab is made of; a result carries them.

    Those of the modules that a plan asks for are part of its own hash, so that a result without ZFS does not
    depend on them.
    """

    kernel_sha256: str
    image_sha256: str
    agent_sha256: str


@dataclass(frozen=True)
class Lab:
    """A lab that is ready to boot. ``load`` is None when the load generator is not built."""

    kernel: KernelBuild
    zfs: ZfsBuild
    image: ImageBuild
    agent: AgentBuild
    load: LoadBuild | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """The hashes of the lab's three files."""
        return Fingerprint(self.kernel.sha256, self.image.sha256, self.agent.sha256)

    @property
    def unlocked(self) -> tuple[str, ...]:
        """What is not in the version that the project is tested with; empty for a lab that is locked."""
        kernel = () if self.kernel.locked else (f"kernel source: {self.kernel.source}",)
        zfs = () if self.zfs.locked else (f"OpenZFS source: {self.zfs.source}",)
        return (*kernel, *zfs, *self.image.moved)


def project_root() -> Path:
    """The folder of the project's sources, which the lab is built from.

    Raises:
        LabError: If strata was installed without them.
    """
    root = Path(strata.__file__).resolve().parents[2]
    if not (root / "kernel").is_dir() or not (root / "image").is_dir():
        raise LabError(
            "this installation has not got the lab's sources",
            place=str(root),
            remedy="run strata from a clone of the project, installed with `make setup`",
        )
    return root


def wanted(part: Part, root: Path) -> dict[str, str]:
    """What a part of the lab is built from, as the project states it now.

    Raises:
        LabError: If the project's files cannot be read.
    """
    if part == "kernel":
        return Recipe.read(root / "kernel").wanted()
    if part == "zfs":
        recipe = Recipe.read(root / "kernel")
        return recipe.zfs_wanted(ImageSpec.read(root / "image").locked_kernel.get(recipe.zfs.package))
    if part == "image":
        return ImageSpec.read(root / "image").wanted()
    return program_wanted(part, root)


def caches() -> list[Cache]:
    """Where a lab is looked for: the user's cache, then what root has built for everybody."""
    shared = shared_cache()
    return [Cache(cache_root()), *([shared] if shared is not None else [])]


def find_entry(part: Part, root: Path) -> Entry | None:
    """A part of the lab that is built and current. Never builds; needs no tools and no network."""
    now = wanted(part, root)
    kernel = find_entry("kernel", root) if part == "zfs" else None
    if part == "zfs" and kernel is None:
        return None
    for cache in caches():
        for entry in cache.entries(part):
            fits = kernel is None or entry.manifest["interface"] == interface_of(kernel)
            if dict(entry.inputs.wanted) == now and fits and _is_complete(entry):
                return entry
    return None


def _is_complete(entry: Entry) -> bool:
    """Whether the entry's file has the size it had when it was built: a damaged cache is rebuilt."""
    path = _BUILDS[entry.kind](entry).path
    try:
        return path.stat().st_size == entry.manifest["size_bytes"] and os.access(path, os.R_OK)
    except OSError:
        return False


_BUILDS: Final[Mapping[str, Callable[[Entry], KernelBuild | ZfsBuild | ImageBuild | ProgramBuild]]] = {
    "kernel": KernelBuild.of,
    "zfs": ZfsBuild.of,
    "image": ImageBuild.of,
    "agent": AgentBuild.of,
    "load": LoadBuild.of,
}


def find_lab() -> Lab | None:
    """The lab if it is built and current, else None. Never builds; for every command but the set-up.

    Raises:
        LabError: If this installation has not got the lab's sources.
    """
    root = project_root()
    found = {part: entry for part in PARTS if (entry := find_entry(part, root)) is not None}
    if not found.keys() >= set(ESSENTIAL):
        return None
    load = found.get("load")
    return Lab(
        KernelBuild.of(found["kernel"]),
        ZfsBuild.of(found["zfs"]),
        ImageBuild.of(found["image"]),
        AgentBuild.of(found["agent"]),
        None if load is None else LoadBuild.of(load),
    )


def require_lab() -> Lab:
    """The lab, which must be built and current.

    Raises:
        LabError: If a part of it is not.
    """
    root = project_root()
    missing = [part for part in ESSENTIAL if find_entry(part, root) is None]
    lab = None if missing else find_lab()
    if lab is None:
        raise LabError(
            f"the lab's {' and '.join(missing)} must be built first", remedy="run `strata lab build`"
        )
    return lab


def ensure_lab(
    progress: SetupProgress,
    *,
    source: Path | None = None,
    jobs: int | None = None,
    only: Sequence[Part] = PARTS,
) -> Lab | None:
    """Build what is missing or stale of the lab.

    When root builds, the result is published to the shared cache for the machine's other users.

    Args:
        progress: Where to report.
        source: A kernel tarball to use instead of Debian's source package.
        jobs: How many compilers to run at once; by default one per CPU.
        only: The parts to build; the others are left as they are.

    Returns:
        The lab, or None while a part that it cannot do without was not asked for and is missing.

    Raises:
        LabError: If a part cannot be built.
        ToolError: If a program that the build needs is missing.
    """
    root = project_root()
    cache = Cache(cache_root())
    for part in only:
        entry = find_entry(part, root)
        if entry is None or (part == "kernel" and source is not None):
            require(root / "scripts" / "packages", part, purpose=f"building the lab's {part}")
            entry = _build(part, root, cache, progress, source=source, jobs=jobs)
        if os.geteuid() == 0 and entry.path.is_relative_to(cache.root):
            Cache(shared_root()).publish(entry)
    return find_lab()


def _build(
    part: Part, root: Path, cache: Cache, progress: SetupProgress, *, source: Path | None, jobs: int | None
) -> Entry:
    spec = ImageSpec.read(root / "image")
    recipe = Recipe.read(root / "kernel")
    if part == "kernel":
        entry = build_kernel(
            cache,
            recipe,
            progress,
            apt=lambda: source_apt(spec),
            locked_version=spec.locked_kernel.get(recipe.package),
            tarball=source,
            jobs=jobs,
        )
        cache.choose(entry)
        return entry
    if part == "zfs":
        kernel = find_entry("kernel", root)
        if kernel is None:
            raise LabError("the kernel must be built before its modules", remedy="run `strata lab build`")
        entry = build_zfs(
            cache,
            recipe,
            kernel,
            progress,
            apt=lambda: source_apt(spec),
            locked_version=spec.locked_kernel.get(recipe.zfs.package),
            jobs=jobs,
        )
        cache.choose(entry)
        return entry
    if part == "image":
        return build_image(cache, spec, progress)
    return build_program(part, cache, root, progress, jobs=jobs)


def source_apt(spec: ImageSpec) -> Apt:
    """The apt that sees the sources of the kernel and of its modules."""
    return Apt(
        cache_root() / "apt",
        spec.kernel_suites,
        components=spec.kernel_components,
        preferences=spec.kernel_preferences,
    )


def installation_apt(spec: ImageSpec) -> Apt:
    """The apt that sees what the workload ``os-installation`` installs."""
    locked = {**spec.locked_essential, **spec.locked_rest}
    return Apt(cache_root() / "apt" / "installation", (spec.release,), preferences=version_pins(locked))


def clean_caches(*, everything: bool) -> int:
    """Delete what is no longer current from the caches that this user can write, and unfinished builds.

    Args:
        everything: Delete also what is current, the kernel's source and the logs.

    Returns:
        The bytes freed.
    """
    root = project_root()
    shared = shared_cache()
    writable = [Cache(cache_root())]
    if shared is not None and os.access(shared.root, os.W_OK):
        writable.append(shared)
    freed_bytes = 0
    for cache in writable:
        keep: set[Path] = set()
        if not everything:
            now = {part: wanted(part, root) for part in PARTS}
            keep = {e.path for part in PARTS if (e := cache.current(part, now[part])) is not None}
            keep |= {e.path for e in [cache.current("model", model_wanted(root))] if e is not None}
            now_read = [cache.current("input", built_in_wanted(each, root)) for each in BUILT_IN_SOURCES]
            keep |= {e.path for e in now_read if e is not None}
            # The next change of a patch needs them.
            keep |= {e.path for kind in ("source", "zfs-source") for e in cache.entries(kind)[:1]}
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
