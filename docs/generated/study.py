# SPDX-License-Identifier: Apache-2.0
"""The tables of keys of study files, from the JSON schema of `strata schema`.

Those of ``docs/reference/study-file.md`` are committed with the page: ``pytest
tests/golden/test_study_reference.py --update-golden`` writes them. Pages of layers and workloads have theirs
when the site is built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from generated.markdown import code, codes, prose, table
from strata.diagnostics.described_keys import described_keys
from strata.diagnostics.mistakes import keys_of
from strata.model.workload import Workload
from strata.plan.catalogue import catalogue
from strata.reading.schema import study_schema

_END: Final = "<!-- end of keys -->"
_TABLE: Final = re.compile(rf"^<!-- keys: (\S+) -->\n.*?^{_END}$", re.MULTILINE | re.DOTALL)
_COMMON: Final = frozenset(keys_of(Workload))


@cache
def key_tables() -> dict[str, str]:
    """The tables, by the name that a page gives each in ``<!-- keys: NAME -->``."""
    tables, definitions = schema()["properties"], schema()["$defs"]
    some_workload = definitions[f"workload-{next(iter(catalogue().workloads))}"]
    own = frozenset(some_workload["properties"]) - _COMMON
    found = {
        "study": keys_table(tables["study"]),
        "age": keys_table(definitions["Age"]),
        "device": keys_table(tables["devices"]["additionalProperties"]),
        "queue": keys_table(definitions["QueueKnobs"]),
        "sysctl": keys_table(definitions["MemoryKnobs"]),
        "faults": _faults(),
        "stack": keys_table(tables["stacks"]["additionalProperties"]),
        "filesystem": keys_table(definitions["FilesystemTable"]),
        **{
            f"layer-{name}": keys_table(definitions[f"layer-{name}"], without=frozenset({"layer"}))
            for name in catalogue().layers
        },
        "workload": keys_table(some_workload, without=own | {"workload"}),
        **{
            f"workload-{name}": keys_table(definitions[f"workload-{name}"], without=_COMMON)
            for name in catalogue().workloads
        },
        "matrix": keys_table(tables["matrix"]["additionalProperties"]),
        "survival": keys_table(tables["survival"]),
        "tenant": keys_table(definitions["TenantTable"]),
        "command": keys_table(definitions["CommandTable"]["anyOf"][1]),
        "command-server": keys_table(definitions["ServeTable"]),
        "command-metric": keys_table(definitions["MetricTable"]),
    }
    return {name: text for name, text in found.items() if text}


def with_key_tables(page: str) -> str:
    """The page with its tables of keys as the code has them."""
    tables = key_tables()
    return _TABLE.sub(lambda mark: f"<!-- keys: {mark[1]} -->\n{tables[mark[1]]}{_END}", page)


def named_tables(page: str) -> list[str]:
    """The names of the tables in a page."""
    return [mark[1] for mark in _TABLE.finditer(page)]


def _faults() -> str:
    rows = []
    for name, definition in schema()["$defs"].items():
        if name.startswith("fault-"):
            keys = codes(key for key in definition["properties"] if key != "fault")
            rows.append(
                (code(json.dumps(name.removeprefix("fault-"))), keys, prose(definition["description"]))
            )
    return table(("Fault", "Keys", "What happens"), rows)


@cache
def schema() -> Mapping[str, Any]:
    """The schema of study files."""
    return study_schema(catalogue())


def keys_table(definition: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> str:
    """The keys of a table, with the values, default and meaning of each."""
    rows = [
        (
            code(each.name),
            each.takes,
            "required" if each.default is None else prose(each.default),
            prose(_sentence(each.description)),
        )
        for each in described_keys(definition, without=without)
    ]
    return table(("Key", "Takes", "Default", "Meaning"), rows)


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "?")) else f"{text}."
