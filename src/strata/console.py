# SPDX-License-Identifier: Apache-2.0
"""The console for everything that rich prints."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from strata.printable import printable, suppress_gone


class Terminal(Console):
    """A console that shows text of others as text, and that outlives the terminal.

    Control characters, such as those of escape sequences, are written as numbers. Once the terminal is gone,
    output is dropped, so that a run which was started with ``nohup`` goes on.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich's; what rich itself writes to move the cursor is left as it is."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text is segment.text else Segment(text, segment.style)

    def _check_buffer(self) -> None:
        with suppress_gone(self.file):
            super()._check_buffer()
            return
        self._buffer.clear()
