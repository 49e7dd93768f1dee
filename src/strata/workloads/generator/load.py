# SPDX-License-Identifier: Apache-2.0
"""filebench's personalities, by Strata's own load generator on files of the measured stack."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.model.duties import CostsRealTime, EndsWhenKnown, LogsThroughput
from strata.model.find import OpenLoop
from strata.model.layer import Interface
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.stack import space_diagnostics
from strata.model.step import Phase, Purpose, Step, literal
from strata.model.survival import CountsAcknowledged, Kept
from strata.model.warning import Check
from strata.model.workload import Outputs, WorkloadContext, unreadable
from strata.seeds import derive_seed
from strata.units import NS_PER_MS, NS_PER_S, Size
from strata.workloads.generator.definition import Definition, read_definition
from strata.workloads.generator.output import (
    PROGRAM,
    HandsOver,
    Mixture,
    Percent,
    load_result,
    operation_latencies,
)
from strata.workloads.keys import (
    WholeMilliseconds,
    key,
    option_words,
    preset_diagnostics,
    preset_key,
    window_title,
    yes_or_no,
)

_SLACK_NS: Final = 300 * NS_PER_S
_WRITE_BYTES_PER_S_MIN: Final = 256 << 10
_FILES_PER_S_MIN: Final = 20
_BLOCK_BYTES: Final = 4096
_INTERVAL_MS: Final = 1000
_WEB_THREADS: Final = 100  # of the personality "webserver"
_LAG: Final = "schedule_lag_ns"
_LEFT_ID: Final = "load-left"
# See ``durable.rs`` of the load generator: a file that is deleted between the reading and the cut is no loss.
_READING: Final = literal('true > "$0.held" && exec base64 --wrap=0 "$0"')


@dataclass(frozen=True)
class FileSet:
    """A personality's set of files, as far as space goes; the key ``files`` changes it if it scales."""

    files: int
    file_bytes: int
    preallocated_percent: int
    scales: bool = True


PERSONALITIES: Final = {
    "fileserver": (FileSet(10_000, 131_072, 80),),
    "varmail": (FileSet(1_000, 16_384, 80),),
    "webserver": (FileSet(1_000, 16_384, 100), FileSet(1, 16_384, 100, scales=False)),
    "webproxy": (FileSet(10_000, 16_384, 80),),
    "videoserver": (FileSet(32, 10 << 30, 100), FileSet(194, 10 << 30, 50)),
}
"""The bundled personalities, as their definitions in ``crates/load/personalities`` have them."""


PACED: Final = ("videoserver",)
"""The bundled personalities that wait for the clock."""


