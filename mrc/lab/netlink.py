# SPDX-License-Identifier: BSD-2-Clause
"""One netlink socket inside one namespace: requests out, acknowledgements and dumps back.

The bytes of the requests come from `messages` and `impairment`. The transport is a plain blocking socket, so that one
`sendto` carries a whole node's configuration, a cut takes microseconds, and any thread may use it.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrc.errors import SystemRefused
from mrc.lab.namespace import ROOT_ADVICE, in_namespace
from mrc.netlink import DONE, ERROR, HEADER, SEQUENCE_AT, attributes, messages

_SOL_NETLINK = 270
_NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 10, 11
_NLM_F_ACK_TLVS = 0x200
_NLMSGERR_ATTR_MSG = 1
# Each acknowledgement takes about a kilobyte of the socket's buffer: this many at once always fit.
_REQUESTS_PER_SEND = 64
_RECEIVE_BYTES = 1 << 18
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Request:
    """One encoded netlink message that asks for an acknowledgement.

    `what` completes the sentence "cannot ...", `tolerate` holds error numbers that mean "already so".
    """

    what: str
    data: bytes
    tolerate: frozenset[int] = frozenset()


class NetlinkSocket:
    """A route (0) or netfilter (12) netlink socket that belongs to the namespace it was opened in."""

    __slots__ = ("_lock", "_sequence", "_socket")

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        """Open it in the calling thread's namespace. Raises SystemRefused."""
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        except OSError as error:
            raise SystemRefused(f"cannot open a netlink socket: {error.strerror}") from None
        self._socket.bind((0, 0))
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
        self._socket.settimeout(_TIMEOUT_S)
        self._sequence = 0
        self._lock = threading.Lock()

    @classmethod
    def inside(cls, namespace: int, protocol: int = socket.NETLINK_ROUTE) -> NetlinkSocket:
        """Open one in the namespace behind the descriptor `namespace`."""
        return in_namespace(namespace, lambda: cls(protocol))

    def close(self) -> None:
        self._socket.close()

    def _numbered(self, requests: Sequence[Request]) -> tuple[bytes, dict[int, Request]]:
        datagram = bytearray()
        waiting: dict[int, Request] = {}
        for request in requests:
            self._sequence = self._sequence % 0x7FFFFFFF + 1
            start = len(datagram)
            datagram += request.data
            datagram += bytes(-len(datagram) % 4)
            struct.pack_into("=II", datagram, start + SEQUENCE_AT, self._sequence, 0)
            waiting[self._sequence] = request
        return bytes(datagram), waiting

    def transact(self, requests: Sequence[Request]) -> None:
        """Send `requests` in order and wait for every acknowledgement.

        Raises SystemRefused for the first one the kernel refuses; later ones of the same call may have been done.
        """
        with self._lock:
            for start in range(0, len(requests), _REQUESTS_PER_SEND):
                datagram, waiting = self._numbered(requests[start : start + _REQUESTS_PER_SEND])
                self._exchange(datagram, waiting)

    def transact_batch(self, begin: bytes, requests: Sequence[Request], end: bytes) -> None:
        """Send `requests` to netfilter, which does all or none of them, and wait for every acknowledgement.

        `begin` and `end` are the markers of the batch; they are not acknowledged. Raises SystemRefused.
        """
        with self._lock:
            datagram, waiting = self._numbered(requests)
            self._exchange(begin + datagram + end, waiting)

    def _exchange(self, datagram: bytes, waiting: dict[int, Request]) -> None:
        refusal: SystemRefused | None = None
        self._send(datagram)
        while waiting:
            for kind, flags, sequence, body in self._receive():
                if kind != ERROR:
                    continue
                number = -struct.unpack_from("=i", body)[0]
                request = waiting.pop(sequence, None)
                if request is None:
                    # A batch refused as a whole is answered under the number of its first marker.
                    if number and waiting:
                        raise _refusal(next(iter(waiting.values())).what, number, flags, body)
                elif number and number not in request.tolerate and refusal is None:
                    refusal = _refusal(request.what, number, flags, body)
        if refusal is not None:
            raise refusal

    def dump(self, what: str, data: bytes, take: Callable[[int, bytes], None]) -> None:
        """Send one dump request; `take(message type, whole message)` gets each answer. Raises SystemRefused."""
        with self._lock:
            datagram, waiting = self._numbered([Request(what, data)])
            self._send(datagram)
            while waiting:
                for kind, flags, sequence, body in self._receive():
                    if sequence not in waiting:
                        continue
                    if kind == ERROR:
                        raise _refusal(what, -struct.unpack_from("=i", body)[0], flags, body)
                    if kind == DONE:
                        del waiting[sequence]
                        break
                    take(kind, HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0) + body)

    def _send(self, datagram: bytes) -> None:
        try:
            self._socket.send(datagram)
        except OSError as error:
            raise SystemRefused(f"netlink: {error.strerror}") from None

    def _receive(self) -> list[tuple[int, int, int, bytes]]:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            raise SystemRefused(f"netlink: no answer from the kernel in {_TIMEOUT_S:.0f} s: try again") from None
        except OSError as error:
            raise SystemRefused(f"netlink: {error.strerror}") from None
        return list(messages(data))


def _refusal(what: str, number: int, flags: int, body: bytes) -> SystemRefused:
    detail = f" ({text})" if (text := _kernel_text(flags, body)) else ""
    advice = f": {ROOT_ADVICE}" if number == errno.EPERM else ""
    return SystemRefused(number, f"cannot {what}: {os.strerror(number)}{detail}{advice}")


def _kernel_text(flags: int, body: bytes) -> str:
    """The sentence the kernel adds to a refusal, when it does."""
    if not flags & _NLM_F_ACK_TLVS:
        return ""
    text = attributes(body, 4 + HEADER.size).get(_NLMSGERR_ATTR_MSG, b"")
    return text.rstrip(b"\0").decode(errors="replace")
