# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning, offline, and has what the code has."""

from __future__ import annotations

import fcntl
import re
import subprocess
from html import unescape
from pathlib import Path

import pytest

from doc_pages import ROOT
from strata.cli.man import EXIT_CODES, command_tree, walk
from strata.devices.device import bundled_devices
from strata.diagnostics.mistakes import keys_of
from strata.model.study import DeviceTable, HeadTable, StackTable
from strata.model.warning import QUESTIONS, WARNINGS
from strata.plan.catalogue import catalogue

FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)[^>]+src=["'](?:https?:)?//"""
    r"""|<link[^>]+href=["'](?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//"""
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; pytest-xdist's workers share one."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if own.name.startswith("popen-") else own
    built = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (built / "index.html").exists():
            run = subprocess.run([ROOT / "scripts/docs", built], capture_output=True, text=True, check=False)
            assert run.returncode == 0, f"warnings are errors:\n{run.stderr}"
    return built


def text_of(site: Path, page: str) -> str:
    html = (site / f"{page}.html").read_text()
    return unescape(re.sub(r"<[^>]+>", "", re.sub(r"<(style|script).*?</\1>", "", html, flags=re.DOTALL)))


def headings_of(site: Path, page: str) -> set[str]:
    html = (site / f"{page}.html").read_text()
    return {
        unescape(re.sub(r"<[^>]+>", "", each)).rstrip("¶")
        for each in re.findall(r"<h[23]>(.*?)</h[23]>", html)
    }


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = FETCHED.search(file.read_text())
        assert found is None, f"{file.relative_to(site)}: {found and found[0]}"


def test_what_would_be_fetched_is_recognised() -> None:
    elsewhere = ('<script src="https://a/b.js">', '<link href="//a/b.css">', '@import url("https://a")')

    assert all(map(FETCHED.search, elsewhere))
    assert not FETCHED.search(
        '<a href="https://a">A link is followed by a reader.</a><img src="_images/b.png">'
    )


@pytest.mark.slow
def test_every_command_has_its_options(site: Path) -> None:
    text = text_of(site, "reference/commands")
    below = [each for each in walk(command_tree()) if len(each.words) > 1]

    assert {each.name for each in below} <= headings_of(site, "reference/commands")
    for command in below:
        for option in command.options:
            assert option.names[0] in text, f"{command.name} {option.names[0]}"
        for example in command.examples:
            assert example in text


@pytest.mark.slow
def test_every_layer_workload_and_device_has_a_section(site: Path) -> None:
    for folder, registry in (("layers", catalogue().layers), ("workloads", catalogue().workloads)):
        assert all((site / f"reference/{folder}/{name}.html").is_file() for name in registry)
    assert set(bundled_devices()) <= headings_of(site, "reference/devices")


@pytest.mark.slow
def test_every_key_of_a_study_and_every_check_and_exit_code_is_there(site: Path) -> None:
    keys, checks = text_of(site, "reference/study-file"), text_of(site, "reference/metrics")
    codes = text_of(site, "reference/exit-codes")

    for table in (HeadTable, DeviceTable, StackTable):
        assert all(key in keys for key in keys_of(table))
    assert all(name in checks for name in (*QUESTIONS, *WARNINGS))
    assert all(f"{each.code}" in codes and each.meaning in codes for each in EXIT_CODES)


def test_a_warning_names_its_page_and_line_and_fails(tmp_path: Path) -> None:
    """In a copy of the smallest page, as the whole would take its time."""
    (tmp_path / "conf.py").write_text((ROOT / "docs/conf.py").read_text())
    (tmp_path / "generated").symlink_to(ROOT / "docs/generated")
    (tmp_path / "index.md").write_text("# A page\n\nIt has [a link](nowhere.md) that leads nowhere.\n")
    script = (ROOT / "scripts/docs").read_text()
    options = re.search(r"sphinx-build ((?:--[\w-]+ )+)", script)
    assert options

    run = subprocess.run(
        [ROOT / ".venv/bin/sphinx-build", *options[1].split(), "-b", "html", tmp_path, tmp_path / "site"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode != 0
    assert "index.md:3: WARNING" in run.stderr
