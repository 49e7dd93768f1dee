# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the option that rewrites golden files."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden plans, to be reviewed as a diff"
    )
