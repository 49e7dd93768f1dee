# SPDX-License-Identifier: Apache-2.0
"""fio's job files: read, judged line by line, and bound to a stack, for fio itself to carry out.

A section keeps its options in their order, those of [global] first. Left out are the options that change
nothing or that Strata gives itself; files and devices become the stack's; all others must be allowed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from strata.diagnostics.names import Diagnostic
from strata.model.allowed import SIZE, SWITCH, Forms, form, named, one_of, pair_diagnostics
from strata.model.layer import Interface
from strata.units import NS_PER_S
from strata.workloads.fio_options import OPTIONS

_TEXTS_MAX: Final = 20
_INCLUDE: Final = re.compile(r"include\s+(\S.*)")
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)")
_TIMES_S: Final = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = re.compile(r"(\d+)([kmgtp]?)(?:i?b)?", re.IGNORECASE)
WITHOUT_FILES: Final = ("null", "cpuio")
"""The engines that touch no storage."""
_ON_FILES: Final = (
    *("falloc", "ftruncate", "filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete"),
    "e4defrag",
)
MAKING: Final = (*WITHOUT_FILES, "filecreate", "dircreate")
"""The engines for which nothing is made beforehand."""

_TIME: Final = form(r"\d{1,9}(us|ms|s|m|h)?", "a time such as 30s")
_COUNT: Final = form(r"\d{1,9}", "a whole number")
_NAME: Final = form(r"[^/$\\]{1,200}", "a name without / and $")
_DIRECTIONS: Final = (
    *("read", "write", "trim", "randread", "randwrite", "randtrim", "rw", "readwrite", "randrw"),
    *("trimwrite", "randtrimwrite"),
)
_OF_E4DEFRAG: Final = ("donorname", "inplace")
_MARKS: Final = "stonewall wait_for_previous"
_FORMS: Final[Forms] = {
    **OPTIONS,
    **named("rw readwrite", form(rf"({'|'.join(_DIRECTIONS)})(:-?\d{{1,6}}[kKmMgG]?)?", "such as randread")),
    "ioengine": one_of(
        *("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring"),
        *("mmap", "aio", "linuxaio"),
        *(*WITHOUT_FILES, *_ON_FILES),
    ),
    **named("runtime timeout ramp_time", _TIME),
    **named("startdelay start_delay", form(r"\d{1,9}(us|ms|s|m|h)?(-\d{1,9}(us|ms|s|m|h)?)?", "such as 5s")),
    **named("size filesize io_size io_limit", form(r"\d{1,15}([kKmMgGtTpP]?([iI]?[bB])?|%)", "such as 64m")),
    **named(
        "time_based thread threads new_group unlink unlink_each_loop exitall exitall_on_error "
        f"fill_device fill_fs create_serialize create_fsync allow_file_create verify_only {_MARKS}",
        SWITCH,
    ),
    **named("loops nrfiles nr_files openfiles flow flow_watermark flow_sleep cpuload cpuchunks", _COUNT),
    "cpumode": one_of("noop", "qsort"),
    "wait_for": _NAME,
    **dict.fromkeys(_OF_E4DEFRAG, _NAME),
    "exit_what": one_of("all", "group", "stonewall"),
    "file_service_type": form(r"(random|roundrobin|sequential|zipf|pareto|gauss)(:[\d.:]+)?", "a kind"),
    "filename_format": form(r"[\w.-]*(\$(jobname|jobnum|filenum|clientuid)[\w.-]*)+", "a name"),
    **named("steadystate ss", form(r"(iops|bw)(_slope)?:\d+(\.\d+)?%?", "such as iops:1%")),
    **named(
        "steadystate_duration ss_dur steadystate_ramp_time ss_ramp steadystate_check_interval ss_interval",
        _TIME,
    ),
    "continue_on_error": one_of("none", "read", "write", "io", "verify", "all", "1"),
    "ignore_error": form(r"[A-Z0-9:,]{1,200}", "names of errors"),
    **named("ratemin", OPTIONS["rate_min"]),
    "verify": form(r"none|null|meta|pattern|[a-z]{2,6}[0-9a-z-]{0,9}|[01]", "a checksum, meta or pattern"),
    "verify_pattern": form(r"(0x[0-9a-fA-F]{2,1024}|\d{1,10}|%o|\"[^\"$/\\]{1,200}\")+", "a pattern"),
    "buffer_pattern": form(r"(0x[0-9a-fA-F]{2,1024}|\d{1,10}|\"[^\"$/\\]{1,200}\")+", "a pattern"),
    "zonemode": one_of("none", "strided"),
    "sprandom": SWITCH,
    **named("spr_num_regions", _COUNT),
    "spr_op": form(r"\d{1,2}(\.\d+)?", "a share"),
    "lfsr_seed": _COUNT,
    **named("zonesize zonerange zoneskip", SIZE),
}  # fmt: skip

_OMITTED: Final = {
    **named("group_reporting per_job_logs unified_rw_reporting", "every section has figures of its own"),
    **named(
        "write_bw_log write_lat_log write_iops_log write_hist_log bandwidth_log log_avg_msec "
        "log_max_value log_hist_msec log_hist_coarseness log_offset log_compression log_prio "
        "log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch log_entries "
        "log_issue_time log_window_value bwavgtime iopsavgtime",
        "the trial samples rates itself and keeps whole distributions of latencies",
    ),
    **named(
        "disable_lat disable_clat disable_slat disable_bw disable_bw_measurement gtod_reduce "
        "lat_percentiles clat_percentiles slat_percentiles percentile_list significant_figures "
        "stats error_dump verify_dump disk_util eta_interval status_interval",
        "Strata reads fio's full figures",
    ),
    **named("randseed randrepeat allrandrepeat use_os_rand", "random numbers derive from the trial's seed"),
    **named("clocksource gtod_cpu clat_cpu", "the clock is the trial's"),
    **named("name description wait_for_new", "it names the job"),
    **named(
        "cpus_allowed cpumask cpus_allowed_policy numa_cpu_nodes numa_mem_policy sqthread_poll_cpu nice",
        "the trial places processors and memory; the study's cpus says how many there are",
    ),
    **named("iomem mem hugepage_size busy_poll", "buffers lie in ordinary memory"),
    **named("verify_state_save verify_state_load", "a trial keeps no files between runs"),
    **named("allow_mounted_write readonly", "the stack is made for the trial"),
}
"""Options that are left out, with the reason: none changes the requests."""

_REFUSED: Final = {
    **named(
        "exec_prerun exec_postrun program arguments std_redirect", 'it runs a program: workload = "command"'
    ),
    **named(
        "read_iolog merge_blktrace_file replay_redirect replay_no_stall",
        'a recorded load: workload = "trace"',
    ),
    **named("write_iolog", "it would record where nothing keeps it: strata trace has a trial's requests"),
    **named(
        "cmdprio cmdprio_class cmdprio_percentage cmdprio_bssplit", "only root may raise requests' priority"
    ),
    **named("ioscheduler", "the scheduler belongs to the stack"),
    **named("cgroup cgroup_weight cgroup_nodelete", "limits belong to guests and tenants"),
    **named("kb_base unit_base", "its sizes would count thousands: write sizes such as 256GiB without it"),
    **named("uid gid", "the load has the user that the trial gives it"),
    **named("opendir", "it reads whatever lies in a folder, and a trial's is empty"),
    **named("create_only", "it creates files and measures nothing"),
    **named("lockmem", "memory belongs to the study: memory"),
    **named(
        "max_open_zones zone_reset_threshold zone_reset_frequency read_beyond_wp",
        "no disk has zones to reset",
    ),
    **named("profile", "a profile is a set of jobs outside the file"),
}
_ENGINES: Final = {
    **named(
        "net netsplice rdma http nfs libiscsi nbd",
        "it talks to a server over a network, and a trial has none",
    ),
    **named("rados rbd dfs gfapi gfapi_async ime_psync ime_psyncv ime_aio libhdfs", "it talks to a cluster"),
    **named(
        "dev-dax libpmem mtd pmemblk cuda libcufile gpudirect libhipfile", "no such hardware is modelled"
    ),
    **named(
        "sg libzbc io_uring_cmd xnvme libblkio spdk", "it passes the block layer by, to a real controller"
    ),
    **named("exec external", "it runs a program of the job's own"),
    **named("windowsaio solarisaio", "it is of another system: libaio does the same on Linux"),
    **named("page_fault cpp_null splice guasi", "the lab's fio does not have it, or it measures no storage"),
}


@dataclass(frozen=True)
class JobLine:
    """An option where it stands; one without a value is set."""

    place: str
    name: str
    value: str


@dataclass(frozen=True)
class JobSection:
    """A job with its options, those of [global] before its own."""

    name: str
    place: str
    lines: tuple[JobLine, ...]

    def get(self, *names: str) -> str | None:
        return next((each.value for each in reversed(self.lines) if each.name in names), None)

    def has(self, *names: str) -> bool:
        return self.get(*names) not in (None, "0", "none")

    def count(self, *names: str) -> int:
        """A number whose form may be wrong; 1 then, and where there is none."""
        given = self.get(*names) or ""
        return int(given) if given.isdecimal() else 1

    @property
    def key(self) -> str:
        """What its metrics begin with."""
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_") or "job"

    @property
    def engine(self) -> str:
        return (self.get("ioengine") or "psync").partition(":")[0]

    @property
    def pattern(self) -> str:
        return (self.get("rw", "readwrite") or "read").partition(":")[0]

    @property
    def size_bytes(self) -> int | None:
        """Of its files together, for each of its jobs; None: not stated, or a share."""
        if (size := _bytes(self.get("size"))) is not None:
            return size
        each = _bytes(self.get("filesize"))
        return None if each is None else each * self.count("nrfiles", "nr_files")

    @property
    def is_sized(self) -> bool:
        """Whether fio knows how much there is of it, or needs not know."""
        without = self.engine in (*WITHOUT_FILES, *_ENGINES)
        return without or self.size_bytes is not None or self.has("fill_device", "fill_fs")

    @property
    def time_ns(self) -> int | None:
        """From the start of its group to its end; None: until its work is done."""
        if (runtime := _time_s(self.get("runtime", "timeout"))) in (None, 0):
            return None
        delay = _time_s((self.get("startdelay", "start_delay") or "0").rpartition("-")[2])
        ramp = _time_s(self.get("ramp_time"))
        return round(((runtime or 0) + (delay or 0) + (ramp or 0)) * NS_PER_S)

    def files(self) -> list[str]:
        """The names by which it finds its files, as in the job file; none: fio makes them up."""
        folder = self.get("directory") or ""
        return [
            posixpath.join(folder, each) for each in re.split(r"(?<!\\):", self.get("filename") or "") if each
        ]


def _bytes(text: str | None) -> int | None:
    found = _BYTES.fullmatch(text or "")
    return int(found[1]) << 10 * " kmgtp".index(found[2].lower() or " ") if found else None


def _time_s(text: str | None) -> float | None:
    found = _DURATION.fullmatch(text or "")
    return float(found[1]) * _TIMES_S[found[2].lower()] if found and found[2].lower() in _TIMES_S else None


@dataclass(frozen=True)
class Job:
    sections: tuple[JobSection, ...]
    lines: tuple[JobLine, ...]  # all of them, those of [global] once
    mistakes: tuple[tuple[str, str, str | None], ...] = ()  # of the file's form: place, cause, remedy

    @property
    def groups(self) -> list[list[JobSection]]:
        """The sections that run at the same time; ``stonewall`` waits for all before it."""
        found: list[list[JobSection]] = []
        for section in self.sections:
            if not found or section.has(*_MARKS.split()):
                found.append([])
            found[-1].append(section)
        return found

    @property
    def names(self) -> dict[str, str]:
        """The beginning of each section's metrics, by its name; empty for one alone."""
        names = dict.fromkeys(each.name for each in self.sections)
        keys: dict[str, int] = {}
        found = {}
        for each in self.sections:
            if each.name not in found:
                keys[each.key] = keys.get(each.key, 0) + 1
                number = f"_{keys[each.key]}" if keys[each.key] > 1 else ""
                found[each.name] = "" if len(names) == 1 else f"{each.key}{number}_"
        return found

    @property
    def data_bytes(self) -> int:
        """The size of all files, as far as sections state it."""
        sizes: dict[object, int] = {}
        for at, section in enumerate(self.sections):
            if section.engine not in WITHOUT_FILES:
                files, size = tuple(section.files()), section.size_bytes or 0
                jobs = 1 if files else section.count("numjobs")  # with files of their own
                sizes[files or at] = max(sizes.get(files or at, 0), size * jobs)
        return sum(sizes.values())


