"""MRC and RoCEv2 as Scapy layers: the readable definition of the wire (wire.md), to craft with and to dissect with.

Importing this package binds the layers on UDP ports 4791 and 4971, in preference to scapy.contrib.roce.

    from mrc.layers import *
    IPv6(dst="fc00::2") / UDP(sport=3) / BTH(dqp=0x11, psn=7) / METH(msn=1) / RETH(va=0x1000, dmalen=5) / b"hello"

Padding, pad count and ICRC are worked out when the packet is built. `mrc.layers.bind.use_wire_profile` changes the
grade C choices, `mrc.layers.icrc.check_icrc` checks a dissected packet.
"""

from mrc.layers import bind as bind
from mrc.layers import segment_routing as segment_routing
from mrc.layers.bth import BTH
from mrc.layers.control import AETH, CC_STATE, NETH, SETH, AtomicAckETH
from mrc.layers.endpoint_operations import EETH, ERTH, PETH
from mrc.layers.icrc import ICRC, Pad
from mrc.layers.request import DETH, IETH, METH, RETH, TSETH, AtomicETH, ImmDt

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
    "TSETH",
    "AtomicAckETH",
    "AtomicETH",
    "ImmDt",
    "Pad",
]
