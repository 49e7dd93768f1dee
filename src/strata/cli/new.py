# SPDX-License-Identifier: Apache-2.0
"""``strata new``: skeletons of extensions, each with its test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from rich.text import Text

from strata.actions.new_study import SEEDS, Answers, NewStudy, StudyUse, write_study
from strata.actions.skeleton import rendered
from strata.bundled import clone_root
from strata.cli.advise import asked_musts
from strata.cli.application import Application
from strata.cli.ask import SEEDS_MAX, forecast, say_written
from strata.cli.new_command import write_command_study
from strata.cli.output import notes, print_json, print_wrote
from strata.cli.parameters import AsJson, Musts, argument, option
from strata.cli.questions import answered_by_person
from strata.devices.kinds import KINDS
from strata.diagnostics.names import is_kebab, kebab_remedy
from strata.errors import StudyError
from strata.files import write_durably
from strata.plan.catalogue import catalogue

new = Application(no_args_is_help=True)

Name = Annotated[str, argument("Its name in study files.", "NAME")]


class Offered(StrEnum):
    """An interface that a layer requires or provides."""

    BLOCK = "block"
    FILESYSTEM = "filesystem"
    POOL = "pool"


@dataclass(frozen=True)
class Skeleton:
    """The files of an extension, each with its template, and what is left to do, a line each."""

    files: str
    next_steps: str


# All texts may hold {name} and {file}.
_GOLDEN: Final = """
pytest tests/golden --update-golden writes its plan and its page in docs/reference: read both"""
_LAYER_STEPS: Final = f"""{_GOLDEN}
pytest tests/conformance tests/unit/test_layer_{{file}}.py
list the Debian packages of its programs in image/packages.toml, its driver in kernel/recipe.toml,
    its name in README.md's table of layers, then: strata lab lock --keep
pytest tests/lab/test_layers_in_lab.py -k {{name}}"""
_SKELETONS: Final = {
    "filesystem": Skeleton(
        """src/strata/layers/{file}.py          filesystem.py.j2
           tests/unit/test_layer_{file}.py      test_filesystem.py.j2""",
        "write what is marked: the kernel's messages, the checker, the options of mkfs and mount"
        + _LAYER_STEPS,
    ),
    "layer": Skeleton(
        """src/strata/layers/{file}.py          layer.py.j2
           tests/unit/test_layer_{file}.py      test_layer.py.j2""",
        "make it real: its keys, its steps, what `strata check` must refuse" + _LAYER_STEPS,
    ),
    "workload": Skeleton(
        """src/strata/workloads/{file}.py       workload.py.j2
           tests/unit/test_workloads_{file}.py  test_workload.py.j2""",
        f"""make it real: its keys, its steps, its metrics, and in `rationale` what it stands for{_GOLDEN}
pytest tests/conformance tests/unit/test_workloads_{{file}}.py
strata list workloads {{name}}""",
    ),
    "device-kind": Skeleton(
        """src/strata/devices/kinds/{file}.py   device_kind.py.j2
           src/strata/datasheet/kinds/{file}.py     data_sheet.py.j2
           kernel/disk/{file}.c                     model.c.j2
           devices/generic-{name}.toml              device.toml.j2
           tests/unit/test_device_{file}.py         test_device_kind.py.j2""",
        """make it real: parameters with units, and the model in kernel/disk/{file}.c
kernel/disk: add {file}.o to Kbuild, {file}.c to Makefile, its operations to config.c, model.h
    its keys to config.h
