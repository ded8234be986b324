"""The base transport header (wire.md section 3), which also finishes a packet: pad count, padding and ICRC."""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.fields import BitField, ByteField, ThreeBytesField, X3BytesField, XByteEnumField, XShortField
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet

from mrc.layers.base import ActiveProfile, Reserved, TransportHeader
from mrc.layers.icrc import ICRC, Pad, icrc_value, ip_layers
from mrc.wire.icrc import icrc_bytes
from mrc.wire.opcodes import BTH_LENGTH, FIRST_MRC_OPCODE, ICRC_LENGTH, OPCODES, Op

_PAD_SHIFT = 4
_TS_BIT, _RTX_BIT = 1 << 4, 1 << 5
_RESERVED3_MASK = 0xF
# The request id of an endpoint operation (wire.md section 3).
_REQUEST_ID = 0xFFFF


def bth_fields(solicited_event_first: bool = True) -> list[Any]:
    """The BTH's table; which of SE and M comes first is grade C, everything else A."""
    se, m = BitField("se", 0, 1), BitField("m", 0, 1)
    return [
        XByteEnumField("opcode", Op.WRITE_ONLY.value, {value: opcode.name for value, opcode in OPCODES.items()}),
        *((se, m) if solicited_event_first else (m, se)),
        BitField("pad", None, 2),
        BitField("tver", 0, 4),
        XShortField("pkey", 0xFFFF),
        ByteField("reserved", 0),
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

    What is left out is worked out when the packet is built: `pad` and the padding bytes from the payload's length, `ts`
    from a TSETH layer, and a final ICRC. The ICRC needs IPv4 or IPv6 and UDP below, else it is 0. Neither padding
    nor ICRC is added to a trimmed packet: one of the TRIMMED codepoints below, and headers missing above. After a
    dissection, `del` of a field (BTH.pad, Pad.data, ICRC.crc) has it worked out anew.

    On top of UDP, the destination port defaults to 4791 and the checksum to 0 (section 9). `UDP(chksum=None)`
    has Scapy compute one, any number is taken as it is.
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
            if self.opcode < FIRST_MRC_OPCODE and self.reserved3 > _RESERVED3_MASK:
                head[8] |= self.reserved3 & (_RTX_BIT | _TS_BIT)
            pkt = bytes(head)

        if (icrc is None and finish) or (icrc is not None and icrc.crc is None):
            tail = icrc_bytes(icrc_value(self, pkt + body, ActiveProfile.profile) or 0)
        return pkt + body + tail

    def post_dissect(self, s: bytes) -> bytes:
        """In standard RoCEv2 the rtx and ts bits do not exist (section 13): there they are reserved."""
        if self.opcode < FIRST_MRC_OPCODE and (self.rtx or self.ts):
            self.fields["reserved3"] |= self.rtx << 5 | self.ts << 4
            self.fields["rtx"] = self.fields["ts"] = 0
        return s

    def _is_trimmed(self, after_bth: int) -> bool:
        """A TRIMMED codepoint and headers missing (section 12); the ICRC is not there yet while building."""
        opcode = OPCODES.get(self.opcode)
        has_tseth = bool(self.ts) or bool(self.haslayer("TSETH"))
        if opcode is None or after_bth >= opcode.header_length(has_tseth):
            return False
        classes = (layer.tos if isinstance(layer, IP) else layer.tc for layer in ip_layers(self))
        return any(value >> 2 in ActiveProfile.profile.trimmed_dscps for value in classes)

    def hashret(self) -> bytes:
        if self.opcode in (Op.ENDPOINT_REQUEST, Op.ENDPOINT_RESPONSE):
            return b"endpoint" + (self.psn & _REQUEST_ID).to_bytes(2, "big")
        probe_id = self._probe_id()
        return b"transport" if probe_id is None else b"probe" + probe_id.to_bytes(2, "big")

    def answers(self, other: Packet) -> bool:
        """Whether this is the SACK with pr=1 to the probe `other`, or the endpoint response to the request `other`.

        Answers go to port 4791 and not to the port a packet was sent from, so `sr` needs `conf.checkIPsrc = False`.
        """
        if not isinstance(other, BTH):
            return False
        if (self.opcode, other.opcode) == (Op.ENDPOINT_RESPONSE, Op.ENDPOINT_REQUEST):
            return bool(self.psn & _REQUEST_ID == other.psn & _REQUEST_ID)
        if (self.opcode, other.opcode) == (Op.SACK, Op.PROBE):
            probe_id = self._probe_id()
            return probe_id is not None and probe_id == other._probe_id()
        return False

    def _probe_id(self) -> int | None:
        above = self.payload
        if self.opcode == Op.PROBE and above.name == "PETH":
            return int(above.probe_id)
        if self.opcode == Op.SACK and above.name == "SETH" and above.pr:
            return int(above.probe_id)
        return None

    def mysummary(self) -> tuple[str, list[Any]]:
        opcode = OPCODES.get(self.opcode)
        words = [opcode.name if opcode else f"Unknown opcode 0x{self.opcode:02x}", f"QP=0x{self.dqp:06x}"]
        words.append(f"PSN={self.psn}")
        words += [word for word, flag in (("[AckReq]", self.ackreq), ("[rtx]", self.rtx)) if flag]
        layer = self.payload
        while isinstance(layer, TransportHeader):
            info = layer.info()
            words += [info] if info else []
            layer = layer.payload
        return " ".join(words), [UDP]
