# SPDX-License-Identifier: Apache-2.0
"""Programs of a build that its source controls, confined: a Makefile can run anything.

Such a program sees the machine's programs and libraries, the folders that it is given, an empty ``/tmp`` and
harmless devices; nothing else of the machine's files, no network, no other process. It writes to its own
folders alone, without privileges: as ``nobody`` for root, in a user namespace for another user.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strata.errors import LabError

NOBODY: Final = 65534
_SYSTEM: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Arguments: the new root's mount point, the user ("" in a user namespace), the working folder; the folders,
# each with r or w before it; "--"; the program. The shell stays the first process of the namespace: with it
# ends all that the program started, even in sessions of its own.
_SCRIPT: Final = r"""
set -e
root=$1 user=$2 folder=$3 path=$PATH; shift 3
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs -o mode=755,nosuid,nodev strata "$root"
show() {
    if [ -L "$1" ]; then ln -s "$(readlink "$1")" "$root$1"; return; fi
    [ -d "$1" ] || return 0
    mkdir -p "$root$1"
    mount --bind "$1" "$root$1"
    mount -o "remount,bind,nosuid,nodev$2" "$root$1"
}
for each in SYSTEM; do show "/$each" ,ro; done
mkdir -p "$root/dev" "$root/proc" "$root/var"
mkdir -m 1777 "$root/tmp" "$root/var/tmp" "$root/dev/shm"
for each in null zero full random urandom; do
    : >"$root/dev/$each"; mount --bind "/dev/$each" "$root/dev/$each"
done
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc" 2>/dev/null || :
while [ "$1" != -- ]; do
    case $1 in r) show "$2" ,ro ;; w) show "$2" "" ;; esac
    shift 2
done
shift
cd "$root"
pivot_root . .
umount -l .
cd "$folder"
set +e
setpriv=$(command -v setpriv)
PATH=$path
"$setpriv" ${user:+--reuid "$user" --regid "$user" --clear-groups} \
    --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
exit $?
""".replace("SYSTEM", " ".join(_SYSTEM))


def confined(*, cwd: Path, writable: Sequence[Path], readable: Sequence[Path] = ()) -> list[str]:
    """The beginning of a command line that runs a program confined, in ``cwd``, with its environment."""
    root = writable[0].with_name(".confined")
    root.mkdir(exist_ok=True)
    named = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each.startswith("/")]
    tools = [each for each in named if each.is_dir() and each.parts[1] not in _SYSTEM]
    if os.geteuid() == 0:
        for each in writable:
            _give(each)
    shown = [word for each in (*tools, *readable) for word in ("r", str(each))]
    shown += [word for each in writable for word in ("w", str(each))]
    return [*_namespaces(), "sh", "-c", _SCRIPT, "sh", str(root), _user(), str(cwd), *shown, "--"]


def require_confinement(place: Path) -> None:
    """Refuse to build a source that is not the project's on a machine without namespaces, by a LabError."""
    if not can_confine():
        raise LabError(
            "this kernel's source cannot be built: the machine gives the builder no namespaces to confine it",
            place=str(place),
            remedy="work as root, or permit user namespaces (sysctl user.max_user_namespaces)",
        )


@functools.cache
def can_confine() -> bool:
    """Whether this machine gives the caller namespaces."""
    argv = [*_namespaces(), "mount", "-t", "tmpfs", "strata", "/mnt" if Path("/mnt").is_dir() else "/"]
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _namespaces() -> list[str]:
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    unshare = shutil.which("unshare", path=_PATH) or "unshare"
    return [unshare, *own, "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child=KILL"]


def _user() -> str:
    return str(NOBODY) if os.geteuid() == 0 else ""


def _give(folder: Path) -> None:
    """Let ``nobody`` own a folder's content; links are not followed."""
    argv = ["find", str(folder), "-not", "-user", str(NOBODY)]
    subprocess.run([*argv, "-exec", "chown", "-h", f"{NOBODY}:{NOBODY}", "{}", "+"], check=True)
    folder.parent.chmod(0o755)


def refuse_strange(tree: Path) -> None:
    """Refuse links that lead out of a tree, and anything but files and folders. Raises LabError.

    A source or its build may have put anything there, and root reads and writes files of the tree by name.
    """
    top = os.path.realpath(tree)
    for at, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = Path(at) / name
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind):
                # Text, not the file system: a link may lead to a file that is not there yet.
                target = os.path.normpath(Path(os.path.realpath(at)) / path.readlink())
                found = os.path.realpath(path)
                if not all(each == top or each.startswith(top + os.sep) for each in (target, found)):
                    raise _strange(path, tree, f"is a link out of it, to {path.readlink()}")
            elif not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
                raise _strange(path, tree, "is no file, folder or link")


def copy_from(tree: Path, name: str, target: Path) -> None:
    """Copy a regular file out of a tree that its build controls. Raises LabError for another file."""
    real = (tree / name).resolve()
    if not real.is_file() or not real.is_relative_to(tree.resolve()):
        raise _strange(tree / name, tree, "is no file of it")
    shutil.copyfile(real, target)


def _strange(path: Path, tree: Path, what: str) -> LabError:
    return LabError(
        f"the kernel's source is refused: {path.relative_to(tree)} {what}",
        place=str(tree),
        remedy="see who made it; a kernel's source has no such file",
    )