as soon as it takes time: what it is checked against, in src/strata/validation/subjects/{file}.py
make -C kernel/disk, then: pytest tests/conformance tests/unit/test_device*.py
strata list devices generic-{name}""",
    ),
}


@new.callback()
def group() -> None:
    """Write a study, or the skeleton of a layer or workload.

    Examples:
        strata new study guests --use four-guests
        strata new filesystem nilfs2
        strata new workload mail-index
    """


@new.command()
def study(  # noqa: PLR0917  typer makes options of them
    name: Name,
    use: Annotated[StudyUse | None, option("What the disks are for.")] = None,
    disk: Annotated[
        list[str] | None, option("A disk's model, or this-machine; repeatable.", "--disk", "DEVICE")
    ] = None,
    memory: Annotated[str | None, option("The machine's memory.", "SIZE")] = None,
    data: Annotated[str | None, option("The data in use, on all disks.", "SIZE")] = None,
    price: Annotated[
        list[str] | None, option("A disk's price, as '180 EUR'; one for all or one each.", "AMOUNT")
    ] = None,
    must: Musts = None,
    seeds: Annotated[
        int, option("How often everything is measured.", "--seeds", "N", min=1, max=SEEDS_MAX)
    ] = SEEDS,
    as_json: AsJson = False,
) -> None:
    """Write a commented study of a common use to NAME.toml.

    It is ready to run, and the command says how long that will take; `strata ask NAME` runs it and answers.
    One model stands for every disk; `--disk this-machine` takes the modelled drives that resemble this
    machine's disks most. Without --use the command asks, on a terminal, for what no option says.

    Examples:
        strata new study my-disks --use home-server --disk this-machine
        strata new study orders --use database-nvme --disk intel-p5510-3840gb --memory 64GiB --data 200GiB
        strata new study home --use home-server --must disk-loss --price '180 EUR'
    """
    use, answers = answered_by_person(use, Answers(disk, price, memory, data))
    _conclude(write_study(name, use, answers, asked_musts(must or []), seeds), as_json=as_json)


def _conclude(new: NewStudy, *, as_json: bool) -> None:
    """Print the file of a new study, how long it will take, and what to type next."""
    written = new.study
    real_s = forecast(written)
    if as_json:
        print_json(wrote=[written.file], estimate_real_s=round(real_s, 1))
        return
    say_written(new)
    following = "strata run" if written.use is None else f"strata ask {written.name}; strata run"
    notes().print(f"Next: strata check {written.file}; {following} {written.file}", markup=False)


@new.command()
def filesystem(name: Name, as_json: AsJson = False) -> None:
    """Write the skeleton of a filesystem.

    Examples:
        strata new filesystem nilfs2
    """
    _write("filesystem", name, as_json=as_json)


@new.command()
def layer(
    name: Name,
    requires: Annotated[Offered, option("What it stands on.")] = Offered.BLOCK,
    provides: Annotated[Offered, option("What it offers to the layer above.")] = Offered.BLOCK,
    as_json: AsJson = False,
) -> None:
    """Write the skeleton of a storage layer.

    The conformance tests then say what is missing.

    Examples:
        strata new layer vdo --requires block --provides block
    """
    _write("layer", name, as_json=as_json, requires=requires, provides=provides)


@new.command()
def workload(  # noqa: PLR0917  typer makes options of them
    name: Name,
    command: Annotated[
        bool, option("A study of any program instead, with the workload `command`.", "--command")
    ] = False,
    load: Annotated[str | None, option("With --command: what is measured.", "COMMAND")] = None,
    packages: Annotated[str | None, option("With --command: of Debian.", "'NAME NAME'")] = None,
    prepare: Annotated[str | None, option("With --command: what makes the data.", "COMMAND")] = None,
    serve: Annotated[str | None, option("With --command: a server beside it.", "COMMAND")] = None,
    ready: Annotated[str | None, option("With --serve: succeeds when it is ready.", "COMMAND")] = None,
    metric: Annotated[str | None, option("With --command: what it prints.", "NAME=REGEX")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the skeleton of a workload, or a study of any program.

    On a terminal `--command` asks for what no option says.

    Examples:
        strata new workload mail-index
        strata new workload copy --command --load 'cp -a /usr/share/perl ${data}/copy'
    """
    if command:
        answers = {"load": load, "packages": packages, "prepare": prepare, "serve": serve}
        written = write_command_study(name, {**answers, "ready": ready, "metric": metric})
        _conclude(NewStudy(written), as_json=as_json)
        return
    _write("workload", name, as_json=as_json)


@new.command()
def device_kind(name: Name, as_json: AsJson = False) -> None:
    """Write the skeleton of a kind of modelled device.

    Examples:
        strata new device-kind tape
    """
    _write("device-kind", name, as_json=as_json)


def _write(what: str, name: str, *, as_json: bool, **values: str) -> None:
    if not is_kebab(name):
        raise StudyError(f'"{name}" is not in kebab case', place="NAME", remedy=kebab_remedy(name))
    file = name.replace("-", "_")
    skeleton = _SKELETONS[what]
    files = (line.format(name=name, file=file).split() for line in skeleton.files.splitlines())
    root = clone_root(f"a skeleton of a {what}")
    paths = {root / path: template for path, template in files}
    known = {"workload": catalogue().workloads, "device-kind": KINDS}.get(what, catalogue().layers)
    for path in paths:
        if name in known or path.exists():
            raise StudyError(
                f'there is a {what} "{name}" already', place=str(path), remedy="take another name"
            )
    for path, template in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, rendered(template, name, **values).encode())
    if as_json:
        print_json(wrote=list(paths))
        return
    for path in paths:
        print_wrote(path)
    notes().print("Next (CONTRIBUTING.md has the recipe):")
    for number, step in enumerate(skeleton.next_steps.format(name=name, file=file).splitlines(), 1):
        notes().print(Text(f"  {number}. {step}"), soft_wrap=True)
