# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_a_page_opens(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<!doctype html><html lang=en><title>x</title><h1>x</h1>")
    page.goto(file.as_uri())

    assert page.title() == "x"
