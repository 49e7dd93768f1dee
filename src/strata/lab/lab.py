# SPDX-License-Identifier: Apache-2.0
"""The lab as a whole: the parts that belong to this version of the project."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from strata.bundled import project_root
from strata.errors import LabError, ToolError
from strata.lab.cache import (
    Cache,
    Entry,
    Inputs,
    cache_root,
    damage_of,
    find_entries,
    is_sound,
    shared_root,
)
from strata.lab.image import ImageBuild, ImageSpec, build_image
from strata.lab.kernel import KernelBuild, build_kernel, has_source, interface_of
from strata.lab.modules import KIND as MODULES
from strata.lab.modules import Module, ModulesBuild, build_modules, loadings
from strata.lab.process import Group, begin_running, end_running, require
from strata.lab.programs import AgentBuild, LoadBuild, build_program, program_wanted, uses_load
from strata.lab.progress import SetupProgress
from strata.lab.qemu_kernel import QemuKernelBuild, build_qemu_kernel, qemu_kernel_wanted, uses_qemu
from strata.lab.recipe import ModuleGroup, Recipe
from strata.lab.source import Workshop
from strata.lab.variant import find_variant, provide_variant
from strata.model.consent import consent
from strata.model.kernel import DEFAULT_KERNEL, Kernel
from strata.model.step import LOAD, QEMU_KERNEL, Prerequisites
from strata.plan.model import Plan
from strata.words import listed

Part = str
"""``kernel``, ``image``, ``agent``, ``load``, ``qemu-kernel``, or the name of a group of modules."""
ESSENTIAL: Final[tuple[Part, ...]] = ("kernel", "image", "agent")
"""The parts that every study needs. The others are built on first use."""


@dataclass(frozen=True)
class LabFingerprint:
    """The hashes of the three files of every lab, for results. A trial adds those of its modules."""

    kernel_sha256: str
    image_sha256: str
    agent_sha256: str


@dataclass(frozen=True)
class Lab:
    """A lab that is ready to boot; the load generator and groups of modules as far as they are built."""

    kernel: KernelBuild
    image: ImageBuild
    agent: AgentBuild
    load: LoadBuild | None = None
    modules: Mapping[str, ModulesBuild] = field(default_factory=dict)
    variants: Mapping[tuple[str, ...], ImageBuild] = field(default_factory=dict)
    """The images with packages of studies, by these."""
    of: Kernel = DEFAULT_KERNEL
    qemu_kernel: QemuKernelBuild | None = None

    @property
    def fingerprint(self) -> LabFingerprint:
        """The hashes of the lab's three files."""
        return LabFingerprint(self.kernel.sha256, self.image.sha256, self.agent.sha256)

    @property
    def unlocked(self) -> tuple[str, ...]:
        """Everything whose version differs from the one that the project is tested with."""
        kernel = () if self.kernel.locked else (f"kernel source: {self.kernel.source}",)
        modules = (
            f"source of {name}: {each.source}"
            for name, each in self.modules.items()
            if not each.locked and each.source != self.kernel.source
        )
        return (*kernel, *modules, *self.image.moved)

    def for_plan(self, plan: Plan) -> Lab:
        """The lab with the image of a plan's packages; `ensure_for` has built it."""
        packages = plan.prerequisites.packages
        return replace(self, image=self.variants[packages]) if packages else self

    def modules_of(self, plan: Plan) -> list[Module]:
        """The modules that a plan's lab loads, in load order; `ensure_for` has built them."""
        return [module for each in groups_of(plan) for module in self.modules[each.name].modules]

    def lacks(self, plan: Plan) -> list[Part]:
        """The parts that a plan needs and that are not built."""
        groups = [each.name for each in groups_of(plan) if each.name not in self.modules]
        lacks_kernel = uses_qemu(plan) and self.qemu_kernel is None
        load = ["load"] if uses_load(plan) and self.load is None else []
        return [*groups, *load, *([QEMU_KERNEL] if lacks_kernel else [])]


def groups_of(plan: Plan) -> tuple[ModuleGroup, ...]:
    """The groups of modules that a plan needs, in load order."""
    groups = _groups_for(project_root() / "kernel", plan.kernel, plan.prerequisites)
    names = {name for name, _, _ in loadings(groups)}
    if unknown := sorted(set(plan.prerequisites.modules) - names):
        raise LabError(
            f"the lab has no kernel module {', '.join(unknown)}",
            place=plan.trial.id,
            remedy="run the study on a host that has it",
        )
    return groups


