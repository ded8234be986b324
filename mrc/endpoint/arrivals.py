"""What comes for one QP: whether it is the peer's, and which half of the QP it is for."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mrc.endpoint.qp_peer import PeerSources
from mrc.endpoint.qp_states import MAY_RECEIVE, MAY_SEND, QpState
from mrc.endpoint.request_checks import ACK_SYNDROME, NAK_STATUS, NotTogether
from mrc.endpoint.sack_reading import SACK_BYTES
from mrc.wire.batch import ReceivedBatch
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.rows import ACK, COMMON, NACK, PSN_BITS_MASK

if TYPE_CHECKING:
    from mrc.endpoint.qp import QueuePair

I64 = npt.NDArray[np.int64]

_AETH = struct.Struct(">II")  # psn_word, aeth_word
_AETH_AT = (56, 64)
_REQUESTS = -1
# Plain numbers: an array compares with a member of an enum several times as slowly.
_PROBE, _SACK, _ACK, _NACK = int(Op.PROBE), int(Op.SACK), int(Op.ACKNOWLEDGE), int(Op.NACK)
_FOR_REQUESTORS = frozenset({_SACK, _ACK, _NACK})
_ENDPOINT_OPERATIONS = frozenset({int(Op.ENDPOINT_REQUEST), int(Op.ENDPOINT_RESPONSE)})
_IS_REQUEST = np.array([value in REQUEST_OPCODES for value in range(256)], np.bool_)


class Arrivals:
    """Packets of one QP that passed the endpoint's checks. `sources` is empty before RTR."""

    __slots__ = ("_qp", "sources")

    def __init__(self, qp: QueuePair) -> None:
        self._qp = qp
        self.sources = PeerSources()

    def receive(self, batch: ReceivedBatch, rows: I64, opcodes: npt.NDArray[np.uint8], now: int) -> None:
        """Packets for this QP that passed the endpoint's checks; `opcodes` are those of `rows`."""
        qp = self._qp
        if qp.state not in MAY_RECEIVE:
            qp.counters.wrong_qp_state += len(rows)
            self._receive_in_error(batch, rows[_IS_REQUEST[opcodes]], now)
            return
        trusted = self.sources.has_sent(batch, rows)
        if not trusted.all():
            qp.counters.bad_source += int((~trusted).sum())
            rows, opcodes = rows[trusted], opcodes[trusted]
            if not len(rows):
                return
        requests = _IS_REQUEST[opcodes]
        probes = opcodes == _PROBE
        if qp.peer_node is not None and (requests | probes).any():
            qp.peer_node.on_requests(now)
        if len(rows) > 1 and np.count_nonzero(requests) == 1:
            # It may end the QP: what came before it is taken before it.
            at = int(requests.argmax())
            for part in (slice(at), slice(at, at + 1), slice(at + 1, None)):
                if len(rows[part]):
                    self.receive(batch, rows[part], opcodes[part], now)
            return
        try:
            if requests.all():
                qp.responder.on_requests(batch, rows, now)
                return
            if requests.any():
                qp.responder.on_requests(batch, rows[requests], now)
        except NotTogether:
            half = len(rows) // 2
            self.receive(batch, rows[:half], opcodes[:half], now)
            self.receive(batch, rows[half:], opcodes[half:], now)
            return
        if probes.any() and qp.state in MAY_RECEIVE:
            qp.responder.on_probes(batch, rows[probes].tolist(), now)
        self._receive_acknowledgements(batch, rows, opcodes, now)

    def receive_few(self, batch: ReceivedBatch, packets: list[tuple[int, int]], now: int) -> bool:
        """`receive` for a few packets over IPv6, (row, opcode) each, in plain numbers.

        False, and nothing has happened, unless all are the peer's write requests, probes, SACKs and transport ACKs.
        """
        qp = self._qp
        if qp.state != QpState.RTS or qp.peer_node is None:
            return False
        of_kind: dict[int, list[int]] = {_REQUESTS: [], _PROBE: [], _SACK: [], _ACK: []}
        for row, opcode in packets:
            kind = of_kind.get(_REQUESTS if _IS_REQUEST[opcode] else opcode)
            if kind is None or not self.sources.has_sent_one(batch, row):
                return False
            kind.append(row)
        requests, probes, sacks, acks = of_kind.values()
        if requests or probes:
            qp.peer_node.on_requests(now)
        if requests and (taken := qp.responder.on_few_requests(batch, requests, now)) < len(requests):
            done = set(requests[:taken])
            left = [each for each in packets if each[0] not in done]
            rows, opcodes = np.array(left, np.int64).T
            self.receive(batch, rows, opcodes.astype(np.uint8), now)
            return True
        if probes and qp.state in MAY_RECEIVE:
            qp.responder.on_probes(batch, probes, now)
        if sacks and qp.state in MAY_SEND:
            # One row is a slice, which takes a tenth of the time.
            chosen = sacks if len(sacks) > 1 else slice(sacks[0], sacks[0] + 1)
            qp.requestor.on_sacks(batch.data[chosen, SACK_BYTES], now)
        if acks:
            self._on_aeth([_AETH.unpack(batch.view(row, *_AETH_AT)) for row in acks], now)
        return True

    def _receive_in_error(self, batch: ReceivedBatch, requests: I64, now: int) -> None:
        """Requests of a peer that has not understood yet that this QP is over. Nothing else is answered in ERROR, so
        two QPs in ERROR leave each other alone."""
        qp = self._qp
        if qp.state != QpState.ERROR or not qp.knows_peer or not len(requests):
            return
        requests = requests[self.sources.has_sent(batch, requests)]
        if len(requests):
            qp.responder.on_requests_in_error(batch, requests, now)

    def receive_trimmed(self, batch: ReceivedBatch, rows: I64, lasthop: npt.NDArray[np.bool_], now: int) -> None:
        """Packets for this QP that a switch trimmed, on the last hop or before it. They have no ICRC."""
        qp = self._qp
        if qp.state not in MAY_RECEIVE:
            qp.counters.wrong_qp_state += len(rows)
            return
        trusted = self.sources.has_sent(batch, rows)
        qp.counters.bad_source += int((~trusted).sum())
        answered = trusted & _IS_REQUEST[batch.fields(COMMON)["opcode"][rows]]
        if answered.any():
            qp.responder.on_trimmed(batch, rows[answered], lasthop[answered], now)

    def _receive_acknowledgements(
        self, batch: ReceivedBatch, rows: I64, opcodes: npt.NDArray[np.uint8], now: int
    ) -> None:
        qp = self._qp
        kinds = set(opcodes.tolist())
        qp.counters.misdirected += sum(int((opcodes == kind).sum()) for kind in kinds & _ENDPOINT_OPERATIONS)
        if qp.state not in MAY_SEND:
            qp.counters.wrong_qp_state += sum(int((opcodes == kind).sum()) for kind in kinds & _FOR_REQUESTORS)
            return
        if _SACK in kinds:
            chosen = rows if len(kinds) == 1 else rows[opcodes == _SACK]
            qp.requestor.on_sacks(batch.data[chosen, SACK_BYTES], now)
        if _ACK in kinds:
            fields = batch.fields(ACK)[rows[opcodes == _ACK]]
            self._on_aeth(zip(fields["psn_word"].tolist(), fields["aeth_word"].tolist(), strict=True), now)
        if _NACK in kinds and qp.state in MAY_SEND:
            qp.requestor.on_nacks(batch.fields(NACK)[rows[opcodes == _NACK]], now)

    def _on_aeth(self, words: Iterable[tuple[int, int]], now: int) -> None:
        """Transport ACKs, the (psn_word, aeth_word) of each; a syndrome beyond them is a NAK."""
        qp = self._qp
        for psn_word, aeth_word in words:
            if qp.state not in MAY_SEND:
                return
            psn, syndrome = psn_word & PSN_BITS_MASK, aeth_word >> 24
            if syndrome <= ACK_SYNDROME:
                qp.requestor.on_ack(psn, now)
            elif syndrome in NAK_STATUS:
                status = NAK_STATUS[syndrome]
                qp.requestor.on_nak(psn, status, f"the peer refused PSN {psn}: {status.name.lower()}")
            else:
                qp.counters.invalid_request += 1
