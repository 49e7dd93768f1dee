# SPDX-License-Identifier: Apache-2.0
"""No accepted value of a listed option can name a file, a device or a command."""

from __future__ import annotations

import re
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from strata.model.allowed import Form, pair_diagnostics
from strata.plan.catalogue import catalogue
from strata.workloads.pgbench import META_COMMANDS, Pgbench

LISTED: Final = [
    (kind, name, form)
    for kind in catalogue().workloads.values()
    for forms in kind.allowed.values()
    for name, form in sorted(forms.items())
]
"""Every option of every workload that passes options to another program."""
# Sizes and zones with their percentages: they begin with a number, or with the word for zones.
WITH_SLASHES: Final = {"bssplit": r"\d", "random_distribution": r"zoned:\d"}
HARMLESS: Final = re.compile(r"[A-Za-z0-9_.,:%=+ -]*", re.ASCII)
HOSTILE: Final = st.lists(
    st.sampled_from(
        [
            *("/etc/passwd", "/dev/loop0", "..", "`id`", "$(id)", ";", "|", "\n", "\x00", "\x1b", "'"),
            *('"', "\\", "~", "4k", "1", "on", "libaio", "external:", "mmap:", "exec", ":", ",", "=", " "),
            *("-c", "١", "\u2028"),
        ]
    ),
    min_size=1,
    max_size=5,
).map("".join)


def values(form: Form) -> st.SearchStrategy[str]:
    fitting = st.from_regex(form.pattern, fullmatch=True) if form.pattern is not None else st.just("1")
    return fitting | HOSTILE | st.tuples(fitting, HOSTILE).map("".join)


OPTIONS: Final = st.sampled_from(LISTED).flatmap(
    lambda listed: st.tuples(st.just(listed[1]), st.just(listed[2]), values(listed[2]))
)


@examples(1000)
@given(OPTIONS)
def test_a_value_that_is_taken_names_no_file(option: tuple[str, Form, str]) -> None:
    name, form, value = option
    if list(pair_diagnostics("option", {name: value}, {name: form}, key="options")):
        return

    plain = value
    if "/" in value:
        assert re.match(WITH_SLASHES[name], value)
        plain = value.replace("/", "")
    assert HARMLESS.fullmatch(plain)


@examples(1000)
@given(
    st.lists(
        st.sampled_from(
            [
                *("\\", "\\\\", "shell", "setshell", "set", "gset", "SET", "Shell", " ", "\t", "\n", "\r"),
                *("\x0b", "\x0c", "\x00", "SELECT 1;", "'", "--", "/*", "\\shell", "\\set", "\\if", "id"),
                *("\xa0", "\x85"),
            ]
        ),
        min_size=1,
        max_size=8,
    ).map("".join)
)
def test_a_script_that_is_taken_has_no_meta_command_but_the_listed(text: str) -> None:
    load = Pgbench.model_validate({"scale": 1, "clients": 1, "duration": "1s", "script_text": text})
    if [each for each in load.diagnostics(1 << 40) if each.key == "script_text"]:
        return

    # As pgbench reads it: white space after the backslash, continued lines and capitals make no difference.
    joined = re.sub(r"\\\r?\n", " ", text)
    found = [match[1].lower() for match in re.finditer(r"\\\s*([^\s\\]*)", joined)]
    assert {*found} <= {*META_COMMANDS}
