# SPDX-License-Identifier: BSD-2-Clause
"""What a command shows where stderr is a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess

from patience import PATIENCE_S

# What ends a line that is gone: the cursor is shown, goes up to it, and it is erased.
WIPED = b"\x1b[?25h\r\x1b[1A\x1b[2K"


def on_a_terminal(argv: list[str]) -> tuple[bytes, bytes]:
    """What a command says on a terminal, on stderr, and on stdout, which is none."""
    master, slave = pty.openpty()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while select.select([master], [], [], PATIENCE_S)[0]:
            try:
                shown += os.read(master, 4096)
            except OSError:
                break  # the other end is closed
        return shown, process.communicate(timeout=PATIENCE_S)[0]
    finally:
        process.kill()
        process.wait()
        os.close(master)