@functools.cache
def _groups_for(folder: Path, kernel: Kernel, prerequisites: Prerequisites) -> tuple[ModuleGroup, ...]:
    _require_consent(kernel)
    recipe = Recipe.read(folder, kernel)
    return recipe.with_needs(*(each.name for each in recipe.groups if each.meets(prerequisites)))


def module_bindings(plan: Plan) -> list[dict[str, str]]:
    """The modules that the agent loads before a plan's steps, as JSON types."""
    return [
        {"path": f"/{file}", "parameters": parameters} for _, file, parameters in loadings(groups_of(plan))
    ]


def module_files(plan: Plan, lab: Lab) -> dict[str, bytes]:
    """The files of the modules that are loaded for a plan, by their paths in the initial root."""
    loaded = zip(loadings(groups_of(plan)), lab.modules_of(plan), strict=True)
    return {file: module.path.read_bytes() for (_, file, _), module in loaded}


def part_setting(plan: Plan, lab: Lab) -> dict[str, Any]:
    """The hashes of a plan's modules and load generator: part of the trial's identity.

    Where one is not built, because its trial does not run, the hash of its inputs. Of a study that is run in
    parts, a trial of another part has the same setting as when it ran.
    """
    setting: dict[str, Any] = {}
    hashes: dict[str, str] = {}
    for group in groups_of(plan):
        if (built := lab.modules.get(group.name)) is not None:
            hashes |= {module.name: module.sha256 for module in built.modules}
        else:
            hashes[group.name] = _unbuilt(group.name, plan.kernel)
    if hashes:
        setting["modules"] = hashes
    if packages := plan.prerequisites.packages:
        variant = lab.variants.get(packages) or find_variant(packages)
        setting["image"] = f"not built: {' '.join(packages)}" if variant is None else variant.sha256
    if uses_load(plan):
        setting[LOAD] = _unbuilt("load") if lab.load is None else lab.load.sha256
    if uses_qemu(plan):
        built_kernel = lab.qemu_kernel
        setting[QEMU_KERNEL] = built_kernel.sha256 if built_kernel else _unbuilt(QEMU_KERNEL)
    return setting


def require_qemu_kernel(plan: Plan, lab: Lab) -> QemuKernelBuild:
    """The kernel of virtual machines under QEMU; a `LabError` if it is not there."""
    if lab.qemu_kernel is None:
        raise LabError(
            "the kernel of virtual machines must be fetched first",
            place=plan.trial.id,
            remedy=f"run `strata lab build --only {QEMU_KERNEL}`",
        )
    return lab.qemu_kernel


def files_of(plan: Plan, lab: Lab) -> list[Path]:
    """The files that a plan's lab is started from."""
    of_plan = lab.for_plan(plan)
    paths = [of_plan.kernel.path, of_plan.image.path, lab.agent.path]
    paths += [each.path for each in lab.modules_of(plan)]
    paths += [lab.load.path] if uses_load(plan) and lab.load else []
    return paths + ([lab.qemu_kernel.path] if uses_qemu(plan) and lab.qemu_kernel else [])


def refuse_damaged(plan: Plan, lab: Lab) -> None:
    """Compare the files that a plan's lab is started from; a `LabError` if one was changed meanwhile.

    Within a run only a change costs more than a look.
    """
    for folder in dict.fromkeys(path.parent for path in files_of(plan, lab)):
        if (found := damage_of(folder)) is not None:
            raise LabError(
                f"the lab's files were changed while they were in use: {found}",
                place=str(folder),
                remedy="run the same command again: it makes the damaged files anew",
            )


def _unbuilt(part: Part, kernel: Kernel = DEFAULT_KERNEL) -> str:
    return f"not built: {Inputs(Project.read(project_root(), kernel).wanted(part), {}).key}"


def parts(root: Path) -> tuple[Part, ...]:
    """All parts, each after the parts that it needs for its build."""
    groups = (group.name for group in Recipe.read(root / "kernel").groups)
    return ("kernel", *groups, "image", "agent", "load", QEMU_KERNEL)


