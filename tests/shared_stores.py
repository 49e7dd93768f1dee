# SPDX-License-Identifier: Apache-2.0
"""Stores to share on this machine: a folder, S3 by moto, GCS by an emulator, SSH by an sshd of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import fsspec
import pytest

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def s3_store(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket of a server on loopback, for the time of the context."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "testing")
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    fsspec.get_filesystem_class("s3").clear_instance_cache()  # of another server
    bucket = f"bucket-{port}"
    fsspec.filesystem("s3").mkdir(bucket)
    try:
        yield f"s3://{bucket}/strata"
    finally:
        server.stop()


@contextmanager
def gcs_store(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket of an emulator on loopback, for the time of the context."""
    emulator = pytest.importorskip("gcp_storage_emulator.server", reason="run `make setup` for it")
    port = free_port()
    patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    fsspec.get_filesystem_class("gcs").clear_instance_cache()  # of another server
    with emulator.create_server("127.0.0.1", port, in_memory=True, default_bucket=f"bucket-{port}"):
        yield f"gs://bucket-{port}/strata"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def ssh_store(folder: Path, patch: pytest.MonkeyPatch, *options: str) -> Iterator[str]:
    """A folder behind an sshd on loopback, whose only user is this one; ``options`` are lines of its file."""
    if SSHD is None:
        pytest.skip("there is no sshd on this machine (Debian's package openssh-server)")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # Debian's is made when the service starts
    home = folder / "home/.ssh"
    home.mkdir(parents=True, mode=0o700)
    for key in (folder / "host", home / "id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    shutil.copy(home / "id_ed25519.pub", home / "authorized_keys")
    port = free_port()
    known = (folder / "host.pub").read_text()
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {known}")
    settings = [
        *(f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}", "PidFile none"),
        *(f"AuthorizedKeysFile {home / 'authorized_keys'}", "StrictModes no", "UsePAM no"),
        *(options or ("Subsystem sftp internal-sftp",)),
    ]
    (folder / "sshd_config").write_text("\n".join(settings) + "\n")
    patch.setenv("HOME", str(folder / "home"))
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL
    )
    try:
        _await(port)
        yield f"ssh://127.0.0.1:{port}{folder / 'store'}"
    finally:
        server.terminate()
        server.wait()


def _await(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("sshd does not listen")


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A filesystem in memory, mounted with these options; skipped where nobody may mount."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "strata-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    with ExitStack() as after:
        after.callback(subprocess.run, ["umount", str(folder)], check=True)
        yield folder
