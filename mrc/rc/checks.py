"""What an RC packet must be before a QP sees it: whole, of RC, its ICRC right."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.rc.counters import RcCounters
from mrc.rc.opcodes import RC_OPCODES
from mrc.wire.fields import COMMON
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import EXTENSION_AT, EXTENSION_LENGTH, HAS_PAYLOAD, MIN_PACKET, P_KEY, PAD_SHIFT, TVER_MASK, UDP_AT

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_UDP = 17
_PARTITION = 0x7FFF


def _least_length() -> I64:
    """By opcode: bytes of a packet without payload and padding, beyond any packet where RC has no such opcode."""
    known = np.zeros(256, np.bool_)
    known[list(RC_OPCODES)] = True
    extension = np.array(EXTENSION_LENGTH)
    return np.where(known & (extension >= 0), EXTENSION_AT + extension + ICRC_LENGTH, 1 << 20)


_LEAST_LENGTH = _least_length()
_KNOWN = _LEAST_LENGTH < 1 << 20
_MAY_HAVE_PAYLOAD = np.frombuffer(HAS_PAYLOAD, np.bool_)


def sound_rows(batch: ReceivedBatch, wire: WireProfile, counters: RcCounters) -> I64:
    """Rows that are whole RC packets with a right ICRC. All others are counted, each by its first fault."""
    length = batch.length
    rows = np.flatnonzero(length >= MIN_PACKET)
    counters.too_short += batch.count - len(rows)
    fields = batch.fields(COMMON)

    def keep(good: Bools, counter: str) -> None:
        nonlocal rows
        setattr(counters, counter, getattr(counters, counter) + int((~good).sum()))
        rows = rows[good]

    keep((fields["ip_word"][rows] >> 28 == 6) & (fields["ip_nh"][rows] == _UDP), "not_udp")
    plen = fields["ip_plen"][rows]
    keep((plen == fields["udp_len"][rows]) & (plen + np.int64(UDP_AT) == length[rows]), "bad_length")
    keep(np.isin(fields["udp_dport"][rows], wire.accepted_udp_ports), "bad_udp_port")
    keep(fields["flags"][rows] & TVER_MASK == 0, "bad_tver")
    keep(_KNOWN[fields["opcode"][rows]], "unknown_opcode")
    opcodes = fields["opcode"][rows]
    spare = length[rows] - _LEAST_LENGTH[opcodes] - (fields["flags"][rows] >> PAD_SHIFT & 3)
    keep((spare == 0) | (_MAY_HAVE_PAYLOAD[opcodes] & (spare > 0)), "bad_length")
    if len(rows):
        keep(np.array([batch.icrc_right(row) for row in rows.tolist()], np.bool_), "bad_icrc")
    # Ours is a full member's: of the peer's only the lower 15 bits have to agree.
    keep(fields["pkey"][rows] & _PARTITION == P_KEY & _PARTITION, "bad_pkey")
    return rows
