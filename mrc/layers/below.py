# SPDX-License-Identifier: GPL-2.0-only
"""What an MRC packet travels in: the headers below its BTH, from an entropy value (wire.md sections 10 and 11)."""

from __future__ import annotations

import ipaddress

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.packet import Packet

from mrc.errors import CallerError
from mrc.layers.base import ActiveProfile
from mrc.wire.address_template import AddressTemplate
from mrc.wire.entropy import ev_to_fields
from mrc.wire.usid import UsidTemplate, address_text, container, path_of_ev


def in_udp(ev: int, src: str, dst: str) -> Packet:
    """IP and UDP with an EV of 32 bits (16 over IPv4) in source port and flow label: UDP and STEV modes.

        in_udp(0xC001, src="fd00::1", dst="fd00::2") / BTH(dqp=0x12, psn=7) / METH() / RETH(va=0x1000) / b"hello"

    Raises CallerError for an EV too wide and for addresses that are none or of two families.

    >>> from mrc.layers import BTH, METH, RETH
    >>> packet = in_udp(0xC001, "fd00::1", "fd00::2") / BTH(dqp=0x12, psn=7) / METH(msn=1) / RETH(va=0x1000) / b"hello"
    >>> packet[BTH].mysummary()[0]
    'RDMA WRITE Only QP=0x000012 PSN=7 MSN=1 VA=0x1000 Len=5'
    """
    try:
        families = {ipaddress.ip_address(address).version for address in (src, dst)}
    except ValueError as error:
        raise CallerError(str(error)) from None
    if len(families) != 1:
        raise CallerError(f"{src} and {dst} are of two families")
    bits = 16 if families == {4} else 32
    if not 0 <= ev < 1 << bits:
        raise CallerError(f"ev must be 0..{(1 << bits) - 1:#x} over IPv{families.pop()}, got {ev:#x}")
    if bits == 16:
        # Only the source port travels; the EV is in it under either order of halves.
        return IP(src=src, dst=dst) / UDP(sport=ev)
    source_port, flow_label = ev_to_fields(ev, ActiveProfile.profile)
    return IPv6(fl=flow_label, src=src, dst=dst) / UDP(sport=source_port)


def in_srv6(
    ev: int,
    src: str,
    dst: str,
    *,
    source_leaf: int = 0,
    destination_leaf: int = 1,
    destination_host: int = 1,
    block: int = 0x5F000000,
    srh: bool = False,
    template: AddressTemplate | None = None,
) -> Packet:
    """Headers of SRV6 mode: an outer IPv6 header whose destination spells the path of the EV, then those of `in_udp`.

        in_srv6(0x01000003, src="fd00::1", dst="fd00::2") / BTH(dqp=0x12) / PETH(probe_id=1)

    The defaults lead from host 0 on leaf 0 to host 1 on leaf 1, as in the default lab. With `srh` the destination's own
    uSID goes into a segment routing header behind it (H.Encaps.Red, two containers). A `template` takes the place of
    the plan: it says where the bits of the EV go; leaf, host and block play no part. Raises CallerError for an EV that
    is not of the plan plane(8) zero(8) uplink(16), for numbers outside the uSID plan, and for a template with `srh`.
    """
    inner = in_udp(ev, src, dst)
    if not isinstance(inner, IPv6):
        raise CallerError(f"SRV6 mode needs IPv6 inside, not {src}")
    if template is not None:
        if srh:
            raise CallerError("a template gives one address: there is no second container for an SRH")
        return IPv6(src=src, dst=address_text(template.address_of(ev))) / inner
    outer = usid_destination(
        *path_of_ev(ev),
        source_leaf=source_leaf,
        destination_leaf=destination_leaf,
        destination_host=destination_host,
        block=block,
        containers=2 if srh else 1,
    )
    header = IPv6(src=src, dst=outer[0])
    if srh:
        header /= IPv6ExtHdrSegmentRouting(segleft=1, addresses=[outer[1]])
    return header / inner


def usid_destination(
    plane: int,
    uplink: int,
    *,
    source_leaf: int = 0,
    destination_leaf: int = 1,
    destination_host: int = 1,
    block: int = 0x5F000000,
    containers: int = 1,
) -> tuple[str, ...]:
    """The uSID container of one path as text; with `containers` 2 a second one that holds the last uSID.

        >>> usid_destination(1, 3)
        ('5f00:0:1100:2103:1101:4101::',)

    Raises CallerError for numbers outside the uSID plan.

    >>> usid_destination(plane=0, uplink=3)
    ('5f00:0:1000:2003:1001:4001::',)
    """
    usids = UsidTemplate(source_leaf, destination_leaf, destination_host, block).usids(plane, uplink)
    parts = (usids,) if containers == 1 else (usids[:-1], usids[-1:])
    return tuple(address_text(container(block, part)) for part in parts)
