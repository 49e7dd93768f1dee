# SPDX-License-Identifier: Apache-2.0
"""A commented study of a common use, from a few answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from strata.actions.skeleton import rendered
from strata.devices.device import Device, find_device
from strata.devices.price import read_price
from strata.diagnostics.names import Diagnostic, is_kebab, kebab_remedy
from strata.disks.inventory import Disk
from strata.disks.machine import Machine
from strata.disks.resemblance import resembling
from strata.errors import DiagnosticsError, StrataError, StudyError
from strata.files import write_durably
from strata.model.asked import Requirement, UseName
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.rules.redundancy import losses_survived
from strata.toml import toml_value
from strata.units import GIB, MIB, describe_size, format_share, format_size, parse_size
from strata.words import counted, listed

THIS_MACHINE: Final = "this-machine"
"""The answer that stands for the models which resemble this machine's disks most."""

_SCALE_BYTES: Final = 15 * MIB  # of pgbench's tables and indexes, for each unit of its scale
_FILE_BYTES: Final = 128 * 1024  # of the personality `fileserver`, on average
_THUMBNAIL_BYTES: Final = 16 * 1024  # of the personality `webserver`, on average
_CAPACITY_BYTES_MIN: Final = 16 * GIB
_CACHE_BYTES_MIN: Final = 8 * GIB  # a log of 4 GiB, and room beside it
_TIMES_MEMORY_MAX: Final = 32
"""The most data in the lab, in memories: caches then hold 3 % of them, and less would change little."""
SEEDS: Final = 6
_MEMORY_BYTES_MIN: Final = 512 * MIB  # an eighth of it is the least that a guest and ZFS's cache can have
_DATA_BYTES_MIN: Final = 64 * MIB


class StudyUse(StrEnum):
    HOME_SERVER = "home-server"
    DATABASE_NVME = "database-nvme"
    FOUR_GUESTS = "four-guests"
    CI_GATE = "ci-gate"


@dataclass(frozen=True)
class Template:
    """A use's question, disks and usual answers.

    Attributes:
        disks: The counts that its stacks can stand on; the first is usual.
        advised: The use that weighs what it measures; None: it compares no stacks.
        copies: On how many disks its stacks keep everything.
        lab_memory_bytes: The most: more is slower and tells no more. The ratio of data to memory counts.
    """

    question: str
    disks: range
    model: str
    memory: str
    data: str
    advised: UseName | None
    lab_memory_bytes: int = 512 * MIB
    copies: int = 1


TEMPLATES: Final[Mapping[StudyUse, Template]] = {
    StudyUse.HOME_SERVER: Template(
        "Which mirror of two disks should hold a family's files and a small database?",
        *(range(2, 9), "generic-nearline-hdd", "8GiB", "16GiB", "home-server"),
        copies=2,
    ),
    StudyUse.DATABASE_NVME: Template(
        "Which filesystem should hold PostgreSQL on one NVMe drive?",
        *(range(1, 2), "generic-nvme-data-centre", "32GiB", "64GiB", "postgresql-server", 384 * MIB),
    ),
    StudyUse.FOUR_GUESTS: Template(
        "Which stack on four disks serves four virtual machines best, and is fair to them?",
        *(range(4, 13, 2), "generic-sata-ssd", "32GiB", "32GiB", "vm-host", 2 * GIB),
        copies=2,
    ),
    StudyUse.CI_GATE: Template(
        "Does a change make our storage slower?",
        *(range(1, 2), "generic-sata-ssd", "4GiB", "4GiB", None),
    ),
}


@dataclass(frozen=True)
class Answers:
    """The disks' models and prices, one for all or one each, and sizes, as text; None: not given."""

    disks: list[str] | None = None
    prices: list[str] | None = None
    memory: str | None = None
    data: str | None = None


@dataclass(frozen=True)
class NewStudy:
    """A study that was written, and the models that stand for this machine's disks in it."""

    study: Study
    resembling: Sequence[tuple[Disk, Device]] = ()


def write_study(
    name: str,
    use: StudyUse,
    answers: Answers = Answers(),
    must: Sequence[Requirement] = (),
    seeds: int = SEEDS,
) -> NewStudy:
    """Write ``NAME.toml`` in the current folder, with the use's usual answers for those not given.

    Raises StudyError, also for requirements that no stack of the study can meet, or DiagnosticsError if the
    answers make no sound study; no file is left then.
    """
    template = TEMPLATES[use]
    alike: list[tuple[Disk, Device]] = []
    models = _models(template, answers.disks or [template.model], alike)
    memory_bytes = _size("--memory", answers.memory or template.memory, _MEMORY_BYTES_MIN)
    data_bytes = _size("--data", answers.data or template.data, _DATA_BYTES_MIN)
    _refuse_too_much(template, models, data_bytes)
    values = _values(template, models, memory_bytes, data_bytes)
    values["prices"] = dict(zip(_names(models), _prices(answers.prices, models), strict=True))
    values |= {"use": template.advised, "must": toml_value(must) if must else ""}
    values["seeds"] = list(range(1, seeds + 1))
    study = write_checked(name, rendered(f"study_{use}.toml.j2", name, **values))
    try:
        refuse_contradictions(study, must)
    except StudyError:
        study.file.unlink()
        raise
    return NewStudy(study, alike)


