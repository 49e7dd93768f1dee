# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from strata.devices.processor import PROCESSOR_PARAMETERS, find_processor, load_processor
from strata.pricing.benchmark import CountedOperation
from strata.pricing.files import processor_toml, program_toml
from strata.pricing.fit import CLOCK, COUNTED, USER_CODE, WAKEUP, fit_processor
from strata.pricing.programs import ProgramLoad, measure_load, price_program
from strata.pricing.tasks import TaskUsage

SERVER = find_processor("generic-server-2024")
SHOWN = [each for each in COUNTED.values() if each not in {"cipher_time", "parity_time", "interrupt_time"}]


def operations(
    prices: Mapping[str, float], error: float, seed: int
) -> tuple[dict[str, CountedOperation], dict[str, CountedOperation]]:
    """A host with these prices, whose operations are ``error`` off, and the lab's counts."""
    random = np.random.default_rng(seed)
    host, lab = {}, {}
    for index in range(60):
        counts = {"block_units": 10 ** random.uniform(2, 5), "system_calls": 1.0}
        for counter, typical in (("copy_bytes", 5e4), ("checksum_bytes", 1e5), ("hash_bytes", 1e4)):
            counts[counter] = typical * random.uniform(0.5, 2) if random.random() < 0.4 else 0.0
        for counter in ("page_faults", "switches", "wakeups"):
            counts[counter] = float(random.integers(1, 9)) if random.random() < 0.4 else 0.0
        counts["compression_units"] = 1e5 if random.random() < 0.3 else 0.0
        ns = sum(counts[each] * prices[COUNTED[each]] * scale(COUNTED[each]) for each in counts)
        ns *= math.exp(random.normal(0, error))
        host[f"operation-{index}"] = CountedOperation(ns, ns, {})
        lab[f"operation-{index}"] = CountedOperation(0.0, 0.0, counts)
    return host, lab


def scale(parameter: str) -> float:
    return 1.0 if PROCESSOR_PARAMETERS[parameter].unit == "ns" else 1e-3


def test_the_fit_recovers_the_prices_of_a_host_from_its_operations() -> None:
    for seed, slower in ((1, 0.3), (2, 0.7), (3, 1.0), (4, 1.5), (5, 4.0)):
        prices = {name: SERVER.number(name) * slower for name in COUNTED.values()}

        fit = fit_processor(*operations(prices, 0.1, seed), SERVER, "a host")

        unit = fit.parameters["unit_time"]
        assert float(unit.value) == pytest.approx(prices["unit_time"], rel=0.25)
        assert not unit.estimate
        measured = [name for name in SHOWN if not fit.parameters[name].estimate]
        assert len(measured) >= len(SHOWN) - 3
        for name in measured:
            assert abs(math.log(float(fit.parameters[name].value) / prices[name])) < math.log(3), name
        assert fit.error_factor < 1.3


def test_the_fit_tells_a_switch_from_the_work_of_waking_another_processor() -> None:
    units, pair = SERVER.number("unit_time") / 1000, 2 * (1_500 + SERVER.number("wakeup_time"))
    host, lab = {}, {}
    for index in range(12):
        counts = {"block_units": 1e4, "switches": 2.0, "wakeups": 2.0, "idle_wakeups": 2.0}
        is_on_one = index == 0
        name = "socket-turn" if is_on_one else f"direct-{index}"
        ns = 1e4 * units + pair + (0 if is_on_one else 2 * 20_000)
        host[name], lab[name] = CountedOperation(ns, ns, {}), CountedOperation(0.0, 0.0, counts)

    fit = fit_processor(host, lab, SERVER, "a host")

    assert 10_000 < float(fit.parameters["idle_wakeup_time"].value) < 25_000
    assert float(fit.parameters["switch_time"].value) < 3_000


def test_a_few_odd_operations_do_not_move_the_fit() -> None:
    prices = {name: SERVER.number(name) for name in COUNTED.values()}
    host, lab = operations(prices, 0.05, 1)
    for index in (3, 17, 40):
        host[f"operation-{index}"] = CountedOperation(host[f"operation-{index}"].processor_ns * 20, 0.0, {})

    fit = fit_processor(host, lab, SERVER, "a host")

    assert float(fit.parameters["unit_time"].value) == pytest.approx(prices["unit_time"], rel=0.2)
    assert fit.share_within(1.6) >= 0.9


