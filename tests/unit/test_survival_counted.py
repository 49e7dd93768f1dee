# SPDX-License-Identifier: Apache-2.0
"""What workloads know of the operations acknowledged before a power cut, and what they find of them."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from execution_factory import TEXT, study_in

from strata.errors import RunError
from strata.model.survival import CountsAcknowledged, Kept, why_uncounted
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.plan.aspects.power_cut import ACKNOWLEDGED
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.recovery import compile_recovery
from strata.units import NS_PER_MS
from strata.workloads.generator.load import Load
from strata.workloads.sysbench.oltp import SysbenchOltp

CUT = WorkloadContext("counted", 1, is_cut=True)
PLAIN = WorkloadContext("counted", 1)


def oltp(server: str = "mariadb", **keys: object) -> SysbenchOltp:
    return SysbenchOltp.model_validate({"server": server, "duration": "3s", "threads": 2, **keys})


def varmail(**keys: object) -> Load:
    return Load.model_validate({"personality": "varmail", "duration": "3s", **keys})


def found(**outputs: str) -> Outputs:
    return Outputs({name.replace("_", "-"): StepOutput(text) for name, text in outputs.items()})


def script(workload: SysbenchOltp, context: WorkloadContext = CUT) -> str:
    return next((step.stdin or "" for step in workload.steps(context) if step.id == "sysbench-script"), "")


def promised(*sizes: int | None) -> str:
    """The promises of files, as the generator keeps them."""
    numbers = (0 if size is None else size + 1 for size in sizes)
    return base64.b64encode(b"".join(struct.pack("<Q", number) for number in numbers)).decode()


def test_sysbench_counts_only_where_the_power_is_cut() -> None:
    for server in ("mariadb", "postgresql"):
        counting = [step.id for step in oltp(server).steps(CUT)]
        assert "sysbench-counted" in counting
        assert "strata_counted" in script(oltp(server))
        assert "sysbench-counted" not in [step.id for step in oltp(server).steps(PLAIN)]
        assert "strata_counted" not in script(oltp(server), PLAIN)


def test_a_script_without_transactions_gets_one_around_each_statement_and_its_count() -> None:
    keys: dict[str, Any]
    for keys, commits in (
        ({"script": "oltp_write_only"}, "true"),
        ({"script": "oltp_update_index"}, "false"),
        ({"script": "legacy-complex", "tables": 1}, "true"),
        ({"script": "legacy-nontrx-insert", "tables": 1}, "false"),
        ({"script_text": "BEGIN;\nUPDATE sbtest1 SET k = 1 WHERE id = :id;\nCOMMIT;"}, "true"),
    ):
        assert f"local HAS_COMMIT = {commits}\n" in script(oltp(**keys))


def test_what_writes_nothing_or_does_not_commit_is_not_counted_and_says_why() -> None:
    own = "UPDATE sbtest1 SET k = 1 WHERE id = :id;\n"

    assert oltp(script="oltp_read_only").uncounted == "oltp_read_only writes nothing"
    assert "ends in COMMIT" in (oltp(script_text=own).uncounted or "")
    assert "strata_counted" not in script(oltp(script_text=own))
    assert oltp(script_text=f"BEGIN;\n{own}COMMIT;\n").uncounted is None


def test_lost_is_what_a_threads_row_lacks_of_its_note() -> None:
    said = "0 70\n1 64\n"

    assert oltp().kept(said, found(sysbench_left="1|60\n0|71\n")) == Kept(134, 4)
    assert oltp().kept(said, found(sysbench_left="0\t70\n")) == Kept(134, 64)
    assert oltp().kept(said, found()) == Kept(134, 134)


def test_rows_that_a_transaction_may_not_lose_are_damage() -> None:
    keeping, adding = oltp(rows=100), oltp(script="oltp_insert", rows=100)
    outputs = found(sysbench_left="0 70\n", sysbench_rows="sbtest1\t99\t11880\n")

    assert keeping.kept("0 70\n", outputs).damage == "of tables with 100 rows, sbtest1 has 99"
    assert adding.kept("0 70\n", outputs).damage == ""


def test_garbled_notes_of_sysbench_are_an_error() -> None:
    for said in ("", "0 x\n", "0 70\n-1 2\n"):
        with pytest.raises(RunError):
            oltp().kept(said, found())


def test_the_generator_keeps_promises_only_where_the_power_is_cut() -> None:
    words = {step.id: step.argv for step in varmail(warmup="1s").steps(CUT)}

    assert all(any(word.startswith("--durable=") for word in argv) for argv in words.values()), words
    assert not any("durable" in word for step in varmail().steps(PLAIN) for word in step.argv)


def test_broken_promises_of_the_generator_are_lost_files() -> None:
    said = promised(4096, None, 0, 16384)
    left = json.dumps({"result_version": 1, "files": 3, "lost": 2, "named": []})
    steps = {step.id: step for step in varmail().recovered(CUT, said)}

    assert steps["load-promised"].stdin == "0 4096\n2 0\n3 16384\n"
    assert varmail().kept(said, found(load_left=left)) == Kept(3, 2)
    assert varmail().kept(said, found()) == Kept(3, 3)
    with pytest.raises(RunError, match="of another form"):
        varmail().kept("=!", found())


def test_a_cut_and_its_recovery_bring_the_generator_into_both_boots(tmp_path: Path) -> None:
    load = '[workloads.mail]\nworkload = "load"\npersonality = "varmail"\nduration = "3s"\n'
    read = study_in(tmp_path, TEXT + load)
    stack = next(iter(read.stacks))
    plan = compile_trial(read, stack, "mail", 1, cut_after_ns=7 * NS_PER_MS)
    counting = read.load(stack, "mail")
    assert isinstance(counting, CountsAcknowledged)
    steps = counting.recovered(CUT, promised(1))
    recovery = compile_recovery(
        read, stack, 1, [step.model_copy(update={"phase": "build"}) for step in steps]
    )

    assert ACKNOWLEDGED in [step.id for step in plan.steps]
    assert "load" in recovery.variables
    assert recovery.steps[-1].argv[:2] == ("${load}", "durable")


def test_every_workload_counts_or_says_why_not() -> None:
    for name, kind in catalogue().workloads.items():
        said = why_uncounted(kind.model_construct(workload=name))
        assert said is None or (said and not said.endswith(".")), name
