"""Requests that end their QP, and the NAKs that say so (behaviour.md, Responder: Refused requests)."""

from __future__ import annotations

from mrc.endpoint.completions import WorkStatus
from mrc.wire.rows import PSN_BITS_MASK

ACK_SYNDROME = 0x1F  # an ACK without credit flow control
NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATION = 0x61, 0x62, 0x63
NAK_STATUS = {
    NAK_INVALID_REQUEST: WorkStatus.REMOTE_INVALID_REQUEST,
    NAK_REMOTE_ACCESS: WorkStatus.REMOTE_ACCESS_ERROR,
    NAK_REMOTE_OPERATION: WorkStatus.REMOTE_OPERATION_ERROR,
}


class RefusedRequest(Exception):
    """A request that ends its QP: the offending (unbounded) PSN, the NAK's syndrome and the counter it counts under."""

    def __init__(self, psn: int, syndrome: int, what: str, counter: str = "invalid_request") -> None:
        super().__init__(f"the peer's request with PSN {psn & PSN_BITS_MASK} {what}")
        self.psn = psn
        self.syndrome = syndrome
        self.counter = counter
