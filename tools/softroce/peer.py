# SPDX-License-Identifier: BSD-2-Clause
"""Orders to the peer, one line each, and its answers (guest/peer.c has the list)."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from mrc.errors import PeerError

_ANSWER_S = 60.0
SUCCESS, REMOTE_INVALID_REQUEST, REMOTE_ACCESS_ERROR = 0, 9, 10  # enum ibv_wc_status
RDMA_WRITE, RECV_RDMA_WITH_IMM = 1, 129  # enum ibv_wc_opcode


@dataclass(frozen=True, slots=True)
class OpenPair:
    """A QP of the peer's, and the memory it may be written to."""

    qpn: int
    psn: int
    rkey: int
    va: int
    length: int


@dataclass(frozen=True, slots=True)
class Done:
    """A completion of the peer's; of `length` and `immediate` only receives tell, of `opcode` only those that succeed.
    `receive` is 1 of a receive, 0 of all else."""

    status: int
    opcode: int
    length: int
    immediate: int
    receive: int


class Peer:
    """The program on the other end of `connection`. Raises PeerError when it refuses or falls silent."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(_ANSWER_S)
        self._stream = connection.makefile("rw", encoding="ascii")

    def _order(self, *words: object) -> list[str]:
        line = " ".join(map(str, words))
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
            answer = self._stream.readline().split()
        except OSError as error:
            raise PeerError(f"the peer does not answer to {line!r}: {error}") from None
        if answer[:1] != ["ok"]:
            raise PeerError(f"the peer, told {line!r}: {' '.join(answer) or 'is gone'}")
        return answer[1:]

    def open(self, local: str, remote: str, path_mtu: int, rnr_timer: int) -> OpenPair:
        return OpenPair(*map(int, self._order("open", local, remote, path_mtu, rnr_timer)))

    def connect(self, qpn: int, psn: int, timeout: int, retries: int, rnr_retries: int = 7) -> None:
        self._order("connect", qpn, psn, timeout, retries, rnr_retries)

    def state(self) -> int:
        """Of `enum ibv_qp_state`."""
        return int(self._order("state")[0])

    def register(self, offset: int, length: int) -> int:
        """The R_Key of this part of its memory, which the one before loses."""
        return int(self._order("register", offset, length)[0])

    def put(self, offset: int, content: bytes) -> None:
        self._order("put", offset, content.hex())

    def get(self, offset: int, length: int) -> bytes:
        return bytes.fromhex("".join(self._order("get", offset, length)))

    def close(self) -> None:
        """Forget the QP."""
        self._order("close")

    def fill(self, offset: int, length: int) -> None:
        """Random bytes there."""
        self._order("fill", offset, length)

    def sum(self, offset: int, length: int) -> str:
        return self._order("sum", offset, length)[0]

    def receive(self, count: int) -> None:
        self._order("receive", count)

    def write(self, offset: int, length: int, va: int, rkey: int, immediate: int | None = None) -> None:
        self._order("post", "write", offset, length, va, rkey, *(() if immediate is None else (immediate,)))

    def send(self, length: int) -> None:
        self._order("post", "send", 0, length, 0, 0)

    def read(self, length: int, va: int, rkey: int) -> None:
        self._order("post", "read", 0, length, va, rkey)

    def poll(self, count: int, milliseconds: int) -> list[Done]:
        """Up to `count` completions."""
        return [Done(*map(int, word.split(":"))) for word in self._order("poll", count, milliseconds)]

    def counters(self) -> dict[str, int]:
        words = (word.partition("=") for word in self._order("counters"))
        return {name: int(value) for name, _, value in words}

    def quit(self) -> None:
        self._order("quit")