def with_job_texts(table: dict[str, object], read: Callable[[str, str], str]) -> None:
    """Put the text of a table's ``job``, and of the files that it includes, beside it."""
    name = table.get("job")
    if not isinstance(name, str) or "job_text" in table:
        return
    table["job_text"] = read("job", name)
    found: dict[str, str] = {}
    waiting = [(posixpath.dirname(name), str(table["job_text"]))]
    while waiting and len(found) < _TEXTS_MAX:
        folder, text = waiting.pop()
        for each in map(str.strip, text.splitlines()):
            if (match := _INCLUDE.fullmatch(each)) and match[1] not in found:
                found[match[1]] = read("job", posixpath.join(folder, match[1]))
                waiting.append((posixpath.join(folder, posixpath.dirname(match[1])), found[match[1]]))
    if found:
        table["job_includes"] = found


def read_job(text: str, includes: Mapping[str, str], variables: Mapping[str, str]) -> Job:
    return _read(text, tuple(sorted(includes.items())), tuple(sorted(variables.items())))


@lru_cache(maxsize=64)
def _read(text: str, includes: tuple[tuple[str, str], ...], variables: tuple[tuple[str, str], ...]) -> Job:
    texts, values = dict(includes), dict(variables)
    shared: list[JobLine] = []
    lines: list[JobLine] = []
    mistakes: list[tuple[str, str, str | None]] = []
    sections: list[tuple[str, str, list[JobLine]]] = []
    is_global = False

    def filled(place: str, written: str) -> str:
        for name in _VARIABLE.findall(written):
            if name not in values:
                remedy = f'write variables = {{ {name} = "..." }}'
                mistakes.append((place, f"the environment variable {name} has no value", remedy))
        return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), written)

    for place, raw in _numbered(text, texts, "", mistakes, 0):
        line = filled(place, raw)
        if line.startswith("["):
            name = line[1:].rpartition("]")[0]
            is_global = name.lower() == "global"
            if not is_global:
                sections.append((name, place, [*shared]))
        elif not sections and not is_global:
            mistakes.append(
                (place, f'"{line[:60]}" stands before any section', "begin with [global] or [name]")
            )
        else:
            option, is_given, value = line.partition("=")
            found = JobLine(place, option.strip().lower(), value.strip() if is_given else "1")
            lines.append(found)
            (shared if is_global else sections[-1][2]).append(found)
    if not sections:
        mistakes.append(("", "it has no section but [global], so nothing would run", "add [name]"))
    jobs = tuple(JobSection(name, place, tuple(of)) for name, place, of in sections)
    return Job(jobs, tuple(lines), tuple(mistakes))


