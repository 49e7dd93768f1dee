# SPDX-License-Identifier: Apache-2.0
"""Arguments and options of commands, and completion of their values in a shell.

A value is completed by its metavar. Only names are read for that, and the trials of a study.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from strata.bundled import study_path
from strata.errors import StrataError
from strata.runners.name import RunnerName

if TYPE_CHECKING:
    from strata.execution.schedule import Shard
    from strata.model.study import Study
    from strata.model.trial import CellKey

_STUDY: Final = "study.json"
_BY_ID: Final = Path("/dev/disk/by-id")


def complete_study(incomplete: str) -> list[str]:
    found = _below(_folder(incomplete), "*.toml")
    return _matching(incomplete, (each for each in found if not each.name.endswith(".claims.toml")))


def complete_results(incomplete: str) -> list[str]:
    return _matching(incomplete, (each.parent for each in _below(_folder(incomplete), f"*/{_STUDY}")))


def complete_trial(incomplete: str) -> list[str]:
    """``RESULTS/TRIAL``; results folders until one is typed."""
    folder = _folder(incomplete)
    if (folder / _STUDY).is_file():
        return _matching(incomplete, (folder / trial for trial in _trials(folder)))
    return complete_results(incomplete)


def complete_trial_id(context: typer.Context, incomplete: str) -> list[str]:
    """The ids of the trials of the results folder that was typed before."""
    # An option without its value ends the parsing; the rest is in the arguments.
    typed = [context.params.get("results"), *context.args]
    folders = [Path(each) for each in typed if isinstance(each, str | Path)]
    found = next((each for each in folders if (each / _STUDY).is_file()), None)
    return [trial for trial in _trials(found) if trial.startswith(incomplete)] if found else []


def _trials(folder: Path) -> list[str]:
    from strata.results.store import ResultsFolder  # noqa: PLC0415

    try:
        return [str(trial) for trial in ResultsFolder.open(folder).study().trials]
    except StrataError:
        return []


def complete_device(incomplete: str) -> list[str]:
    from strata.devices.device import bundled_devices  # noqa: PLC0415

    return [name for name in bundled_devices() if name.startswith(incomplete)]


def complete_workload(incomplete: str) -> list[str]:
    from strata.plan.catalogue import catalogue  # noqa: PLC0415

    return [name for name in catalogue().workloads if name.startswith(incomplete)]


def complete_layer(incomplete: str) -> list[str]:
    from strata.plan.catalogue import catalogue  # noqa: PLC0415

    return [name for name in catalogue().layers if name.startswith(incomplete)]


def complete_disk(incomplete: str) -> list[str]:
    """``NAME=PATH``, once the name is typed: the disks of /dev/disk/by-id, without their partitions."""
    name, equals, path = incomplete.partition("=")
    start = f"{name}=" if equals else ""
    found = (str(each) for each in _listed(_BY_ID, "*") if "-part" not in each.name)
    return [start + each for each in found if equals and each.startswith(path)]


WHOLE: Final = "100%"

COMPLETERS: Final[Mapping[str, Callable[..., list[str]]]] = {
    "STUDY": complete_study,
    "RESULTS": complete_results,
    "RESULTS|STUDY": lambda incomplete: [*complete_results(incomplete), *complete_study(incomplete)],
    "TRIAL": complete_trial,
    "STACK.WORKLOAD.sSEED": complete_trial_id,
    "DEVICE": complete_device,
    "WORKLOAD": complete_workload,
    "LAYER": complete_layer,
    "NAME=DISK": complete_disk,
}


def _folder(incomplete: str) -> Path:
    return Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    """The paths of a pattern in a folder and in its subfolders."""
    subfolders = (each for each in _listed(folder, "*/") if not each.name.startswith("."))
    for place in (folder, *subfolders):
        yield from _listed(place, pattern)


def _listed(folder: Path, pattern: str) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.glob(pattern))
    return []


def _matching(incomplete: str, paths: Iterable[Path]) -> list[str]:
    names = (f"./{path}" if incomplete.startswith("./") else str(path) for path in paths)
    return [name for name in names if name.startswith(incomplete)]


def literal(text: str) -> str:
    """Text for a help page, in which rich would take what stands in brackets for its markup."""
    if "[" not in text:
        return text
    from rich.markup import escape  # noqa: PLC0415  most texts do without, and rich loads slowly

    return escape(text)


def results_path(place: str) -> Path:
    """A results folder; of several, or of a store, one that has what all have."""
    if not any(mark in place for mark in (",", "://", "#")) and not (Path(place) / "studies").is_dir():
        return Path(place)
    from strata.actions.sharing import results_at  # noqa: PLC0415  few need it
    from strata.cli.output import listener  # noqa: PLC0415

    return results_at(place, listener().warn)


def argument(text: str, metavar: str, **more: Any) -> Any:
    """An argument with its help text; a study may also be a bundled one's name."""
    if "STUDY" in metavar:
        more["parser"] = study_path
    completer = COMPLETERS.get(metavar)
    return typer.Argument(help=literal(text), metavar=metavar, autocompletion=completer, **more)


