# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A packet's way in: what it must be before a QP sees it, and then the QP or the node operation it is for.

It is to be whole, of a known opcode, its ICRC right (wire.md sections 2, 3, 9). `TransportTerms` are what differs
between MRC and plain RC.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.qps import QpTable
from mrc.endpoint.node.node_evs import ENDPOINT_QPN
from mrc.endpoint.node.operations import EndpointOperations
from mrc.endpoint.node.put_aside import PutAside
from mrc.endpoint.parts.flags import Away
from mrc.endpoint.parts.numbers import column
from mrc.wire import octets
from mrc.wire.compiled import const_i64s, const_u8s, python, readonly, u8s, with_gil
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import (
    EXTENSION_AT,
    EXTENSION_LENGTH,
    HAS_PAYLOAD,
    HAS_TSETH,
    IS_MRC,
    MIN_PACKET,
    P_KEY,
    PAD_SHIFT,
    TS,
    TVER_MASK,
    UDP_AT,
    fields_at,
)

if TYPE_CHECKING:
    from mrc.endpoint.node.operation_intake import OperationIntake
    from mrc.endpoint.node.peer_node import PeerNode

# What `look` says of a packet. Those below SOUND were dropped and counted.
DROPPED: Final = 0
SOUND: Final = 1
TRIMMED: Final = 2
TRIMMED_LASTHOP: Final = 3

_IPV6, _IPV6_UDP = 6, 17
_DSCP_SHIFT = 2
_UNKNOWN_LENGTH = 1 << 20
(_OPCODE_AT,) = fields_at("bth", "opcode")
_NONE = -1


def _by_opcode(numbers: Iterable[int]) -> python[memoryview]:
    made = column(256)
    for opcode, number in enumerate(numbers):
        made[opcode] = number
    return made


_HAS_PAYLOAD: const_u8s = memoryview(HAS_PAYLOAD)


_DSCPS, _PORTS = 64, 1 << 16


@lru_cache(64)
def _by_port(accepted: tuple[int, ...]) -> memoryview:
    """1 for each UDP port of these: endpoints that accept the same ones share the table."""
    made = memoryview(bytearray(_PORTS))
    for port in accepted:
        made[port] = 1
    return made


class TransportTerms:
    """What the packets of a transport have to be.

    `opcodes` holds 1 for each of its own. Of a P_Key the bits of `pkey_mask` have to agree with ours. Switches cut
    packets short where `trims` says so. By opcode: `plain_lengths` are bytes of a packet without payload, padding and
    TSETH, beyond any packet when unknown; `tseth_lengths` are bytes of a TSETH.
    """

    def __init__(self, opcodes: bytes, *, pkey_mask: int = 0xFFFF, trims: bool = False) -> None:
        self.is_own: const_u8s = memoryview(opcodes)
        self.pkey_mask = pkey_mask
        self.trims = trims
        self.plain_lengths: const_i64s = _by_opcode(
            EXTENSION_AT + length + ICRC_LENGTH if own else _UNKNOWN_LENGTH
            for own, length in zip(opcodes, EXTENSION_LENGTH, strict=True)
        )
        self.tseth_lengths: const_i64s = _by_opcode(HEADER_LENGTHS["tseth"] if has else 0 for has in HAS_TSETH)


MRC_TERMS: Final = TransportTerms(IS_MRC, trims=True)


class PacketChecks:
    """Looks at packets one by one and counts each that is dropped by its first fault. `packet` is the one that was
    looked at last, unless it was too short."""

    def __init__(self, wire: WireProfile, counters: Counters, terms: TransportTerms = MRC_TERMS) -> None:
        self.packet = ReceivedPacket()
        self._counters = counters
        self._is_own = terms.is_own
        self._pkey_mask = terms.pkey_mask
        self._plain_lengths = terms.plain_lengths
        self._tseth_lengths = terms.tseth_lengths
        # By UDP destination port, and by DSCP.
        self._is_ours: u8s = _by_port(tuple(wire.accepted_udp_ports))
        self._is_trimmed: u8s = memoryview(bytearray(_DSCPS))
        for dscp in wire.trimmed_dscps if terms.trims else ():
            self._is_trimmed[dscp] = 1
        self._dscp_trimmed = wire.dscp_trimmed

    def look(self, batch: ReceivedBatch, row: int) -> int:
        """SOUND for a whole packet of the transport with a right ICRC; TRIMMED or TRIMMED_LASTHOP for one a switch cut
        short, on the last hop or before it; DROPPED for any other."""
        if batch.lengths[row] < MIN_PACKET:
            self._counters.too_short += 1
            return DROPPED
        self.packet.read(batch, row)
        if self.packet.version != _IPV6 or self.packet.next_header != _IPV6_UDP:
            self._counters.not_ipv6_udp += 1
            return DROPPED
        opcode, plen, length = self.packet.opcode, self.packet.plen, self.packet.length
        least = self._plain_lengths[opcode]
        if self.packet.psn_word & TS:
            least += self._tseth_lengths[opcode]
        said = (plen if plen > self.packet.udp_length else self.packet.udp_length) + UDP_AT
        outer, inner = self.packet.outer >> _DSCP_SHIFT, self.packet.inner >> _DSCP_SHIFT
        if (
            (self._is_trimmed[outer] or self._is_trimmed[inner])
            and self._is_own[opcode]
            and not self._is_whole(batch, row, least, said)
        ):
            return self._cut()
        if plen != self.packet.udp_length or said != length:
            self._counters.bad_length += 1
        elif not self._is_ours[self.packet.dport]:
            self._counters.bad_udp_port += 1
        elif self.packet.flags & TVER_MASK:
            self._counters.bad_tver += 1
        elif not self._is_own[opcode]:
            self._counters.unknown_opcode += 1
        elif not self._fits(opcode, length - least - (self.packet.flags >> PAD_SHIFT & 3)):
            self._counters.bad_length += 1
        elif not batch.icrc_right(row):
            self._counters.bad_icrc += 1
        elif (self.packet.pkey ^ P_KEY) & self._pkey_mask:
            self._counters.bad_pkey += 1
        else:
            return SOUND
        return DROPPED

    def _fits(self, opcode: int, spare: int) -> bool:
        """Whether a packet may have so many bytes of payload."""
        return spare == 0 or (spare > 0 and _HAS_PAYLOAD[opcode] != 0)

    def _is_whole(self, batch: ReceivedBatch, row: int, least: int, said: int) -> bool:
        """Whether a packet with a TRIMMED codepoint is whole (wire.md section 12, MRC-TRIM-05).

        A switch keeps what it is configured to, and may leave every length as it was or rewrite it: where enough is
        left for headers and ICRC and no length says more, only the ICRC shows it.
        """
        length = batch.lengths[row]
        return length >= least and length >= said and batch.icrc_right(row)

    def _cut(self) -> int:
        """Of a trimmed packet that is for us the codepoint on the outermost header says where it was trimmed."""
        self._counters.trimmed_received += 1
        foreign = (self.packet.pkey ^ P_KEY) & self._pkey_mask
        if not self._is_ours[self.packet.dport] or foreign or self.packet.flags & TVER_MASK:
            return DROPPED
        outer, inner = self.packet.outer >> _DSCP_SHIFT, self.packet.inner >> _DSCP_SHIFT
        # A fabric that gives both the same codepoint does not say where: TRIMMED then.
        return TRIMMED if (outer if self._is_trimmed[outer] else inner) == self._dscp_trimmed else TRIMMED_LASTHOP


