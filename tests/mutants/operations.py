# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations that are laid out, sent or answered wrong."""

from __future__ import annotations

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.operation_intake import OperationIntake
from mrc.endpoint.node.operations import EndpointOperations, OnResult
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.qp_states import MAY_RECEIVE
from mrc.wire.fields import COMMON, ENDPOINT_REQUEST, ENDPOINT_RESPONSE
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant
from mutants.packets import _Repacked


@mutant("MRC-OP-07", "MRC-OP-04")
class ResponsesHaveNoTimestamp(_Repacked):
    """tx_timestamp of an endpoint response is 0."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        opcodes = batch.fields(COMMON, start, batch.count)["opcode"]
        batch.fields(ENDPOINT_RESPONSE, start, batch.count)["tx_timestamp"][opcodes == Op.ENDPOINT_RESPONSE] = 0


@mutant("MRC-OP-05", "MRC-OP-02")
class OpTwoBitsTooHigh(_Repacked):
    """op is in bits 5:4 of EETH byte 1 whatever the switch says."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        opcodes = batch.fields(COMMON, start, batch.count)["opcode"]
        words = batch.fields(ENDPOINT_RESPONSE, start, batch.count)["eeth_word"]
        words[opcodes == Op.ENDPOINT_RESPONSE] <<= 2


@mutant("MRC-OP-01")
class OpIsOneBitTooHigh(_Repacked):
    """op is one bit higher in the ERTH than it should be."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        opcodes = batch.fields(COMMON, start, batch.count)["opcode"]
        batch.fields(ENDPOINT_REQUEST, start, batch.count)["erth_word"][opcodes == Op.ENDPOINT_REQUEST] <<= 1


@mutant("MRC-OP-08")
class EvProbesAreControl(EndpointOperations):
    """An EV probe goes out in the control class, whatever its caller named."""

    __slots__ = ()

    def probe_ev(
        self,
        node: PeerNode,
        number: int,
        traffic_class: int,
        on_result: OnResult | None = None,
        ends_at: int | None = None,
    ) -> int:
        return super().probe_ev(node, number, self._wire.dscp_control << 2, on_result, ends_at)


@mutant("MRC-OP-10")
class EvProbesGoByAnotherEv(EndpointOperations):
    """An EV probe goes by the EV after the one it is to measure."""

    __slots__ = ()

    def probe_ev(
        self,
        node: PeerNode,
        number: int,
        traffic_class: int,
        on_result: OnResult | None = None,
        ends_at: int | None = None,
    ) -> int:
        return super().probe_ev(node, (number + 1) % len(node.paths), traffic_class, on_result, ends_at)


@mutant("MRC-OP-11")
class EvProbesComeTwice(EndpointOperations):
    """An order of one EV probe brings two."""

    __slots__ = ()

    def probe_ev(
        self,
        node: PeerNode,
        number: int,
        traffic_class: int,
        on_result: OnResult | None = None,
        ends_at: int | None = None,
    ) -> int:
        super().probe_ev(node, number, traffic_class)
        return super().probe_ev(node, number, traffic_class, on_result, ends_at)


@mutant("MRC-OP-06")
class RequestIdsHaveEightBits(_Repacked):
    """A response has the low eight bits of the id of its request."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["psn_word"][fields["opcode"] == Op.ENDPOINT_RESPONSE] &= 0xFF


class _WithQps(Endpoint):
    """Endpoint operations go through the QPs: without one that is up there are none."""

    def one_is_up(self) -> bool:
        return any(qp.state in MAY_RECEIVE for qp in self.qps.values())


@mutant("MRC-OP-09")
class AnswersNeedAQp(_WithQps):
    """An EV probe is answered only while a QP is up."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        self._operations.intake.__class__ = OperationIntake if self.one_is_up() else _Deaf
        super().receive(batch, now)


class _Deaf(OperationIntake):
    def receive(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> bool:
        return False


@mutant("MRC-OP-09")
class EvProbesNeedAQp(_WithQps):
    """An EV probe that is ordered goes out only while a QP is up."""

    def probe_ev(
        self,
        node: PeerNode,
        number: int,
        *,
        dscp: int | None = None,
        on_result: OnResult | None = None,
        ends_at: int | None = None,
    ) -> int:
        if not self.one_is_up():
            return 0
        return super().probe_ev(node, number, dscp=dscp, on_result=on_result, ends_at=ends_at)