def test_what_no_operation_shows_stays_an_estimate_and_the_file_can_be_read_again(tmp_path: Path) -> None:
    host, lab = operations({name: SERVER.number(name) for name in COUNTED.values()}, 0.1, 2)
    host |= {CLOCK: CountedOperation(25.0, 25.0, {}), USER_CODE: CountedOperation(24_000.0, 24_000.0, {})}
    host |= {WAKEUP: CountedOperation(4_000.0, 9_000.0, {})}
    fit = fit_processor(host, lab, SERVER, 'a "host"')
    file = tmp_path / "mine.toml"
    file.write_text(processor_toml('a "host"', fit.parameters))

    read = load_processor(file)

    assert read.title == 'a "host"'
    assert read.parameters == fit.parameters
    assert read.number("clock_read_time") == 25
    assert read.number("user_factor") == pytest.approx(1, rel=0.01)
    assert read.number("wakeup_latency") == (9_000 - 4_000) / 2
    assert fit.wakeup_ns == read.number("wakeup_latency")
    disturbed = fit_processor(
        host | {WAKEUP: CountedOperation(4_000.0, 200_000.0, {})}, lab, SERVER, "a host"
    )
    assert disturbed.parameters["wakeup_latency"].estimate
    assert disturbed.wakeup_ns == 98_000
    for name in ("cipher_time", "parity_time", "io_time"):
        assert read.parameters[name].estimate
        assert read.number(name) == SERVER.number(name)


def load(calls: int, faults: int, read: int, written: int, user_ns: float) -> ProgramLoad:
    return ProgramLoad(TaskUsage(round(user_ns), 1, 0, faults, read, written), calls)


def test_a_program_that_is_paced_by_its_calls_gets_a_price_per_call() -> None:
    amounts = [(10_000, 500, 10**6, 10**6), (90_000, 700, 10**8, 10**5), (40_000, 9_000, 10**5, 10**7)]

    price = price_program([load(*each, 5_000 * each[0]) for each in amounts[1:]], "two loads")

    assert price.system_call_ns == pytest.approx(5_000, rel=0.05)
    assert (price.read_ps_per_byte, price.write_ps_per_byte) == (0, 0)


def test_a_compressor_gets_a_price_per_byte_also_from_one_load() -> None:
    amounts = [(2_000, 200, 10**8, 10**7), (50_000, 300, 2 * 10**8, 10**8), (9_000, 100, 4 * 10**8, 10**7)]

    several = price_program([load(*each, each[2] * 20) for each in amounts], "three loads")
    one = price_program([load(*amounts[0], 10**8 * 20)], "one load")

    assert several.read_ps_per_byte == pytest.approx(20_000, rel=0.1)
    assert (one.read_ps_per_byte, one.system_call_ns) == (20_000, 0)
    entry = tomllib.loads(program_toml("mkfs.ext4", several))["programs"]["mkfs.ext4"]
    assert entry["read_ps_per_byte"] == several.read_ps_per_byte


def test_a_program_that_moves_hardly_any_bytes_gets_no_price_per_byte() -> None:
    # redis-benchmark on the reference processor: what it receives from sockets is not counted as read.
    calls = (2_915_643, 2_700_237, 230_967, 2_877_187, 2_896_796, 2_836_856, 2_826_664)
    user_ns = (326e6, 477e6, 229e6, 362e6, 454e6, 416e6, 425e6)
    loads = [load(each, 600, 13_312, 5_120, took) for each, took in zip(calls, user_ns, strict=True)]

    price = price_program(loads, "seven loads")

    assert price.read_ps_per_byte == price.write_ps_per_byte == 0
    assert 100 < price.system_call_ns < 300


@pytest.mark.root
def test_the_calls_faults_and_bytes_of_a_program_are_counted(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may count")
    if not Path("/sys/kernel/tracing/events/raw_syscalls").exists():
        pytest.skip("no tracefs is mounted")
    name = f"dd-{os.getpid()}"
    shutil.copy("/usr/bin/dd", tmp_path / name)
    script = f"for i in 1 2 3; do ./{name} if=/dev/zero of=/dev/null bs=4096 count=10000; done"

    counted = measure_load(name, ["sh", "-c", f"cd {tmp_path} && {script}"])

    assert 60_000 <= counted.system_calls < 62_000
    assert 3 * 40_960_000 <= counted.usage.read_bytes < 3 * 41_100_000
    assert counted.usage.page_faults > 100
    assert counted.usage.processor_ns > 0
