# SPDX-License-Identifier: BSD-2-Clause
"""Whether the network that a server serves is gone for good, as when the lab around it is taken down."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from mrc.errors import SystemRefused

_LOOK_S = 1.0


class Departure:
    """Watches a fabric file and the interfaces it names. An interface alone may be made again; a lab that is taken down
    takes its file along. Without a file, on ordinary addresses, nothing is watched."""

    def __init__(self, fabric_file: str | None, interfaces: Sequence[str]) -> None:
        self._file = None if fabric_file is None else Path(fabric_file)
        self._interfaces = tuple(interfaces)
        self._due = 0.0

    def check(self) -> None:
        """Raise SystemRefused when the file and every interface are gone. Looks once a second."""
        now = time.monotonic()
        if self._file is None or now < self._due:
            return
        self._due = now + _LOOK_S
        if not self._file.exists() and not any(map(_is_there, self._interfaces)):
            raise SystemRefused(
                errno.ENODEV, f"the network is gone: neither {self._file} nor {', '.join(self._interfaces)} is there"
            )


def _is_there(interface: str) -> bool:
    try:
        socket.if_nametoindex(interface)
    except OSError:
        return False
    return True