class Load(LogsThroughput, CostsRealTime, CountsAcknowledged, EndsWhenKnown, HandsOver, Mixture, OpenLoop):
    """A personality's threads on its files.

    Prepare: the files, written in parallel, and a sync of the filesystem, each timed. Warm-up and measured
    window go through the same loops with different random choices, on the files as they were left.
    """

    rationale: ClassVar[str] = (
        "Servers of whole files, as filebench models them: a file server (users create, append to, read, "
        "delete and look at files of 128 KiB), a mail server (small files, an fsync after every mail), a web "
        "server (ten pages are read, then a line goes to the one log), a proxy's cache, a video server. They "
        "stress allocation, directories, small synchronous writes and readahead. Files are taken in "
        "rotation, so nothing is more popular than the rest; clients do not think, unless a rate is given. "
        "What is found in the caches costs the processor's price: with files that fit into memory, the rate "
        "is as sure as that."
    )
    check_questions: ClassVar[Mapping[str, str]] = {
        "ran-the-whole-window": "did the load run until the end of its window?",
        "as-defined": "are files, sizes, threads and deletions those of the definition?",
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("operations_per_s", "1/s", "higher", "opens, closes and all: what filebench counts"),
        MetricSpec("operations", "1", "higher", "completed in the window"),
        MetricSpec("{read,written}_bytes_per_s", "B/s", "higher", "of all operations"),
        *latency_metric_specs("of each kind of operation", "<operation>_"),
        *latency_metric_specs("of whole passes through the loop, from when they were due", "pass_"),
        MetricSpec(_LAG + "_{mean,p50,p95,p99,p999,max}", "ns", "lower", "how late passes began, open loop"),
        MetricSpec("{prepare,prepare_sync}_ns", "ns", "lower", "building the files, and the sync after it"),
    )
    example: ClassVar[tuple[str, ...]] = ("personality",)
    amounts_kept: ClassVar[Mapping[str, int]] = {"files": 1}

    workload: Literal["load"] = "load"
    personality: StrictStr | None = preset_key("A personality of filebench", PERSONALITIES, "fileserver")
    definition: StrictStr | None = key(
        None,
        "A personality of one's own instead, as the text of a TOML file with [[sets]] of files and "
        'of threads, whose loop is a list of operations such as { op = "open", set = "mails", fd = 1 }: '
        "create and open (set, fd), close and fsync (fd), delete and stat (set), read_whole and write_whole "
        "(fd, bytes), append, read and write, each also as append_random and so on (fd, bytes, set), delay "
        "(time_ns), limit (bytes_per_s); those in crates/load/personalities are examples. Or the text of a "
        "workload in filebench's language",
    )
    definition_file: StrictStr | None = key(
        None, "The same from a file beside the study, such as a .f of filebench", "varmail.f"
    )

    @classmethod
    def with_texts(cls, table: dict[str, Any], read: Callable[..., str]) -> None:
        name = table.get("definition_file")
        if isinstance(name, str) and "definition" not in table:
            table["definition"] = read("definition_file", name)

    @property
    def _definition(self) -> Definition | None:
        found = read_definition(self.definition) if self.definition is not None else None
        return found if isinstance(found, Definition) else None

    def remarks(self, on: Interface) -> Iterable[str]:
        return self._definition.remarks if self._definition is not None else ()

    files: Annotated[StrictInt, Field(ge=1, le=100_000_000)] | None = key(
        None,
        "Files of the first set, existing and not yet existing; other sets that scale are scaled "
        "with it; default: as defined",
        1000,
    )
    threads: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = key(
        None, "Threads of the largest group; default: as defined", 16
    )
    file_bytes: Size | None = key(
        None, "Mean size of a file; default: as defined", "64KiB", alias="file_size"
    )
    directory_width: Annotated[StrictInt, Field(ge=2, le=1_000_000_000)] | None = key(
        None, "Mean number of entries of a directory; default: as defined", 100
    )
    io_bytes: Size | None = key(
        None, "Largest piece that is read or written at once; default: as defined", "128KiB", alias="io_size"
    )
    append_bytes: Size | None = key(
        None, "What an append stays below; default: as defined", "16KiB", alias="append_size"
    )
    preallocated_percent: Percent | None = key(
        None, "How many of 100 files exist at the start; default: as defined", 80
    )
    deletes: Literal["as-filebench", "next"] = key(
        "as-filebench",
        "What becomes of a deletion whose file another thread has open: as-filebench leaves it "
        "out, so that files become more until none is left to create and the run ends; next deletes the next "
        "file that is not open",
    )
    warmup_ns: WholeMilliseconds | None = key(
        None, "Load before the measured window; default: none, as in filebench", "10s", alias="warmup"
    )
    duration_ns: WholeMilliseconds = key(..., "The measured window", "60s", alias="duration")
    rate_per_s: Annotated[StrictInt | StrictFloat, Field(gt=0, le=1e9)] | None = key(
        None,
        "Open loop: passes through the loop of the largest group are due at random times (a "
        "Poisson process), to make up this many operations a second; default: each thread begins the "
        "next when the last has ended",
        500,
        alias="rate",
    )

    @property
    def data_bytes(self) -> int | None:
        sets = self._sets()
        if sets is None:
            return None
        return sum(each.files * each.file_bytes * each.preallocated_percent // 100 for each in sets)

    def _defined(self) -> Sequence[FileSet] | None:
        """The sets as defined; None where there is no definition that can be read."""
        if self.definition is None:
            return PERSONALITIES.get(self.personality or "")
        if (defined := self._definition) is None:
            return None
        return [
            FileSet(each.files, each.file_bytes, each.preallocated_percent, each.scales)
            for each in defined.sets
        ]

    def _sets(self) -> Sequence[FileSet] | None:
        """The sets with what differs from their definition; None without a definition."""
        defined = self._defined()
        if not defined:
            return None
        lead = next((each.files for each in defined if each.scales), 1)
        return [self._changed(each, lead) for each in defined]

    def _changed(self, defined: FileSet, lead: int) -> FileSet:
        changed = defined if self.file_bytes is None else replace(defined, file_bytes=self.file_bytes)
        if defined.scales and self.files is not None:
            changed = replace(changed, files=max(defined.files * self.files // max(lead, 1), 1))
        if defined.scales and self.preallocated_percent is not None:
            changed = replace(changed, preallocated_percent=self.preallocated_percent)
        return changed

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if self.definition_file is not None and self.definition is None:
            return  # its text is not at hand
        if (self.personality is None) == (self.definition is None):
            yield Diagnostic(
                "there are two personalities" if self.definition else "there is no personality",
                remedy='write personality = "fileserver", or the text of one\'s own as definition',
                key="personality",
            )
        elif self.personality is not None and self.personality not in PERSONALITIES:
            yield from preset_diagnostics(self.personality, PERSONALITIES, key="personality")
        elif self.definition is not None:
            defined = read_definition(self.definition)
            yield from () if isinstance(defined, Definition) else defined
        yield from self._piece_diagnostics()
        # After one append to each, in whole blocks.
        grown_bytes = (16 << 10 if self.append_bytes is None else self.append_bytes) + _BLOCK_BYTES
        space_bytes = sum(each.files * (each.file_bytes + grown_bytes) for each in self._sets() or ())
        space_key = "file_size" if self.files is None else "files"
        yield from space_diagnostics("files", space_bytes, capacity_bytes, key=space_key)

    def _piece_diagnostics(self) -> Iterator[Diagnostic]:
        for name in ("io_bytes", "append_bytes"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= 1 << 30:
                alias = name.replace("bytes", "size")
                yield Diagnostic("it must be from 1B to 1GiB", remedy='write for example "1MiB"', key=alias)

    def steps(self, context: WorkloadContext) -> list[Step]:
        title = "Build the files of " + (self.personality or "a personality of one's own")
        prepare = self._step(context, "prepare", title, ("prepare",), self._prepare_limit_ns)
        warmup = [] if self.warmup_ns is None else [self._run(context, "warmup", self.warmup_ns)]
        return [prepare, *warmup, self._run(context, "measure", self.duration_ns)]

    @property
    def _prepare_limit_ns(self) -> int:
        files = sum(each.files for each in self._sets() or ())
        limit_s = (self.data_bytes or 0) // _WRITE_BYTES_PER_S_MIN + files // _FILES_PER_S_MIN
        return limit_s * NS_PER_S

    @property
    def uncounted(self) -> str | None:
        return None

    def acknowledged(self, context: WorkloadContext) -> Step:
        title = "Let deletions wait, and read what returned syncs promise"
        argv = ("sh", "-c", _READING, _promises(context))
        return context.step("acknowledged", "measure", title, argv)

    def recovered(self, context: WorkloadContext, said: str) -> list[Step]:
        promised = f"{context.scratch_path}/load.promised"
        lines = "".join(f"{file} {held}\n" for file, held in _promised(said).items())
        written = context.step(
            *("load-promised", "prepare", "Write what is promised"),
            ("dd", f"of={promised}", "status=none"),
            stdin=literal(lines),
        )
        limit_ns = self._prepare_limit_ns
        action = ("durable", *option_words({"promised": promised}))
        looked = self._step(context, "prepare", "Look for what was promised", action, limit_ns)
        verify = {"id": _LEFT_ID, "purpose": Purpose(what="verify")}
        return [written, looked.model_copy(update=verify)]

    def kept(self, said: str, outputs: Outputs) -> Kept:
        acknowledged = len(_promised(said))
        if _LEFT_ID not in outputs.steps:
            return Kept(acknowledged, acknowledged)
        return Kept(acknowledged, load_result(outputs, _LEFT_ID, None)["lost"])

    def _run(self, context: WorkloadContext, phase: Phase, time_ns: int) -> Step:
        options = {
            "duration-ms": time_ns // NS_PER_MS,
            "interval-ms": _INTERVAL_MS,
            # A window that is run twice makes other choices each time.
            "purpose": "-".join(filter(None, (phase, context.window))),
            "rate": self.rate_per_s,
            "pass-over-open": self.deletes == "next",
        }
        until = self.until_known(context, "load-measure") if phase == "measure" else None
        options |= {} if until is None else {"tell": True}
        action = ("run", *option_words(options), *self.hand_over_words)
        step = self._step(context, phase, window_title(phase, time_ns), action, time_ns)
        return step.model_copy(update={"until": until})

    def _step(
        self, context: WorkloadContext, phase: Phase, title: str, action: tuple[str, ...], limit_ns: int
    ) -> Step:
        common = {
            "personality": self.personality or "-",
            "directory": context.mount_path,
            "state": f"{context.kept_path}/load.state",
            "durable": _promises(context) if context.is_cut else None,
            # The files are the same ones in every window.
            "seed": derive_seed(context.seed, context.name, "files") >> 33,
        }
        names = ("files", "threads", "file_bytes", "directory_width", "io_bytes", "append_bytes")
        overrides = {name.replace("_", "-"): getattr(self, name) for name in (*names, "preallocated_percent")}
        return context.step(
            f"load-{phase}",
            phase,
            title,
            (PROGRAM, *action, *option_words(common), *self.content_words, *option_words(overrides)),
            stdin=None if self._definition is None else literal(self._definition.text),
            time_limit_ns=_SLACK_NS + limit_ns,
        )

    def metrics(self, outputs: Outputs) -> list[Metric]:
        """Rates count completed operations, up to an early end; a pass begins when it was due."""
        result = load_result(outputs, "load-measure", None)
        window_s = result["window_ns"] / NS_PER_S
        if not result["operations"] or not window_s:
            raise unreadable(
                "load-measure", "no operation was completed", outputs.step("load-measure").stdout[:500]
            )
        metrics = [
            Metric.of("operations_per_s", result["operations"] / window_s, "1/s", headline=True),
            Metric.of("operations", float(result["operations"]), "1"),
        ]
        for direction in ("read", "written"):
            rate = result[f"{direction}_bytes"] / window_s
            metrics.append(Metric.of(f"{direction}_bytes_per_s", rate, "B/s"))
        parts = {f"{name}_latency_ns": part for name, part in sorted(result["by_operation"].items())}
        for family, part in {**parts, "pass_latency_ns": result["passes"], _LAG: result["lag"]}.items():
            if part is not None and part["count"]:
                metrics += operation_latencies(part, family)
        prepared = load_result(outputs, "load-prepare", None)
        for name, part in (("prepare_ns", "build_ns"), ("prepare_sync_ns", "sync_ns")):
            metrics.append(Metric.of(name, float(prepared[part]), "ns", phase="prepare"))
        return metrics

    @property
    def is_paced(self) -> bool:
        if self.rate_per_s is not None or self.personality in PACED:
            return True
        return self._definition is not None and self._definition.is_paced

    @property
    def cached_readers(self) -> int:
        is_cached = self.personality == "webserver" and not self.is_paced
        return (self.threads or _WEB_THREADS) if is_cached else 0

    def rates_per_s(self, outputs: Outputs) -> Sequence[float]:
        """Operations per second, in the whole seconds of the window."""
        result = load_result(outputs, "load-measure", None)
        whole = result["window_ns"] // result["interval_ns"]
        return [count * NS_PER_S / result["interval_ns"] for count in result["intervals"][:whole]]

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        result = load_result(outputs, "load-measure", None)
        ended = result["ended_early"]
        remedy = ', or write deletes = "next"' if ended and ended["reason"] == "files" else ""
        detail = f"the load ran for {result['window_ns'] / NS_PER_S:g} s"
        detail += "" if ended is None else f", and ended early: {ended['detail']}{remedy}"
        is_whole = ended is None or ended["reason"] == "known"
        yield yes_or_no("ran-the-whole-window", is_whole, detail, required=True)
        departures = [
            f"{each['what']} is {each['here']}, and {each['definition']} by definition"
            for each in result["departures"]
        ]
        if result["passes_over_open"]:
            departures.append("deletions take the next file where filebench leaves them out")
        detail = "; ".join(departures) or "files, sizes and threads are those of the definition"
        yield yes_or_no("as-defined", not departures, detail)


def _promises(context: WorkloadContext) -> str:
    """The file of the generator's promises, outside the measured stack."""
    return f"{context.scratch_path}/load.durable"


def _promised(said: str) -> dict[int, int]:
    """The bytes that returned syncs cover, by the number of the file: see its ``durable.rs``."""
    try:
        numbers = struct.iter_unpack("<Q", base64.b64decode(said.strip(), validate=True))
        return {file: number - 1 for file, (number,) in enumerate(numbers) if number}
    except (ValueError, struct.error):
        raise unreadable("acknowledged", "the promises are of another form", said[-200:]) from None
