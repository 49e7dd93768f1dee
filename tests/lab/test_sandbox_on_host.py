# SPDX-License-Identifier: Apache-2.0
"""A plan that attacks the machine it runs on, as root: each attempt fails, and nothing outside changes."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_factory import head, mix, public_folder, stacks

from left_behind import loops_under
from strata.disks.machine import mounts_under
from strata.lab import Lab
from strata.model.step import Step
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.reading.load import load_study
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Task
from strata.runners.host import HostRunner

pytestmark = pytest.mark.root

# A link leads to the own mount while its path is judged, and to /etc when it is mounted on.
RACE = """
import ctypes, os
kernel = ctypes.CDLL(None)
os.symlink("${mount}", "${scratch}/own")
os.symlink("/etc", "${scratch}/other")
swapper = os.fork()
while not swapper:
    kernel.renameat2(-100, b"${scratch}/own", -100, b"${scratch}/other", 2)
for attempt in range(5000):
    kernel.mount(None, b"${scratch}/own", None, 32, None)
    if not os.statvfs("/etc").f_flag & os.ST_RDONLY:
        break
os.kill(swapper, 9)
raise SystemExit(os.statvfs("/etc").f_flag & os.ST_RDONLY)
"""
# A folder of the step's own has the name of the trial's, for whoever sees it from a changed root.
CHANGE_ROOT = """
import ctypes, os
os.makedirs("/dev${mount}/own")
os.chroot("/dev")
node = os.path.basename("${disk0}").encode()
raise SystemExit(ctypes.CDLL(None).mount(b"/" + node, b"${mount}/own", b"ext4", 0, None) != 0)
"""
# Keys of root's keyring, by keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0).
KEYS = "import ctypes; raise SystemExit(ctypes.CDLL(None).syscall(250, 0, -4, 0) < 0)"
VSOCK = "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)"


def python(script: str) -> str:
    """By the machine's Python: an environment's may lie where steps do not see it, and prove nothing."""
    return shlex.join([str(Path(sys.executable).resolve()), "-c", script])


# Shell scripts that exit 0 if they get through; $$ stands for one dollar sign in a plan.
ATTACKS = {
    "write-etc": "echo x > /etc/strata-attack",
    "write-root": "echo x > /root/strata-attack",
    "write-results": "echo x > RESULTS/attack || echo x >> RESULTS/plan.json",
    "write-records": "test -e ${scratch}/../../bindings.json && echo x > ${scratch}/../../bindings.json",
    "write-device": "dd if=/dev/zero of=DEVICE conv=nocreat count=1",
    "make-node": "mknod ${scratch}/node b MAJOR MINOR",
    "make-node-in-dev": "mknod /dev/node b MAJOR MINOR",
    "make-memory-node": "mknod /dev/mem c 1 1",
    "make-log-node": "mknod /dev/kmsg c 1 11",
    "by-the-first-process": "echo x > /proc/1/root/etc/strata-attack",
    "by-the-first-process-root": "ls /proc/1/root/run/SOCKET",
    "device-settings": "echo 0 > /sys/block/NAME/queue/read_ahead_kb",
    "detach": "losetup --detach DEVICE && ! test -e /sys/block/NAME/loop",
    "mount-device": "mount -t ext4 DEVICE ${mounts}",
    "mount-device-filesystems": "mount -t devtmpfs none ${scratch}",
    "mount-sysfs": "mount -t sysfs none ${scratch}",
    "mount-proc": "mount -t proc none ${scratch}",
    "mount-groups": "mount -t cgroup2 none ${scratch} || mount -t cgroup -o devices none ${scratch}",
    "mount-over-etc": "mount -t tmpfs none /etc",
    "bind": "mount --bind / ${scratch}",
    "remount": "mount -o remount,rw / && echo x > /strata-attack",
    "remount-etc": "mount -o remount,bind,rw /etc && echo x > /etc/strata-attack",
    "unmount": "umount -l /etc; echo x > /etc/strata-attack",
    "unmount-run": "umount -l /run; ls /run/SOCKET",
    "unmount-what-covers": "umount -l /proc || umount -l /sys || umount -l /dev || umount -l ${mount}/..",
    "socket": "test -e /run/SOCKET",
    "kill": "kill -9 VICTIM",
    "namespace": "nsenter --target 1 --mount true || unshare --mount true || unshare --user true",
    "files-of-the-agent": "for file in /proc/1/fd/*; do readlink $$file && exit 0; done; exit 1",
    "debug": "dd if=/proc/1/mem of=/dev/null bs=1 count=1 skip=4096",
    "freeze": "fsfreeze --freeze /etc",
    "settings": "echo x > /proc/sys/kernel/core_pattern || echo h > /proc/sysrq-trigger",
    "leave-group": "echo 0 > /sys/fs/cgroup/../cgroup.procs || echo 0 > /sys/fs/cgroup/unified/cgroup.procs",
    "set-clock": "date --set=@0",
    "mount-race": python(RACE),
    # By a folder of the machine's filesystem all of it could be remounted, and others' files opened.
    "machines-filesystem": "test $$(stat -c %d ${scratch}) = FILESYSTEM || "
    "test $$(stat -c %d ${mount}/../..) = FILESYSTEM",
    "mount-on-the-folder": "mount -t ext4 ${disk0} ${mount}/..",
    "change-root": python(CHANGE_ROOT),
    # The way to the trial's folder, of which the warden judges by name.
    "rename-the-way": "cd /tmp && for each in strata-test-*; do mv $$each other && exit; done; exit 1",
    "plant": "touch ${mount}/../../planted || mkdir ${mount}/../../planted",
    "keys": python(KEYS),
    "vsock": python(VSOCK),
    # Whoever kept it open would reach what the machine attaches to it next.
    "free-disk": "umount ${mount} && losetup --detach ${disk0}; sleep 0.5; "
    "test -e /sys/block/$$(basename ${disk0})/loop/backing_file; freed=$$?; "
    "mount -t ext4 ${disk0} ${mount}; test $$freed -ne 0",
    "network": "test $$(ls /sys/class/net | wc -l) -lt 0 || cat < /dev/tcp/127.0.0.1/1",
    # A node in a filesystem of the trial's own, by which the machine's root would be mounted once more.
    "node-in-own-filesystem": "truncate -s 8M ${scratch}/own && mkfs.ext4 -q ${scratch}/own && "
    "debugfs -w -R 'mknod node b MAJOR MINOR' ${scratch}/own && umount ${mount} && "
    "dd if=${scratch}/own of=${disk0} conv=fsync status=none && mount -t ext4 -o dev ${disk0} ${mount} && "
    "ls ${mount}/node && (mount -t ext4 ${mount}/node ${mounts} || dd of=${mount}/node if=/dev/zero count=1)",
}
NEEDS_NO_ROOT = (
    "write-etc",
    "socket",
    "kill",
    "make-node",
    "mount-over-etc",
    "namespace",
    "by-the-first-process",
)

BREAK_OUT = """
mkdir "/tmp/jail"; opendir(my $$top, "/"); chroot("/tmp/jail") or exit 1; chdir($$top); chdir("..") for 1..64;
chroot(".") or exit 1; exit !(-e "RESULTS" || -e "DEVICE")
"""
# The same, of programs in a container. Its own root has an /etc, which they may write to.
CONTAINED_ATTACKS = {
    "write-programs": "echo x > /usr/strata-attack || echo x >> /opt/strata-agent",
    "write-view": "echo x > /run/host/os-release",
    "results": "test -e RESULTS || test -e ${scratch}/../../bindings.json || test -e ${mounts}/ext4",
    "break-out": shlex.join(["perl", "-e", BREAK_OUT]),
    "by-the-first-process": "test -e /proc/1/root/RESULTS",
    "remount": "mount -o remount,bind,rw /usr || mount -o remount,rw /",
    "mount": "mount -t tmpfs none /srv || mount -t proc none /srv || mount --bind /etc /srv",
    "mount-device": "mount -t ext4 DEVICE /srv || mount -t ext4 ${disk0} /srv",
    "unmount": "umount -l /usr",
    "namespace": "unshare --user --map-root-user true || unshare --mount true || nsenter -t 1 --mount true",
    "see-devices": "test -e DEVICE || test -e ${disk0}",
    "make-node": "mknod /tmp/node b MAJOR MINOR",
    "kill": "kill -9 VICTIM",
    "see-processes": "cat /proc/[0-9]*/comm | grep -e sleep -e nspawn -e python",
    "socket": "test -e /run/SOCKET",
    "vsock": shlex.join(["perl", "-e", "exit !socket(my $$s, 40, 1, 0)"]),
    "network": "grep -v -e lo: -e Inter -e face /proc/net/dev",
    "settings": "echo x > /proc/sys/kernel/core_pattern || echo h > /proc/sysrq-trigger || "
    "echo 0 > /sys/block/NAME/queue/read_ahead_kb",
    "ask": "/opt/strata-agent machine contain /srv group",
}
# What systemd-nspawn hides of /proc.
HIDDEN = ("kallsyms", "kcore", "keys", "sysrq-trigger", "timer_list")
# Outside of the container, whose user namespace root's steps could enter if they saw its processes.
SEE_NSPAWN = "cat /proc/[0-9]*/comm | grep nspaw"
# Requests for a container whose folder or control group the warden has to refuse.
_ROOT, _GROUP = "${mounts}/ext4/nspawn", "${stack}_nspawn"
REQUESTS = {
    "machine": ("/etc", _GROUP),
    "scratch": ("${scratch}", _GROUP),
    "around": ("${mounts}/ext4/../..", _GROUP),
    "link": ("${mounts}/ext4/link", _GROUP),
    "group": (_ROOT, "${stack}_nspawn/../../.."),
    "others-group": (_ROOT, "user.slice"),
}


@dataclass(frozen=True)
class World:
    """Objects of the machine that a trial must not reach."""

    device: str
    file: Path
    socket: str
    victim: subprocess.Popen[bytes]
    results: Path

    def state(self) -> tuple[object, ...]:
        files = [*Path("/etc").iterdir(), *Path("/root").iterdir(), *Path("/").iterdir()]
        node = Path(self.device).stat()
        ahead = Path(f"/sys/block/{Path(self.device).name}/queue/read_ahead_kb").read_text()
        return (
            hashlib.sha256(self.file.read_bytes()).hexdigest(),
            sorted(file for file in files if "strata-attack" in file.name),
            (node.st_rdev, ahead, Path("/proc/sys/kernel/core_pattern").read_text()),
            self.victim.poll(),
            Path("/dev/node").exists(),
            mounts_under(self.file.parent),
        )

    def fill_in(self, script: str) -> str:
        number = Path(self.device).stat().st_rdev
        words = {
            "DEVICE": self.device,
            "NAME": Path(self.device).name,
            "MAJOR": str(os.major(number)),
            "MINOR": str(os.minor(number)),
            "SOCKET": self.socket,
            "VICTIM": str(self.victim.pid),
            "RESULTS": str(self.results),
            "FILESYSTEM": str(self.results.stat().st_dev),
        }
        for word, value in words.items():
            script = script.replace(word, value)
        return script


@pytest.fixture
def ground() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices")
    with public_folder() as path:
        for name in ("scratch", "attempt"):
            (path / name).mkdir(mode=0o755)
        yield path
        assert loops_under(path / "scratch") == {}
        assert list((path / "scratch").iterdir()) == []


@pytest.fixture
def world(ground: Path) -> Iterator[World]:
    file = ground / "other.img"
    subprocess.run(["truncate", "--size=8M", str(file)], check=True)
    subprocess.run(["mkfs.ext4", "-q", str(file)], check=True)
    attach = ["losetup", "--find", "--show", str(file)]
    device = subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip()
    victim = subprocess.Popen(["sleep", "600"])
    place = Path(f"/run/{ground.name}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        try:
            yield World(device, file, place.name, victim, ground / "attempt")
        finally:
            victim.kill()
            victim.wait()
            place.unlink()
            subprocess.run(["losetup", "--detach", device], check=True)


def hostile(plan: Plan, world: World) -> Plan:
    """The plan with attempts at its end, each of which has to fail, by root and by others."""
    shared = {"phase": "inspect", "cwd": "/", "expect_exit": tuple(range(1, 256))}
    steps = []
    for name, script in ATTACKS.items():
        argv = ("sh", "-c", world.fill_in(script))
        for user in ("root", "nobody") if name in NEEDS_NO_ROOT else ("root",):
            steps.append(Step(id=f"{name}-{user}", title=name, argv=argv, user=user, **shared))
    return plan.model_copy(update={"steps": (*plan.steps, *steps)})


def contained(plan: Plan, world: World) -> Plan:
    """The plan of a container with attempts in it and on it, each of which has to fail, and looks."""
    socket = next(step.machine for step in plan.steps if step.machine)
    shared = {"phase": "inspect", "cwd": "/", "expect_exit": tuple(range(1, 256))}
    link = ("ln", "-s", "/etc", "${mounts}/ext4/link")
    capabilities = ("grep", "-E", "^(CapEff|NoNewPrivs)", "/proc/self/status")
    kinds = ("stat", "--file-system", "--format=%T", "/", "/opt", "${mount}")
    # A step could be passed a folder of the container's /proc, and write to it as the machine's root.
    hidden = ("grep", "-o", "-E", f" /proc/({'|'.join(HIDDEN)}) ", "/proc/self/mountinfo")
    steps = [
        Step(id="link", title="Link", argv=link, phase="inspect"),
        Step(id="own", title="Write", argv=("touch", "/etc/strata-attack"), phase="inspect", machine=socket),
        *(
            Step(id=name, title="Look", argv=argv, phase="inspect", machine=socket)
            for name, argv in (("look", capabilities), ("kinds", kinds), ("hidden", hidden))
        ),
    ]
    for name, script in CONTAINED_ATTACKS.items():
        argv = ("sh", "-c", world.fill_in(script))
        steps += [
            Step(id=f"{name}-{user}", title=name, argv=argv, user=user, machine=socket, **shared)
            for user in ("root", "nobody")
        ]
    ask, see = ("${agent}", "machine", "contain"), ("sh", "-c", SEE_NSPAWN)
    steps += [
        *(
            Step(id=f"request-{name}", title=name, argv=(*ask, *words), container=True, **shared)
            for name, words in REQUESTS.items()
        ),
        Step(id="request-without-line", title="Ask", argv=(*ask, _ROOT, _GROUP), **shared),
        Step(id="see-nspawn", title="See", argv=see, **shared),
    ]
    return plan.model_copy(update={"steps": (*plan.steps, *steps)})


def run(lab: Lab, ground: Path, plan: Plan) -> list[dict[str, object]]:
    folder = ground / "attempt"
    (folder / PLAN_NAME).write_bytes(plan.to_json())
    runner = HostRunner(lab.agent, scratch=ground / "scratch", journal=ground / "journal")
    runner.check([plan])
    runner.run(Task(plan=plan, devices={}, folder=folder))
    return [json.loads(line) for line in (folder / EVENTS_NAME).read_text().splitlines()]


@pytest.fixture
def plan(ground: Path) -> Plan:
    (ground / "study.toml").write_text(head("host", [1], "1GiB") + stacks("ext4") + mix())
    return compile_trial(load_study(ground / "study.toml", catalogue()), "ext4", "mix", 1)


def test_no_command_line_of_a_step_reaches_anything_outside(
    lab: Lab, ground: Path, world: World, plan: Plan
) -> None:
    before = world.state()

    attacking = hostile(plan, world)

    events = run(lab, ground, attacking)

    got_through = [each["step"] for each in events if each["type"] == "step_end" and each["outcome"] != "ok"]
    assert got_through == [], [each for each in events if each.get("step") in got_through]
    ended = {str(each["step"]) for each in events if each["type"] == "step_end"}
    assert {f"{name}-root" for name in ATTACKS} <= ended
    assert events[-1]["outcome"] == "ok", events[-1]
    assert world.state() == before
    assert not (world.results / "attack").exists()
    assert (world.results / PLAN_NAME).read_bytes() == attacking.to_json()


def test_a_containers_programs_reach_nothing_outside_its_root(lab: Lab, ground: Path, world: World) -> None:
    if not shutil.which("systemd-nspawn"):
        pytest.skip("this machine lacks systemd-nspawn")
    layers = '[stacks.nspawn]\nlayers = [{ layer = "ext4" }, { layer = "nspawn" }]\n'
    (ground / "study.toml").write_text(head("host", [1], "1GiB") + layers + mix())
    study = load_study(ground / "study.toml", catalogue()).on_host()
    attacking = contained(compile_trial(study, "nspawn", "mix", 1), world)
    before = world.state()

    events = run(lab, ground, attacking)

    failed = [each for each in events if each["type"] == "step_end" and each["outcome"] != "ok"]
    assert failed == [], [each for each in events if each.get("step") in {one["step"] for one in failed}]
    ended = {str(each["step"]) for each in events if each["type"] == "step_end"}
    assert {f"{name}-{user}" for name in CONTAINED_ATTACKS for user in ("root", "nobody")} <= ended
    said: dict[str, str] = {}
    for each in events:
        if each["type"] == "output":
            said[str(each["step"])] = said.get(str(each["step"]), "") + str(each["text"])
    assert [name for name in REQUESTS if "refused" not in said[f"request-{name}"]] == []
    assert "no container can be asked for here" in said["request-without-line"]
    denied = sum(
        1 << each for each in (12, 13, 16, 17, 19, 21, 22, 25, 27, 34, 38, 39)
    )  # SYS_ADMIN, MKNOD, ...
    effective, no_new = (line.split(":\t")[1] for line in said["look"].splitlines())
    assert (int(effective, 16) & denied, no_new) == (0, "1")
    # What systemd-nspawn mounts on and executes is where no step can change it.
    assert said["kinds"].split() == ["tmpfs", "tmpfs", "ext2/ext3"]
    there = {f"/proc/{name}" for name in HIDDEN if Path("/proc", name).exists()}
    assert set(said["hidden"].split()) == there
    assert events[-1]["outcome"] == "ok", events[-1]
    assert world.state() == before


def test_no_filesystem_of_the_machine_gets_the_trials_disk(lab: Lab, ground: Path, plan: Plan) -> None:
    """Nor is one trimmed: for both, the kernel asks for no right to write to the mount."""
    image = ground / "btrfs.img"
    subprocess.run(["truncate", "--size=256M", str(image)], check=True)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True)
    with tempfile.TemporaryDirectory(dir="/mnt") as folder:  # the steps have a /tmp of their own
        if subprocess.run(["mount", "-o", "loop", str(image), folder], check=False).returncode:
            pytest.skip("this kernel has no btrfs")
        try:
            shared = {"user": "root", "phase": "inspect", "cwd": "/", "expect_exit": tuple(range(1, 256))}
            add = f"umount ${{mount}}; btrfs device add -f -K ${{disk0}} {folder}; got=$$?; "
            add += "mkfs.ext4 -q -F ${disk0}; mount -t ext4 ${disk0} ${mount}; exit $$got"
            steps = [
                Step(id="add", title="Add the disk", argv=("sh", "-c", add), **shared),
                Step(id="trim", title="Trim", argv=("fstrim", folder), **shared),
            ]
            events = run(lab, ground, plan.model_copy(update={"steps": (*plan.steps, *steps)}))
            show = ["btrfs", "filesystem", "show", folder]
            shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        finally:
            subprocess.run(["umount", folder], check=True)

    outcomes = {each["step"]: each["outcome"] for each in events if each["type"] == "step_end"}
    assert (outcomes["add"], outcomes["trim"]) == ("ok", "ok"), "they were to fail"
    assert "Total devices 1 " in shown


def test_others_than_root_have_no_capabilities_and_gain_none(lab: Lab, ground: Path, plan: Plan) -> None:
    argv = ("grep", "-E", "^(CapPrm|CapEff|NoNewPrivs)", "/proc/self/status")
    looks = [
        Step(id=f"look-{user}", title="Look", argv=argv, user=user, phase="inspect", cwd="/")
        for user in ("root", "nobody")
    ]

    events = run(lab, ground, plan.model_copy(update={"steps": (*plan.steps, *looks)}))

    said = {
        user: dict(
            line.split(":\t")
            for each in events
            if each["type"] == "output" and each["step"] == f"look-{user}"
            for line in str(each["text"]).splitlines()
        )
        for user in ("root", "nobody")
    }
    none = "0" * 16
    assert said["nobody"] == {"CapPrm": none, "CapEff": none, "NoNewPrivs": "1"}
    denied = sum(1 << each for each in (12, 13, 16, 17, 19, 22, 25, 34, 38, 39))  # NET_ADMIN ... BPF
    assert int(said["root"]["CapEff"], 16) & denied == 0
    assert said["root"]["NoNewPrivs"] == "1"