@dataclass(frozen=True)
class Project:
    """The project's statements about its lab, with one kernel."""

    root: Path
    recipe: Recipe
    image: ImageSpec

    @classmethod
    def read(cls, root: Path, kernel: Kernel = DEFAULT_KERNEL) -> Project:
        _require_consent(kernel)
        return cls(root, Recipe.read(root / "kernel", kernel), ImageSpec.read(root / "image"))

    def group(self, part: Part) -> ModuleGroup | None:
        return next((each for each in self.recipe.groups if each.name == part), None)

    def wanted(self, part: Part) -> dict[str, str]:
        if (group := self.group(part)) is not None:
            return self.recipe.group_wanted(group, self.image.locked_kernel)
        if part == QEMU_KERNEL:
            return qemu_kernel_wanted(self.image.locked_kernel)
        stated = {"kernel": self.recipe.wanted, "image": self.image.wanted}.get(part)
        return program_wanted(part, self.root) if stated is None else stated()

    def kind(self, part: Part) -> str:
        return part if self.group(part) is None else MODULES

    def find(
        self, part: Part, kernel: Entry | None = None, entries: Callable[[str], list[Entry]] | None = None
    ) -> Entry | None:
        """The newest current entry of a part; modules fit ``kernel``, by default the current one.

        ``entries`` gives the entries of a kind, by default those in the caches now.
        """
        if self.group(part) is None:
            kernel = None
        elif (kernel := kernel or self.find("kernel")) is None:
            return None
        now, kind = self.wanted(part), self.kind(part)
        for entry in (entries or find_entries)(kind):
            fits = kernel is None or entry.manifest["interface"] == interface_of(kernel)
            if dict(entry.inputs.wanted) == now and fits and is_sound(entry):
                return entry
        return None


def find_entry(part: Part, root: Path) -> Entry | None:
    """A part of the lab that is built and current. Never builds; needs no tools and no network."""
    return Project.read(root).find(part)


def find_lab(of: Kernel = DEFAULT_KERNEL) -> Lab | None:
    """The lab if it is built and current, else None. Never builds; for every command but the set-up."""
    project = Project.read(project_root(), of)
    kernel, image, agent, load, machine = map(project.find, (*ESSENTIAL, "load", QEMU_KERNEL))
    if kernel is None or image is None or agent is None:
        return None
    read_once = functools.cache(find_entries)  # all groups are of one kind
    groups = {group.name: project.find(group.name, kernel, read_once) for group in project.recipe.groups}
    return Lab(
        KernelBuild.of(kernel),
        ImageBuild.of(image),
        AgentBuild.of(agent),
        None if load is None else LoadBuild.of(load),
        {name: ModulesBuild.of(entry) for name, entry in groups.items() if entry is not None},
        of=of,
        qemu_kernel=None if machine is None else QemuKernelBuild.of(machine),
    )


def require_lab(progress: SetupProgress | None = None, *, build: bool = False) -> Lab:
    """The lab; a `LabError` names the essential parts that are not built or not current.

    With a ``progress``, the root image is built if only it is missing: that needs no compiler. With ``build``
    too, any part is.
    """
    if (lab := find_lab()) is None:
        missing = [part for part in ESSENTIAL if find_entry(part, project_root()) is None]
        if progress is not None and (build or missing == ["image"]):
            lab = ensure_lab(progress, only=ESSENTIAL)
    if lab is None:
        raise LabError(f"the lab's {listed(missing)} must be built first", remedy="run `strata lab build`")
    return lab


def ensure_for(lab: Lab, plan: Plan, progress: SetupProgress) -> Lab:
    """The lab with all parts that a plan needs: kernel, modules and load generator are built if missing."""
    if lab.of != plan.kernel:
        lab = replace(_built(lab, plan, ["kernel"], progress), variants=lab.variants)
    if (packages := plan.prerequisites.packages) and packages not in lab.variants:
        lab = replace(lab, variants={**lab.variants, packages: provide_variant(packages, progress)})
    if not (lacking := lab.lacks(plan)):
        return lab
    return replace(_built(lab, plan, lacking, progress), variants=lab.variants)


def _require_consent(kernel: Kernel) -> None:
    """Refuse a kernel of the user's source that the caller has not permitted, by a ToolError.

    Nothing of the source is read before. Its build is confined, but the kernel itself runs as the caller.
    """
    if kernel.path is not None and not consent().kernel_source:
        raise ToolError(
            f"the study has its own kernel built and run on this machine, as you: {kernel.name}",
            place="kernel",
            remedy="if you trust that source, add --allow-kernel-source",
        )


