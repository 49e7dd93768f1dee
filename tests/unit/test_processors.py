# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from execution_factory import TEXT, study_in

from strata.bundled import project_root
from strata.devices.processor import (
    FREE,
    PROCESSOR_PARAMETERS,
    bundled_processors,
    bundled_programs,
    find_processor,
    load_processor,
)
from strata.errors import DiagnosticsError
from strata.execution.schedule import plan_study
from strata.runners.fake import FakeRunner

SERVER = "generic-server-2024"


@pytest.mark.parametrize("name", bundled_processors())
def test_each_bundled_processor_states_source_and_range_of_each_parameter(name: str) -> None:
    processor = find_processor(name)

    assert processor.parameters.keys() == PROCESSOR_PARAMETERS.keys()
    for parameter in processor.parameters.values():
        assert len(parameter.source) > 3
        assert parameter.estimate == ("estimate" in parameter.source)
        if parameter.estimate:
            assert parameter.low < parameter.high
    assert processor.is_free == (name == FREE)


def test_each_bundled_program_states_what_was_measured_or_that_it_is_an_estimate() -> None:
    for program in bundled_programs().values():
        assert program.source.split()[0].rstrip(":") == ("estimate" if program.estimate else "measured")
        assert program.low < 1 < program.high


@pytest.mark.parametrize(
    ("sound", "wrong", "shown"),
    [
        ("unit_time =", "unit_tme =", 'did you mean "unit_time"'),
        ('unit = "ps/B"', 'unit = "ns/B"', 'must be "ps/B"'),
        ("value = 450, low = 350", "value = 300, low = 350", "not within its range"),
        ("high = 650", "high = 1e9", "the range exceeds"),
        ("low = 350, ", "", "this key is missing"),
        ("switch_time = { value = 2000", "switch_time = { value = -1", "out of range"),
        ("value = 1, low = 1", "value = 1.5, low = 1", "whole number"),
        ("[parameters]", "[parameter]", '"parameters"'),
        ("\n[parameters]", "\nprograms.sh = { system_call_ns = -1 }\n[parameters]", "too small"),
        # The lab's kernel would panic at these.
        ("\n[parameters]", '\nprograms."my tool" = {}\n[parameters]', '"my tool" is not the name'),
        ("\n[parameters]", f"\nprograms.{'x' * 32} = {{}}\n[parameters]", "is not the name"),
    ],
)
def test_a_wrong_processor_file_is_refused_with_a_remedy(
    tmp_path: Path, sound: str, wrong: str, shown: str
) -> None:
    text = (project_root() / "cpus" / f"{SERVER}.toml").read_text()
    assert sound in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(sound, wrong, 1))

    with pytest.raises(DiagnosticsError) as caught:
        load_processor(file)

    assert shown in str(caught.value)


def test_a_processor_file_adds_programs_and_an_unknown_program_has_the_default_price(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = (project_root() / "cpus" / f"{SERVER}.toml").read_text()
    price = 'system_call_ns = 5, low = 0.5, high = 2, source = "measured here", estimate = false'
    file.write_text(f"{text}\n[programs]\npostgres = {{ {price} }}\n")

    mine = find_processor("mine.toml", tmp_path)

    assert mine.programs["postgres"].system_call_ns == 5
    assert mine.programs["pgbench"] == find_processor(SERVER).programs["pgbench"]
    assert mine.prices("postgres")
    assert not mine.prices("never-seen")
    assert not mine.prices("default")
    assert mine.identity() != find_processor(SERVER).identity()


def test_more_programs_than_the_kernel_takes_are_refused(tmp_path: Path) -> None:
    text = (project_root() / "cpus" / f"{SERVER}.toml").read_text()
    price = 'system_call_ns = 5, low = 0.5, high = 2, source = "measured here", estimate = false'
    more = "".join(f"p{number} = {{ {price} }}\n" for number in range(128))
    (tmp_path / "mine.toml").write_text(f"{text}\n[programs]\n{more}")

    with pytest.raises(DiagnosticsError, match="more than 128"):
        load_processor(tmp_path / "mine.toml")


def test_the_kernel_reads_integer_prices_and_the_default_program_comes_last() -> None:
    lines = find_processor("generic-server-2024").with_processors(4).kernel_lines

    assert lines[0] == "processors 4"
    assert "price system_calls 110000" in lines  # ns become ps
    assert lines[-1].startswith("program * ")
    assert all(word.isdecimal() for line in lines for word in line.split()[2:])
    assert find_processor("free").kernel_lines == ()


def test_counted_work_becomes_time_by_part() -> None:
    processor = find_processor("generic-server-2024")

    found = processor.time_ns(
        {"block_units": 1000, "copy_bytes": 4096, "ios": 2, "user_ps": 5000, "other": 7}
    )

    own = processor.number("unit_time") + 2 * processor.number("io_time")
    assert found["system"] == round(own)
    assert found["copying"] == round(4096 * processor.number("copy_time") / 1000)
    assert found["user"] == 5
    assert not any(find_processor("free").time_ns({"block_units": 1000, "user_ps": 5000}).values())


@pytest.mark.parametrize(("time_domain", "alike"), [("wall", True), ("virtual", False)])
def test_a_price_is_no_part_of_a_trial_on_a_host(
    tmp_path: Path, time_domain: Literal["wall", "virtual"], alike: bool
) -> None:
    class Runner(FakeRunner):
        pass

    Runner.time_domain = time_domain
    plans = {}
    for cpu in ("generic-desktop", "free"):
        study = study_in(tmp_path, TEXT.replace("[study]", f'[study]\ncpu = "{cpu}"'))
        plans[cpu] = plan_study(study, Runner())[0]

    hashes = [[each.spec_sha256 for each in planned] for planned in plans.values()]
    assert (hashes[0] == hashes[1]) == alike
    assert all(each.plan.processor == () for each in plans["generic-desktop"]) == alike
