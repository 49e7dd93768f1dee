#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes studies/atlas.jsonl from the results of studies/atlas.toml: `scripts/atlas.py results/atlas`.

It keeps what an answer needs of each valid record: the metrics that uses weigh, and the checks that warn.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from strata.advice.uses import bundled_uses
from strata.plan.catalogue import catalogue
from strata.plan.model import sha256_hex
from strata.results.store import Reading, ResultsFolder

SHARED = ("result_version", "fingerprint", "time_domain", "runner", "validity", "versions", "charges")
PLAIN = {"phase": "measure", "headline": False, "family": None, "quantile": None, "tenant": None}
DURABLE = "durable-by-settings"


def weighed_metrics() -> set[str]:
    weights = [weight for use in bundled_uses(catalogue()).values() for weight in use.weights]
    return {name for weight in weights for name in weight.metrics}


def line_of(reading: Reading, record: dict[str, Any], weighed: set[str]) -> dict[str, Any]:
    """A record's line: its trial, its hash, that of its plan, and what is kept of it."""
    assert reading.attempt is not None
    kept = [each for each in record["metrics"] if each["headline"] or each["name"] in weighed]
    plain = [
        {key: value for key, value in each.items() if key not in PLAIN or value != PLAIN[key]}
        for each in kept
    ]
    checks = [each for each in record["checks"] if each["verdict"] == "no" or each["name"] == DURABLE]
    return {
        **dict(zip(("stack", "workload", "seed"), reading.trial[:3], strict=True)),
        "record_sha256": reading.record_sha256,
        "plan_sha256": sha256_hex(reading.attempt.plan_path.read_bytes()),
        "record": {"spec_sha256": record["spec_sha256"], "metrics": plain, "checks": checks},
    }


def main(results: str, to: str) -> None:
    lines, labs, days = [], set(), []
    weighed = weighed_metrics()
    shared: dict[str, Any] = {}
    for reading in ResultsFolder.open(Path(results)).readings():
        if reading.record is None or not reading.usable:
            continue
        record = reading.record.model_dump(mode="json")
        record["versions"]["packages"] = {}
        shared = {name: record[name] for name in SHARED}
        labs.add(json.dumps(shared))
        days.append(record["real_time"]["started_at"][:10])
        lines.append(line_of(reading, record, weighed))
    assert len(labs) == 1, f"the results are of {len(labs)} labs"
    shared["real_time"] = {"started_at": "", "duration_s": 0, "host": ""}
    first = {"measured": max(days), "shared": shared}
    text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in (first, *lines))
    Path(to).write_text(text)
    print(f"{len(lines)} records, {len(text):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "studies/atlas.jsonl")
