"""What a packet must be before a QP sees it: whole, of a known opcode, its ICRC right (wire.md sections 2, 3, 9)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mrc.endpoint.counters import Counters
from mrc.wire.batch import ReceivedBatch
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH
from mrc.wire.profile import WireProfile
from mrc.wire.rows import (
    COMMON,
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
)
from mrc.wire.templates import fixed_words

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_IPV6_UDP = 17


def _least_lengths() -> I64:
    """[with TSETH or not, opcode]: bytes of a packet without payload and padding, beyond any packet when unknown."""
    plain = np.where((IS_MRC == 1), EXTENSION_AT + EXTENSION_LENGTH + ICRC_LENGTH, 1 << 20)
    return np.stack((plain, plain + HAS_TSETH * np.int64(HEADER_LENGTHS["tseth"])))


_LEAST_LENGTH = _least_lengths()
_LEAST_LENGTHS: list[list[int]] = _LEAST_LENGTH.tolist()
# Of each packet that is handled by itself: ip_word, ip_plen, what lies between, udp_len,
# opcode, flags, the byte of psn_word that holds ts.
_LENGTHS = struct.Struct(">IH38sH2xBB6xB")
_TS_SHIFT = 4


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Rows of packets that a switch cut short, on the last hop or before it."""

    rows: I64
    lasthop: Bools


