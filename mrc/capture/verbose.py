# SPDX-License-Identifier: BSD-2-Clause
"""A packet in full, as Scapy's `show` prints it: every field of every layer, one a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Ether, Loopback
from scapy.layers.ppp import HDLC, PPP, PPPoE
from scapy.packet import Packet, Raw

from mrc.capture.carriers import LINK_TYPES
from mrc.capture.frames import Record
from mrc.capture.transport import icrc_ok
from mrc.capture.walked import Walked
from mrc.layers.bind import bound_to_udp
from mrc.wire.profile import WireProfile

# By the first header's name in mrc.capture.carriers.
_FIRST_LAYER = {
    "ether": Ether,
    "sll": CookedLinux,
    "sll2": CookedLinuxV2,
    "null": Loopback,
    "ppp": PPP,
    "pppoe": PPPoE,
    "ip": IPv6,
}
_TUNNELS = ("scapy.layers.vxlan", "scapy.contrib.erspan", "scapy.contrib.geneve", "scapy.contrib.mpls")


@contextmanager
def layers_follow(profile: WireProfile) -> Iterator[None]:
    """Has the Scapy layers dissect by `profile` inside the block, tunnels too."""
    for module in _TUNNELS:
        import_module(module)  # binds its layers to those below
    with bound_to_udp(profile):
        yield


def as_scapy(record: Record) -> Packet:
    """The packet as Scapy layers, from its link layer on; Raw where the link type is not known."""
    first = _FIRST_LAYER.get(LINK_TYPES.get(record.link_type, ""), Raw)
    if first is IPv6 and record.data[:1] and record.data[0] >> 4 == 4:
        first = IP
    elif first is PPP and record.data[:2] == b"\xff\x03":
        first = HDLC
    return first(record.data)


def shown_in_full(record: Record, walked: Walked, profile: WireProfile) -> str:
    """Every field of every layer, then the verdict on the packet. Ends in a line break.

    Call it inside `layers_follow(profile)`.
    """
    try:
        text = str(as_scapy(record).show(dump=True))
    except Exception as error:
        # Scapy's own layers, of which a capture may hold any, do raise at damaged bytes.
        text = f"Scapy cannot show this packet ({type(error).__name__}), its bytes are:\n{record.data.hex(' ', -4)}\n"
    verdict = {True: "right", False: "wrong", None: "none to check"}[icrc_ok(walked, profile)]
    text += f"ICRC: {verdict}\n"
    if walked.trimmed:
        text += "trimmed\n"
    if walked.malformed:
        text += f"malformed: {walked.malformed}\n"
    return text
