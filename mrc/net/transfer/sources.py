# SPDX-License-Identifier: BSD-2-Clause
"""What can be sent: regular files, and those that the kernel makes up while they are read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from mrc.errors import CallerError

# Of a file that does not tell its size, held in memory.
MOST_READ_FIRST = 64 * 1024 * 1024
_CHUNK = 1024 * 1024


def check_regular(path: Path) -> None:
    """Raise CallerError that says what to do where `path` is no regular file, OSError where there is nothing."""
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        advice = "a directory, not a file"
    elif stat.S_ISFIFO(mode):
        advice = "a pipe: send what comes out of it as standard input (mrc send - TICKET < PIPE)"
    elif stat.S_ISSOCK(mode):
        advice = "a socket: only files are sent"
    else:
        advice = "a device: copy what it holds into a file first (dd), and send that"
    raise CallerError(f"{path} is {advice}")


def read_first(descriptor: int, path: Path) -> int:
    """Copy the rest of `descriptor` into memory and return a descriptor of the copy, an unnamed file.

    Files of procfs have content and a size of 0, attributes of sysfs hold less than their size: only reading shows it.
    Raises CallerError beyond MOST_READ_FIRST bytes and where a read would wait, OSError where it fails.
    """
    os.set_blocking(descriptor, False)
    copy = os.memfd_create("mrc send", os.MFD_CLOEXEC)
    done = 0
    try:
        while piece := os.read(descriptor, _CHUNK):
            done += len(piece)
            if done > MOST_READ_FIRST:
                raise CallerError(
                    f"{path} reports no size and holds more than {MOST_READ_FIRST >> 20} MiB, the most that is read "
                    "into memory: copy it to a disk first, and send the copy"
                )
            with open(copy, "ab", buffering=0, closefd=False) as file:
                file.write(piece)
    except OSError as error:
        os.close(copy)
        if error.errno == errno.EAGAIN:
            raise CallerError(f"{path} does not end, it waits for more: copy what it gives into a file first") from None
        raise
    except CallerError:
        os.close(copy)
        raise
    return copy
