# SPDX-License-Identifier: Apache-2.0
"""Processors of the lab: what kernel and programs cost in virtual time, as TOML files of `cpus/`.

The kernel counts units of its code, bytes and events (`strata.lab` hands it the prices); user programs are
priced by system call, page fault and byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.bundled import project_root
from strata.devices.device import (
    check_bundled,
    check_range,
    complete_parameters,
    read_parameters,
)
from strata.devices.kind import Parameter, parameter_table
from strata.diagnostics.mistakes import Diagnostics, read_toml
from strata.diagnostics.names import Diagnostic, is_kebab

FREE: Final = "free"
"""The processor that takes no time."""
DEFAULT_PROCESSOR: Final = "generic-server-2024"
"""The processor of studies that name none."""
DEFAULT_PROGRAM: Final = "default"
"""The entry for programs without one."""
_PROGRAMS: Final = "programs"
# The kernel (kernel/cpu/strata_cpu.c) panics at other names, and at more programs.
_PROGRAM_NAME: Final = re.compile(r"[^\s/]+")
_NAME_BYTES_MAX: Final = 31
_PROGRAMS_MAX: Final = 128

PROCESSOR_PARAMETERS: Final = parameter_table("""
    processors             int 1..64 1   processors that compute at the same time
    unit_time              0..1e6 ps     time per counted unit of kernel code, about one GIMPLE statement by
                                         GCC's estimate_num_insns
    compression_unit_time  0..1e6 ps     time per unit in the code of zstd, lzo, zlib and lz4
    copy_time              0..1e6 ps/B   time to copy or clear memory, also to and from user memory
    checksum_time          0..1e6 ps/B   time of crc32c, xxhash and fletcher, with the vector or CRC
                                         instructions of real kernels
    hash_time              0..1e6 ps/B   time of SHA-256 and BLAKE2
    cipher_time            0..1e6 ps/B   time of AES-XTS with AES instructions
    parity_time            0..1e6 ps/B   time of xor, and of RAID 6's P and Q, per byte of data
    system_call_time       0..1e6 ns     entry and exit of a system call, with the usual mitigations
    page_fault_time        0..1e6 ns     entry and exit of a page fault
    switch_time            0..1e7 ns     a context switch, with the cold caches after it
    wakeup_time            0..1e7 ns     time that the waker spends on a wake-up
    idle_wakeup_time       0..1e7 ns     further time of a running waker if another processor is idle: an
                                         interrupt to it
    wakeup_latency         0..1e9 ns     time until an idle processor runs a woken task
    interrupt_time         0..1e7 ns     entry and exit of an interrupt
    io_time                0..1e8 ns     the part of a real driver's path per I/O that the modelled disk's
                                         driver lacks: mapping for DMA, doorbell, completion queue
    clock_read_time        0..1e6 ns     reading the clock without a system call
    user_factor            0..1e3 1      prices of programs, relative to the processor on which they were
                                         measured
""")


PRICES: Final = {
    "block_units": "unit_time",
    "compression_units": "compression_unit_time",
    "copy_bytes": "copy_time",
    "checksum_bytes": "checksum_time",
    "hash_bytes": "hash_time",
    "cipher_bytes": "cipher_time",
    "parity_bytes": "parity_time",
    "system_calls": "system_call_time",
    "page_faults": "page_fault_time",
    "switches": "switch_time",
    "wakeups": "wakeup_time",
    "idle_wakeups": "idle_wakeup_time",
    "interrupts": "interrupt_time",
    "ios": "io_time",
    "clock_reads": "clock_read_time",
}
"""The parameter that prices each counter of the lab's kernel."""


_PART_OF: Final = {
    "compression_units": "compression",
    "copy_bytes": "copying",
    "checksum_bytes": "checksums",
    "hash_bytes": "checksums",
    "cipher_bytes": "encryption",
    "parity_bytes": "parity",
}
PARTS: Final = ("user", "system", "copying", "checksums", "compression", "encryption", "parity")
"""The parts of the processors' time. ``system`` is the kernel's work without the others."""


class ProcessorParameter(Parameter):
    """A parameter with the ends of its plausible values."""

    low: StrictInt | StrictFloat
    high: StrictInt | StrictFloat


_Price = StrictInt | StrictFloat


