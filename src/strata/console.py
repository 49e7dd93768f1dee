# SPDX-License-Identifier: Apache-2.0
"""The console for everything that rich prints."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from strata.printable import printable, suppress_gone
from strata.working import printed


class Terminal(Console):
    """A console that writes control characters of foreign text as numbers.

    Once the terminal is closed, output is dropped, and a run started with ``nohup`` continues.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Make all text printable, except rich's own control codes."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text is segment.text else Segment(text, segment.style)

    def _check_buffer(self) -> None:
        printed()
        with suppress_gone(self.file):
            super()._check_buffer()
            return
        self._buffer.clear()