def option(
    text: str, *words: str, autocompletion: Callable[[str], list[str]] | None = None, **more: Any
) -> Any:
    """An option with its help text; ``words`` are the metavar, and names other than the parameter's."""
    names = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if word not in names), None)
    completer = autocompletion or COMPLETERS.get(metavar or "")
    return typer.Option(*names, help=literal(text), metavar=metavar, autocompletion=completer, **more)


def asked_shard(text: str | None) -> Shard | None:
    """The part that ``i/n`` names. Raises StudyError."""
    if text is None:
        return None
    from strata.errors import StudyError  # noqa: PLC0415
    from strata.execution.schedule import Shard  # noqa: PLC0415

    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return Shard(int(number), int(count))
    remedy = "write for example 2/3: the second of three parts"
    raise StudyError(f'"{text}" is no part of a study', place="--shard", remedy=remedy)


def chosen_stacks(study: Study, names: list[str] | None) -> list[str]:
    """The stacks of these names, each once, in the study's order; all for none. Raises StudyError."""
    from strata.diagnostics.names import require_known  # noqa: PLC0415  the map of commands needs no pydantic

    require_known("stack", names or [], study.stacks, "--stack")
    return [name for name in study.stacks if not names or name in names]


StudyFile = Annotated[Path, argument("A study file.", "STUDY")]
FromResults = Annotated[
    Path,
    argument(
        "Folder that `strata run` wrote; several with commas, or a store's URL.",
        "RESULTS",
        parser=results_path,
    ),
]
OnlyStacks = Annotated[list[str] | None, option("Only this stack; may be repeated.", "NAME")]
OnRunner = Annotated[RunnerName, option("In the lab, or on this machine.")]
Scratch = Annotated[Path | None, option("Host: folder for the files behind loop devices.", "DIR")]
Jobs = Annotated[int | None, option("Labs at once. Default: one per CPU.", "N", min=1, max=1024)]
OnCluster = Annotated[
    str | None,
    option("Run trials on a Dask cluster: an address, a file, or local:N.", "WHERE"),
]
AtScale = Annotated[
    str, option("This share of the workloads' time and data; another study, NAME-scale-10.", "PERCENT")
]
AtFullSize = Annotated[
    bool,
    option("With the memory, data and disks of the machine that it is for; NAME-full.", "--full"),
]
Musts = Annotated[
    list[str] | None, option("Require this capability, such as disk-loss; may be repeated.", "--must", "NAME")
]
AtShard = Annotated[
    str | None, option("This part of the trials, such as 2/3; `strata merge` joins the parts.", "PART/PARTS")
]
AtStore = Annotated[
    str | None, option("Shared store of records: a folder or URL. Default: the configured one.", "URL")
]
AsJson = Annotated[bool, option("Print everything as JSON.", "--json")]
AsCsv = Annotated[bool, option("Print everything as CSV.", "--csv")]
AsMarkdown = Annotated[bool, option("Print everything as Markdown.", "--markdown")]
OpenIt = Annotated[bool, option("Open it in a browser.", "--open")]
AllowInput = Annotated[
    list[Path] | None,
    option("Files that the study may read besides those of its folder; repeatable.", "--allow-input", "PATH"),
]
AllowKernelSource = Annotated[
    bool, option("Build and run the kernel whose source the study names.", "--allow-kernel-source")
]
Quiet = Annotated[bool, option("Print the result and errors, nothing else.", "--quiet", "-q")]


def asked_scale(text: str, *, full: bool = False) -> float:
    from strata.model.study import FULL  # noqa: PLC0415
    from strata.units import parse_share  # noqa: PLC0415  these load pydantic

    if full and text != WHOLE:
        raise typer.BadParameter(
            "a study has one size: leave one of the two out", param_hint="--full, --scale"
        )
    if full:
        return FULL

    try:
        share = parse_share(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--scale") from None
    if not 0 < share <= 1:
        raise typer.BadParameter("a share of more than 0 and of 100 % at most", param_hint="--scale")
    return share


def size_words(scale: str, *, full: bool) -> list[str]:
    """The options that a command has been given for the size of a study."""
    return ["--full"] if full else [] if scale == WHOLE else ["--scale", scale]


def chosen_cell(study: Study, stack: str | None, workload: str | None) -> CellKey:
    """The cell of ``--stack`` and ``--workload``, by default the first of each. Raises StudyError."""
    from strata.diagnostics.names import nearest  # noqa: PLC0415
    from strata.errors import StudyError  # noqa: PLC0415  these load slowly
    from strata.model.trial import CellKey  # noqa: PLC0415

    for what, wanted, known in (("stack", stack, study.stacks), ("workload", workload, study.workloads)):
        if wanted is not None and wanted not in known:
            cause = f'the study has no {what} "{wanted}"'
            raise StudyError(cause, place=f"--{what}", remedy=nearest(wanted, known))
    return CellKey(stack or next(iter(study.stacks)), workload or next(iter(study.workloads)))
