# SPDX-License-Identifier: Apache-2.0
"""`strata record`: strace's output as a recording, and programs that are recorded on this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import shown
from strata.cli import app
from strata.traces.calls import UNSEEN, About, Call, Names, read_about, write_calls
from strata.traces.recorder import Recorder
from strata.traces.strace import system_calls

# A shell starts `writer`, which sends a message to a child of its own, and then `reader`; what stands between
# the lines of one task is another's. Sent by strace 6.1; times are cut to milliseconds.
STRACE = """\
10 1.000 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 11 <0.000001000>
10 1.001 wait4(-1,  <unfinished ...>
11 1.002 execve("/bin/writer", [...], 0x7f /* 3 vars */) = 0 <0.000001000>
11 1.003 openat(AT_FDCWD</data>, "app.db", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3</data/app.db> <0.000001000>
11 1.004 pread64(3</data/app.db>, ""..., 4096, 8192) = 4096 <0.000001000>
11 1.005 clone(child_stack=NULL, flags=SIGCHLD) = 12 <0.000001000>
12 1.006 read(5<pipe:[77]>,  <unfinished ...>
11 1.007 pwritev(3</data/app.db>, [{..., iov_len=100}, {..., iov_len=28}], 2, 4096 <unfinished ...>
11 1.009 <... pwritev resumed>) = 128 <0.002000000>
11 1.010 write(6<pipe:[77]>, ""..., 1) = 1 <0.000900000>
12 1.0105 <... read resumed>""..., 1) = 1 <0.004500000>
12 1.012 fsync(3</data/app.db>) = 0 <0.005000000>
11 1.013 rename("app.db", "old/app.db") = 0 <0.000001000>
12 1.020 pwrite64(3</data/old/app.db>, ""..., 10, 0) = 10 <0.000001000>
12 1.021 exit_group(0) = ?
12 1.022 +++ exited with 0 +++
11 1.023 wait4(12, NULL, 0, NULL) = 12 <0.000001000>
11 1.024 exit_group(0) = ?
11 1.025 +++ exited with 0 +++
10 1.026 <... wait4 resumed>[{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 11 <0.025000000>
10 1.027 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 13 <0.000001000>
13 1.030 unlink("/data/old/../old/app.db") = 0 <0.000001000>
13 1.031 openat(AT_FDCWD</data>, "none", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000001000>
13 1.032 openat(AT_FDCWD</data>, "/etc/passwd", O_RDONLY) = 3</etc/passwd> <0.000001000>
13 1.033 mmap(NULL, 8192, PROT_WRITE, MAP_SHARED, 4</data/mapped file>, 0x1000) = 0x7f0000 <0.000001000>
13 1.034 io_uring_setup(8, {flags=0}) = 5 <0.000001000>
13 1.035 write(7</elsewhere/x>, ""..., 9) = 9 <0.000001000>
13 1.036 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---
"""
EXPECTED: list[tuple[object, ...]] = [
    (0, (), "open", 0, 1, "rwc"),
    (0, (), "pread", 0, 4096, 8192),
    (0, (), "pwrite", 0, 128, 4096),
    (1, (2,), "fsync", 0),  # of the child, after the message
    (0, (), "rename", 1, 3),  # it did not wait for the child's
    (1, (), "pwrite", 0, 10, 0),  # through the renamed file's handle
    (0, (5,), "close", 0),  # the last user's end
    (0, (), "unlink", 3),  # of a process that begins when the other has ended
    (0, (), "stat", 4),  # what was looked for in vain
    (0, (), "open", 1, 5, "rw"),  # opened by nobody whom the tracer saw
    (0, (), "map", 1, 4096, 8192, "w"),
]
BEFORE = {".": None, "old": None, "app.db": 20_000, "mapped file": 9000}


def recorded(text: str, names: Names, tracing_ns: int = 0) -> tuple[list[Call], About]:
    whole = re.sub(r"^(\d+ \d+\.)(\d+) ", lambda found: f"{found[1]}{found[2]:0<9} ", text, flags=re.M)
    recorder = Recorder(Path("/data"), names, "/data", tracing_ns=tracing_ns)
    about = recorder.record(system_calls(whole.splitlines()))
    return recorder.calls, about


def test_calls_have_their_files_their_order_and_what_they_waited_for() -> None:
    names = Names(BEFORE, is_kept=True)

    calls, about = recorded(STRACE, names)

    found = [(each.thread, each.after, each.name, *map(str, each.words)) for each in calls]
    assert found == [(*each[:3], *map(str, each[3:])) for each in EXPECTED]
    assert [*names.lines()] == [
        *("folder .\n", "file 20000 app.db\n", "folder old\n", "later old/app.db\n", "later none\n"),
        "file 9000 mapped%20file\n",
    ]
    assert (about.bytes_before, about.bytes_most, about.threads) == (29_000, 29_000, 2)
    assert about.unseen == {"shared_mapping": 1, "io_uring": 1, "outside_bytes": 9}
    # From the end of the message's sender's last call, without the tracer's own time.
    assert 0 < calls[3].think_ns <= calls[3].begin_ns - calls[2].end_ns


ODD_NAMES = r"""
10 1.001 openat(AT_FDCWD</data>, "\303\244, <x>.db", O_RDWR) = 3</data/\303\244, \74x\76.db> <0.000001000>
10 1.002 ftruncate(3</data/\303\244, \74x\76.db>, 100) = 0 <0.000001000>
10 1.003 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3</data/\303\244, \74x\76.db>, 0) = 0x7f <0.000001000>
10 1.004 unlink("\303\244, <x>.db") = 0 <0.000001000>
10 1.005 write(3</data/\303\244, \74x\76.db>(deleted), ""..., 5) = 5 <0.000001000>
10 1.006 chdir("\303\244") = 0 <0.000001000>
10 1.007 unlink("in") = 0 <0.000001000>
"""
RENAMED_FOLDER = """
10 1.001 openat(AT_FDCWD</data>, "a/in/x", O_RDWR) = 3</data/a/in/x> <0.000001000>
10 1.002 rename("a", "b") = 0 <0.000001000>
10 1.003 write(3</data/b/in/x>, ""..., 10) = 10 <0.000001000>
10 1.004 openat(AT_FDCWD</data>, "b/in/y", O_RDONLY) = 4</data/b/in/y> <0.000001000>
10 1.005 getdents64(5</data/b/in>, 0x7f /* 2 entries */, 32768) = 48 <0.000001000>
"""
COPIES = """
10 1.001 openat(AT_FDCWD</data>, "old", O_RDONLY) = 3</data/old> <0.000001000>
10 1.002 openat(AT_FDCWD</data>, "new", O_WRONLY|O_CREAT) = 4</data/new> <0.000001000>
10 1.003 sendfile(4</data/new>, 3</data/old>, NULL, 1000) = 700 <0.000001000>
10 1.004 sendfile(4</data/new>, 3</data/old>, [10] => [60], 50) = 50 <0.000001000>
10 1.005 copy_file_range(3</data/old>, [0], 4</data/new>, [2000], 100, 0) = 100 <0.000001000>
10 1.006 copy_file_range(3</data/old>, NULL, 4</data/new>, NULL, 2000, 0) = 2000 <0.000001000>
"""

ODD_CALLS = "open 0 1 rw, truncate 0 100, map 0 0 8192 r, unlink 1, write 0 5, unlink 3"
FOLDER_CALLS = "open 0 3 rw, rename 1 4, write 0 10, open 1 8 r, open 2 7 rD, list 2"
COPY_CALLS = (
    "open 0 1 r, open 1 2 wc, read 0 700, write 1 700, pread 0 50 10, write 1 50, pread 0 100 0, "
    "pwrite 1 100 2000, copy 0 1 2000"
)

WAITS = """
10 1.001 openat(AT_FDCWD</data>, "log", O_WRONLY|O_APPEND|O_CLOEXEC) = 3</data/log> <0.000001000>
10 1.002 clone(flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, child_tidptr=0x7e) = 11 <0.000001000>
11 1.003 fcntl(3</data/log>, F_SETLK, {l_type=F_WRLCK}) = 0 <0.000001000>
11 1.004 write(3</data/log>, ""..., 10) = 10 <0.000001000>
11 1.005 fcntl(3</data/log>, F_SETLK, {l_type=F_UNLCK}) = 0 <0.000001000>
10 1.006 fcntl(3</data/log>, F_SETLKW, {l_type=F_WRLCK}) = 0 <0.000001000>
10 1.007 write(3</data/log>, ""..., 10) = 10 <0.000001000>
11 1.008 fsync(3</data/log>) = 0 <0.000001000>
11 1.009 +++ exited with 0 +++
10 1.010 fsync(3</data/log>) = 0 <0.000001000>
10 1.011 execve("/bin/other", [...], 0x7f /* 3 vars */) = 0 <0.000001000>
"""


def test_a_thread_has_news_by_locks_and_by_the_end_of_others_and_an_exec_closes() -> None:
    calls, about = recorded(WAITS, Names({".": None, "log": 100}, is_kept=True), 100_000)

    assert [(each.thread, each.after, each.name) for each in calls] == [
        (0, (), "open"),
        (1, (0,), "write"),
        (0, (1,), "write"),
        (1, (), "fsync"),
        (0, (3,), "fsync"),  # a join of a thread that has ended asks nobody
        (0, (), "close"),
    ]
    assert about.bytes_most == 120  # each write at the end
    assert calls[2].think_ns == 2_999_000 - 250_000  # two calls and the entry of its own were traced in it


# A client looks for the file of a server until it is there; the server removes it when it was read.
LOOKS = """
10 1.001 clone(flags=SIGCHLD) = 11 <0.000001000>
10 1.002 openat(AT_FDCWD</data>, "run/pid", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000001000>
11 1.003 mkdir("run", 0700) = 0 <0.000001000>
11 1.004 openat(AT_FDCWD</data>, "run/new", O_RDWR|O_CREAT|O_EXCL) = 3</data/run/new> <0.000001000>
11 1.005 rename("run/new", "run/pid") = 0 <0.000001000>
10 1.006 openat(AT_FDCWD</data>, "run/pid", O_RDONLY) = 3</data/run/pid> <0.000001000>
12 1.007 openat(AT_FDCWD</data>, "run/pid", O_RDWR|O_CREAT) = 3</data/run/pid> <0.000001000>
11 1.008 unlink("run/pid") = 0 <0.000001000>
11 1.009 rmdir("run") = 0 <0.000001000>
"""


def test_a_call_follows_the_one_that_made_its_name_and_a_removal_follows_every_use() -> None:
    calls, _ = recorded(LOOKS, Names({".": None}, is_kept=True))

    assert [(each.thread, each.after, each.name) for each in calls] == [
        (0, (), "stat"),
        (1, (), "mkdir"),
        (1, (), "open"),
        (1, (), "rename"),
        (0, (3,), "open"),
        (2, (3,), "open"),
        (1, (4, 5), "unlink"),
        (1, (), "rmdir"),
    ]


def test_names_renamed_folders_and_copies_are_as_the_application_had_them() -> None:
    """Names beyond ASCII and with commas; what lies in a renamed folder; copies at places."""
    odd = Names({".": None, "ä": None, "ä/in": 1, "ä, <x>.db": 5}, is_kept=True)
    folders = {".": None, "a": None, "a/in": None, "a/in/x": 5, "a/in/y": 700, "a/z": 1}
    for text, names, wanted, expected, most in (
        (ODD_NAMES, odd, {"file 5 %C3%A4,%20%3Cx%3E.db", "file 1 %C3%A4/in"}, ODD_CALLS, 101),
        (RENAMED_FOLDER, Names(folders, is_kept=True), {"file 700 a/in/y", "file 1 a/z"}, FOLDER_CALLS, 711),
        (COPIES, Names({".": None, "old": 9000}, is_kept=True), {"file 9000 old"}, COPY_CALLS, 11750),
    ):
        calls, about = recorded(text, names)
        made = [" ".join((each.name, *map(str, each.words))) for each in calls]
        assert made == expected.split(", ")
        assert wanted <= {line.rstrip() for line in names.lines()}
        assert about.bytes_most == most


def test_names_are_hashes_of_their_length_that_differ_between_recordings(tmp_path: Path) -> None:
    texts = []
    for run in range(2):
        calls, about = recorded(STRACE, names := Names(BEFORE))
        with (tmp_path / f"{run}").open("w") as file:
            write_calls(file, about, names, calls)
        assert read_about(tmp_path / f"{run}") == about
        texts.append((tmp_path / f"{run}").read_text())

    parts = {part for text in texts for part in re.findall(r"^(?:folder|later|file \d+) (.*)$", text, re.M)}
    assert not any(word in part for part in parts for word in ("app", "old", "none", "mapped"))
    assert all(re.fullmatch(r"\.|([0-9a-f]{8,}(\.db)?/?)+", part) for part in parts), parts
    assert len(parts) == 11  # "." is in both
    assert any(len(part) == len("mapped file") for part in parts)


PROGRAM = """
import mmap, os, socket, sys, threading
data = sys.argv[1]
file = os.open(f"{data}/one", os.O_RDWR | os.O_CREAT)
os.write(file, b"x" * 5000)
own, other = socket.socketpair()
thread = threading.Thread(target=lambda: (other.recv(1), os.fsync(file)))
thread.start()
own.send(b"x")
thread.join()
os.posix_fallocate(file, 0, 9000)
if not (child := os.fork()):
    os.pwrite(file, b"y", 4096)
    os._exit(0)
os.waitpid(child, 0)
os.rename(f"{data}/one", f"{data}/two")
os.listdir(data)
"""
strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines() if line[0].isdecimal()]


@strace
def test_a_program_of_threads_and_processes_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "there").write_text("before")
    output, words = tmp_path / "app.strata-calls", [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]

    shown("record", "--folder", tmp_path / "data", "-o", output, "--", *words)

    made = lines(output)
    names = (
        "open",
        "write",
        "fsync",
        "fallocate",
        "pwrite",
        "rename",
        "open",
        "list",
        "list",
        "close",
        "close",
    )
    assert [each[5] for each in made] == [*names]
    assert [each[3] for each in made if each[5] not in {"fsync", "pwrite"}] == ["0"] * 9
    assert {made[2][3], made[4][3]} <= {"1", "2"}
    # The message and the child's end; a join of a thread that has ended already asks nobody.
    assert (made[2][4], made[4][4].split(",")[0], made[5][4]) == ("1", "3", "4")
    assert "file 6 " in output.read_text()  # listed, so it has to be there


HIDING = """
import ctypes, mmap, os, sys
file = os.open(f"{sys.argv[1]}/mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 8192)
mmap.mmap(file, 8192)[0:1] = b"x"
os.open(sys.argv[1], os.O_RDWR | os.O_TMPFILE)
ring = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(256))  # io_uring_setup
os.rename(f"{sys.argv[1]}/mapped", f"{sys.argv[1]}/../out")
sys.exit(ring < 0)
"""


@strace
def test_a_program_is_recorded_with_a_note_of_all_that_no_call_shows(tmp_path: Path) -> None:
    (data := tmp_path / "data").mkdir()
    output = tmp_path / "app.strata-calls"
    command = (sys.executable, "-c", HIDING, str(data))
    done = CliRunner().invoke(app, ["record", "--folder", str(data), "-o", str(output), "--", *command])

    unseen = {name for name, amount in read_about(output).unseen.items() if amount}
    hidden = {"shared_mapping", "unnamed", "moved"} | ({"io_uring"} if done.exit_code == 0 else set())
    assert unseen == hidden, done.output
    assert all(word in " ".join(done.output.split()) for word in (UNSEEN[name] for name in hidden))


RECORD = (str(Path(sys.executable).with_name("strata")), "record", "-o", "app.strata-calls")


def grown(path: Path) -> bool:
    """Whether several lines more were written, before half a minute has passed."""
    wanted, end_s = len(path.read_bytes()) + 8, time.monotonic() + 30
    while len(path.read_bytes()) < wanted and time.monotonic() < end_s:
        time.sleep(0.05)
    return len(path.read_bytes()) >= wanted


@strace
def test_what_a_command_leaves_behind_is_recorded_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    loop = "echo $$ > pid; while :; do echo x >> log; sleep 0.05; done"
    program = f"setsid sh -c '{loop}' >/dev/null 2>&1 &"
    words = (*RECORD, "--", "sh", "-c", program)
    running = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        assert "still recorded" in running.stderr.readline()
        assert grown(tmp_path / "log")
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
        assert grown(tmp_path / "log")  # it goes on, unrecorded
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    output = tmp_path / "app.strata-calls"
    assert read_about(output).unseen["running"] == 1
    assert sum(each[5] == "write" for each in lines(output)) >= 4


def test_a_tracer_that_does_not_let_go_is_ended_and_its_recording_kept(tmp_path: Path) -> None:
    """As strace, which waits for a process in vfork(), whose child it holds."""
    line = f'10 1.000000001 write(3<{tmp_path}/log>, ""..., 5) = 5 <0.000000100>'
    program = tmp_path / "strace"
    program.write_text(
        "#!/bin/sh\ntrap '' INT\ncase $* in *each*) exit 0;; esac\n"
        f"for word; do case $word in --output=*) echo '{line}' > ${{word#*=}};; esac; done\n"
        f"touch {tmp_path}/begun\nexec sleep 60\n"
    )
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen((*RECORD, "--", "true"), cwd=tmp_path, env=environment) as running:
        while not (tmp_path / "begun").exists() and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    assert read_about(tmp_path / "app.strata-calls").unseen["running"] == 1


@strace
def test_a_process_that_runs_is_recorded_with_what_it_has_open(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * 100)
    loop = "exec 3>>log 4<log; read -r _ <&4; while :; do echo x >&3; sleep 0.05; done"
    with subprocess.Popen(["sh", "-c", loop], cwd=tmp_path) as process:
        try:
            assert grown(tmp_path / "log")
            words = (*RECORD, "--pid", str(process.pid))
            recording = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
            status, end_s = Path(f"/proc/{process.pid}/status"), time.monotonic() + 30
            while "TracerPid:\t0" in status.read_text() and time.monotonic() < end_s:
                time.sleep(0.05)
            assert grown(tmp_path / "log")
        finally:
            process.kill()
        assert recording.wait(30) == 0

    calls = lines(tmp_path / "app.strata-calls")
    assert {each[8] for each in calls if each[5] == "open"} == {"wa", "r"}
    assert any(each[5] == "seek" for each in calls)  # what was read before
    assert sum(each[5] == "write" for each in calls) >= 4
    about = read_about(tmp_path / "app.strata-calls")
    assert about.bytes_before > 100
    assert about.span_ns < 60_000_000_000  # what was open is opened when it begins


def test_what_cannot_be_recorded_is_refused_with_a_remedy(tmp_path: Path) -> None:
    for words, remedy in (
        ((), "name a command after"),
        (("--pid", "1", "--", "true"), "name a command after"),
        (("--", "no-such-program"), "check its name"),
        (("--pid", str(2**22)), "see the running processes"),
        (("--folder", str(tmp_path / "none"), "--", "true"), "name the application's folder"),
        (("--folder", str(tmp_path), "--", "true"), "name the folder of the application's data"),
    ):
        said = CliRunner().invoke(app, ["record", "-o", str(tmp_path / "out"), *words])
        assert remedy in str(getattr(said.exception, "remedy", "")), (words, said.exception)
    assert not (tmp_path / "out").exists()
