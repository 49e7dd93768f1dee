# SPDX-License-Identifier: Apache-2.0
"""Any program as a workload: commands to prepare, warm up, measure and end, and a server beside them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import Field, StrictInt, StrictStr, model_validator

from strata.bundled import project_root
from strata.devices.processor import Program
from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.duties import RunsPrograms
from strata.model.find import RATE_MAX, OpenLoop
from strata.model.memory_limit import MemoryLimit
from strata.model.metric import Metric, MetricSpec
from strata.model.packages import PackageName
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import LOAD_USER, OUTPUT_LIMIT_BYTES, Command, Phase, Step, literal
from strata.model.warning import Check
from strata.model.workload import Outputs, WorkloadContext
from strata.units import NS_PER_S, Duration, Size
from strata.workloads.command.measured import LOAD_TIME, SPECS, MetricTable, rate_diagnostics
from strata.workloads.command.program import (
    GIVEN,
    VARIABLE_NAME,
    CommandTable,
    ServeTable,
    Value,
    filled,
    mistake,
)
from strata.workloads.keys import WholeSeconds, key, preset_diagnostics, preset_key, yes_or_no
from strata.workloads.tree import TOOLS, ArchiveWorkload

_LEFT: Final = "nothing-left-running"
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}", re.ASCII)
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PHASES: Final[Mapping[str, Phase]] = {
    "prepare": "prepare",
    "warmup": "warmup",
    "load": "measure",
    "end": "inspect",
}
_SERVE_LIMIT_NS: Final = 300 * NS_PER_S


@cache
def applications() -> Mapping[str, Mapping[str, Any]]:
    """The bundled applications (``applications/*.toml``), by name: keys of this workload, and a rationale."""
    files = sorted((project_root() / "applications").glob("*.toml"))
    return {file.stem: tomllib.loads(file.read_text()) for file in files}


class CommandWorkload(RunsPrograms, OpenLoop, ArchiveWorkload):
    """Any program: commands that a study names, and the metrics that they print or take.

    Prepare: the archive is unpacked, the scripts are written, `prepare` runs, the server starts, and dirty
    data are written back. Then `warmup`; the measured window is `load`; `end` comes after it. All run as an
    ordinary user in the folder of the stack, without a terminal and without a network.
    """

    rationale: ClassVar[str] = (
        "The program that will really run on the stack, with its own data and its own way to write and "
        "sync: a database's benchmark, a backup, a build, a script. The study says what it stresses. "
        "Each bundled application has a text of its own about what it stands for. Commands run one after the "
        "other, so that concurrency is what the program itself brings."
    )
    tools: ClassVar[tuple[str, ...]] = (*TOOLS[1:], *page_cache.TOOLS, "grep", "sh", "test")
    check_questions: ClassVar[Mapping[str, str]] = {
        _LEFT: "did the commands end all the processes that they had started?"
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = SPECS
    example: ClassVar[tuple[str, ...]] = ("prepare", "load", "metrics")
    hints: ClassVar[dict[str, str]] = {"until": "leave it out: Strata cannot see the program's operations"}

    workload: Literal["command"] = "command"
    preset: StrictStr | None = preset_key(
        "A bundled application; the other keys of the study are put over its own", applications(), "sqlite"
    )
    packages: list[PackageName] = key(
        [],
        "Debian packages of its programs. The lab adds those that its image lacks, and locks their versions "
        "in NAME.packages.lock beside the study; on a host the programs have to be there",
        ["nginx-light"],
    )
    archive: StrictStr = key(
        "",
        "A folder or a tar archive beside the study, which is unpacked to ${files}; strata:linux-source is "
        "the source that the lab's kernel is built from",
        "files",
    )
    scripts: dict[StrictStr, StrictStr] = key(
        {}, "Texts that are written to ${files} under these names", {"queue.pl": "..."}
    )
    variables: dict[StrictStr, Value] = key(
        {}, "Variables of the commands, `${name}`; those of a preset can be changed singly", {"clients": 8}
    )
    environment: dict[StrictStr, StrictStr] = key(
        {}, "Environment of the commands; it may hold variables", {"GIT_AUTHOR_NAME": "nobody"}
    )
    prepare: list[CommandTable] = key(
        [], "Commands before the server starts", "['dd if=/dev/urandom of=${data}/a bs=64k count=64']"
    )
    serve: ServeTable | None = key(None, "A server that runs from then on, and the sign that it is ready")
    warmup: list[CommandTable] = key([], "Commands that are not measured, with the server")
    load: list[CommandTable] = key(
        [], "Commands of the measured window", "[{ name = 'copy', run = 'cp ${data}/a ${data}/b' }]"
    )
    end: list[CommandTable] = key([], "Commands after the measured window", ["du -s ${data}"])
    duration_ns: WholeSeconds | None = key(
        None,
        "How long `load` takes by an option of its program, such as `--time=${duration}`, which is this in "
        "seconds; a tenant needs it. Default: until its work is done",
        "60s",
        alias="duration",
    )
    rate_per_s: Annotated[StrictInt, Field(ge=1, le=RATE_MAX)] | None = key(
        None,
        "The operations a second that `load` is asked for, by an option of its program such as "
        "`--rate=${rate}`. Default: what the program does by itself",
        200,
        alias="rate",
    )
    metrics_of: list[MetricTable] = key(
        [],
        "The metrics beside `load_ns`",
        "[{ name = 'copied_bytes_per_s', unit = 'B/s', of = 'copy', operations = 4194304 }]",
        alias="metrics",
    )
    size_bytes: Size | None = key(
        None,
        "The size of its data, to check whether they fit on the stack and into memory",
        "1GiB",
        alias="size",
    )
    memory_bytes: MemoryLimit | None = key(
        None,
        "What its programs and their page cache may take, 64MiB at least; a guest and a tenant have limits "
        "of their own instead. Default: the machine's memory",
        "256MiB",
        alias="memory",
    )
    time_limit_ns: Duration = key(
        600 * NS_PER_S, "The time that one command may take", "30m", alias="time_limit", gt=0
    )
    output_limit_bytes: Annotated[Size, Field(ge=1, le=OUTPUT_LIMIT_BYTES)] = key(
        1 << 20, "The output of one command that is kept, at most 16MiB", "4MiB", alias="output_limit"
    )
    prices: dict[StrictStr, Program] = key(
        {}, "Prices of the processor for its programs, as `strata lab price --program` prints them"
    )

    @model_validator(mode="before")
    @classmethod
    def _over_preset(cls, table: Any) -> Any:
        """The keys of a study over those of its preset; of variables each."""
        known = applications().get(str(table.get("preset"))) if isinstance(table, dict) else None
        if known is None:
            return table
        preset = {name: value for name, value in known.items() if name != "rationale"}
        own = table.get("variables", {})
        variables = {**preset.get("variables", {}), **own} if isinstance(own, dict) else own
        return {**preset, **table, "variables": variables}

    @property
    def data_bytes(self) -> int | None:
        return self.size_bytes

    def inputs(self) -> Mapping[str, str]:
        return super().inputs() if self.archive else {}

    def memory_limit_bytes(self) -> int | None:
        return self.memory_bytes

    def implied(self) -> Collection[str]:
        if self.preset is None:
            return ()
        preset = CommandWorkload.model_validate({"preset": self.preset})
        return {name for name, value in preset if name != "preset" and getattr(self, name) == value}

    def packages_asked(self) -> Sequence[str]:
        return self.packages

    def priced_programs(self) -> Mapping[str, Program]:
        return self.prices

    def commands(self, phase: str) -> list[tuple[str, CommandTable]]:
        given: list[CommandTable] = getattr(self, phase)
        return [(each.name or f"{phase}-{number}", each) for number, each in enumerate(given, 1)]

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        yield from preset_diagnostics(self.preset, applications())
        if not self.load and self.preset in {None, *applications()}:
            yield Diagnostic(
                "nothing is measured", remedy='such as load = ["cp ..."], or a preset', key="load"
            )
        yield from self._text_diagnostics()
        values = self._values(dict.fromkeys(GIVEN, ""))
        seen: set[str] = set()
        for phase in _PHASES:
            for index, (name, command) in enumerate(self.commands(phase)):
                for diagnostic in command.diagnostics(values):
                    yield _within(diagnostic, phase, index)
                if name in seen:
                    cause, remedy = f'two commands are called "{name}"', "names are unique"
                    yield _within(Diagnostic(cause, remedy=remedy, key="name"), phase, index)
                seen.add(name)
        for diagnostic in self.serve.diagnostics(values) if self.serve else ():
            yield _within(diagnostic, "serve")
        yield from self._metric_diagnostics()
        yield from self._rate_diagnostics()
        if self.archive:
            yield from super().diagnostics(capacity_bytes)
        if self.size_bytes is not None:
            yield from space_diagnostics("data", self.size_bytes, capacity_bytes, key="size")

    def _text_diagnostics(self) -> Iterator[Diagnostic]:
        for name in self.scripts:
            if not _FILE_NAME.fullmatch(name):
                remedy = "letters, digits and . _ - such as load.sql"
                yield Diagnostic(f'"{name[:60]}" is not the name of a file', remedy=remedy, key="scripts")
        for name in self.variables:
            if not VARIABLE_NAME.fullmatch(name) or name in GIVEN:
                remedy = f"lower-case letters, digits and _; {', '.join(GIVEN)} are there already"
                yield Diagnostic(f'a variable cannot be called "{name[:60]}"', remedy=remedy, key="variables")
        values = self._values(dict.fromkeys(GIVEN, ""))
        for name, value in self.environment.items():
            if not _VARIABLE_NAME.fullmatch(name):
                yield Diagnostic(f'"{name[:60]}" is no name of a variable', key="environment")
            for diagnostic in mistake(lambda text=value: filled(text, values)):  # type: ignore[misc]
                diagnostic.key = "environment"
                yield diagnostic

    def _metric_diagnostics(self) -> Iterator[Diagnostic]:
        names = [name for phase in ("load", "end") for name, _ in self.commands(phase)]
        seen: set[str] = set()
        for index, metric in enumerate(self.metrics_of):
            for diagnostic in metric.diagnostics(names, self.variables):
                yield _within(diagnostic, "metrics", index)
            if metric.name in seen:
                cause = f'two metrics are called "{metric.name[:60]}"'
                yield _within(Diagnostic(cause, remedy="take another name", key="name"), "metrics", index)
            seen.add(metric.name)

    def _rate_diagnostics(self) -> Iterator[Diagnostic]:
        texts = [text for _, each in self.commands("load") for text in (each.run, each.shell) if text]
        of_server = () if self.serve is None else (self.serve.run, self.serve.shell)
        texts += [*self.environment.values(), *filter(None, of_server)]
        yield from rate_diagnostics(self, texts, self.variables, self.metrics_of)

    def _values(self, given: Mapping[str, str]) -> dict[str, str]:
        length = {} if self.duration_ns is None else {"duration": str(self.duration_ns // NS_PER_S)}
        rate = {} if self.rate_per_s is None else {"rate": str(self.rate_per_s)}
        own = {name: literal(str(value)) for name, value in self.variables.items()}
        return {**given, **length, **rate, **own}

    def unprepared(self) -> str | None:
        texts = [text for _, each in self.commands("prepare") for text in (each.run, each.shell) if text]
        for name in ("scratch", "HOME"):
            if any(f"${{{name}}}" in text or f"${name}" in text for text in texts):
                where = f"${{{name}}}"
                return (
                    f"a command of `prepare` writes into {where}, which is empty then; write into ${{data}}"
                )
        return super().unprepared()

    def steps(self, context: WorkloadContext) -> list[Step]:
        files = f"{context.scratch_path}/files"
        given = {
            "data": context.mount_path,
            "files": files,
            "scratch": context.scratch_path,
            "seed": str(context.derived_seed("command")),
        }
        values = self._values(given)
        environment = {
            # Programs keep caches and settings there, which are no part of the data.
            "HOME": context.scratch_path,
            **values,
            **{name: filled(text, values) for name, text in self.environment.items()},
        }
        last: Phase = "warmup" if self.warmup else "prepare"
        return [
            *(step.model_copy(update={"again": True}) for step in self._files(context, files)),
            *self._commands(context, "prepare", values, environment),
            *self._server(context, values, environment),
            *self._commands(context, "warmup", values, environment),
            synced(context, "command-settle", last, "Write back dirty data before the load"),
            *self._commands(context, "load", values, environment),
            *self._commands(context, "end", values, environment),
        ]

    def _files(self, context: WorkloadContext, files: str) -> Iterator[Step]:
        if self.archive:
            yield from self.unpacking(context, "command", "prepare", files)
        elif self.scripts:
            make = ("install", "-d", "-o", LOAD_USER, files)
            title = "Make a folder for the scripts"
            yield context.step("command-folder", "prepare", title, make, user="root")
        for number, (name, text) in enumerate(self.scripts.items(), 1):
            argv = ("tee", f"{files}/{name}")
            title = f"Write the script {name}"
            yield context.step(f"command-script-{number}", "prepare", title, argv, stdin=literal(text))

    def _commands(
        self,
        context: WorkloadContext,
        key: str,
        values: Mapping[str, str],
        environment: dict[str, str],
    ) -> Iterator[Step]:
        phase = _PHASES[key]
        for name, command in self.commands(key):
            if command.cold:
                title = f"Write back dirty data before {name}"
                yield synced(context, f"command-{name}-sync", phase, title)
                yield dropped(context, f"command-{name}-cold", phase)
            argv = command.argv(values)
            yield context.step(
                f"run-{name}",
                phase,
                f"Run {argv[0]} ({name})" if command.run else f"Run the shell's commands of {name}",
                argv,
                cwd=context.mount_path,
                environment=environment,
                time_limit_ns=self.time_limit_ns,
                output_limit_bytes=self.output_limit_bytes,
                expect_exit=tuple(command.expect_exit),
            )

    def _server(
        self, context: WorkloadContext, values: Mapping[str, str], environment: dict[str, str]
    ) -> Iterator[Step]:
        if self.serve is None:
            return
        common = {"cwd": context.mount_path, "environment": environment, "user": LOAD_USER}
        argv = self.serve.argv(values)
        yield context.step(
            "command-server",
            "prepare",
            f"Start the server {argv[0]}",
            argv,
            background=True,
            ready=Command(argv=self.serve.is_ready(values), **cast("dict[str, Any]", common)),
            time_limit_ns=_SERVE_LIMIT_NS,
            **common,
        )

    def metrics(self, outputs: Outputs) -> list[Metric]:
        steps = {name: f"run-{name}" for phase in ("load", "end") for name, _ in self.commands(phase)}
        loads = [f"run-{name}" for name, _ in self.commands("load")]
        found = [
            each.read(outputs, [steps[each.of]] if each.of else loads, self.variables)
            for each in self.metrics_of
        ]
        if found and self.metrics_of[0].headline is None:
            found[0] = found[0].model_copy(update={"headline": True})
        time_ns = sum(outputs.step(each).duration_ns for each in loads)
        return [*found, Metric.of(LOAD_TIME, float(time_ns), "ns", headline=not found)]

    def checks(self, outputs: Outputs) -> Iterator[Check]:
        names = [name for phase in _PHASES for name, _ in self.commands(phase)]
        left = {name: outputs.step(f"run-{name}").left_running for name in names}
        found = [f"{name} left {', '.join(each)}" for name, each in left.items() if each]
        detail = "; ".join(found) or "no command left a process behind"
        if found:
            detail += ": a command must wait for what it starts, and a server belongs into `serve`"
        yield yes_or_no(_LEFT, not found, detail, required=True)


def _within(diagnostic: Diagnostic, *keys: str | int) -> Diagnostic:
    diagnostic.within = keys
    return diagnostic
