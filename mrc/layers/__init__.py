# SPDX-License-Identifier: GPL-2.0-only
"""MRC and RoCEv2 as Scapy layers: the readable definition of the wire (wire.md), to craft with and to dissect with.

Importing this package changes nothing in Scapy. `bind_to_udp()` has Scapy dissect UDP ports 4791 and 4971 with these
layers, in preference to scapy.contrib.roce, until `unbind_from_udp()`; `with bound_to_udp():` for one block. Building
packets needs neither.

    from mrc.layers import *
    bind_to_udp()
    in_srv6(0x01000003, src="fd00::1", dst="fd00::2") / BTH(dqp=0x12, psn=7) / METH(msn=1) / RETH(va=0x1000) / b"hello"

What is left out is worked out when the packet is built: opcode, padding, pad count, ts, dmalen, ICRC, ports, lengths,
traffic class. docs/layers-tutorial.md shows all of it. `use_wire_profile` changes the grade C choices.
"""

from mrc.layers.below import in_srv6, in_udp, usid_destination
from mrc.layers.bind import bind_to_udp, bound_to_udp, unbind_from_udp, use_wire_profile
from mrc.layers.bth import BTH
from mrc.layers.control import AETH, CC_STATE, NETH, SETH, AtomicAckETH
from mrc.layers.endpoint_operations import EETH, ERTH, PETH
from mrc.layers.icrc import ICRC, Pad, check_icrc
from mrc.layers.message import segmented
from mrc.layers.request import DETH, IETH, METH, RDETH, RETH, TSETH, XRCETH, AtomicETH, ImmDt
from mrc.layers.segment_routing import SRHTLVHMAC, check_hmac, with_hmac

__all__ = [
    "AETH",
    "BTH",
    "CC_STATE",
    "DETH",
    "EETH",
    "ERTH",
    "ICRC",
    "IETH",
    "METH",
    "NETH",
    "PETH",
    "RDETH",
    "RETH",
    "SETH",
    "SRHTLVHMAC",
    "TSETH",
    "XRCETH",
    "AtomicAckETH",
    "AtomicETH",
    "ImmDt",
    "Pad",
    "bind_to_udp",
    "bound_to_udp",
    "check_hmac",
    "check_icrc",
    "in_srv6",
    "in_udp",
    "segmented",
    "unbind_from_udp",
    "use_wire_profile",
    "usid_destination",
    "with_hmac",
]
