# SPDX-License-Identifier: BSD-2-Clause
"""What the wire shows of one direction of a QP pair, kept by an onlooker who only reads packets.

PSNs are counted from the requestor's first one. `Shadow` sees each request as it leaves and as it arrives, each answer
likewise, and holds the two ends to what behaviour.md says of them.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from adversary_network import ACK, SACK

PSN_MASK, PSN_HALF = 0xFFFFFF, 1 << 23
MPR_UNIT = 128
ENDINGS = frozenset({0xC8, 0xC9, 0xCA, 0xCB})
WITH_IMMEDIATE = frozenset({0xC9, 0xCB})
_SE = 0x80  # of BTH byte 1
_ACKREQ, _RTX = 0x80, 0x20  # of BTH byte 8
_SETH = struct.Struct(">HhIHHIBBhQHHI")  # from the first byte of the SETH to the end of the CC_STATE


class Violation(AssertionError):
    """The endpoint did what the protocol pages do not allow."""


def hold(good: Any, *what: Any) -> None:
    """Raises Violation unless `good`; `what` says what is wrong, in words and numbers."""
    if not good:
        raise Violation(" ".join(map(str, what)))


def is_request(data: bytes) -> bool:
    return 0xC6 <= data[48] <= 0xCB


class Shadow:
    """One requestor and the responder it talks to.

    `window` is what the peer grants from the start, in PSNs; `exact` says that the responder has no limit of its own,
    so that every figure it tells follows from what arrived and how many receives were posted: `receives_posted()`.
    `solicited(n)`: whether the requestor's write with immediate of number n is.
    """

    def __init__(self, *, first_psn: int, window: int, dynamic_mpr: bool, exact: bool) -> None:
        self.first_psn = first_psn
        self.window = window
        self.dynamic_mpr = dynamic_mpr
        self.exact = exact
        self.receives_posted: Callable[[], int] = lambda: 0
        self.solicited: Callable[[int], bool] = lambda number: False
        # The requestor: the next new PSN, where its messages end, what it was told, and the first PSN it may not use.
        self.next = 0
        self.ends: list[int] = []
        self.immediates: list[int] = []
        self.reported_cack = -1
        self.told: set[int] = set()
        self.edge = window
        self.retransmissions = 0
        self.last_asks = True  # whether its last request asks for an acknowledgement
        # The responder: all below `epsn` has arrived, and these too; bytes of all, each once.
        self.epsn = 0
        self.others: set[int] = set()
        self.bytes = 0
        self.cack_answered = -1

    def _number(self, psn: int) -> int:
        """PSN (24 bit) to its place after the first one, -1 for the one before that."""
        return (psn - self.first_psn + PSN_HALF & PSN_MASK) - PSN_HALF

    # ------------------------------------------------------------------ requests

    def on_request_sent(self, data: bytes) -> None:
        """PSNs number packets in send order; rtx says which are sent again, and only what is missing is; none is
        beyond what the peer granted."""
        number = self._number(int.from_bytes(data[57:60], "big"))
        self.last_asks = bool(data[56] & _ACKREQ)
        msn = int.from_bytes(data[62:64], "big")
        # MRC-WIRE-22
        due = data[48] in WITH_IMMEDIATE and self.solicited(bisect_left(self.immediates, number))
        hold(bool(data[49] & _SE) == due, "SE of PSN", number, "is", bool(data[49] & _SE))
        if data[56] & _RTX:
            hold(0 <= number < self.next, "retransmission of PSN", number, "which was never sent: next is", self.next)
            hold(
                number > self.reported_cack,
                "PSN",
                number,
                "sent again, but it was covered by cack_psn",
                self.reported_cack,
            )
            hold(number not in self.told, "PSN", number, "sent again, but a SACK told that it arrived")
            self.retransmissions += 1
            return
        hold(number == self.next, "new PSN", number, "where", self.next, "is next")
        hold(number < self.edge, "PSN", number, "is beyond the right edge", self.edge)
        hold(msn == len(self.ends) & 0xFFFF, "MSN", msn, "where", len(self.ends), "is next")
        self.next += 1
        if data[48] in ENDINGS:
            self.ends.append(number)
        if data[48] in WITH_IMMEDIATE:
            self.immediates.append(number)

    def on_request_arrived(self, data: bytes) -> None:
        number = self._number(int.from_bytes(data[57:60], "big"))
        if number <= self.cack_answered or number in self.others or (self.exact and number < self.epsn):
            return
        self.bytes += len(data)
        self.others.add(number)
        self._go_on()

    def _go_on(self) -> None:
        """The left edge moves over what has arrived, but for an immediate that finds no receive. MRC-IMM-07."""
        waits = self.immediates[self.receives_posted() :]
        while self.epsn in self.others and self.epsn not in waits[:1]:
            # One without room for it may have refused what arrived, and holds what lies above.
            if self.exact:
                self.others.discard(self.epsn)
            self.epsn += 1

    # ------------------------------------------------------------------ answers

    def on_answer_sent(self, data: bytes) -> None:
        """Nothing is acknowledged that has not arrived."""
        self._go_on()
        if data[48] == ACK:
            if data[60] == 0x1F:
                self._check_cack(self._number(int.from_bytes(data[57:60], "big")))
        elif data[48] == SACK:
            self._check_sack(data)

    def _check_cack(self, cack: int) -> None:
        hold(cack < self.epsn, "cack_psn", cack, "although only those below", self.epsn, "have arrived")
        hold(cack >= self.cack_answered, "cack_psn", cack, "after", self.cack_answered)
        if cack > self.cack_answered:
            self.cack_answered = cack
            self.others = {number for number in self.others if number > cack}
        if self.exact:
            hold(cack == self.epsn - 1, "cack_psn", cack, "although all below", self.epsn, "have arrived")

    def _check_sack(self, data: bytes) -> None:
        word, offset, _, _, _, cack_word, _, mpr, base, bitmap, _, ooo, received = _SETH.unpack_from(data, 60)
        cack = self._number(cack_word & PSN_MASK)
        self._check_cack(cack)
        hold(cack_word & PSN_MASK == int.from_bytes(data[57:60], "big"), "a SACK's PSN is not its cack_psn")
        hold((mpr > 0) == self.dynamic_mpr, "mpr", mpr, "and dynamic MPR is", self.dynamic_mpr)
        first = cack + base
        said = {first + bit for bit in range(64) if bitmap >> bit & 1}
        arrived = {number for number in said if number <= cack or number in self.others}
        hold(said == arrived, "a SACK reports", sorted(said - arrived), "which have not arrived")
        if not word & 2:  # pr
            hold(-1 <= cack + offset < self.next, "a SACK was triggered by", cack + offset, "which was never sent")
        ooo, rcvd = ooo & 0x7FFF, received & 0xFFFFFF
        if self.exact:
            hold(ooo == len(self.others), "ooo_count", ooo, "with", len(self.others), "packets above a hole")
            hold(rcvd == -(-self.bytes // 256) & 0xFFFFFF, "rcvd_bytes", rcvd, "of", self.bytes, "bytes")
            due = {number for number in self.others if first <= number < first + 64}
            hold(said == due, "a SACK is silent about", sorted(due - said))
        else:
            hold(ooo <= len(self.others), "ooo_count", ooo, "with", len(self.others), "packets above a hole")
            hold(rcvd <= -(-self.bytes // 256), "rcvd_bytes", rcvd, "of", self.bytes, "bytes")

    def on_answer_arrived(self, data: bytes) -> None:
        if data[48] == ACK and data[60] <= 0x1F:
            self._report_cack(self._number(int.from_bytes(data[57:60], "big")))
        elif data[48] == SACK:
            fields = _SETH.unpack_from(data, 60)
            cack, mpr, base, bitmap = self._number(fields[5] & PSN_MASK), fields[7], fields[8], fields[9]
            first = cack + base
            self.told.update(first + bit for bit in range(64) if bitmap >> bit & 1)
            if self.dynamic_mpr and mpr:
                self.edge = max(self.edge, cack + 1 + mpr * MPR_UNIT)
            self._report_cack(cack)

    def _report_cack(self, cack: int) -> None:
        if cack > self.reported_cack:
            self.reported_cack = cack
            self.told = {number for number in self.told if number > cack}
            if not self.dynamic_mpr:
                self.edge = cack + 1 + self.window

    # ------------------------------------------------------------------ completions

    def may_complete(self, message: int) -> bool:
        """Whether the requestor was told that all of its message of this number arrived."""
        return message < len(self.ends) and self.ends[message] <= self.reported_cack
