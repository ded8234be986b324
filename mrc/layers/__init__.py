"""MRC and RoCEv2 as Scapy layers: the readable definition of the wire (wire.md), to craft with and to dissect with.

Importing this package binds the layers on UDP ports 4791 and 4971, in preference to scapy.contrib.roce.

    from mrc.layers import *
    in_srv6(0x01000003, src="fd00::1", dst="fd00::2") / BTH(dqp=0x12, psn=7) / METH(msn=1) / RETH(va=0x1000) / b"hello"

What is left out is worked out when the packet is built: opcode, padding, pad count, ts, dmalen, ICRC, ports, lengths,
traffic class. docs/layers-tutorial.md shows all of it. `use_wire_profile` changes the grade C choices.
"""

from mrc.layers.below import in_srv6, in_udp, usid_destination
from mrc.layers.bind import use_wire_profile
from mrc.layers.bth import BTH
from mrc.layers.control import AETH, CC_STATE, NETH, SETH, AtomicAckETH
from mrc.layers.endpoint_operations import EETH, ERTH, PETH
from mrc.layers.icrc import ICRC, Pad, check_icrc
from mrc.layers.message import segmented
from mrc.layers.request import DETH, IETH, METH, RETH, TSETH, AtomicETH, ImmDt
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
    "RETH",
    "SETH",
    "SRHTLVHMAC",
    "TSETH",
    "AtomicAckETH",
    "AtomicETH",
    "ImmDt",
    "Pad",
    "check_hmac",
    "check_icrc",
    "in_srv6",
    "in_udp",
    "segmented",
    "use_wire_profile",
    "usid_destination",
    "with_hmac",
]
