# SPDX-License-Identifier: GPL-2.0-only
"""The base transport header (wire.md section 3), which also finishes a packet: pad count, padding and ICRC."""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.fields import BitField, ThreeBytesField, X3BytesField, XByteEnumField, XShortField
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, _IPv6ExtHdr
from scapy.packet import Packet

from mrc.layers.base import ActiveProfile, Reserved, TransportHeader
from mrc.layers.icrc import ICRC, Pad, icrc_value, ip_layers
from mrc.layers.pairing import is_answer, pairing_key
from mrc.layers.traffic_class import give_traffic_class
from mrc.wire.icrc import icrc_bytes
from mrc.wire.opcodes import BTH_LENGTH, FIRST_MRC_OPCODE, ICRC_LENGTH, OPCODES, Op
from mrc.wire.words import fields_of, in_words

_PAD_SHIFT = 4
_UDP_LENGTH = 8
_TS_BIT, _RTX_BIT = 1 << 4, 1 << 5
_SE_AND_M = 0xC0
_RESERVED3_MASK = 0xF
# Endpoint operations go to a queue pair of their own (wire.md section 3).
ENDPOINT_DQP = 0x000002


def _opcodes_by_headers() -> dict[tuple[str, ...], int]:
    """For each row of headers, whole or begun, the opcode of a packet that stands alone.

    MRC's before the standard ones, those with a payload before those without.
    """
    found: dict[tuple[str, ...], tuple[tuple[bool, ...], int]] = {}
    for opcode in OPCODES.values():
        headers = tuple(header for header in opcode.headers if header != "tseth")
        for count in range(1, len(headers) + 1):
            merit = (count == len(headers), opcode.is_mrc, opcode.starts and opcode.ends, opcode.has_payload)
            if headers[:count] not in found or merit > found[headers[:count]][0]:
                found[headers[:count]] = merit, opcode.value
    return {headers: value for headers, (_, value) in found.items()}


_OPCODE_OF_HEADERS = _opcodes_by_headers()


def bth_fields(solicited_event_first: bool = True) -> list[Any]:
    """The BTH's table; which of SE and M comes first is grade C, everything else A."""
    se, m = BitField("se", 0, 1), BitField("m", 0, 1)
    return [
        XByteEnumField("opcode", Op.WRITE_ONLY.value, {value: opcode.name for value, opcode in OPCODES.items()}),
        *((se, m) if solicited_event_first else (m, se)),
        BitField("pad", None, 2),
        BitField("tver", 0, 4),
        XShortField("pkey", 0xFFFF),
        BitField("fecn", 0, 1),
        BitField("becn", 0, 1),
        Reserved("reserved", 6),
        X3BytesField("dqp", 0),
        BitField("ackreq", 0, 1),
        Reserved("reserved2", 1),
        BitField("rtx", 0, 1),
        BitField("ts", 0, 1),
        Reserved("reserved3", 4),
        ThreeBytesField("psn", 0),
    ]