def _numbered(
    text: str, texts: Mapping[str, str], file: str, mistakes: list[tuple[str, str, str | None]], depth: int
) -> Iterator[tuple[str, str]]:
    """The lines without comments, each with its place; those of an included file in its stead."""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.split(r"[;#]", raw, maxsplit=1)[0].strip()
        place = f"line {number}{f' of {file}' if file else ''}"
        if (match := _INCLUDE.fullmatch(line)) is None:
            yield from [(place, line)] if line else []
        elif match[1] in texts and depth < _TEXTS_MAX:
            yield from _numbered(texts[match[1]], texts, match[1], mistakes, depth + 1)
        else:
            mistakes.append(
                (place, f"{match[1]} cannot be included", "put it beside the job file, not in itself")
            )


def job_diagnostics(job: Job, *, has_size: bool) -> Iterator[Diagnostic]:
    """All that cannot be honoured, by line."""
    for place, cause, remedy in job.mistakes:
        yield _at(place, cause, remedy)
    for line in job.lines:
        yield from _line_diagnostics(line)
    yield from () if has_size else _unsized(job)
    if job.sections and all(section.engine in WITHOUT_FILES for section in job.sections):
        yield _at("", "none of its sections does I/O", "such engines measure the processor")


def _unsized(job: Job) -> Iterator[Diagnostic]:
    sized = {tuple(each.files()) for each in job.sections if each.is_sized}
    for section in job.sections:
        is_device = any(map(_is_device, section.files())) and "%" not in (section.get("size") or "")
        if not (section.is_sized or is_device or (section.files() and tuple(section.files()) in sized)):
            cause = f"[{section.name}] does not state the size of its files"
            yield _at(section.place, cause, 'write size beside job, such as size = "1GiB"')


