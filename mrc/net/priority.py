# SPDX-License-Identifier: BSD-2-Clause
"""A loop that the application's own threads do not hold up, where this process may say so."""

from __future__ import annotations

import contextlib
import os
import threading

# As the kernel's own network threads stand before programs that compute. A loop without work sleeps.
NICE = -10


def go_first() -> None:
    """Let this thread have a processor before those that compute. Without the privilege (CAP_SYS_NICE) nothing
    changes."""
    me = threading.get_native_id()
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, me) > NICE:
            os.setpriority(os.PRIO_PROCESS, me, NICE)
