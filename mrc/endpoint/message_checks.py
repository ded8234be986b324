"""Whether the packets of a message agree with each other (behaviour.md, Responder: "contradicts").

Packets come in any order. Each tells its message's length, and with its VA where the message lies: DMALen, and VA less
PSN x path MTU, are the same in every packet of one message. A First and a Last tell at which PSN the message starts, a
Middle between which. Besides, neighbours by PSN belong together: a message starts where another has ended.

What is kept is bounded by the window: one message at most reaches below epsn, every other one has a packet above it.
"""

from __future__ import annotations

from mrc.endpoint.opcode_terms import ENDS, STARTS
from mrc.endpoint.received import ring_size
from mrc.endpoint.refusals import NAK_INVALID_REQUEST, RefusedRequest

# A packet that arrived, in one number: psn(46) msn(16) starts(1) ends(1).
_PSN_SHIFT, _MSN_SHIFT, _MSN_MASK, _STARTS_SHIFT, _ENDS_BIT = 18, 2, 0xFFFF, 1, 1
_NOBODY = -1 << 62
_STARTS, _ENDS = STARTS, ENDS


class OpenMessage:
    """A message of several packets, `arrived` of which have arrived, not all. It starts at a PSN from `least_start`
    to `most_start`; `va_of_psn_0` is its VA less PSN x path MTU."""

    __slots__ = ("arrived", "dmalen", "least_start", "most_start", "va_of_psn_0")

    def __init__(self, dmalen: int, va_of_psn_0: int, least_start: int, most_start: int) -> None:
        self.dmalen = dmalen
        self.va_of_psn_0 = va_of_psn_0
        self.least_start = least_start
        self.most_start = most_start
        self.arrived = 0


class MessageChecks:
    """The messages of one peer, as far as they are on their way. `span` is as for ReceivedPsns."""

    __slots__ = ("_mask", "_path_mtu", "_tags", "open")

    def __init__(self, span: int, first_psn: int, path_mtu: int) -> None:
        self._path_mtu = path_mtu
        self.open: dict[int, OpenMessage] = {}  # by MSN
        self._make_ring(ring_size(span + 1))
        # Before the first PSN every message has ended.
        self._tags[first_psn - 1 & self._mask] = first_psn - 1 << _PSN_SHIFT | _ENDS_BIT

    def _make_ring(self, size: int) -> None:
        self._mask = size - 1
        self._tags = memoryview(bytearray(8 * size)).cast("q")
        for slot in range(size):
            self._tags[slot] = _NOBODY

    def make_room(self, span: int) -> None:
        """Be ready for a larger window. The ring never shrinks."""
        size = ring_size(span + 1)
        if size > self._mask + 1:
            # A PSN that has been passed long ago may share its new place with a later one.
            kept = sorted(tag for tag in self._tags if tag != _NOBODY)
            self._make_ring(size)
            for tag in kept:
                self._tags[tag >> _PSN_SHIFT & self._mask] = tag

    def take(self, psn: int, msn: int, dmalen: int, va: int, opcode: int) -> None:
        """Take a packet whose length is right for its opcode. Raises RefusedRequest, and nothing has happened, if it
        contradicts one that came before."""
        starts, ends = _STARTS[opcode], _ENDS[opcode]
        before, after = self._tags[psn - 1 & self._mask], self._tags[psn + 1 & self._mask]
        if before >> _PSN_SHIFT == psn - 1 and (
            before & _ENDS_BIT != starts or not (starts or before >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            raise self._no_neighbour(psn)
        if after >> _PSN_SHIFT == psn + 1 and (
            after >> _STARTS_SHIFT & 1 != ends or not (ends or after >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            raise self._no_neighbour(psn)
        if not (starts and ends):
            self._join(psn, msn, dmalen, va - psn * self._path_mtu, starts != 0, ends != 0)
        self._tags[psn & self._mask] = psn << _PSN_SHIFT | msn << _MSN_SHIFT | starts << _STARTS_SHIFT | ends

    def _no_neighbour(self, psn: int) -> RefusedRequest:
        return RefusedRequest(psn, NAK_INVALID_REQUEST, "does not follow the packet before it or lead to the next")

    def _join(self, psn: int, msn: int, dmalen: int, va_of_psn_0: int, starts: bool, ends: bool) -> None:
        """Put a packet to those of its message; forget the message when it has arrived whole."""
        rest = (dmalen - 1) // self._path_mtu
        most = psn
        if ends:
            most = psn - rest
        elif not starts:
            most = psn - 1
        least = most if starts or ends else psn - rest + 1
        message = self.open.get(msn)
        known = message is not None
        if message is None:
            message = OpenMessage(dmalen, va_of_psn_0, least, most)
        elif message.dmalen != dmalen:
            raise RefusedRequest(
                psn,
                NAK_INVALID_REQUEST,
                f"has DMALen {dmalen} where its message had {message.dmalen}",
                "bad_request_length",
            )
        elif message.va_of_psn_0 != va_of_psn_0:
            raise RefusedRequest(psn, NAK_INVALID_REQUEST, "has a VA at which its message does not continue")
        if message.least_start > least:
            least = message.least_start
        if message.most_start < most:
            most = message.most_start
        if least > most:
            raise RefusedRequest(psn, NAK_INVALID_REQUEST, "has a PSN its message does not have")
        if message.arrived == rest:
            if known:
                del self.open[msn]
            return
        message.least_start, message.most_start = least, most
        message.arrived += 1
        if not known:
            self.open[msn] = message
