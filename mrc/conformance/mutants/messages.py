"""Responders that let packets of a message contradict each other, or judge a burst as no row of single packets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.conformance.mutants.mutant import mutant
from mrc.conformance.mutants.responders import _EachRequest
from mrc.endpoint.message_checks import MessageChecks, OpenMessage, Undo
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.received import I64
from mrc.endpoint.received_requests import IMMEDIATE, ReceivedRequests
from mrc.endpoint.request_checks import RefusedRequest
from mrc.endpoint.responder import Responder
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import REQUEST, REQUEST_TS, TS

_NOBODY = -1 << 62


@mutant("MRC-RESP-17")
class DmalensMayDiffer(MessageChecks):
    """The DMALen of a packet is not held against that of its message."""

    __slots__ = ()

    def _joined(self, known: OpenMessage | None, psn: int, found: OpenMessage) -> OpenMessage | None:
        return super()._joined(known and known._replace(dmalen=found.dmalen), psn, found)


@mutant("MRC-RESP-18")
class MessagesMayJump(MessageChecks):
    """The VA of a packet is not held against that of its message."""

    __slots__ = ()

    def _joined(self, known: OpenMessage | None, psn: int, found: OpenMessage) -> OpenMessage | None:
        return super()._joined(known and known._replace(va_of_psn_0=found.va_of_psn_0), psn, found)


@mutant("MRC-RESP-18")
class NeighboursAreStrangers(MessageChecks):
    """What stands at the PSN before or behind a packet does not matter."""

    __slots__ = ()

    def take_one(self, psn: int, msn: int, dmalen: int, va: int, opcode: int) -> bool:
        self._tags[:] = _NOBODY
        return super().take_one(psn, msn, dmalen, va, opcode)

    def take(
        self, psns: I64, msns: I64, dmalens: I64, vas: I64, opcodes: npt.NDArray[np.uint8], *, in_order: bool
    ) -> Undo:
        self._tags[:] = _NOBODY
        return super().take(psns, msns, dmalens, vas, opcodes, in_order=False)


@mutant("MRC-RESP-14", "MRC-RESP-17", "MRC-RESP-18", "MRC-RESP-19")
class EachPacketIsAMessage(_EachRequest):
    """A packet is judged for itself: where its own payload goes, not what its DMALen says of the message."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        requests = ReceivedRequests(batch, rows)
        chosen = np.arange(len(rows))
        sizes = requests.payload_lengths(chosen, requests.payload_at(chosen))
        for row, size, word, opcode in zip(
            rows.tolist(), sizes.tolist(), requests.words.tolist(), requests.opcodes.tolist(), strict=True
        ):
            fields = batch.fields(REQUEST_TS if word & TS else REQUEST)
            fields["dmalen"][row] = max(size, 0)
            fields["opcode"][row] = Op.WRITE_ONLY_WITH_IMMEDIATE if IMMEDIATE[opcode] else Op.WRITE_ONLY
        super().on_requests(batch, rows, now)


@mutant("MRC-ACK-08")
class BurstsAreTakenBackwards(_EachRequest):
    """Of the requests of a burst the last is judged first."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        for row in rows[::-1]:
            if self._refused is None:
                super().on_requests(batch, np.array([row]), now)


@mutant("MRC-RESP-20")
class ARefusalSilencesWhatCameBefore(Responder):
    """With the NAK go the answers to what came before the request it refuses."""

    __slots__ = ()

    def _refuse(self, refusal: RefusedRequest) -> None:
        super()._refuse(refusal)
        self._ack_due = False
        self.sacks.pending.clear()


@mutant("MRC-RESP-20")
class TheWindowWaitsForTheBurst(_EachRequest):
    """Where the window ends is looked at once a burst."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        psns = np.array(self._psns(ReceivedRequests(batch, rows)))
        beyond = psns >= self.window.end(self.received.epsn)
        if beyond.any():
            reasons = [NackReason.PSN_OOR_WINDOW] * int(beyond.sum())
            self._nack(batch, rows[beyond], psns[beyond], reasons, now)
        if not beyond.all():
            super().on_requests(batch, rows[~beyond], now)
