# SPDX-License-Identifier: BSD-2-Clause
"""Responders that let packets of a message contradict each other, or drop answers with a refusal."""

from __future__ import annotations

from mrc.endpoint.responder.request_checks import DMALEN, IMMEDIATE, VA_OF_PSN_0, MessageChecks, PeerRequest
from mrc.endpoint.responder.responder import Responder
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mutants.mutant import mutant
from mutants.responders import _EachRequest, payload_of, request_fields

_NOBODY = -1 << 62


@mutant("MRC-RESP-17")
class DmalensMayDiffer(MessageChecks):
    """The DMALen of a packet is not held against that of its message."""

    def _join(self, request: PeerRequest) -> int:
        known = self.open.find(request.msn)
        if known >= 0:
            self.open.cells[known + DMALEN] = request.dmalen
        return super()._join(request)


@mutant("MRC-RESP-18")
class MessagesMayJump(MessageChecks):
    """The VA of a packet is not held against that of its message."""

    def _join(self, request: PeerRequest) -> int:
        known = self.open.find(request.msn)
        if known >= 0:
            self.open.cells[known + VA_OF_PSN_0] = request.start - request.psn * self._path_mtu
        return super()._join(request)


@mutant("MRC-RESP-18")
class NeighboursAreStrangers(MessageChecks):
    """What stands at the PSN before or behind a packet does not matter."""

    def check(self, request: PeerRequest) -> int:
        for neighbour in (request.psn - 1, request.psn + 1):
            self._tags[neighbour & self._mask] = _NOBODY
        return super().check(request)


@mutant("MRC-RESP-14", "MRC-RESP-17", "MRC-RESP-18", "MRC-RESP-19")
class EachPacketIsAMessage(_EachRequest):
    """A packet is judged for itself: where its own payload goes, not what its DMALen says of the message."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        fields, (start, end) = request_fields(batch, packet.row), payload_of(batch, packet.row)
        fields["dmalen"] = max(end - start, 0)
        fields["opcode"] = Op.WRITE_ONLY_WITH_IMMEDIATE if IMMEDIATE[fields["opcode"][0]] else Op.WRITE_ONLY
        packet.read(batch, packet.row)
        super().on_request(batch, packet, now)


@mutant("MRC-RESP-20")
class ARefusalSilencesWhatCameBefore(Responder):
    """With the NAK go the answers to what came before the request it refuses."""

    def _refuse(self) -> None:
        super()._refuse()
        self._ack_due = False
        self.sacks.pending.clear()
