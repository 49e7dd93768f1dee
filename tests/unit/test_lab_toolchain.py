# SPDX-License-Identifier: Apache-2.0
"""The lab's needs from the machine: packages, the machine's own Debian mirror."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from strata.errors import LabError, ToolError
from strata.lab.apt import debian_mirror, parse_deb822, sources_list
from strata.lab.process import PackageNeed, missing, read_needs, require, run_logged

ROOT = Path(__file__).resolve().parents[2]

ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib # ours
deb-src http://mirror.example/debian bookworm main
deb http://third.example/apt ./
"""
DEB822 = """\
# A comment
Types: deb deb-src
URIs: http://one.example/debian
 http://two.example/debian
# between the fields
Suites: bookworm bookworm-updates
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main
"""


def apt_folder(tmp_path: Path, **files: str) -> Path:
    etc = tmp_path / "apt"
    (etc / "sources.list.d").mkdir(parents=True)
    for name, text in files.items():
        path = (
            etc / "sources.list"
            if name == "sources_list"
            else etc / "sources.list.d" / name.replace("_", ".")
        )
        path.write_text(text)
    return etc


def test_deb822_sources_are_read_but_the_disabled_and_the_source_only_ones() -> None:
    sources = parse_deb822(DEB822)

    assert [s.uri for s in sources] == ["http://one.example/debian", "http://two.example/debian"]
    assert sources[0].suites == ("bookworm", "bookworm-updates")


@pytest.mark.parametrize(
    "files",
    [
        {"sources_list": ONE_LINE},
        {"aa_list": "deb http://third.example/x nodistro main\n", "debian_list": ONE_LINE},
        {
            "debian_sources": "Types: deb\nURIs: http://mirror.example/debian\n"
            "Suites: bookworm\nComponents: main\n"
        },
        {
            "sources_list": "deb cdrom:[Debian]/ bookworm main\n"
            "deb http://mirror.example/security bookworm-security main\n"
            "deb http://mirror.example/debian stable main\n"
        },
    ],
)
def test_the_machines_debian_mirror_is_found_among_other_archives(
    tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRATA_DEBIAN_MIRROR", raising=False)

    assert debian_mirror(apt_folder(tmp_path, **files)) == "http://mirror.example/debian"


def test_the_error_about_a_missing_debian_mirror_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRATA_DEBIAN_MIRROR", raising=False)
    etc = apt_folder(tmp_path, ubuntu_list="deb http://ubuntu.example/ubuntu noble main\n")

    with pytest.raises(LabError) as caught:
        debian_mirror(etc)
    monkeypatch.setenv("STRATA_DEBIAN_MIRROR", "http://named.example/debian")

    assert "STRATA_DEBIAN_MIRROR" in (caught.value.remedy or "")
    assert debian_mirror(etc) == "http://named.example/debian"


def test_the_private_sources_trust_debians_keys_only() -> None:
    lines = sources_list("http://mirror.example/debian", ("trixie", "trixie-backports")).splitlines()

    assert len(lines) == 2
    assert all("signed-by=/usr/share/keyrings/debian-archive-keyring.gpg" in line for line in lines)
    assert lines[1].endswith("http://mirror.example/debian trixie-backports main")


def test_what_is_missing_is_named_at_once_with_the_command(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.write_text(
        "# who what how\n"
        "kernel  aaa  no-such-program-a\n"
        "kernel  sh   sh\n"
        "kernel  bbb  /no/such/*/file\n"
        "kernel  ccc  python3:no_such_module\n"
        "image   ddd  no-such-program-d\n"
    )

    with pytest.raises(ToolError) as caught:
        require(packages, "kernel", purpose="building the lab's kernel")

    assert "aaa bbb ccc" in caught.value.cause
    assert "apt-get install --no-install-recommends aaa bbb ccc" in (caught.value.remedy or "")


def test_every_line_of_the_projects_list_can_be_read_and_is_checked() -> None:
    needs = read_needs(ROOT / "scripts" / "packages")

    assert {need.group for need in needs} == {
        *("python", "kernel", "qemu-kernel", "image", "agent", "load", "host", "tests")
    }
    assert "gcc" in {need.package for need in needs}
    nothing_there = [PackageNeed(need.group, need.package, "/no/such/file") for need in needs]
    assert {"btrfs-progs", "e2fsprogs", "fio", "postgresql", "xfsprogs"} < set(missing(nothing_there, "host"))


def test_nothing_is_installed_on_a_users_machine_that_changes_how_it_starts() -> None:
    needs = read_needs(ROOT / "scripts" / "packages")

    # Each has udev rules, services or initramfs hooks.
    changing = {"bcache-tools", "lvm2", "mdadm", "nbd-client", "quota", "zfsutils-linux", "zfs-dkms"}
    assert not changing & {need.package for need in needs}


def test_programs_outside_an_ordinary_users_path_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    assert PackageNeed("host", "util-linux", "losetup").is_met()


def test_a_program_that_fails_is_reported_with_its_error_and_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "it.log"
    script = "seq -f 'line %g' 300; echo 'x.c:3: error: no such thing'; echo after; exit 7"

    with pytest.raises(LabError) as caught:
        run_logged(["sh", "-c", script], log=log, title="compiling it", remedy="mend x.c")

    assert caught.value.cause.splitlines() == [
        "compiling it failed with exit status 7",
        "  | x.c:3: error: no such thing",
        "  | after",
    ]
    assert (caught.value.place, caught.value.remedy) == (str(log), "mend x.c")
    assert "line 1\n" in log.read_text()


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no-such-program is missing"):
        run_logged(["no-such-program"], log=tmp_path / "log", title="", remedy="")


def test_an_interrupted_program_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! >{pids}; echo started; wait"

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_logged(["sh", "-c", script], log=tmp_path / "log", title="", remedy="", on_line=interrupt)

    state = Path(f"/proc/{pids.read_text().strip()}/stat")
    for _ in range(500):  # a killed process ends when it is next scheduled
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("the program's child is still there")


def set_up_with(tmp_path: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/setup on a machine that has only these programs (and what lies in sbin)."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in programs:
        (folder / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    return subprocess.run(
        [folder / "bash", ROOT / "scripts" / "setup", "--no-lab"],
        env={"PATH": str(folder), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(shutil.which("apt-get", path="/usr/sbin:/sbin") is not None, reason="it would install")
def test_set_up_elsewhere_names_all_that_is_missing_in_one_message(tmp_path: Path) -> None:
    done = set_up_with(tmp_path, "bash", "dirname", "sed", "sort", "awk", "tr")

    assert done.returncode == 3
    named = re.search(r"are missing: (.*)", done.stderr)
    assert named is not None
    assert {"gcc", "flex", "bison", "python3", "mmdebstrap", "fio"} <= set(named[1].split())
    assert any(name.startswith("cargo") for name in named[1].split())
    assert len(done.stderr.splitlines()) == 2
