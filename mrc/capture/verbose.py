"""A packet in full, as Scapy's `show` prints it: every field of every layer, one a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Ether
from scapy.packet import Packet, Raw

import mrc.layers  # noqa: F401 - binds the MRC layers to their UDP ports
from mrc.capture.frames import Record
from mrc.capture.transport import icrc_ok
from mrc.capture.walk import ETHERNET, LINUX_SLL, LINUX_SLL2, RAW_IP
from mrc.capture.walked import Walked
from mrc.layers.base import ActiveProfile
from mrc.layers.bind import use_wire_profile
from mrc.wire.profile import WireProfile

_FIRST_LAYER = {ETHERNET: Ether, LINUX_SLL: CookedLinux, LINUX_SLL2: CookedLinuxV2}


@contextmanager
def layers_follow(profile: WireProfile) -> Iterator[None]:
    """Has the Scapy layers dissect by `profile` inside the block; they have one profile for the whole process."""
    before = ActiveProfile.profile
    use_wire_profile(profile)
    try:
        yield
    finally:
        use_wire_profile(before)


def as_scapy(record: Record) -> Packet:
    """The packet as Scapy layers, from its link layer on; Raw where the link type is not known."""
    first = _FIRST_LAYER.get(record.link_type, Raw)
    if record.link_type in RAW_IP and record.data:
        first = IP if record.data[0] >> 4 == 4 else IPv6
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
