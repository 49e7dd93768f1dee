# SPDX-License-Identifier: Apache-2.0
"""The clients that `strata serve` answers, and the start and end of its server."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from made_results import made_results
from strata.errors import ToolError
from strata.serve.app import application, bound

HOST = "http://127.0.0.1:8000"
FIRST = "ext4.postgresql.s1"
ADDRESSES = (
    "/",
    "/events",
    "/serve.css",
    "/serve.js",
    "/study/made/",
    "/study/made/events",
    "/study/made/results",
    "/study/made/report",
    f"/study/made/trial/{FIRST}",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that no test here changes."""
    place = tmp_path_factory.mktemp("served") / "made"
    made_results(place, stacks=2, workloads=2, seeds=2)
    return place


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    # Whoever follows is let go at once, or an answer would never end.
    with TestClient(application([folder], stopping=lambda: True), base_url=HOST) as opened:
        yield opened


def test_a_name_that_another_site_could_give_this_machine_is_refused(client: TestClient) -> None:
    for address in ADDRESSES:
        for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8000", "[::1]", ""):
            said = client.get(address, headers={"Host": host})
            assert said.status_code == 400
            assert "made" not in said.text


def test_this_machines_own_names_are_answered(client: TestClient) -> None:
    for host in ("127.0.0.1:8000", "localhost:41234", "localhost"):
        assert client.get("/", headers={"Host": host}).status_code == 200


def test_nothing_can_be_changed(client: TestClient) -> None:
    for address in ADDRESSES:
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert client.request(method, address).status_code == 405


def test_an_address_leads_to_no_other_file(client: TestClient) -> None:
    for address in (
        "/study/..%2f..%2fetc/",
        "/study/..%2fmade/",
        "/study/%2e%2e/",
        "/study/made/trial/..%2f..%2fstudy.json",
        "/study/made/trial/..%2f..%2f..%2f..%2fetc%2fpasswd",
        f"/study/made/trial/{FIRST}%2f..%2f{FIRST}",
        "/study/made/trial/" + "a" * 5000,
        "/study/made/study.json",
        "/study/made/trials/",
        "/templates/base.html.j2",
        "/study/nothing/",
    ):
        said = client.get(address)
        assert said.status_code == 404
        assert "root:" not in said.text
        assert "study_version" not in said.text


def test_every_answer_keeps_other_sites_out(client: TestClient) -> None:
    for address, host, method in (
        *((address, "localhost", "GET") for address in ADDRESSES if not address.endswith("events")),
        ("/nothing", "localhost", "GET"),
        ("/", "localhost", "POST"),
        ("/", "evil.example", "GET"),
    ):
        headers = client.request(method, address, headers={"Host": host}).headers

        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


def test_the_scripts_of_a_report_and_no_others_may_run(client: TestClient) -> None:
    said = client.get("/study/made/report")

    scripts = re.findall(r"<script>(.*?)</script>", said.text, re.DOTALL)
    digests = {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts}
    assert digests
    assert set(re.findall(r"'sha256-([^']+)'", said.headers["Content-Security-Policy"])) == digests


@pytest.mark.parametrize("address", [each for each in ADDRESSES if not each.endswith("events")])
def test_a_page_asks_for_nothing_elsewhere(client: TestClient, address: str) -> None:
    text = client.get(address).text

    asked = re.findall(r"""(?:src|href|action)=["']([^"']*)|url\(([^)]*)\)|@import""", text)
    for each in asked:
        assert not re.match(r"(?:https?:)?//", "".join(each)), each


def test_it_listens_on_this_machine_alone() -> None:
    with bound(0) as listening:
        address, port = listening.getsockname()

    assert address == "127.0.0.1"
    assert port > 0


def test_a_port_that_is_taken_is_said_in_two_lines() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ToolError) as refused:
        bound(other.getsockname()[1])

    assert "another program listens there" in str(refused.value)
    assert "--port" in str(refused.value)


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminal_that_goes_away_ends_the_server_in_order(folder: Path, number: signal.Signals) -> None:
    with _serving(folder) as (running, address):
        with httpx.stream("GET", f"{address}study/made/events", timeout=None) as followed:
            lines = followed.iter_lines()
            assert next(lines) == "event: progress"
            running.send_signal(number)
            assert list(lines)

        assert running.wait(30) == 128 + number


def test_a_server_that_nohup_has_started_outlives_its_terminal(folder: Path) -> None:
    with _serving(folder, "nohup") as (running, address):
        running.send_signal(signal.SIGHUP)

        assert httpx.get(address).status_code == 200
        assert running.poll() is None


@contextmanager
def _serving(folder: Path, *before: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    program = Path(sys.executable).with_name("strata")
    with subprocess.Popen(
        [*before, program, "serve", folder.parent],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline().strip()
        finally:
            running.kill()


def test_the_program_says_its_address_and_ends_with_ctrl_c_while_it_is_followed(folder: Path) -> None:
    program = Path(sys.executable).with_name("strata")
    running = subprocess.Popen(
        [program, "serve", folder.parent],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert running.stdout is not None
    address = running.stdout.readline().strip()
    try:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        with httpx.stream("GET", f"{address}study/made/events", timeout=None) as followed:
            lines = followed.iter_lines()
            assert next(lines) == "event: progress"
            running.send_signal(signal.SIGINT)
            assert list(lines)  # the rest of the event; and then it ends by itself
        _, said = running.communicate()
    finally:
        running.kill()

    assert running.returncode == 0
    assert "Traceback" not in said
    assert said.splitlines() == ["Ctrl-C ends it.", "ended"]