def _line_diagnostics(line: JobLine) -> Iterator[Diagnostic]:
    engine = line.value.partition(":")[0]
    if line.name in (*_OMITTED, "filename", "directory") or _VARIABLE.search(line.value):
        return
    if line.name == "ioengine" and engine in _ENGINES:
        yield _at(line.place, f"ioengine={line.value}: {_ENGINES[engine]}")
    elif line.name == "zonemode" and line.value == "zbd":
        yield _at(line.place, "zonemode=zbd: it needs a zoned block device, which no stack offers")
    elif line.name in _REFUSED:
        yield _at(line.place, f"{line.name}: {_REFUSED[line.name]}")
    else:
        for found in pair_diagnostics("fio option", {line.name: line.value}, _FORMS, key="job"):
            yield _at(line.place, found.cause, found.remedy)


def _at(place: str, cause: str, remedy: str | None = None) -> Diagnostic:
    return Diagnostic(f"{place}: {cause}" if place else cause, remedy=remedy, key="job")


def job_remarks(job: Job, on: Interface) -> Iterator[str]:
    """What is read otherwise than it stands there."""
    omitted: dict[str, dict[str, None]] = {}
    for line in job.lines:
        if (reason := _OMITTED.get(line.name)) is not None:
            omitted.setdefault(reason, {})[f"{line.place} ({line.name})"] = None
    for reason, places in omitted.items():
        yield f"job: {', '.join(places)} left out: {reason}"
    if any(section.has("ramp_time") for section in job.sections):
        yield "job: fio's figures leave ramp_time out, the disks' accounts of the window hold it"
    names = {name for section in job.sections for name in section.files() or [section.name]}
    if on == "block" and len(names) > 1:
        yield f"job: {len(names)} files or devices of the job are one device of the stack"


