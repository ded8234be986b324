# SPDX-License-Identifier: BSD-2-Clause
"""A byte stream of the kernel's, TCP or MPTCP, for comparison: `python -m mrc.drill.stream serve|send ...`.

`serve KIND SAMPLES` prints its port, takes one connection and notes, every millisecond at most, how many bytes came.
`send KIND ADDRESS PORT SECONDS` connects and writes as fast as it goes.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TextIO

_IPPROTO = {"tcp": socket.IPPROTO_TCP, "mptcp": 262}
_TICK_NS = 1_000_000
_CHUNK = 1 << 18


def open_socket(kind: str) -> socket.socket:
    """Raises OSError where the kernel has no such protocol."""
    return socket.socket(socket.AF_INET6, socket.SOCK_STREAM, _IPPROTO[kind])


def missing(kind: str) -> str | None:
    """Why this kernel has no streams of a kind, if it has none."""
    try:
        open_socket(kind).close()
    except OSError as error:
        return f"this kernel has no {kind.upper()}: {error.strerror}"
    return None


def serve(kind: str, samples: str) -> None:
    with open_socket(kind) as listener, open(samples, "w") as file:
        # On every address: those of the other planes are for MPTCP's further subflows.
        listener.bind(("::", 0))
        listener.listen(1)
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        with connection:
            _take(connection, file)


def _take(connection: socket.socket, file: TextIO) -> None:
    room = bytearray(_CHUNK)
    total, due = 0, 0
    while count := connection.recv_into(room):
        total += count
        now = time.monotonic_ns()
        if now >= due:
            due = now + _TICK_NS
            file.write(f"{now} {total}\n")
            file.flush()


def send(kind: str, address: str, port: int, seconds: float) -> None:
    data = os.urandom(_CHUNK)
    with open_socket(kind) as connection:
        connection.connect((address, port))
        deadline = time.monotonic() + seconds
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            try:
                connection.send(data)
            except TimeoutError:
                return


def main(what: str, kind: str, *rest: str) -> None:
    if what == "serve":
        serve(kind, rest[0])
    else:
        address, port, seconds = rest
        send(kind, address, int(port), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
