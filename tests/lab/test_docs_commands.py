# SPDX-License-Identifier: Apache-2.0
"""Every command of the documentation does what it is there for: it is found, and ends well."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from doc_folder import prepared, run_page, words_of
from doc_pages import Page, pages
from strata.lab import Lab

PAGES = [page for page in pages() if page.commands]
# Most examples of `--help` are also in the how-tos; each is run once.
EXAMPLES = "docs/reference/commands.md"
# The README and the how-tos have most of their commands, too.
SLOW = ("docs/tutorial/first-study.md", EXAMPLES)


@pytest.fixture(scope="session")
def sample(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies and results as the pages name them; pytest-xdist's workers share one."""
    own = tmp_path_factory.getbasetemp()
    return prepared(own.parent if own.name.startswith("popen-") else own)


@pytest.mark.parametrize(
    "page",
    [pytest.param(each, id=each.name, marks=[pytest.mark.slow] * (each.name in SLOW)) for each in PAGES],
)
def test_the_commands_of_a_page_work(page: Page, sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(sample, folder)

    others = {words_of(each) for other in PAGES if other is not page for each in other.commands}

    failed = run_page(page, folder, elsewhere=others if page.name == EXAMPLES else ())

    assert not failed, "\n\n".join(map(str, failed))
