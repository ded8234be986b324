"""A posted write on its way: how far it has got, and what its packets are cut from."""

from __future__ import annotations

from mrc.endpoint.work import WriteRequest

_NO_IMMEDIATE = -1


class Message:
    """Message number `msn`, cut into `packets` of up to one path MTU.

    `rqmsn` numbers the writes with immediate; it is 0 in a plain write, whose `immediate` is -1. Its `length` bytes are
    those of `payload` from `offset` on.
    """

    __slots__ = (
        "first_psn",
        "immediate",
        "last_psn",
        "length",
        "msn",
        "offset",
        "packets",
        "path_mtu",
        "payload",
        "remote_va",
        "request",
        "rkey",
        "rqmsn",
        "sent_packets",
    )

    def __init__(self, request: WriteRequest, msn: int, path_mtu: int, rqmsn: int = 0) -> None:
        self.request = request
        self.msn = msn
        self.rqmsn = rqmsn
        self.path_mtu = path_mtu
        self.length = request.length
        self.payload = request.source.payload
        self.offset = request.offset
        self.remote_va = request.remote_va
        self.rkey = request.rkey
        self.immediate = _NO_IMMEDIATE if request.immediate is None else request.immediate
        self.packets = max(1, -(-self.length // path_mtu))
        self.sent_packets = 0
        # Unbounded sequence numbers, known once the first and last packet are sent.
        self.first_psn = -1
        self.last_psn = -1

    def took(self, psn: int) -> None:
        """Its next packet got this PSN."""
        if not self.sent_packets:
            self.first_psn = psn
        self.sent_packets += 1
        if self.sent_packets == self.packets:
            self.last_psn = psn

    def sent(self, psn: int) -> bool:
        """Whether one of its packets went out as `psn`."""
        return self.sent_packets > 0 and self.first_psn <= psn < self.first_psn + self.sent_packets
