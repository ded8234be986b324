"""Whether the packets of a message agree with each other (behaviour.md, Responder: "contradicts").

Packets come in any order. Each tells its message's length, and with its VA where the message lies: DMALen, and VA less
PSN x path MTU, are the same in every packet of one message. A First and a Last tell at which PSN the message starts, a
Middle between which. Besides, neighbours by PSN belong together: a message starts where another has ended.

What is kept is bounded by the window: one message at most reaches below epsn, every other one has a packet above it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mrc.endpoint.received import ring_size
from mrc.endpoint.received_requests import ENDS, ONLY, STARTS
from mrc.endpoint.request_checks import NAK_INVALID_REQUEST, RefusedRequest

I64 = npt.NDArray[np.int64]

# A packet that arrived, in one number: psn(46) msn(16) starts(1) ends(1).
_PSN_SHIFT, _MSN_SHIFT, _MSN_MASK, _STARTS_SHIFT, _ENDS_BIT = 18, 2, 0xFFFF, 1, 1
_NOBODY = -1 << 62
_STARTS, _ENDS, _ONLY = STARTS.tolist(), ENDS.tolist(), ONLY.tolist()


class OpenMessage(NamedTuple):
    """A message of several packets, `arrived` of which have arrived, not all. It starts at a PSN from `least_start`
    to `most_start`; `va_of_psn_0` is its VA less PSN x path MTU."""

    dmalen: int
    va_of_psn_0: int
    least_start: int
    most_start: int
    arrived: int


class Undo(NamedTuple):
    """What `MessageChecks.take` changed, to take it back."""

    slots: I64
    tags: I64
    messages: list[tuple[int, OpenMessage | None]]


class MessageChecks:
    """The messages of one peer, as far as they are on their way. `span` is as for ReceivedPsns."""

    __slots__ = ("_mask", "_path_mtu", "_tag", "_tags", "open")

    def __init__(self, span: int, first_psn: int, path_mtu: int) -> None:
        self._path_mtu = path_mtu
        self.open: dict[int, OpenMessage] = {}  # by MSN
        self._make_ring(ring_size(span + 1))
        # Before the first PSN every message has ended.
        self._tags[first_psn - 1 & self._mask] = first_psn - 1 << _PSN_SHIFT | _ENDS_BIT

    def _make_ring(self, size: int) -> None:
        self._mask = size - 1
        self._tags: I64 = np.full(size, _NOBODY, np.int64)
        self._tag = self._tags.data

    def make_room(self, span: int) -> None:
        """Be ready for a larger window. The ring never shrinks."""
        size = ring_size(span + 1)
        if size > self._mask + 1:
            kept = self._tags[self._tags != _NOBODY]
            # A PSN that has been passed long ago may share its new place with a later one.
            kept.sort()
            self._make_ring(size)
            self._tags[kept >> _PSN_SHIFT & self._mask] = kept

    # ------------------------------------------------------------------ one packet

    def take_one(self, psn: int, msn: int, dmalen: int, va: int, opcode: int) -> bool:
        """Take a packet whose length is right for its opcode. False, and nothing has happened, if it contradicts."""
        starts, ends, mask, tag = _STARTS[opcode], _ENDS[opcode], self._mask, self._tag
        before, after = tag[psn - 1 & mask], tag[psn + 1 & mask]
        if before >> _PSN_SHIFT == psn - 1 and (
            before & _ENDS_BIT != starts or not (starts or before >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            return False
        if after >> _PSN_SHIFT == psn + 1 and (
            after >> _STARTS_SHIFT & 1 != ends or not (ends or after >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            return False
        if not _ONLY[opcode]:
            rest = (dmalen - 1) // self._path_mtu
            most = psn if starts else psn - (rest if ends else 1)
            least = most if starts or ends else psn - rest + 1
            try:
                message = self._joined(
                    self.open.get(msn), psn, OpenMessage(dmalen, va - psn * self._path_mtu, least, most, 1)
                )
            except RefusedRequest:
                return False
            self._set(msn, message)
        tag[psn & mask] = psn << _PSN_SHIFT | msn << _MSN_SHIFT | starts << _STARTS_SHIFT | ends
        return True

    def _set(self, msn: int, message: OpenMessage | None) -> None:
        if message is None:
            self.open.pop(msn, None)
        else:
            self.open[msn] = message

    def _joined(self, known: OpenMessage | None, psn: int, found: OpenMessage) -> OpenMessage | None:
        """A message with what more packets tell of it; None when it has arrived whole. Raises RefusedRequest."""
        if known is not None:
            if known.dmalen != found.dmalen:
                raise RefusedRequest(
                    psn,
                    NAK_INVALID_REQUEST,
                    f"has DMALen {found.dmalen} where its message had {known.dmalen}",
                    "bad_request_length",
                )
            if known.va_of_psn_0 != found.va_of_psn_0:
                raise RefusedRequest(psn, NAK_INVALID_REQUEST, "has a VA at which its message does not continue")
            found = OpenMessage(
                found.dmalen,
                found.va_of_psn_0,
                max(known.least_start, found.least_start),
                min(known.most_start, found.most_start),
                known.arrived + found.arrived,
            )
        if found.least_start > found.most_start:
            raise RefusedRequest(psn, NAK_INVALID_REQUEST, "has a PSN its message does not have")
        return None if found.arrived == (found.dmalen - 1) // self._path_mtu + 1 else found

    # ------------------------------------------------------------------ many packets

    def take(
        self, psns: I64, msns: I64, dmalens: I64, vas: I64, opcodes: npt.NDArray[np.uint8], *, in_order: bool
    ) -> Undo:
        """Take packets whose lengths are right for their opcodes; `in_order`: they follow on epsn, and nothing is held.

        Raises RefusedRequest, and nothing has happened, where one of them contradicts. A batch of which no packet would
        be refused, taken one after the other, is not refused either, unless an MSN comes round within it.
        """
        starts, ends = STARTS[opcodes], ENDS[opcodes]
        tags = psns << _PSN_SHIFT | msns << _MSN_SHIFT | starts.astype(np.int64) << _STARTS_SHIFT | ends
        slots, mask = psns & self._mask, self._mask
        if in_order:
            before = np.empty_like(tags)
            before[0], before[1:] = self._tags[slots[0] - 1 & mask], tags[:-1]
            wrong = _contradict(before, tags)
            # What has been passed is nobody's neighbour any more.
            slots, tags = slots[-1:], tags[-1:]
            saved = self._tags[slots]
        else:
            saved = self._tags[slots]
            self._tags[slots] = tags
            before, after = self._tags[slots - 1 & mask], self._tags[slots + 1 & mask]
            wrong = _contradict(before, tags) & (before >> _PSN_SHIFT == psns - 1)
            wrong |= _contradict(tags, after) & (after >> _PSN_SHIFT == psns + 1)
            self._tags[slots] = saved
        if wrong.any():
            raise RefusedRequest(
                int(psns[wrong.argmax()]),
                NAK_INVALID_REQUEST,
                "does not follow the packet before it or lead to the next",
            )
        changed = self._join_all(psns, msns, dmalens, vas, starts, ends)
        undo = Undo(slots, saved, [(msn, self.open.get(msn)) for msn in changed])
        self._tags[slots] = tags
        for msn, message in changed.items():
            self._set(msn, message)
        return undo

    def undo(self, undo: Undo) -> None:
        """Take back the last `take`."""
        self._tags[undo.slots] = undo.tags
        for msn, message in undo.messages:
            self._set(msn, message)

    def _join_all(
        self,
        psns: I64,
        msns: I64,
        dmalens: I64,
        vas: I64,
        starts: npt.NDArray[np.bool_],
        ends: npt.NDArray[np.bool_],
    ) -> dict[int, OpenMessage | None]:
        """What becomes of the messages these packets are of. Raises RefusedRequest."""
        several = ~(starts & ends)
        if not several.any():
            return {}
        if not several.all():
            psns, msns, dmalens, vas = psns[several], msns[several], dmalens[several], vas[several]
            starts, ends = starts[several], ends[several]
        va_of_psn_0 = vas - psns * self._path_mtu
        rest = (dmalens - 1) // self._path_mtu
        most = psns - np.where(ends, rest, ~starts)
        least = np.where(starts | ends, most, psns - rest + 1)
        # Packets of one message that came one after the other are looked at as one.
        begins = np.ones(len(psns), np.bool_)
        begins[1:] = (msns[1:] != msns[:-1]) | (dmalens[1:] != dmalens[:-1]) | (va_of_psn_0[1:] != va_of_psn_0[:-1])
        at = np.flatnonzero(begins)
        counts = np.diff(at, append=len(psns))
        least, most = np.maximum.reduceat(least, at), np.minimum.reduceat(most, at)
        changed: dict[int, OpenMessage | None] = {}
        for psn, msn, *found in zip(
            *(each.tolist() for each in (psns[at], msns[at], dmalens[at], va_of_psn_0[at], least, most, counts)),
            strict=True,
        ):
            known = changed[msn] if msn in changed else self.open.get(msn)
            changed[msn] = self._joined(known, psn, OpenMessage(*found))
        return changed


def _contradict(tags: I64, following: I64) -> npt.NDArray[np.bool_]:
    """Where a packet does not go with the one that follows it by PSN."""
    ended = (tags & _ENDS_BIT) != 0
    starts = (following >> _STARTS_SHIFT & 1) != 0
    other = (tags ^ following) >> _MSN_SHIFT & _MSN_MASK != 0
    return np.asarray((ended != starts) | (~ended & other))
