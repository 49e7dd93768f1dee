# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from strata.diagnostics.positions import format_path, key_lines, nearest_line

TEXT = """\
# a comment with [brackets] and "quotes"
top = 1

[stacks.ext4]
layers = [
    { layer = "ext4", mount = ["a", "b"] },  # second
    { layer = 'x]y', "odd key" = \"\"\"
three
lines\"\"\", last = 1979-05-27T07:32:00Z },
]
dotted.key = [[1, 2], [3]]

[[tables]]
first = 1
[[tables]]
second = '''
]'''
third = 3
"""


def test_each_key_has_its_line() -> None:
    lines = key_lines(TEXT)

    assert lines[("top",)] == 2
    assert lines[("stacks", "ext4")] == 4
    assert lines[("stacks", "ext4", "layers")] == 5
    assert lines[("stacks", "ext4", "layers", 0, "mount", 1)] == 6
    assert lines[("stacks", "ext4", "layers", 1, "odd key")] == 7
    assert lines[("stacks", "ext4", "layers", 1, "last")] == 9
    assert lines[("stacks", "ext4", "dotted", "key", 1, 0)] == 11
    assert lines[("tables", 0, "first")] == 14
    assert lines[("tables", 1, "third")] == 18


def test_a_missing_key_is_placed_at_what_surrounds_it() -> None:
    assert nearest_line(key_lines(TEXT), ("stacks", "ext4", "gone")) == 4
    assert nearest_line(key_lines(TEXT), ("gone",)) is None


def test_what_cannot_be_followed_still_gives_the_lines_before_it() -> None:
    assert key_lines("a = 1\n] b") == {("a",): 1}
    assert key_lines("a = 1\nb = [1,")[("b", 0)] == 2
    assert key_lines("a = 1\nb = {c = 1")[("b", "c")] == 2


def test_paths_are_written_as_in_toml() -> None:
    assert format_path(("stacks", "ext4", "layers", 0, "odd key")) == 'stacks.ext4.layers[0]."odd key"'