def _built(lab: Lab, plan: Plan, lacking: list[Part], progress: SetupProgress) -> Lab:
    """The lab of a plan's kernel with these parts; image and agent are those of ``lab``."""
    try:
        built = ensure_lab(progress, only=lacking, of=plan.kernel) or require_lab()
    except LabError as error:
        kernel = find_entry("kernel", project_root())
        if kernel is None or not plan.kernel.is_default or kernel.path.is_relative_to(cache_root()):
            raise
        raise LabError(
            f"{plan.trial.id} needs {', '.join(lacking)} in the lab that root has built: {error.cause}",
            remedy=f"let root run `strata lab build {' '.join(f'--only {part}' for part in lacking)}`",
        ) from error
    # Trials of one run must not mix kernels, and a result must state the agent that ran.
    known = built.kernel.sha256 if lab.of != plan.kernel else lab.kernel.sha256
    if built.fingerprint != replace(lab.fingerprint, kernel_sha256=known):
        raise LabError(
            "the lab was built anew while this study runs", remedy="run the same command again; it goes on"
        )
    return built


def ensure_lab(
    progress: SetupProgress,
    *,
    source: Path | None = None,
    jobs: int | None = None,
    only: Sequence[Part] | None = None,
    of: Kernel = DEFAULT_KERNEL,
) -> Lab | None:
    """Build missing and stale parts of the lab: image and programs while the kernel is compiled.

    ``source`` is a kernel tarball in place of Debian's package; ``jobs`` compilers run at once, by default
    one per CPU; ``only`` names the parts to build; ``of`` is the lab's kernel. When root builds, the
    result is published to the shared cache for the machine's other users. Returns None while an essential
    part is missing.
    """
    project, cache = Project.read(project_root(), of), Cache(cache_root())
    workshop = Workshop(
        cache,
        project.recipe,
        progress,
        project.image.source_apt,
        project.image.locked_kernel,
        jobs or len(os.sched_getaffinity(0)),
    )
    chosen = parts(project.root) if only is None else tuple(only)
    missing = _missing(project, cache, chosen, other_source=source is not None)
    for part in missing:
        needed: Group = "kernel" if project.group(part) else part  # type: ignore[assignment]
        require(project.root / "scripts" / "packages", needed, purpose=f"building the lab's {part}")

    builds: dict[Part, Callable[[], object]] = {
        "kernel": lambda: cache.choose(build_kernel(workshop, source)),
        "image": lambda: build_image(cache, project.image, progress),
        "agent": lambda: build_program("agent", cache, project.root, progress, jobs=jobs),
        "load": lambda: build_program("load", cache, project.root, progress, jobs=jobs),
        QEMU_KERNEL: lambda: build_qemu_kernel(workshop),
    }

    def build(*wanted: Part) -> None:
        for part in wanted:
            if part in missing:
                builds[part]()

    def kernel_and_modules() -> None:
        build("kernel")
        # A new kernel may need other modules than the one before.
        _build_modules(workshop, project, [part for part in chosen if project.find(part) is None])

    with progress.estimate([project.kind(part) for part in missing]):
        _at_once(kernel_and_modules, lambda: build("image", QEMU_KERNEL), lambda: build("agent", "load"))
    built = [entry for entry in map(project.find, chosen) if entry and entry.path.is_relative_to(cache.root)]
    for entry in built if os.geteuid() == 0 else ():
        Cache(shared_root()).publish(entry)
    return find_lab(of)


def _missing(project: Project, cache: Cache, chosen: Sequence[Part], *, other_source: bool) -> list[Part]:
    missing = [part for part in chosen if project.find(part) is None or (part == "kernel" and other_source)]
    if any(map(project.group, missing)) and "kernel" not in missing:
        # Modules are compiled in the kernel's tree, which a packaged or imported kernel lacks.
        kernel = project.find("kernel")
        missing += ["kernel"] if kernel is not None and not has_source(cache, kernel) else []
    return missing


def _build_modules(workshop: Workshop, project: Project, names: Sequence[Part]) -> None:
    if groups := [each for each in workshop.recipe.groups if each.name in names]:
        if (kernel := project.find("kernel")) is None:
            raise LabError("the kernel must be built before its modules", remedy="run `strata lab build`")
        for entry in build_modules(workshop, groups, kernel):
            workshop.cache.choose(entry)


def _at_once(*works: Callable[[], object]) -> None:
    """Call all at once; a failure or an interruption ends the programs that the others run."""
    try:
        with ThreadPoolExecutor(len(works)) as threads:
            running: list[Future[object]] = [threads.submit(work) for work in works]
            try:
                done, _ = wait(running, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                end_running()
                raise
    finally:  # every thread has ended
        begin_running()