def _models(template: Template, named: list[str], alike: list[tuple[Disk, Device]]) -> list[str]:
    """The model of each disk: as named, or one for all. Raises StudyError for a count that does not fit."""
    models: list[str] = []
    for name in named:
        if name == THIS_MACHINE:
            alike += _of_this_machine()
            models += [model.name for _, model in alike]
        else:
            model = find_device(name).name
            models.append(name if name.endswith(".toml") else model)
    if len(models) == 1:
        models *= template.disks[0]
    if len(models) not in template.disks:
        counts = listed([str(each) for each in template.disks], "or")
        cause = f"{counted(len(models), 'disk')} ({', '.join(models)}), where the use takes {counts}"
        raise StudyError(cause, place="--disk", remedy="name one model for all of them, or one for each")
    return models


def _prices(given: list[str] | None, models: list[str]) -> list[str]:
    """The price of each disk; empty: none was given. Raises StudyError."""
    if not given:
        return [""] * len(models)
    if len(given) not in (1, len(models)):
        cause = f"{counted(len(given), 'price')} for {counted(len(models), 'disk')}"
        raise StudyError(cause, place="--price", remedy="give one for all of them, or one for each")
    for each in given:
        try:
            read_price(each)
        except Diagnostic as error:
            raise StudyError(error.cause, place="--price", remedy=error.remedy) from error
    return given if len(given) > 1 else given * len(models)


def _of_this_machine() -> list[tuple[Disk, Device]]:
    found = resembling(Machine())
    if not found:
        raise StudyError("this machine has no disk of its own", place="--disk", remedy="name a model")
    return found


def _largest_bytes(model: str) -> int:
    """The capacity of a disk, or of the largest volume that is sold."""
    device = find_device(model)
    rule = device.provisioning.get("capacity")
    return device.capacity_bytes if rule is None else round(rule.maximum * GIB)


def _refuse_too_much(template: Template, models: Sequence[str], data_bytes: int) -> None:
    """Refuse data that the machine's own disks cannot hold."""
    serving = _serving(models)
    models = [each for name, each in zip(_names(models), models, strict=True) if name not in serving]
    holds_bytes = sum(map(_largest_bytes, models)) // template.copies
    if data_bytes > holds_bytes:
        copies = f" with {template.copies} copies of everything" if template.copies > 1 else ""
        disks = f"{counted(len(models), 'disk')} ({', '.join(dict.fromkeys(models))})"
        raise StudyError(
            f"{format_size(data_bytes)} do not fit on {disks}, which hold {format_size(holds_bytes)}{copies}",
            place="--data",
            remedy="name larger disks, or more of them (--disk), or less data",
        )


# The options that say what a written study has at such keys.
_OPTIONS: Final = {
    "capacity": "--data",
    "scale": "--data",
    "files": "--data",
    "memory": "--memory",
    "machine_memory": "--memory",
    "arc_max": "--memory",
    "model": "--disk",
    "price": "--price",
}


def _of_the_answers(error: DiagnosticsError) -> DiagnosticsError:
    """The mistakes by the options that lead to them: nobody has the file and its lines."""
    found: dict[tuple[str, str], StrataError] = {}
    for each in error.diagnostics:
        key = getattr(each, "key", None) or "the answers"
        place = _OPTIONS.get(key.rpartition(".")[2], key)
        found.setdefault((place, each.cause), StudyError(each.cause, place=place, remedy=each.remedy))
    return DiagnosticsError(list(found.values()), place="the study that these answers make")


def write_checked(name: str, text: str) -> Study:
    """Write a study as ``NAME.toml`` in the current folder, if it has no mistake.

    Raises StudyError if the name is unsound or taken, DiagnosticsError if the study has mistakes.
    """
    path = Path(f"{name}.toml")
    if not is_kebab(name):
        raise StudyError(f'"{name}" is not in kebab case', place="NAME", remedy=kebab_remedy(name))
    if path.exists():
        raise StudyError("the file is there already", place=str(path), remedy="take another name")
    written = path.with_name(f".{name}.toml")
    write_durably(written, text.encode())
    try:
        load_study(written, catalogue())
        written.rename(path)
    except DiagnosticsError as error:
        raise _of_the_answers(error) from error
    finally:
        written.unlink(missing_ok=True)
    return load_study(path, catalogue())


