# SPDX-License-Identifier: Apache-2.0
"""Takes the documentation's pictures of real results, in Chromium without a window.

    .venv/bin/python scripts/screenshots.py results/showcase [FOLDER]

writes docs/images/showcase-*.png (or into FOLDER): those parts of the report that PICTURES names, as a reader
sees them. Each is reduced to 256 colours, which its charts do not miss.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT: Final = Path(__file__).resolve().parents[1]
STRATA: Final = ROOT / ".venv/bin/strata"
BYTES_MAX: Final = 300_000  # tests/unit/test_tidy.py holds the repository to it


@dataclass(frozen=True)
class Picture:
    """One picture: the top of the page, or of the first element that ``selector`` finds."""

    name: str
    selector: str = ""
    width_px: int = 1200
    height_px: int = 800
    scheme: Literal["light", "dark"] = "light"


PICTURES: Final = (
    Picture("answer"),
    Picture("dark", scheme="dark"),
    Picture("cells", "#cells"),
    Picture("advice", "#advice"),
    Picture("workload", "section.workload", height_px=1020),
)


def main() -> int:
    """Take all; 2 for a mistake in the command."""
    words = sys.argv[1:]
    if not 1 <= len(words) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    results = Path(words[0]).resolve()
    into = Path(words[1]) if len(words) == 2 else ROOT / "docs/images"
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, _browser() as browser:
        report = Path(folder) / "report.html"
        subprocess.run([STRATA, "report", results, "--output", report, "--quiet"], check=True)
        for picture in PICTURES:
            page = _open(browser, picture, report.as_uri())
            _save(_shot(page, picture), picture, into / f"{results.name}-{picture.name}.png")
    return 0


@contextmanager
def _browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no chromium is installed\n  install it: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--hide-scrollbars"]
        )
        yield browser
        browser.close()


def _open(browser: Browser, picture: Picture, address: str) -> Page:
    context = browser.new_context(
        viewport={"width": picture.width_px, "height": picture.height_px},
        color_scheme=picture.scheme,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(address, wait_until="load")
    return page


def _shot(page: Page, picture: Picture) -> bytes:
    if not picture.selector:
        return page.screenshot()
    found = page.locator(picture.selector).first
    found.scroll_into_view_if_needed()
    return found.screenshot()


def _save(shot: bytes, picture: Picture, file: Path) -> None:
    whole = Image.open(io.BytesIO(shot)).convert("RGB")
    part = whole.crop((0, 0, whole.width, min(whole.height, picture.height_px)))
    image = part.quantize(256, dither=Image.Dither.NONE)
    image.save(file, optimize=True)
    size_bytes = file.stat().st_size
    print(f"{file.name}: {image.width} x {image.height}, {size_bytes / 1000:.0f} kB")
    if size_bytes >= BYTES_MAX:
        sys.exit(f"{file}: {size_bytes} bytes are too many\n  name a smaller part of the page in PICTURES")


if __name__ == "__main__":
    sys.exit(main())
