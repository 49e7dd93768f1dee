# SPDX-License-Identifier: Apache-2.0
"""The type of the fixture ``golden``: the file's name in tests/golden, and the text that it must have."""

from __future__ import annotations

from collections.abc import Callable

Golden = Callable[[str, str], None]
