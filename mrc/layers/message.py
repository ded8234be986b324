# SPDX-License-Identifier: GPL-2.0-only
"""A message that is longer than one path MTU, as the packets that carry it (wire.md section 4)."""

from __future__ import annotations

from scapy.packet import Packet, Raw

from mrc.errors import CallerError
from mrc.layers.bth import BTH
from mrc.layers.request import METH, RETH, ImmDt
from mrc.wire.opcodes import Op
from mrc.wire.psn import psn_add

PATH_MTUS = (256, 512, 1024, 2048, 4096)


def segmented(write: Packet, pmtu: int = 4096) -> list[Packet]:
    """The packets of one RDMA WRITE, from the packet it would be if a packet had room for all of it.

        segmented(in_srv6(0, src="fd00::1", dst="fd00::2") / BTH(psn=7) / METH(msn=1) / RETH(va=0x1000) / bytes(10_000))

    PSN and VA advance, opcodes are First, Middle, Last or Only, `dmalen` is the length of the whole unless it is set.
    An ImmDt and an AckReq stay with the last packet. All other fields are those of `write`. Raises CallerError for
    a path MTU that is none, and for a packet without BTH, METH and RETH.

    >>> from mrc.layers import BTH, METH, RETH, in_udp
    >>> len(segmented(in_udp(0xC001, "fd00::1", "fd00::2") / BTH() / METH() / RETH() / bytes(9000), pmtu=4096))
    3
    """
    if pmtu not in PATH_MTUS:
        raise CallerError(f"a path MTU is one of {', '.join(map(str, PATH_MTUS))} bytes, got {pmtu}")
    if not all(write.haslayer(layer) for layer in (BTH, METH, RETH)):
        raise CallerError("a write has a BTH, a METH and a RETH")
    header, payload = _parts(write)
    pieces = [payload[at : at + pmtu] for at in range(0, len(payload), pmtu)] or [b""]
    packets = []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        packet = header.copy()
        bth, reth = packet[BTH], packet[RETH]
        immediate = reth.getlayer(ImmDt)
        if immediate is not None and not last:
            reth.remove_payload()
        bth.opcode = _opcode(number == 0, last, immediate is not None)
        bth.psn = psn_add(bth.psn, number)
        bth.ackreq = bth.ackreq if last else 0
        reth.va = (reth.va + number * pmtu) % (1 << 64)
        if reth.dmalen is None:
            reth.dmalen = len(payload)
        packets.append(packet / Raw(piece) if piece else packet)
    return packets


def _parts(write: Packet) -> tuple[Packet, bytes]:
    """The headers alone, and the bytes on top of them."""
    header = write.copy()
    top = header.getlayer(ImmDt) or header[RETH]
    payload = bytes(top.payload)
    top.remove_payload()
    return header, payload


def _opcode(first: bool, last: bool, immediate: bool) -> int:
    if last:
        whole, part = Op.WRITE_ONLY, Op.WRITE_LAST
        if immediate:
            whole, part = Op.WRITE_ONLY_WITH_IMMEDIATE, Op.WRITE_LAST_WITH_IMMEDIATE
        return (whole if first else part).value
    return (Op.WRITE_FIRST if first else Op.WRITE_MIDDLE).value
