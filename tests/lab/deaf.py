# SPDX-License-Identifier: Apache-2.0
"""Runs a program as on a host whose seccomp cannot notify the lab: ``deaf.py PROGRAM ARGUMENT...``.

The listener of a seccomp filter reaches the lab's kernel by pidfd_getfd(2), which fails here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Final

_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_PIDFD_GETFD: Final = 438
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_FILTER: Final = (
    (_LOAD, 0, 0, 0),  # the number of the call
    (_JUMP_EQUAL, 0, 1, _PIDFD_GETFD),
    (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    (_RETURN, 0, 0, _ALLOW),
)


def main() -> None:
    """Set the filter, which every program below has, too."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in _FILTER))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(_FILTER), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter cannot be set")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
