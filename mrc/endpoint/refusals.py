# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Requests that end their QP, and the NAKs that say so (behaviour.md, Responder: Refused requests)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from mrc.endpoint.completions import WorkStatus
from mrc.wire.rows import PSN_BITS_MASK

ACK_SYNDROME = 0x1F  # an ACK without credit flow control
NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATION = 0x61, 0x62, 0x63
NAK_STATUS = {
    NAK_INVALID_REQUEST: WorkStatus.REMOTE_INVALID_REQUEST,
    NAK_REMOTE_ACCESS: WorkStatus.REMOTE_ACCESS_ERROR,
    NAK_REMOTE_OPERATION: WorkStatus.REMOTE_OPERATION_ERROR,
}


class Verdict(IntEnum):
    """What the checks say of a request. All but the first refuse it."""

    RIGHT = 0
    WRONG_LENGTH = 1
    WRONG_NEIGHBOUR = 2
    OTHER_DMALEN = 3
    OTHER_VA = 4
    OTHER_PSN = 5
    NO_ADDRESS = 6
    NO_REGION = 7
    OUTSIDE_REGION = 8
    OTHER_RQMSN = 9
    NO_IMMEDIATES = 10
    NO_RECEIVE = 11
    TOO_MANY_IMMEDIATES = 12
    NO_WRITE = 13  # plain RC only


class Reason(NamedTuple):
    """The NAK's syndrome, the counter, and the words, in which two numbers may stand."""

    syndrome: int
    counter: str
    words: str


REASONS: dict[Verdict, Reason] = {
    Verdict.WRONG_LENGTH: Reason(
        NAK_INVALID_REQUEST, "bad_request_length", "carries {0} bytes of {1}, which contradicts its opcode"
    ),
    Verdict.WRONG_NEIGHBOUR: Reason(
        NAK_INVALID_REQUEST, "invalid_request", "does not follow the packet before it or lead to the next"
    ),
    Verdict.OTHER_DMALEN: Reason(NAK_INVALID_REQUEST, "bad_request_length", "has DMALen {0} where its message had {1}"),
    Verdict.OTHER_VA: Reason(NAK_INVALID_REQUEST, "invalid_request", "has a VA at which its message does not continue"),
    Verdict.OTHER_PSN: Reason(NAK_INVALID_REQUEST, "invalid_request", "has a PSN its message does not have"),
    Verdict.NO_ADDRESS: Reason(NAK_REMOTE_ACCESS, "bad_address", "names an address no region can have"),
    Verdict.NO_REGION: Reason(NAK_REMOTE_ACCESS, "bad_rkey", "names R_Key {0:#010x}, which opens no region"),
    Verdict.OUTSIDE_REGION: Reason(
        NAK_REMOTE_ACCESS, "bad_address", "belongs to a message that does not lie in the region"
    ),
    Verdict.OTHER_RQMSN: Reason(NAK_INVALID_REQUEST, "invalid_request", "has RQMSN {0} where {1} is next"),
    Verdict.NO_IMMEDIATES: Reason(
        NAK_INVALID_REQUEST, "invalid_request", "is a write with immediate, and none are agreed"
    ),
    Verdict.NO_RECEIVE: Reason(
        NAK_INVALID_REQUEST,
        "invalid_request",
        "is a write with immediate, and there was no receive for it within {0} ms: post as many receives as writes "
        "with immediate are granted (max_wimm_dest), and another for each that completes",
    ),
    Verdict.TOO_MANY_IMMEDIATES: Reason(
        NAK_INVALID_REQUEST,
        "invalid_request",
        "has RQMSN {0}: more writes with immediate are in flight than the {1} agreed",
    ),
    Verdict.NO_WRITE: Reason(
        NAK_INVALID_REQUEST, "invalid_request", "has opcode {0:#04x}: only writes are served here"
    ),
}


class Refusal:
    """The request that is refused, if one is: its (unbounded) PSN, why, and the numbers that belong to that."""

    def __init__(self) -> None:
        self.verdict: int = int(Verdict.RIGHT)
        self.psn = self._first = self._second = 0

    def of(self, verdict: int, psn: int, first: int, second: int) -> int:
        """This request is refused. `first` and `second` are the numbers in the words, if there are any. Returns
        `verdict`."""
        self.verdict = verdict
        self.psn = psn
        self._first, self._second = first, second
        return verdict

    @property
    def reason(self) -> Reason:
        return REASONS[Verdict(self.verdict)]

    @property
    def words(self) -> str:
        """Which request is refused, and why."""
        what = self.reason.words.format(self._first, self._second)
        return f"the peer's request with PSN {self.psn & PSN_BITS_MASK} {what}"
