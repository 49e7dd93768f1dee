# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium for tests: one per worker, with pages whose complaints fail the test that opened them.

The fixtures reach the tests through conftest.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, sync_playwright

NewPage = Callable[..., Page]
"""Opens a watched page; takes the fields of `View`."""

_HEIGHT_PX: Final = 900
_VIEWS: Final = ((400, "light"), (1024, "dark"))
EVERY_VIEW: Final = [
    pytest.param(width_px, scheme, marks=[pytest.mark.slow] * ((width_px, scheme) not in _VIEWS))
    for width_px in (400, 1024, 1920)
    for scheme in ("light", "dark")
]
"""Each width of a window with each colour scheme; ``make test`` has either scheme once."""
_ARGUMENTS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--hide-scrollbars", "--font-render-hinting=none", "--force-color-profile=srgb"),
)
# A page that was written by `strata report`, or is served by `strata serve`.
_OWN_SCHEMES: Final = ("file", "data", "blob", "about")
_OWN_HOSTS: Final = ("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; without one the test is skipped.

    It ends with its file: its processes would else come and go in files that watch a worker's processes.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium is installed: `apt-get install chromium`")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=[*_ARGUMENTS])
        yield launched
        launched.close()


@dataclass(frozen=True)
class View:
    """The options with which a page is made."""

    width_px: int
    color_scheme: Literal["light", "dark"]
    java_script_enabled: bool

    def opened(self, browser: Browser) -> Page:
        context = browser.new_context(java_script_enabled=self.java_script_enabled, reduced_motion="reduce")
        return context.new_page()

    def reset(self, page: Page) -> None:
        """As if the page had just been made; a context of its own would cost more than most tests."""
        if page.url != "about:blank":
            page.evaluate("sessionStorage.clear(), localStorage.clear()")
            page.goto("about:blank")
        page.set_viewport_size({"width": self.width_px, "height": _HEIGHT_PX})
        page.emulate_media(media="null", color_scheme=self.color_scheme)


@pytest.fixture(scope="module")
def idle() -> dict[View, Page]:
    """The pages that no test uses now."""
    return {}


@pytest.fixture
def new_page(browser: Browser, idle: dict[View, Page]) -> Iterator[NewPage]:
    """Opens pages; afterwards none may have complained or left this machine."""
    taken: list[tuple[View, Page]] = []
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(f"console: {message.text}")

    def fail(error: Error) -> None:
        complaints.append(f"error: {error}")

    def look(request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in _OWN_SCHEMES and url.hostname not in _OWN_HOSTS:
            complaints.append(f"a request left the page: {request.url}")

    listeners: dict[Any, Callable[[Any], None]] = {"console": hear, "pageerror": fail, "request": look}

    def new(
        *,
        width_px: int = 1024,
        color_scheme: Literal["light", "dark"] = "light",
        java_script_enabled: bool = True,
    ) -> Page:
        view = View(width_px, color_scheme, java_script_enabled)
        page = idle.pop(view, None) or view.opened(browser)
        taken.append((view, page))
        view.reset(page)
        for event, listener in listeners.items():
            page.on(event, listener)
        return page

    yield new
    for view, page in taken:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        idle[view] = page
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
