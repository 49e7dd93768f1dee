# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the lab, deterministic hypothesis, the option that rewrites golden files."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from strata.lab import Lab, require_lab

# The same examples in every run, however slow the machine: a failure can be looked at again.
settings.register_profile(
    "strata", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("strata")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden plans, to be reviewed as a diff"
    )


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The built lab. Without one the test fails, because `make test` builds it first."""
    if os.environ.get("STRATA_SKIP_LAB") == "1":
        pytest.skip("STRATA_SKIP_LAB=1 is set: nothing is booted")
    return require_lab()