class Program(BaseModel):
    """The user time of a program: the sum of its calls, page faults and bytes at these prices.

    ``low`` and ``high`` are factors of all its prices: the ends of what other loads of the program took.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    system_call_ns: _Price = Field(ge=0, le=1e9, description="user time per system call")
    page_fault_ns: _Price = Field(0, ge=0, le=1e9, description="user time per page fault")
    read_ps_per_byte: _Price = Field(
        0, ge=0, le=1e9, description="user time per byte read, from files or pipes"
    )
    write_ps_per_byte: _Price = Field(0, ge=0, le=1e9, description="user time per byte written")
    low: _Price = Field(gt=0, le=1)
    high: _Price = Field(ge=1, le=1000)
    source: StrictStr = Field(min_length=1)
    estimate: StrictBool

    def scaled(self, factor: float) -> Program:
        names = ("system_call_ns", "page_fault_ns", "read_ps_per_byte", "write_ps_per_byte")
        return self.model_copy(update={name: getattr(self, name) * factor for name in names})


@dataclass(frozen=True)
class Processor:
    """The time that a processor takes for the kernel's and the programs' work.

    Attributes:
        parameters: By name; `PROCESSOR_PARAMETERS` has the units.
        programs: By the base name of the executable file, with `DEFAULT_PROGRAM` for all others; prices of
            the reference processor, which ``user_factor`` multiplies.
        drawn: Of a plausible processor (`strata.devices.plausible`), the drawn parameters by name, and as
            ``programs.NAME`` the factor of a program's prices.
    """

    name: str
    title: str
    parameters: Mapping[str, ProcessorParameter]
    programs: Mapping[str, Program]
    drawn: Mapping[str, float] = field(default_factory=dict)

    def number(self, name: str) -> float:
        """The value of a parameter, in its unit."""
        return float(self.parameters[name].value)

    def prices(self, name: str) -> bool:
        """Whether a program has a price of its own."""
        return name in self.programs and name != DEFAULT_PROGRAM

    def with_programs(self, programs: Mapping[str, Program]) -> tuple[Processor, list[Diagnostic]]:
        """The processor with further prices of programs, or with others; and the prices that differ already.

        All trials of a study have one processor.
        """
        known = bundled_programs()
        refused = [
            Diagnostic("another workload gives this program another price", remedy="give one price", key=name)
            for name, program in programs.items()
            if name in self.programs and self.programs[name] not in (program, known.get(name))
        ]
        refused += [problem for name in programs if (problem := _name_problem(name))]
        return replace(self, programs={**self.programs, **programs}), refused

    def with_processors(self, processors: int) -> Processor:
        stated = self.parameters["processors"].model_copy(update={"value": processors})
        return replace(self, parameters={**self.parameters, "processors": stated})

    def with_values(self, drawn: Mapping[str, float]) -> Processor:
        """The processor with drawn values, which have the names of ``drawn``."""
        parameters = {
            name: each.model_copy(update={"value": drawn.get(name, each.value)})
            for name, each in self.parameters.items()
        }
        programs = {
            name: each.scaled(drawn.get(f"programs.{name}", 1.0)) for name, each in self.programs.items()
        }
        return replace(self, parameters=parameters, programs=programs, drawn=drawn)

    def price_ps(self, counter: str) -> int:
        """The price of one unit, byte or event that the lab's kernel counts; of any other counter 0.

        It is rounded as the kernel has it, so that the parts of the time add up to the busy time.
        """
        parameter = PRICES.get(counter)
        if parameter is None:
            return 0
        return round(self.number(parameter) * (1000 if PROCESSOR_PARAMETERS[parameter].unit == "ns" else 1))

    def time_ns(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The time of counted work, by part."""
        parts = dict.fromkeys(PARTS, 0)
        for counter, count in counts.items():
            parts[_PART_OF.get(counter, "system")] += count * self.price_ps(counter)
        parts["user"] = 0 if self.is_free else counts.get("user_ps", 0)
        return {part: round(ps / 1000) for part, ps in parts.items()}

    @cached_property
    def kernel_lines(self) -> tuple[str, ...]:
        """The text that the lab's kernel reads (``kernel/cpu/strata_cpu.c``); none for a free processor."""
        if self.is_free:
            return ()
        factor = self.number("user_factor")

        def line(name: str, program: Program) -> str:
            prices = (
                program.system_call_ns * 1000,
                program.page_fault_ns * 1000,
                program.read_ps_per_byte,
                program.write_ps_per_byte,
            )
            return f"program {name} " + " ".join(str(round(price * factor)) for price in prices)

        named = sorted(name for name in self.programs if name != DEFAULT_PROGRAM)
        return (
            f"processors {round(self.number('processors'))}",
            f"wakeup_latency {round(self.number('wakeup_latency'))}",
            *(f"price {counter} {self.price_ps(counter)}" for counter in PRICES),
            *(line(name, self.programs[name]) for name in named),
            line("*", self.programs[DEFAULT_PROGRAM]),  # the kernel takes the last one for all others
        )

    @property
    def is_free(self) -> bool:
        return not any(self.number(name) for name in self.parameters if name != "processors")

    def identity(self) -> dict[str, Any]:
        """The values, which identify the processor to a trial, without name, title and sources."""
        rest = {"low", "high", "source", "estimate"}
        return {
            "parameters": {name: each.value for name, each in self.parameters.items()},
            "programs": {name: each.model_dump(exclude=rest) for name, each in sorted(self.programs.items())},
        }