class BTH(TransportHeader):
    """Base transport header, 12 bytes (grade A; the order of SE and M is C).

    What is left out is worked out when the packet is built: `opcode` from the headers above (the one of a packet that
    is a whole message), `pad` and the padding bytes from the payload's length, `ts` from a TSETH layer, `dqp` 2 in
    endpoint operations, `psn` of a SACK and a NACK from their own, and a final ICRC. The ICRC needs IPv4 or IPv6 and
    UDP below, else it is 0. Neither padding nor ICRC is added to a trimmed packet: one of the TRIMMED codepoints below,
    and headers missing above, or a UDP length set below that is not a whole packet's. After a dissection, `del` of a
    field (BTH.pad, Pad.data, ICRC.crc) has it worked out anew.

    Below it, UDP goes from port 49152 to 4791 with a checksum of 0 (section 9), and IP headers take the traffic class
    of the opcode (section 12). `UDP(chksum=None)` has Scapy compute one; whatever is set is taken as it is.
    """

    name = "BTH"
    is_bth = True
    fields_desc = bth_fields()

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> Any:
        return conf.raw_layer if _pkt and len(_pkt) < BTH_LENGTH else cls

    def do_build(self) -> bytes:
        # Packet.do_build skips post_build for a header untouched since its dissection; an emptied ICRC needs it.
        if not self.explicit:
            self = next(iter(self))
        return self.post_build(self.self_build(), self.do_build_payload())

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        icrc, pad = self.getlayer(ICRC), self.getlayer(Pad)
        body, tail = (pay[:-ICRC_LENGTH], pay[-ICRC_LENGTH:]) if icrc is not None else (pay, b"")
        finish = self.raw_packet_cache is None and not self._is_trimmed(len(body))

        if self.pad is not None:
            count = self.pad
        elif pad is not None and pad.data is not None:
            count = len(pad.data) & 3
        else:
            count = -len(body) & 3
        if (finish and pad is None) or (pad is not None and pad.data is None):
            body += bytes(count)

        if self.raw_packet_cache is None:
            head = bytearray(pkt)
            if self.pad is None and finish:
                head[1] |= count << _PAD_SHIFT
            if "ts" not in self.fields and self.haslayer("TSETH"):
                head[8] |= _TS_BIT
            own_psn = self.payload.own_psn() if isinstance(self.payload, TransportHeader) else None
            if "psn" not in self.fields and own_psn is not None:
                head[9:12] = own_psn.to_bytes(3, "big")
            if self.opcode < FIRST_MRC_OPCODE:
                # SE comes first in standard RoCEv2, whatever the profile says.
                head[1] = head[1] & ~_SE_AND_M | self.se << 7 | self.m << 6
                if self.reserved3 > _RESERVED3_MASK:
                    head[8] |= self.reserved3 & (_RTX_BIT | _TS_BIT)
            pkt = bytes(head)

        if (icrc is None and finish) or (icrc is not None and icrc.crc is None):
            tail = icrc_bytes(icrc_value(self, pkt + body, ActiveProfile.profile) or 0)
        return pkt + body + tail

    def post_dissect(self, s: bytes) -> bytes:
        """In standard RoCEv2 SE comes before M (section 3), and the rtx and ts bits are reserved (section 13)."""
        if self.opcode >= FIRST_MRC_OPCODE:
            return s
        if not ActiveProfile.profile.solicited_event_first:
            self.fields["se"], self.fields["m"] = self.m, self.se
        if self.rtx or self.ts:
            self.fields["reserved3"] |= self.rtx << 5 | self.ts << 4
            self.fields["rtx"] = self.fields["ts"] = 0
        return s

    def _is_trimmed(self, after_bth: int) -> bool:
        """While building: a TRIMMED codepoint, and headers missing or a UDP length that leaves no room for an ICRC
        (section 12). The ICRC is not there yet."""
        opcode = OPCODES.get(self.opcode)
        if opcode is None or not self._has_trimmed_codepoint():
            return False
        if after_bth < opcode.header_length(bool(self.ts) or bool(self.haslayer("TSETH"))):
            return True
        said = getattr(self.underlayer, "len", None)
        return said is not None and said != _UDP_LENGTH + BTH_LENGTH + after_bth + -after_bth % 4 + ICRC_LENGTH

    def _has_trimmed_codepoint(self) -> bool:
        classes = (layer.tos if isinstance(layer, IP) else layer.tc for layer in ip_layers(self))
        return any(value >> 2 in ActiveProfile.profile.trimmed_dscps for value in classes)

    def came_trimmed(self) -> bool:
        """While dissecting: a TRIMMED codepoint, and not whole by an IP or UDP length or the ICRC (section 12)."""
        if not self._has_trimmed_codepoint() or self.opcode not in OPCODES:
            return False
        whole = self.original
        layer, there = self.underlayer, len(whole)
        while isinstance(layer, UDP | IP | IPv6 | _IPv6ExtHdr):
            header = len(layer.raw_packet_cache)
            # The length of an IPv6 header does not count the header itself; a routing header's is its own.
            if (isinstance(layer, UDP | IP) and layer.len > there + header) or (
                isinstance(layer, IPv6) and layer.plen > there
            ):
                return True
            there += header
            layer = layer.underlayer
        crc = icrc_value(self, whole[:-ICRC_LENGTH], ActiveProfile.profile, dissecting=True)
        return crc is not None and icrc_bytes(crc) != whole[-ICRC_LENGTH:]

    def add_payload(self, payload: Any) -> None:
        super().add_payload(payload)
        names = []
        layer: Any = self.payload
        while isinstance(layer, TransportHeader):
            names.append(layer.header_name)
            layer = layer.payload
        headers = tuple(name for name in names if name != "tseth")
        opcode = _OPCODE_OF_HEADERS.get(headers)
        if opcode is not None:
            endpoint = {"dqp": ENDPOINT_DQP} if opcode in (Op.ENDPOINT_REQUEST, Op.ENDPOINT_RESPONSE) else {}
            self.overloaded_fields = {"opcode": opcode, **endpoint}
        give_traffic_class(self)

    def add_underlayer(self, underlayer: Packet) -> None:
        super().add_underlayer(underlayer)
        give_traffic_class(self)

    def setfieldval(self, attr: str, val: Any) -> None:
        super().setfieldval(attr, val)
        if attr in ("opcode", "rtx"):
            give_traffic_class(self)

    def hashret(self) -> bytes:
        return pairing_key(self)

    def answers(self, other: Packet) -> bool:
        """Whether this answers `other`, as `mrc.layers.pairing.is_answer` has it."""
        return isinstance(other, BTH) and is_answer(self, other)

    def mysummary(self) -> tuple[str, list[Any]]:
        headers = []
        layer: Any = self
        while isinstance(layer, TransportHeader):
            name = layer.header_name
            headers.append((name, {field: layer.shown_value(field) for field in fields_of(name)}))
            layer = layer.payload
        return in_words(headers), [UDP]
