# SPDX-License-Identifier: BSD-2-Clause
"""A control socket over a host in virtual time: served by hand, turn by turn."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from control_pair import ControlPair

from mrc.control.service import Service
from mrc.net.control.server import ControlServer


class Served:
    """h0 of a pair behind a socket, and clients that are fed by hand."""

    def __init__(self, pair: ControlPair | None = None, host: str = "h0") -> None:
        """Another host's, too, of a pair that is there already."""
        self.pair = pair or ControlPair()
        if pair is None:
            self.left, self.right = self.pair.connect()
        device = self.pair.left if host == "h0" else self.pair.right
        # What `hello` says, as it is when the first client comes.
        self.about = {"pid": os.getpid(), "program": "a test", "mode": "srv6"}
        self.server = ControlServer(lambda: Service(device, self.about))
        # Whether virtual time goes on while somebody waits for an answer.
        self.running = False
        self.before_turn: Callable[[], None] = lambda: None
        self._clients: list[socket.socket] = []

    def client(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.server.path))
        sock.setblocking(False)
        self._clients.append(sock)
        return sock

    def ask(self, sock: socket.socket, *requests: object) -> list[dict[str, Any]]:
        """Send requests, and read as many lines as there were requests."""
        for request in requests:
            line = request if isinstance(request, bytes) else json.dumps(request).encode()
            sock.send(line + b"\n")
        return self.read(sock, len(requests))

    def read(self, sock: socket.socket, count: int, turns: int = 1000) -> list[dict[str, Any]]:
        data, lines = b"", 0
        for _ in range(turns):
            self.server.attend()
            try:
                came = sock.recv(1 << 20)
            except BlockingIOError:
                if lines >= count:
                    break
            else:
                data += came
                lines += came.count(b"\n")
        return [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        for sock in self._clients:
            sock.close()
        self.server.close()


def serving(served: Served | list[Served], action: Callable[[], Any]) -> Any:
    """Run `action` in a thread while the sockets are served here."""
    outcome: list[Any] = []

    def body() -> None:
        try:
            outcome.append(action())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    while thread.is_alive():
        for each in served if isinstance(served, list) else [served]:
            each.before_turn()
            each.server.attend()
            if each.running:
                each.pair.left.call(lambda: None)
                each.pair.run(100_000)
        time.sleep(0)
    thread.join()
    return outcome[0]
