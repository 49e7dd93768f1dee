# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: `make docs` builds it into build/docs, offline, with warnings as errors.

Pages are Markdown that reads well on a forge, too. Lists of commands, keys, layers and
devices are generated from the code: they replace a line ``<!-- generated: NAME -->`` of a page while the
site is built. They are not committed, because each change of an option would then be made in two places.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from strata import __version__

sys.path.insert(0, str(Path(__file__).parent))

import generated

project = "Strata"
author = "The Strata contributors"
version = release = __version__
html_title = "Strata"
html_show_copyright = False

extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["generated", "images"]
nitpicky = True

# Headings are link targets by the names that forges give them.
myst_heading_anchors = 4
# Tables with `|` in code, and `...` that stays what it is in a command.
myst_enable_extensions = ["colon_fence", "deflist"]
suppress_warnings: list[str] = []

html_theme = "furo"
html_static_path: list[str] = []
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "native"
highlight_language = "text"

# What is copied of a block of commands is what is typed: neither prompts nor what they print.
copybutton_prompt_text = "$ "


def _generate(app: Any, page: str, source: list[str]) -> None:
    source[0] = generated.filled(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this when it reads the configuration."""
    app.connect("source-read", _generate)
    return {"parallel_read_safe": True}
