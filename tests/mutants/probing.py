# SPDX-License-Identifier: BSD-2-Clause
"""Probes answered or sent wrong, and port masks with the wrong bits."""

from __future__ import annotations

import numpy as np

from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.node.peer_ports import PeerPorts
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.responder.answers import SackMaker
from mrc.endpoint.responder.request_checks import Answer
from mrc.wire.fields import COMMON, ENDPOINT_REQUEST, SACK
from mrc.wire.opcodes import Op
from mrc.wire.rows import SETH_PR
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant, taken
from mutants.packets import _Repacked


@mutant("MRC-PROBE-03")
class ProbesAreAnsweredWithoutPr(_Repacked):
    """The SACK that answers a probe has its id, and pr 0."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        sacks = batch.fields(COMMON, start, batch.count)["opcode"] == Op.SACK
        words = batch.fields(SACK, start, batch.count)["seth_word"]
        words[sacks] &= np.uint16(~SETH_PR & 0xFFFF)


@mutant("MRC-PROBE-03")
class ProbeIdsLoseABit(SackMaker):
    """The uppermost bit of a probe_id is lost."""

    def on_probe(self, probe: Answer) -> None:
        probe.probe_id &= 0x7FFF
        super().on_probe(probe)


@mutant("MRC-PROBE-03")
class TheLastProbeIsAnswered(SackMaker):
    """Of several probes that come at once only the last is answered."""

    def on_probe(self, probe: Answer) -> None:
        for each in taken(self.pending):
            if each.probe_id < 0:
                self.pending.add(each)
        super().on_probe(probe)


@mutant("MRC-PROBE-04")
class ProbesGoByTheEvBehind(PathProbing):
    """A path is probed on the EV behind it in the profile."""

    def due(self, now: int, path_timer: int) -> None:
        super().due(now, path_timer)
        for place in range(self.found_count):
            self.found[place] = (self.found[place] + 1) % len(self._paths.paths)

    def sent(self, index: int, probe_id: int) -> None:
        super().sent((index - 1) % len(self._paths.paths), probe_id)

    def on_answer(self, index: int, probe_id: int, m: int, now: int) -> None:
        super().on_answer((index - 1) % len(self._paths.paths), probe_id, m, now)


@mutant("MRC-OP-03")
class PortNIsBitN(_Repacked):
    """Port n is bit n of the port_status_mask that is sent."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        requests = batch.fields(COMMON, start, batch.count)["opcode"] == Op.ENDPOINT_REQUEST
        batch.fields(ENDPOINT_REQUEST, start, batch.count)["port_status_mask"][requests] <<= 1


@mutant("MRC-OP-03")
class OneIsDown(PeerPorts):
    """A bit that is 1 says that a port is down, where masks are read."""

    __slots__ = ()

    def update(self, node: PeerNode, mask: int, now: int) -> None:
        super().update(node, ~mask, now)


@mutant("MRC-OP-03")
class PortsAreReadFromTheOtherEnd(PeerPorts):
    """The first port is the highest bit of those there are, where masks are read."""

    __slots__ = ()

    def update(self, node: PeerNode, mask: int, now: int) -> None:
        count = len(node.port_of_plane)
        first = self._wire.first_port_bit
        turned = sum((mask >> count - 1 - bit + first & 1) << bit + first for bit in range(count))
        super().update(node, turned, now)


@mutant("MRC-OP-03")
class AnyOtherBitIsNews(PeerPorts):
    """A mask with bits of ports that there are not is taken for all ports down."""

    __slots__ = ()

    def update(self, node: PeerNode, mask: int, now: int) -> None:
        known = sum(1 << plane + self._wire.first_port_bit for plane in node.port_of_plane)
        super().update(node, 0 if mask & ~known else mask, now)
