# SPDX-License-Identifier: BSD-2-Clause
"""Posted writes and the PSNs their packets have: what a requestor that goes back needs to find again."""

from __future__ import annotations

from collections import deque

from mrc.endpoint.work import WriteRequest
from mrc.rc.opcodes import write_opcode
from mrc.wire.opcodes import OPCODES
from mrc.wire.packet import Layer
from mrc.wire.psn import PSN_MASK


class Message:
    """A write cut into packets of up to one path MTU, with the PSNs (unbounded) from `first_psn` on."""

    __slots__ = ("_path_mtu", "end_psn", "first_psn", "request")

    def __init__(self, request: WriteRequest, first_psn: int, path_mtu: int) -> None:
        self.request = request
        self.first_psn = first_psn
        # One past its last.
        self.end_psn = first_psn + max(1, -(-request.length // path_mtu))
        self._path_mtu = path_mtu

    def packet(self, psn: int) -> tuple[list[Layer], int, int]:
        """Of the packet `psn`: its headers from the BTH on, and which bytes of the message it carries."""
        request = self.request
        first, last = psn == self.first_psn, psn == self.end_psn - 1
        opcode = write_opcode(first=first, last=last, immediate=request.immediate is not None)
        fields = {
            "reth": {"va": request.remote_va, "rkey": request.rkey, "dmalen": request.length},
            "immdt": {"data": request.immediate or 0},
        }
        layers = [("bth", {"opcode": int(opcode), "psn": psn & PSN_MASK})]
        layers += [(name, fields[name]) for name in OPCODES[opcode].headers]
        start = (psn - self.first_psn) * self._path_mtu
        return layers, start, min(start + self._path_mtu, request.length)


class SendQueue:
    """Messages in the order they were posted, and how far sending and acknowledging have come in them.

    PSNs are unbounded: `una` is the oldest not acknowledged, `next_psn` the next to be sent, `highest` one past the
    highest ever sent.
    """

    __slots__ = ("_at", "_messages", "_path_mtu", "highest", "next_psn", "una")

    def __init__(self, path_mtu: int, first_psn: int) -> None:
        self._path_mtu = path_mtu
        self._messages: deque[Message] = deque()
        self._at = 0  # which of them has next_psn
        self.una = self.next_psn = self.highest = first_psn

    @property
    def end_psn(self) -> int:
        """One past the last PSN posted."""
        return self._messages[-1].end_psn if self._messages else self.una

    def post(self, request: WriteRequest) -> None:
        self._messages.append(Message(request, self.end_psn, self._path_mtu))

    def next_message(self) -> Message:
        """The message that `next_psn`, which has been posted, is in."""
        while self.next_psn >= self._messages[self._at].end_psn:
            self._at += 1
        return self._messages[self._at]

    def sent(self) -> bool:
        """`next_psn` has left. Whether it had before."""
        again = self.next_psn < self.highest
        self.next_psn += 1
        self.highest = max(self.highest, self.next_psn)
        return again

    def go_back(self, psn: int) -> None:
        """Send `psn`, which is not acknowledged, and all after it again."""
        self.next_psn = psn
        self._at = 0

    def acknowledge(self, una: int) -> list[WriteRequest]:
        """Everything before `una`, which is beyond the present one, has arrived. The writes that completes."""
        self.una = una
        self.next_psn = max(self.next_psn, una)
        done = []
        while self._messages and self._messages[0].end_psn <= una:
            done.append(self._messages.popleft().request)
        self._at = max(0, self._at - len(done))
        return done

    def clear(self) -> list[WriteRequest]:
        """Forget everything posted, which is returned."""
        left = [message.request for message in self._messages]
        self._messages.clear()
        return left
