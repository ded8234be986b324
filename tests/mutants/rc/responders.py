# SPDX-License-Identifier: BSD-2-Clause
"""Responders that take, write or answer what they should not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mrc.endpoint.refusals import ACK_SYNDROME, Verdict
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.request_checks import PeerRequest, RequestChecks
from mrc.rc import RcEndpoint, RcQueuePair
from mrc.rc.opcodes import WRITES, RcOp
from mrc.rc.responder import Responder, Rest
from mrc.rc.syndromes import NAK_SEQUENCE_ERROR
from mrc.wire.packet import Transport
from mrc.wire.psn import PSN_MASK, psn_diff
from mutants.rc.mutant import rc_mutant

Layers = Mapping[str, Mapping[str, int]]
_ONLYS = (RcOp.WRITE_ONLY, RcOp.WRITE_ONLY_WITH_IMMEDIATE)


class _EachRequest(Responder):
    """Looks at each request before it is taken."""

    __slots__ = ()

    def _head(self, layers: Layers) -> tuple[int, int]:
        """Opcode, and how far its PSN is ahead of the one expected."""
        return layers["bth"]["opcode"], psn_diff(layers["bth"]["psn"], self.epsn)

    def _write_only(self, layers: Layers, payload: bytes) -> None:
        """Write the payload of an Only, whatever its PSN says."""
        if self._head(layers)[0] in _ONLYS:
            reth = layers["reth"]
            region = self._checks._memory.find(reth["rkey"])
            if region is not None:
                at = reth["va"] - region.va
                region.view[at : at + len(payload)] = payload


@rc_mutant("RC-RESP-05")
class DuplicatesAreWritten(_EachRequest):
    """The payload of a duplicate is written once more."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        if self._head(layers)[1] < 0:
            self._write_only(layers, payload)
        super().on_request(layers, payload)


@rc_mutant("RC-RESP-04", "RC-RESP-15")
class DuplicatesAreIgnored(_EachRequest):
    """A duplicate is not answered: if the ACK was lost, that is how it stays."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        if self._head(layers)[1] >= 0:
            super().on_request(layers, payload)


@rc_mutant("RC-RESP-15")
class UnaskedDuplicatesAreIgnored(_EachRequest):
    """A duplicate is not answered unless it asks."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        if self._head(layers)[1] >= 0 or layers["bth"]["ackreq"]:
            super().on_request(layers, payload)


@rc_mutant("RC-RESP-04")
class DuplicatesAreAcknowledgedOneByOne(_EachRequest):
    """A duplicate is acknowledged with its own PSN, as if nothing had come after it."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        ahead = self._head(layers)[1]
        super().on_request(layers, payload)
        if ahead < 0:
            self._answer = (self.epsn + ahead & PSN_MASK, ACK_SYNDROME)


@rc_mutant("RC-RESP-04")
class AQuarterOfTheCircleIsBefore(_EachRequest):
    """Only the 2^22 PSNs before the expected one are duplicates."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        if self._head(layers)[1] >= -(1 << 22):
            super().on_request(layers, payload)
        elif not self._held_back:
            self._hold_back(NAK_SEQUENCE_ERROR)


@rc_mutant("RC-RESP-06")
class GapsAreSilent(_EachRequest):
    """A request behind a gap is dropped without a NAK: only a timeout helps."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        if self._head(layers)[1] <= 0:
            super().on_request(layers, payload)


@rc_mutant("RC-RESP-06")
class WhatIsBehindAGapIsWritten(_EachRequest):
    """A request behind a gap is NAKed, and written all the same."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        if self._head(layers)[1] > 0:
            self._write_only(layers, payload)
        super().on_request(layers, payload)


@rc_mutant("RC-RESP-06")
class NaksNameWhatCame(_EachRequest):
    """The NAK of a gap has the PSN that came, not the one that is missing."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        ahead = self._head(layers)[1]
        super().on_request(layers, payload)
        if ahead > 0 and self._answer is not None:
            self._answer = (self.epsn + ahead & PSN_MASK, NAK_SEQUENCE_ERROR)


@rc_mutant("RC-RESP-07")
class EachPacketBehindAGapIsNakked(_EachRequest):
    """A gap has as many NAKs as packets come behind it."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        self._held_back = False
        super().on_request(layers, payload)


@rc_mutant("RC-RESP-08")
class OnlyTheFirstGapIsNakked(_EachRequest):
    """Once a gap has had its NAK no other gap has one."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        was = self._held_back
        super().on_request(layers, payload)
        self._held_back |= was


@rc_mutant("RC-RESP-10")
class APieceIsWrittenOverTheOther(_EachRequest):
    """Each packet of a message is written to the VA in its First."""

    __slots__ = ()

    def _take(self, layers: Layers, payload: bytes) -> int:
        verdict = super()._take(layers, payload)
        if self._message is not None:
            self._message = self._message._replace(va=self._message.va - self._config.path_mtu)
        return verdict


@rc_mutant("RC-RESP-11")
class NothingNeedsAKey(_EachRequest):
    """The R_Key of a write of 0 bytes is looked up."""

    __slots__ = ()

    def _check(self, rest: Rest, size: int, *, ends: bool) -> int:
        verdict = super()._check(rest, size, ends=ends)
        if verdict == Verdict.RIGHT and not rest.left:
            return self._checks.check_range(self._request)
        return verdict


@rc_mutant("RC-RESP-02")
class OnlyWholeMessagesAreAcknowledged(_EachRequest):
    """AckReq within a message is not answered before its end."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        super().on_request(layers, payload)
        if self._message is not None and self._answer is not None and self._answer[1] == ACK_SYNDROME:
            self._answer = None


