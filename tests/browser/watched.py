# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium for tests: one per worker, and pages whose complaints fail the test that opened them.

The fixtures reach the tests through conftest.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

NewPage = Callable[..., Page]
"""Opens a watched page; takes the keywords of Playwright's ``Browser.new_context``, and ``width_px``."""

_HEIGHT_PX: Final = 900
EVERY_VIEW: Final = [
    pytest.param(width_px, scheme, marks=[pytest.mark.slow] * ((width_px == 1024) != (scheme == "dark")))
    for width_px in (400, 1024, 1920)
    for scheme in ("light", "dark")
]
"""Each width of a window with each colour scheme; ``make test`` has each of either once."""
_ARGUMENTS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--hide-scrollbars", "--font-render-hinting=none", "--force-color-profile=srgb"),
)
# A page that was written by `strata report`, or is served by `strata serve`.
_OWN_SCHEMES: Final = ("file", "data", "blob", "about")
_OWN_HOSTS: Final = ("127.0.0.1", "localhost")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; without one the test is skipped."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium is installed: `apt-get install chromium`")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=[*_ARGUMENTS])
        yield launched
        launched.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens pages in contexts of their own; afterwards none may have complained or left this machine."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(f"console: {message.text}")

    def look(request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in _OWN_SCHEMES and url.hostname not in _OWN_HOSTS:
            complaints.append(f"a request left the page: {request.url}")

    def new(*, width_px: int = 1024, **options: Any) -> Page:
        options.setdefault("reduced_motion", "reduce")
        context = browser.new_context(viewport={"width": width_px, "height": _HEIGHT_PX}, **options)
        contexts.append(context)
        opened = context.new_page()
        opened.on("console", hear)
        opened.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        opened.on("request", look)
        return opened

    yield new
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """One watched page, 1024 pixels wide, in the light."""
    return new_page()


def violations(page: Page) -> list[str]:
    """The accessibility rules of axe-core that a page breaks, one line each."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['help']}: " + "; ".join(node["html"][:120] for node in each["nodes"][:3])
        for each in found
    ]


def overflow_px(page: Page) -> int:
    """By how much the page is wider than its window: above 0 it scrolls sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