def needs_files(job: Job) -> bool:
    return any(section.engine in _ON_FILES for section in job.sections)


def bound(
    job: Job,
    sections: Iterable[JobSection],
    on: Interface,
    target: str,
    changes: Callable[[JobSection], Mapping[str, object]],
) -> str:
    """The sections as a job file on a stack's folder or device; ``changes`` go over a section's options."""
    of_all = [each for section in job.sections for each in section.files() if not _is_device(each)]
    has_folders = len({posixpath.dirname(each) for each in of_all}) > 1
    here = list(sections)
    text = ""
    for section in here:
        given = changes(section)
        lines = [f"{line.name}={line.value}".replace("$", "$$") for line in _kept(section, here, given)]
        if section.engine not in WITHOUT_FILES:
            files = [f"{target}/{_file(each, has_folders)}" for each in section.files()]
            if on == "block" or files:
                lines.append(f"filename={target if on == 'block' else ':'.join(files)}")
            else:
                lines.append(f"directory={target}")
        lines += [f"{name}={value}" for name, value in given.items() if value is not None]
        text += f"[{section.name}]\n".replace("$", "$$") + "".join(f"{line}\n" for line in lines)
    return text


def _kept(section: JobSection, here: Sequence[JobSection], given: Mapping[str, object]) -> Iterator[JobLine]:
    """The lines that fio reads as they are, of a section that runs with those ``here``."""
    left_out = {*_OMITTED, *given, *_MARKS.split(), "filename", "directory"}
    left_out |= set() if section.engine == "e4defrag" else set(_OF_E4DEFRAG)
    names = {each.name for each in here}
    for line in section.lines:
        if line.name not in left_out and (line.name != "wait_for" or line.value in names):
            yield line


def _is_device(file: str) -> bool:
    return file.startswith("/dev/")


def _file(name: str, is_whole: bool) -> str:
    """The name of a file on the stack: with its folders where the job has several."""
    plain = name.replace("\\", "").replace("$", "$$")
    return plain.strip("/").replace("/", "-") if is_whole else posixpath.basename(plain)