@rc_mutant("RC-RESP-01")
class Psn0IsSkipped(Responder):
    """Behind PSN 0xffffff comes PSN 1."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        super().on_request(layers, payload)
        self.epsn = self.epsn or 1


@rc_mutant("RC-RESP-03")
class TheFirstAnswerStays(Responder):
    """Of requests that come at once the first that asks is answered, and no later one."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        waiting = self._answer
        super().on_request(layers, payload)
        self._answer = waiting or self._answer


@rc_mutant("RC-WIRE-05")
class ThePadCountIsNotLookedAt(RcQueuePair):
    """The padding of a packet counts as payload."""

    __slots__ = ()

    def receive(self, packet: Transport, now: int) -> None:
        pad = packet.layers[0][1]["pad"]
        super().receive(replace(packet, payload=packet.payload + bytes(pad)), now)


# ---------------------------------------------------------------------- immediates


@rc_mutant("RC-IMM-01")
class ReceivesAreAStack(Receives):
    """An immediate consumes the receive that was posted last."""

    def _oldest(self) -> int:
        self.posted -= 1
        return self._wr_ids[self._first + self.posted & self._mask]


@rc_mutant("RC-IMM-02")
class PlainWritesConsumeReceives(Responder):
    """Any write completes a receive, if there is one."""

    __slots__ = ()

    def _end_message(self, length: int, immediate: int | None) -> None:
        super()._end_message(length, 0 if immediate is None and self._receives.posted else immediate)


@rc_mutant("RC-IMM-03")
class ReceiversThatAreNotReadySayNothing(Responder):
    """An immediate that finds no receive is dropped without an RNR NAK."""

    __slots__ = ()

    def _hold_back(self, syndrome: int) -> None:
        super()._hold_back(syndrome)
        if syndrome != NAK_SEQUENCE_ERROR:
            self._answer = None


@rc_mutant("RC-IMM-03")
class NotReadyButWritten(_EachRequest):
    """The payload of an immediate that finds no receive is written."""

    __slots__ = ()

    def _take(self, layers: Layers, payload: bytes) -> int:
        if layers["bth"]["opcode"] == RcOp.WRITE_ONLY_WITH_IMMEDIATE and not self._receives.posted:
            self._write_only(layers, payload)
        return super()._take(layers, payload)


@rc_mutant("RC-IMM-04")
class WhatFollowsAnRnrNakIsAGap(Responder):
    """What comes behind an immediate that was sent back draws a NAK of a sequence error."""

    __slots__ = ()

    def _hold_back(self, syndrome: int) -> None:
        super()._hold_back(syndrome)
        self._held_back = syndrome == NAK_SEQUENCE_ERROR


# ---------------------------------------------------------------------- refusals


@rc_mutant("RC-ERR-01")
class AnyKeyOpensTheMemory(RequestChecks):
    """The R_Key is not looked at."""

    def check_range(self, request: PeerRequest) -> int:
        request.rkey = next(iter(self._memory)).rkey
        return super().check_range(request)


@rc_mutant("RC-ERR-02")
class OnlyThePacketHasToFit(RequestChecks):
    """Of a message only the packet at hand has to lie within the memory."""

    def check_range(self, request: PeerRequest) -> int:
        request.dmalen = min(request.dmalen, self._path_mtu)
        return super().check_range(request)


@rc_mutant("RC-ERR-02")
class TheLastByteIsOutside(RequestChecks):
    """The last byte of the memory may not be written."""

    def check_range(self, request: PeerRequest) -> int:
        request.dmalen += 1
        return super().check_range(request)


@rc_mutant("RC-ERR-03")
class AMessageMayBeginAnywhere(_EachRequest):
    """A First or Only within a message begins another one."""

    __slots__ = ()

    def _take(self, layers: Layers, payload: bytes) -> int:
        if layers["bth"]["opcode"] in (RcOp.WRITE_FIRST, *_ONLYS):
            self._message = None
        return super()._take(layers, payload)


@rc_mutant("RC-ERR-04")
class LengthsDoNotMatter(RequestChecks):
    """What a packet carries is not held to its place and to the RETH."""

    def check_length(self, request: PeerRequest) -> int:
        return Verdict.RIGHT


@rc_mutant("RC-ERR-05")
class WhatIsNotServedIsDropped(_EachRequest):
    """A SEND or a READ is dropped without a word."""

    __slots__ = ()

    def on_request(self, layers: Layers, payload: bytes) -> None:
        if self._head(layers)[0] in WRITES:
            super().on_request(layers, payload)


@rc_mutant("RC-ERR-07")
def refusals_end_nothing(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """A refused request is NAKed, and the QP goes on."""
    qp._responder._fail = lambda status, why: None
