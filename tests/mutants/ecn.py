# SPDX-License-Identifier: BSD-2-Clause
"""Codepoints that stay what they are, and marks that are seen on one header only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mrc.endpoint.datapath.receive import PacketChecks
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.wire.fields import COMMON
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant
from mutants.packets import _Repacked

_ECN, _ECT0, _CE = 3, 2, 3
_CLASS_SHIFT, _DSCP_SHIFT, _DSCP_MASK = 20, 22, 0x3F


class _OfThePage(_Repacked):
    """Packets with the codepoint that `switch` sets have the one of the page."""

    switch: str

    def repack(self, batch: TransmitBatch, start: int) -> None:
        classes = batch.traffic_class[start : batch.count]
        those = classes >> 2 == getattr(self.config.wire, self.switch)
        classes[those] = classes[those] & _ECN | getattr(DEFAULT_WIRE_PROFILE, self.switch) << 2


@mutant("MRC-ECN-11")
class TrimmableIsAlways4(_OfThePage):
    """First transmissions and probes have DSCP 4 in every network."""

    switch = "dscp_trimmable"


@mutant("MRC-ECN-11")
class RetransmissionsAreAlways8(_OfThePage):
    """Retransmissions have DSCP 8 in every network."""

    switch = "dscp_trimmable_retx"


@mutant("MRC-ECN-11")
class NoTrimIsAlways0(_OfThePage):
    """Data that must not be trimmed has DSCP 0 in every network."""

    switch = "dscp_no_trim"


@mutant("MRC-ECN-11")
class ControlIsAlways46(_OfThePage):
    """Answers have DSCP 46 in every network."""

    switch = "dscp_control"


def _check_by(endpoint: Endpoint, wire: WireProfile) -> None:
    """Have packets checked by these switches."""
    intake: Any = endpoint.datapath.intake
    intake._checks = PacketChecks(wire, endpoint.counters)


@mutant("MRC-ECN-11")
def trimmed_is_always12(endpoint: Endpoint, qp: QueuePair) -> None:
    """A packet trimmed inside the fabric is known by DSCP 12 in every network."""
    _check_by(endpoint, replace(endpoint.config.wire, dscp_trimmed=DEFAULT_WIRE_PROFILE.dscp_trimmed))


@mutant("MRC-ECN-11")
def trimmed_on_the_last_hop_is_always16(endpoint: Endpoint, qp: QueuePair) -> None:
    """A packet trimmed on the last hop is known by DSCP 16 in every network."""
    _check_by(endpoint, replace(endpoint.config.wire, dscp_trimmed_lasthop=DEFAULT_WIRE_PROFILE.dscp_trimmed_lasthop))


@mutant("MRC-ECN-03")
class OnlyTheOuterHeaderMarks(Endpoint):
    """CE on the inner header alone is not seen."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        words = batch.fields(COMMON)["ip_word"]
        marked = words >> _CLASS_SHIFT & _ECN == _CE
        words[marked] -= (_CE - _ECT0) << _CLASS_SHIFT  # the ICRC does not cover it
        super().receive(batch, now)


@mutant("MRC-ECN-03")
class OnlyTheInnerHeaderMarks(Endpoint):
    """CE on the outer header alone is not seen."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        classes = batch.traffic_class
        classes[classes & _ECN == _CE] -= _CE - _ECT0
        super().receive(batch, now)


class _InnerHeader(_Repacked):
    """The inner header is not like the outer one, which stays right."""

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        start = batch.count
        sent = super().transmit(batch, now)
        if sent:
            self.change(batch.fields(COMMON, start, batch.count))
        return sent

    def repack(self, batch: TransmitBatch, start: int) -> None:
        return

    def change(self, fields: Any) -> None:
        """Behind the ICRC, which does not cover the class."""
        raise NotImplementedError


@mutant("MRC-ECN-10")
class EctIsOnTheOuterHeaderAlone(_InnerHeader):
    """The inner header of data is not ECN-capable."""

    def change(self, fields: Any) -> None:
        data = np.isin(fields["opcode"], list(REQUEST_OPCODES))
        fields["ip_word"][data] &= ~np.uint32(_ECN << _CLASS_SHIFT)


@mutant("MRC-ECN-10")
class InnerHeadersOfAnswersAreBestEffort(_InnerHeader):
    """SACKs have their codepoint on the outer header alone."""

    def change(self, fields: Any) -> None:
        sacks = fields["opcode"] == Op.SACK
        fields["ip_word"][sacks] &= ~np.uint32(_DSCP_MASK << _DSCP_SHIFT)


@mutant("MRC-ECN-10")
class InnerHeadersOfRetransmissionsAreTrimmable(_InnerHeader):
    """The inner header of a retransmission has the codepoint of a first transmission."""

    def change(self, fields: Any) -> None:
        wire = self.config.wire
        again = fields["ip_word"] >> _DSCP_SHIFT & _DSCP_MASK == wire.dscp_trimmable_retx
        kept = fields["ip_word"] & ~np.uint32(_DSCP_MASK << _DSCP_SHIFT)
        fields["ip_word"][again] = kept[again] | np.uint32(wire.dscp_trimmable << _DSCP_SHIFT)
