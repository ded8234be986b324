# SPDX-License-Identifier: BSD-2-Clause
"""Marks on packets before they are routed, through nftables: how a stev leaf reads its field of the EV."""

from __future__ import annotations

import socket
import struct

from mrc.lab import nftables
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.nftables import Expression
from mrc.lab.plan import Marking

_TABLE = "mrc-stev"
_UDP_DESTINATION_PORT = 2  # where in the UDP header


def install(marking: Marking) -> None:
    """Mark packets in the calling thread's namespace from now on as `marking` says. Raises SystemRefused."""
    rules = [_rule(port, marking) for port in marking.udp_ports]
    netlink = NetlinkSocket(nftables.NETLINK_NETFILTER)
    try:
        nftables.replace_table(netlink, _TABLE, nftables.FAMILY_IPV6, nftables.PRIORITY_MANGLE, rules)
    finally:
        netlink.close()


def _rule(udp_port: int, marking: Marking) -> list[Expression]:
    """`udp dport PORT meta mark set (first word of the IPv6 header & MASK) ^ TAG`."""
    return [
        nftables.load_meta(nftables.META_L4PROTO),
        nftables.compare(nftables.COMPARE_EQUAL, bytes([socket.IPPROTO_UDP])),
        nftables.load_bytes(nftables.TRANSPORT_HEADER, _UDP_DESTINATION_PORT, 2),
        nftables.compare(nftables.COMPARE_EQUAL, struct.pack("!H", udp_port)),
        nftables.load_bytes(nftables.NETWORK_HEADER, 0, 4),
        nftables.swap_order(nftables.TO_HOST_ORDER),
        nftables.mask_and_flip(struct.pack("=I", marking.mask), struct.pack("=I", marking.tag)),
        nftables.set_meta(nftables.META_MARK),
    ]