def refuse_contradictions(study: Study, must: Sequence[str]) -> None:
    """Refuse requirements that no stack of the study can meet, before it is run."""
    stacks = study.stacks
    capacities = study.capacities_bytes
    if "disk-loss" in must and not any(losses_survived(each, capacities) for each in stacks.values()):
        disks = max(len(each.all_devices) for each in stacks.values())
        on = "one disk" if disks == 1 else f"{disks} disks"
        raise StudyError(
            f"no stack on {on} survives the loss of any disk",
            place="--must disk-loss",
            remedy="leave it out, or write the study yourself and give its stacks a mirror",
        )
    lossy = [
        name for name in stacks if any(study.power_risks(name, workload) for workload in study.workloads)
    ]
    if "durable" in must and len(lossy) == len(stacks):
        raise StudyError(
            "no stack is power-fail safe",
            place="--must durable",
            remedy=f"`strata check {study.file}` names the settings; leave one stack without them",
        )


def _size(option: str, text: str, least_bytes: int) -> int:
    try:
        size_bytes = parse_size(text)
    except ValueError as error:
        raise StudyError(str(error), place=option, remedy='write for example "8GiB"') from error
    if size_bytes < least_bytes:
        remedy = f"at least {describe_size(least_bytes)}"
        raise StudyError(f"{text} is too little", place=option, remedy=remedy)
    return size_bytes


def _volume(size_bytes: int) -> int:
    """Whole GiB, and no fewer than the least."""
    return max(_CAPACITY_BYTES_MIN, -(-size_bytes // GIB) * GIB)


def _names(models: Sequence[str]) -> list[str]:
    return [f"disk{number}" for number in range(len(models))]


def _serving(models: Sequence[str]) -> list[str]:
    """The disks beside two or more rotating ones: they serve them rather than being some of them."""
    solid = [name for name, model in zip(_names(models), models, strict=True) if not _rotates(model)]
    return solid if len(models) - len(solid) > 1 else []


def _rotates(model: str) -> bool:
    return find_device(model).kind == "rotating"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _values(template: Template, models: list[str], memory_bytes: int, data_bytes: int) -> dict[str, object]:
    """The template's values: the lab has less memory than the machine, and as much less data."""
    lab_bytes = min(memory_bytes, template.lab_memory_bytes)
    disks, ssds = dict(zip(_names(models), models, strict=True)), _serving(models)
    members = [name for name in disks if name not in ssds]
    lab_data_bytes = min(data_bytes * lab_bytes // memory_bytes, _TIMES_MEMORY_MAX * lab_bytes)
    lab_data_bytes = max(_SCALE_BYTES, lab_data_bytes) // MIB * MIB
    share = lab_data_bytes / data_bytes
    smallest_bytes = min(_largest_bytes(disks[name]) for name in members)
    used_bytes = dict.fromkeys(disks, min(smallest_bytes, _volume(8 * lab_data_bytes)))
    for name in ssds:  # a cache is as large beside the data as the user's
        own_bytes = _largest_bytes(disks[name])
        used_bytes[name] = min(own_bytes, max(_CACHE_BYTES_MIN, int(own_bytes * share) // GIB * GIB))
    return {
        "question": template.question,
        "disks": disks,
        "ssds": ssds,
        "quoted_ssds": _quoted(ssds),
        "members": f"devices = [{_quoted(members)}]\n" if ssds else "",
        "capacity": {name: describe_size(each) for name, each in used_bytes.items()},
        "data_share": "" if share >= lab_bytes / memory_bytes else format_share(share),
        # A volume whose rate follows from its size is not scaled.
        "sold_by_size": {
            name: describe_size(_volume(template.copies * data_bytes // len(disks)))
            for name, model in disks.items()
            if any(rule.follows_size for rule in find_device(model).provisioning.values())
        },
        "machine_memory": describe_size(memory_bytes),
        "machine_data": describe_size(data_bytes),
        "memory": describe_size(lab_bytes),
        "half_memory": describe_size(lab_bytes // 2),
        "quarter_memory": describe_size(lab_bytes // 4),
        "eighth_memory": describe_size(lab_bytes // 8),
        "data": describe_size(lab_data_bytes),
        "shared_buffers": f"{lab_bytes // 4 // MIB}MB",
        "scale": max(1, lab_data_bytes // _SCALE_BYTES),
        "small_scale": max(1, lab_data_bytes // 16 // _SCALE_BYTES),
        "files": max(1000, lab_data_bytes // _FILE_BYTES),
        "thumbnails": max(1000, lab_data_bytes // 8 // _THUMBNAIL_BYTES),
        "quarter_scale": max(1, lab_data_bytes // 4 // _SCALE_BYTES),
        "quarter_files": max(1000, lab_data_bytes // 4 // _FILE_BYTES),
    }