class _ProcessorFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    title: StrictStr = Field(min_length=1, examples=["Maker model, year"])
    parameters: dict[str, Any] = Field(description="a table [parameters]")
    programs: dict[str, Any] = Field(default={}, description="tables [programs.NAME]")


class _ProgramsFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    programs: dict[str, Any] = Field(description="tables [programs.NAME]")


def bundled_processors() -> list[str]:
    return sorted(file.stem for file in (project_root() / "cpus").glob("*.toml") if file.stem != _PROGRAMS)


def find_processor(name: str, relative_to: Path | None = None) -> Processor:
    """The bundled processor of a name, or the processor of a ``.toml`` file; raises as `load_processor`."""
    if name.endswith(".toml"):
        return load_processor((relative_to or Path()) / name)
    check_bundled("processor", name, bundled_processors())
    return _bundled(name)


@cache
def _bundled(name: str) -> Processor:
    return load_processor((project_root() / "cpus") / f"{name}.toml")


@cache
def bundled_programs() -> Mapping[str, Program]:
    """The prices of programs that come with Strata."""
    tables, diagnostics = read_toml((project_root() / "cpus") / f"{_PROGRAMS}.toml")
    diagnostics.model(_ProgramsFile, tables, ())
    programs = _read_programs(tables.get("programs"), diagnostics)
    diagnostics.raise_all()
    return programs


def load_processor(file: Path) -> Processor:
    """Read a processor file; its programs add to the bundled ones, or replace them.

    Raises StudyError if the file cannot be read or is not TOML, DiagnosticsError with all mistakes in it.
    """
    tables, diagnostics = read_toml(file)
    if not is_kebab(file.stem):
        cause = f'the file\'s name "{file.stem}" is not in kebab case'
        diagnostics.add((), cause, 'such as "generic-desktop"')
    head = diagnostics.model(_ProcessorFile, tables, ())
    raw = tables.get("parameters")
    parameters = {}
    if isinstance(raw, dict):
        parameters = read_parameters(
            "parameters", PROCESSOR_PARAMETERS, (), raw, diagnostics, model=ProcessorParameter
        )
        complete_parameters(parameters, PROCESSOR_PARAMETERS, raw, diagnostics)
    for name, each in parameters.items():
        check_range(each, PROCESSOR_PARAMETERS[name], ("parameters", name), diagnostics)
    programs = {**bundled_programs(), **_read_programs(tables.get("programs"), diagnostics)}
    if len(programs) > _PROGRAMS_MAX:
        cause = f"with the bundled ones {len(programs)} programs are priced, more than {_PROGRAMS_MAX}"
        diagnostics.add(("programs",), cause, "leave out programs that no study runs")
    diagnostics.raise_all()
    assert head is not None
    return Processor(file.stem, head.title, parameters, programs)


def _read_programs(raw: object, diagnostics: Diagnostics) -> dict[str, Program]:
    found = {}
    for name, stated in raw.items() if isinstance(raw, dict) else ():
        if problem := _name_problem(name):
            diagnostics.extend(("programs",), [problem])
        elif (program := diagnostics.model(Program, stated, ("programs", name))) is not None:
            found[name] = program
    return found


def _name_problem(name: str) -> Diagnostic | None:
    if _PROGRAM_NAME.fullmatch(name) and len(name.encode()) <= _NAME_BYTES_MAX:
        return None
    limits = f"without spaces, at most {_NAME_BYTES_MAX} bytes"
    remedy = f"the key is the base name of the executable file, {limits}"
    return Diagnostic(f'"{name}" is not the name of a program', remedy=remedy, key=name)