class Intake:
    """Takes packets one by one, in order of arrival: how many come at a time changes nothing.

    The QPs for which something came in a batch are `touched` afterwards: so many `slots` from the first on, in that
    order, each once. A QP that was destroyed meanwhile is no longer in its slot. While Python may be away the endpoint
    operations that are Python's wait `aside`.
    """

    def __init__(
        self, checks: PacketChecks, qps: QpTable, operations: EndpointOperations, counters: Counters, away: Away
    ) -> None:
        self._checks: readonly[PacketChecks] = checks
        self._qps = qps
        self._operations = operations
        self._operation_intake: OperationIntake = operations.intake
        self._counters = counters
        self._away = away
        self.aside = PutAside(counters)
        self.touched = 0
        # By slot the batch in which it was touched last, by a number that counts them.
        self._batches = 0
        self.slots = octets.words(0)
        self._touched_in = octets.words(0)
        self._room = 0

    def __dealloc__(self) -> None:
        octets.free_words(self.slots)
        octets.free_words(self._touched_in)

    def make_room(self, slots: int) -> None:
        """There are so many slots, in the middle of a batch too."""
        self.slots = octets.longer_words(self.slots, self._room, slots)
        self._touched_in = octets.longer_words(self._touched_in, self._room, slots)
        self._room = slots

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        """Take all of a batch."""
        self._batches += 1
        self.touched = 0
        for row in range(batch.count):
            self._receive_one(batch, row, now)

    def _receive_one(self, batch: ReceivedBatch, row: int, now: int) -> None:
        verdict = self._checks.look(batch, row)
        if verdict == DROPPED:
            return
        if self._checks.packet.dqp == ENDPOINT_QPN and verdict == SOUND:
            if not self._operation_intake.receive(batch, row, self._checks.packet.opcode, now):
                return
            if self._away.up:
                self.aside.put(batch, row, now)
                self._away.urgent = True
            else:
                self._operate(batch, row, self._checks.packet.opcode, now)
            return
        slot = self._qps.find(self._checks.packet.dqp)
        if slot == _NONE:
            self._counters.unknown_qp += 1
            return
        if self._touched_in[slot] != self._batches:
            self._touched_in[slot] = self._batches
            self.slots[self.touched] = slot
            self.touched += 1
        if verdict != SOUND:
            self._qps.at[slot].arrivals.receive_trimmed(batch, self._checks.packet, verdict == TRIMMED_LASTHOP, now)
            return
        self._qps.at[slot].arrivals.receive(batch, self._checks.packet, now)
        doubted = self._qps.at[slot].doubted_ports != 0 and self._qps.at[slot].doubts(batch.ports[row])
        if doubted and not self._away.up and self._qps.holds(slot):
            self._hear(self._qps.at[slot].peer_node, batch, row, now)

    def catch_up(self) -> python[None]:
        """Python is back: take what was put aside."""
        waiting = self.aside
        if not waiting.count:
            return
        for row in range(waiting.count):
            opcode = waiting.batch.flat[waiting.batch.row(row) + _OPCODE_AT]
            self._operations.receive(waiting.batch, row, opcode, waiting.arrived_at[row])
        waiting.forget()

    def _operate(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> with_gil[None]:
        try:
            self._operations.receive(batch, row, opcode, now)
        except BaseException as error:
            # Raised by Python code that a probe answer is reported to, say.
            self._away.fail(error)

    def _hear(self, node: PeerNode | None, batch: ReceivedBatch, row: int, now: int) -> with_gil[None]:
        if node is not None:
            self._operations.peer_ports.heard_of(node, batch, row, now)
