# SPDX-License-Identifier: BSD-2-Clause
"""What a byte vector looks like, the field values most of them share, and an ICRC worked out bit by bit.

Nothing here uses the package under test: the CRC follows the text of wire.md section 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Layers = list[dict[str, Any]]

# Two queue pairs, chosen so that their low 16 bits (spdcid, dpdcid) differ from the whole number.
REQUESTOR = 0x1A0111
RESPONDER = 0x2B0222


def octets(text: str) -> bytes:
    """Bytes of a hex listing whose comments run from # to the end of the line."""
    return bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))


@dataclass(frozen=True, slots=True)
class Vector:
    """`headers`: BTH and extension headers; `payload`, `padding`: what follows; `layers`: the fields of `headers`.

    A layer is `{"layer": name, "fields": {...}}`. Named reserved fields appear only when they are not zero.
    """

    name: str
    headers: bytes
    layers: Layers
    payload: bytes = b""
    padding: bytes = b""

    @property
    def transport(self) -> bytes:
        """BTH to padding, without the ICRC."""
        return self.headers + self.payload + self.padding


def vector(
    name: str, text: str, *layers: tuple[str, dict[str, Any]], payload: bytes = b"", padding: str = ""
) -> Vector:
    named: Layers = [{"layer": layer, "fields": fields} for layer, fields in layers]
    return Vector(name, octets(text), named, payload, bytes.fromhex(padding))


def bth(opcode: int, dqp: int, psn: int, **others: int) -> tuple[str, dict[str, int]]:
    plain = {"se": 0, "m": 0, "pad": 0, "tver": 0, "pkey": 0xFFFF, "fecn": 0, "becn": 0, "ackreq": 0, "rtx": 0, "ts": 0}
    return "bth", {"opcode": opcode, "dqp": dqp, "psn": psn, **plain, **others}


def meth(rqmsn: int, msn: int) -> tuple[str, dict[str, int]]:
    return "meth", {"rqmsn": rqmsn, "msn": msn}


def tseth(tx_timestamp: int, tsr: int) -> tuple[str, dict[str, int]]:
    return "tseth", {"tx_timestamp": tx_timestamp, "tsr": tsr, "ftype": 1}


def reth(va: int, rkey: int, dmalen: int) -> tuple[str, dict[str, int]]:
    return "reth", {"va": va, "rkey": rkey, "dmalen": dmalen}


def immdt(data: int) -> tuple[str, dict[str, int]]:
    return "immdt", {"data": data}


def aeth(syndrome: int, msn: int) -> tuple[str, dict[str, int]]:
    return "aeth", {"syndrome": syndrome, "msn": msn}


def seth(cack_psn: int, **others: int) -> tuple[str, dict[str, int]]:
    plain = {"type": 0, "next": 0, "m": 0, "pr": 0, "entropy": 0x01000003, "spdcid": 0x0222, "dpdcid": 0x0111}
    tail = {"cc_type": 0, "cc_flags": 0, "mpr": 0, "sack_offset": 1, "bitmap": 0}
    return "seth", {**plain, **tail, "cack_psn": cack_psn, **others}


def cc_state(tx_timestamp: int, ooo_count: int, restore: int, penalty: int, rcvd: int) -> tuple[str, dict[str, int]]:
    names = ("tx_timestamp", "ooo_count", "restore_cwnd", "rcv_cwnd_pen", "rcvd_bytes")
    return "cc_state", dict(zip(names, (tx_timestamp, ooo_count, restore, penalty, rcvd), strict=True))


def neth(reason: int, nack_psn: int, **others: int) -> tuple[str, dict[str, int]]:
    plain = {"type": 0, "next": 0, "vendor_info": 0, "entropy": 0x01000003, "spdcid": 0x0222, "dpdcid": 0x0111}
    tail = {"cc_type": 2, "cc_flags": 0, "tx_timestamp": 0x0BB8}
    return "neth", {**plain, **tail, "reason": reason, "nack_psn": nack_psn, **others}


def peth(probe_id: int, **others: int) -> tuple[str, dict[str, int]]:
    plain = {"type": 0, "next": 0, "vendor_info": 0, "spdcid": 0x0111, "dpdcid": 0x0222, "tsr": 0, "ftype": 1}
    return "peth", {**plain, "probe_id": probe_id, **others}


def erth(op: int, **others: int) -> tuple[str, dict[str, int]]:
    return "erth", {"type": 0, "next": 0, "op": op, "vendor_info": 0, "tsr": 0, "ftype": 1, **others}


def crc32_bit_by_bit(data: bytes) -> int:
    """CRC-32 of Ethernet, one bit at a time: polynomial 0x04C11DB7 reflected, register and result inverted."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def icrc_by_hand(packet: bytes) -> bytes:
    """The four ICRC bytes for an IP packet (IPv4 without options, IPv6 without extension headers) that has none yet.

    Section 9: eight bytes of ones, then the packet with its variable fields set to ones.
    """
    masked = bytearray(packet)
    if packet[0] >> 4 == 4:
        udp = 20
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF  # ToS, TTL, the two bytes of the header checksum
    else:
        udp = 40
        masked[0] |= 0x0F  # version stays, the traffic class begins
        masked[1] = masked[2] = masked[3] = masked[7] = 0xFF  # traffic class, flow label; hop limit
    masked[udp + 6] = masked[udp + 7] = 0xFF  # UDP checksum
    masked[udp + 8 + 4] = 0xFF  # BTH byte 4
    return crc32_bit_by_bit(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")


def with_icrc(packet: bytes) -> bytes:
    return packet + icrc_by_hand(packet)


def ipv6_packet(transport: bytes, sport: int = 0x0003, dport: int = 4791) -> bytes:
    """`transport` in IPv6 and UDP with its ICRC: DSCP 4 and ECT(0), flow label 0x00100, fc00::1 to fc00::2."""
    udp_length = (8 + len(transport) + 4).to_bytes(2, "big")
    # 6, then traffic class 4 << 2 | 2 = 12, then 20 bits of flow label 00100; next header 17 = 11, hop limit 64 = 40
    ip = octets("61200100") + udp_length + octets("1140 fc00" + "0" * 27 + "1 fc00" + "0" * 27 + "2")
    udp = sport.to_bytes(2, "big") + dport.to_bytes(2, "big") + udp_length + bytes(2)
    return with_icrc(ip + udp + transport)