class PacketChecks:
    """Looks at a batch as a whole, which as a rule holds nothing wrong, and sorts out what it doubts."""

    __slots__ = (
        "_counters",
        "_fixed",
        "_fixed_length",
        "_fixed_mask",
        "_fixed_mask_number",
        "_fixed_number",
        "_ports",
        "_wire",
    )

    def __init__(self, wire: WireProfile, counters: Counters) -> None:
        self._wire = wire
        self._counters = counters
        self._ports: Bools = np.zeros(1 << 16, np.bool_)
        self._ports[list(wire.accepted_udp_ports)] = True
        self._fixed, self._fixed_mask = fixed_words(wire)
        self._fixed_length = self._fixed.nbytes
        self._fixed_number = int.from_bytes(self._fixed.tobytes(), "little")
        self._fixed_mask_number = int.from_bytes(self._fixed_mask.tobytes(), "little")

    def sound_rows(self, batch: ReceivedBatch) -> tuple[I64, Trimmed | None]:
        """Rows that are whole MRC packets with a right ICRC, and those a switch trimmed, if there are any.

        All others are counted, each by its first fault.
        """
        rows = np.arange(batch.count)
        if not self._all_well_formed(batch):
            return self._sorted_out(batch)
        good = batch.icrc_ok(rows)
        if good.all():
            return rows, None
        # Nothing else can be wrong with them; a switch that cuts a packet may rewrite every length in it.
        bad = rows[~good]
        marked = self._marked(batch, bad)
        self._counters.bad_icrc += len(bad) - int(np.count_nonzero(marked))
        return rows[good], self._cut(batch, bad[marked])

    def is_sound(self, batch: ReceivedBatch, row: int, length: int) -> bool:
        """Whether one packet over IPv6, of `length` bytes, is whole and its ICRC right."""
        return self._well_formed(batch, row, length) and batch.icrc_right(row, length)

    def _all_well_formed(self, batch: ReceivedBatch) -> bool:
        """One look at the whole batch, which as a rule holds nothing wrong. What it doubts is sorted out row by row."""
        length = batch.length
        if int(length.min()) < MIN_PACKET:
            return False
        words = batch.data[: batch.count, : self._fixed.itemsize * len(self._fixed)].view(np.uint64)
        if not ((words & self._fixed_mask) == self._fixed).all():
            return False
        fields = batch.fields(COMMON)
        plen = fields["ip_plen"]
        if not ((plen == fields["udp_len"]) & (plen + np.int64(UDP_AT) == length)).all():
            return False
        return self._lengths_fit(fields["opcode"], fields["psn_word"], fields["flags"], length)

    def _well_formed(self, batch: ReceivedBatch, row: int, length: int) -> bool:
        """The same for one packet."""
        if length < MIN_PACKET:
            return False
        head = batch.view(row, 0, EXTENSION_AT)
        if int.from_bytes(head[: self._fixed_length], "little") & self._fixed_mask_number != self._fixed_number:
            return False
        _, plen, _, udp_len, opcode, flags, psn_flags = _LENGTHS.unpack_from(head)
        if plen != udp_len or plen + UDP_AT != length:
            return False
        spare = length - _LEAST_LENGTHS[psn_flags >> _TS_SHIFT & 1][opcode] - (flags >> PAD_SHIFT & 3)
        return spare == 0 or (spare > 0 and bool(HAS_PAYLOAD[opcode]))

    @staticmethod
    def _lengths_fit(
        opcodes: npt.NDArray[np.uint8],
        psn_words: npt.NDArray[np.uint32],
        flags: npt.NDArray[np.uint8],
        length: I64,
    ) -> bool:
        spare = length - _LEAST_LENGTH[(psn_words & TS != 0).view(np.uint8), opcodes] - (flags >> PAD_SHIFT & 3)
        return bool(((spare == 0) | (HAS_PAYLOAD[opcodes] & (spare > 0))).all())

    def _sorted_out(self, batch: ReceivedBatch) -> tuple[I64, Trimmed | None]:
        """The same, header by header."""
        counters, length = self._counters, batch.length
        rows = np.flatnonzero(length >= MIN_PACKET)
        counters.too_short += batch.count - len(rows)
        fields = batch.fields(COMMON)

        def keep(good: Bools, counter: str) -> bool:
            nonlocal rows
            if not good.all():
                setattr(counters, counter, getattr(counters, counter) + int((~good).sum()))
                rows = rows[good]
            return len(rows) > 0

        ip_word = fields["ip_word"][rows]
        if not keep((ip_word >> 28 == 6) & (fields["ip_nh"][rows] == _IPV6_UDP), "not_ipv6_udp"):
            return rows, None
        trimmed = self._trimmed(batch, rows)
        cut = self._cut(batch, rows[trimmed])
        rows = rows[~trimmed]
        plen = fields["ip_plen"][rows]
        if not keep((plen == fields["udp_len"][rows]) & (plen + np.int64(UDP_AT) == length[rows]), "bad_length"):
            return rows, cut
        if not keep(self._ports[fields["udp_dport"][rows]], "bad_udp_port"):
            return rows, cut
        if not keep(fields["flags"][rows] & TVER_MASK == 0, "bad_tver"):
            return rows, cut
        if not keep(IS_MRC[fields["opcode"][rows]] == 1, "unknown_opcode"):
            return rows, cut
        opcodes = fields["opcode"][rows]
        has_ts = (fields["psn_word"][rows] & TS != 0).view(np.uint8)
        spare = length[rows] - _LEAST_LENGTH[has_ts, opcodes] - (fields["flags"][rows] >> PAD_SHIFT & 3)
        if not keep((spare == 0) | (HAS_PAYLOAD[opcodes] & (spare > 0)), "bad_length"):
            return rows, cut
        if not keep(batch.icrc_ok(rows), "bad_icrc"):
            return rows, cut
        keep(fields["pkey"][rows] == P_KEY, "bad_pkey")
        return rows, cut

    def _marked(self, batch: ReceivedBatch, rows: I64) -> Bools:
        """Which packets have a TRIMMED codepoint, on either header."""
        codepoints = self._wire.trimmed_dscps
        marked = np.isin(batch.traffic_class[rows] >> 2, codepoints)
        return np.asarray(marked | np.isin(batch.fields(COMMON)["ip_word"][rows] >> 22 & 0x3F, codepoints))

    def _trimmed(self, batch: ReceivedBatch, rows: I64) -> Bools:
        """Which packets a switch cut short: a TRIMMED codepoint, and not whole (wire.md section 12, MRC-TRIM-05).

        A switch keeps what it is configured to, and may leave every length as it was or rewrite it: where enough is
        left for headers and ICRC and no length says more, only the ICRC tells.
        """
        trimmed = self._marked(batch, rows)
        at = np.flatnonzero(trimmed)
        if not len(at):
            return trimmed
        fields = batch.fields(COMMON)[rows[at]]
        opcodes, length = fields["opcode"], batch.length[rows[at]]
        has_ts = (fields["psn_word"] & TS != 0).view(np.uint8)
        said = np.maximum(fields["ip_plen"], fields["udp_len"]) + np.int64(UDP_AT)
        whole = (length >= _LEAST_LENGTH[has_ts, opcodes]) & (length >= said)
        whole[whole] = batch.icrc_ok(rows[at[whole]])
        trimmed[at] = ~whole & (IS_MRC[opcodes] == 1)
        return trimmed

    def _cut(self, batch: ReceivedBatch, rows: I64) -> Trimmed | None:
        """Of trimmed packets those for us; the codepoint on the outermost header says where they were trimmed."""
        if not len(rows):
            return None
        self._counters.trimmed_received += len(rows)
        fields = batch.fields(COMMON)
        for_us = self._ports[fields["udp_dport"][rows]] & (fields["pkey"][rows] == P_KEY)
        rows = rows[for_us & (fields["flags"][rows] & TVER_MASK == 0)]
        outer, inner = batch.traffic_class[rows] >> 2, fields["ip_word"][rows] >> 22 & 0x3F
        dscp = np.where(np.isin(outer, self._wire.trimmed_dscps), outer, inner)
        # A fabric that gives both the same codepoint does not say where: TRIMMED then.
        return Trimmed(rows, dscp != self._wire.dscp_trimmed)
