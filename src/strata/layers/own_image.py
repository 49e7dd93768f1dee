# SPDX-License-Identifier: Apache-2.0
"""A virtual machine from a user's disk image, with the image's kernel and programs: no agent, but ssh.

The image boots by its own loader. It must read a seed of cloud-init (NoCloud: a disk labelled ``cidata``) and
take an address by DHCP, as Debian's cloud images do, and FreeBSD's by nuageinit(7). The seed's script lets
root in by a key that each trial makes. The system's writes to its own disk are kept in memory, and lost with
the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from strata.model.layer import LayerContext
from strata.model.step import (
    IMAGE_MACHINE,
    INPUT_PREFIX,
    MACHINE_IMAGE,
    QEMU_ACCELERATOR,
    Command,
    Prerequisites,
    Purpose,
    Step,
)
from strata.seeds import derive_seed
from strata.units import NS_PER_S

NEEDS: Final = Prerequisites(
    tools=("cat", "mkdir", "qemu-system-x86_64", "rm", "ssh", "ssh-keygen", "tee"), features=(IMAGE_MACHINE,)
)
MEMORY_BYTES_MIN: Final = 512 << 20
"""An estimate of the least that a system starts in."""
FORM: Final = r"^[A-Za-z0-9._/-]{1,200}\.(qcow2|raw)$"
DISK_FORM: Final = r"^/dev/[A-Za-z0-9._/-]{1,100}$"
_HOST: Final = "machine"
_BOOT_LIMIT_NS: Final = 1800 * NS_PER_S  # an estimate: emulated on a busy machine
_ASKED_NS: Final = 30 * NS_PER_S
_PORTS: Final = range(20000, 40000)

# For every system with sh and OpenSSH. A server of its own leaves the system's configuration as it is.
_USER_DATA: Final = """\
#!/bin/sh
mkdir -p /root/.ssh /run/sshd && chmod 700 /root/.ssh
echo '{key}' >> /root/.ssh/authorized_keys && chmod 600 /root/.ssh/authorized_keys
ssh-keygen -A
/usr/sbin/sshd -p {port} -o PidFile=none -o PermitRootLogin=prohibit-password -o UseDNS=no \\
    -o MaxSessions=100 -o 'SetEnv={environment}'
"""
_GUEST_PORT: Final = 22022
# Debian keeps the programs of each major version of PostgreSQL in a folder of its own.
_POSTGRESQL: Final = [f"/usr/lib/postgresql/{major}/bin" for major in range(20, 12, -1)]
_PATH: Final = [f"{base}/{kind}" for base in ("/usr/local", "/usr", "") for kind in ("sbin", "bin")]
_ENVIRONMENT: Final = f"LC_ALL=C.UTF-8 TZ=UTC PATH={':'.join([*_POSTGRESQL, *_PATH])}"
_SYSTEM: Final = (
    "mkdir -p ${mount} ${mounts} ${scratch} && chmod 1777 ${scratch} && uname -srm && cat /etc/os-release"
)
_SSH: Final = """\
Host {host}
HostName 127.0.0.1
Port {port}
User root
IdentityFile {folder}/key
IdentitiesOnly yes
BatchMode yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
GlobalKnownHostsFile /dev/null
ControlPath {folder}/login
ConnectTimeout 20
LogLevel ERROR
"""


def folder_of(context: LayerContext) -> str:
    """The folder of the machine's key, seed and login."""
    return f"${{scratch}}/{context.name}"


def configuration(context: LayerContext) -> str:
    """The file by which ssh reaches the machine."""
    return f"{folder_of(context)}/ssh"


def ssh_argv(file: str, *options: str) -> tuple[str, ...]:
    """The command that logs in by a `configuration`, to which a command of the machine may be added."""
    return ("ssh", "-F", file, *options, _HOST)


def start_steps(
    context: LayerContext, options: Iterable[str], disk: Iterable[str], image: str, **making: Any
) -> list[Step]:
    """Start QEMU with ``options`` of its size, the ``image`` and the ``disk`` of the stack, and log in."""
    folder, key = folder_of(context), f"{context.name}-key"
    seed, port = f"{folder}/seed", _port(context)
    ssh = ssh_argv(configuration(context))
    user_data = _USER_DATA.format(key=f"${{{key}}}", port=_GUEST_PORT, environment=_ENVIRONMENT)
    meta_data = f"instance-id: {context.derived_uuid('machine')}\nlocal-hostname: {_HOST}\n"
    removed = Command(argv=("rm", "--recursive", "--force", folder))
    make_key = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "strata", "-f", f"{folder}/key")
    login = _SSH.format(host=_HOST, port=port, folder=folder)
    return [
        context.step("folder", "Make the machine's folder", "mkdir", "--parents", seed, undo=removed),
        context.step("make-key", "Make the key to the machine", *make_key),
        context.step("key", "Read the key's public part", "cat", f"{folder}/key.pub", binds=key),
        context.step(
            "user-data", "Write the script of the seed", "tee", f"{seed}/user-data", stdin=user_data
        ),
        context.step("meta-data", "Write the seed's name", "tee", f"{seed}/meta-data", stdin=meta_data),
        context.step("ssh", "Write the way into the machine", "tee", configuration(context), stdin=login),
        context.step(
            "start",
            f"Start the machine from {image}, and log in",
            *_qemu_argv(context, options, disk, image, port),
            environment={"TMPDIR": folder},
            background=True,
            ready=Command(argv=(*ssh, "true"), time_limit_ns=_ASKED_NS),
            ready_interval_ns=2 * NS_PER_S,
            time_limit_ns=_BOOT_LIMIT_NS,
            **making,
        ),
        context.step(
            "login",
            "Keep one login for all programs",
            *ssh_argv(configuration(context), "-M", "-N"),
            background=True,
            ready=Command(argv=ssh_argv(configuration(context), "-O", "check")),
        ),
        context.step(
            "system",
            "See what runs in the machine, and make the trial's folders",
            *(*ssh, _SYSTEM),
            purpose=Purpose(what="machine-system", layer=context.name),
        ),
    ]


def _port(context: LayerContext) -> int:
    """The port of the machine's ssh: a sandbox has a network of its own, and each of its machines a port."""
    return _PORTS[derive_seed(context.seed, context.name, "port") % len(_PORTS)]


def _qemu_argv(
    context: LayerContext, options: Iterable[str], disk: Iterable[str], image: str, port: int
) -> list[str]:
    kind = image.rpartition(".")[2]
    system = f"if=none,id=system,format={kind},snapshot=on,file=${{{INPUT_PREFIX}{MACHINE_IMAGE}}}"
    seed = {"node-name": "seed", "driver": "vvfat", "dir": f"{folder_of(context)}/seed", "label": "CIDATA"}
    return [
        *("qemu-system-x86_64", "-machine", f"q35,accel=${{{QEMU_ACCELERATOR}}}", "-cpu", "max", *options),
        *("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio"),
        *("-drive", system, "-device", "virtio-blk-pci,drive=system,bootindex=0"),
        *disk,
        *("-blockdev", json.dumps({**seed, "read-only": True}), "-device", "virtio-blk-pci,drive=seed"),
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:{_GUEST_PORT}"),
        *("-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci"),
    ]
