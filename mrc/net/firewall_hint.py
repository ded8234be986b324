# SPDX-License-Identifier: BSD-2-Clause
"""What may keep every packet of a peer away though its parameters came through, in words for people."""

from __future__ import annotations

from mrc.fabric.host_view import Fabric
from mrc.net.negotiation import NodeDescription

_PAIRS_NAMED = 4


def perhaps_blocked(fabric: Fabric, udp_port: int, peer: NodeDescription) -> str:
    """What a firewall would have to let through between `fabric`'s host and `peer`, where, and how to check.

    `udp_port` is the one this end sends to.
    """
    theirs = {port.plane: port.address for port in peer.ports}
    pairs = [f"{port.address} and {theirs[port.plane]}" for port in fabric.ports if port.plane in theirs]
    where = " or ".join(pairs[:_PAIRS_NAMED]) + (" or on other planes" if len(pairs) > _PAIRS_NAMED else "")
    what, shown = _carried(fabric.mode, udp_port)
    return (
        f"{what} is perhaps blocked by a firewall between {where}, in one direction or in both: "
        f"let it in at both ends; `tcpdump -ni any {shown}` at the peer shows whether packets arrive there"
    )


def _carried(mode: str, udp_port: int) -> tuple[str, str]:
    """What carries packets in a fabric's mode, and the filter that shows them."""
    if mode == "srv6":
        return "IPv6 next header 41 (an IPv6 packet inside of another)", "ip6 proto 41"
    if mode == "srv6-srh":
        return "IPv6 next header 43 (segment routing), behind it 41,", "ip6 proto 43"
    return f"UDP port {udp_port}", f"udp port {udp_port}"
