"""What many packets have alike: a template for those that go one way, and the words every MRC packet has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import COMMON, EXTENSION_AT, HEADER_ROOM, P_KEY, TVER_MASK, U8

_FIXED_WORDS = 7


def packet_template(
    source: int, destination: int, source_port: int, flow_label: int, profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> U8:
    """The first 60 bytes every packet from `source` to `destination` on one EV shares.

    Both are 128-bit numbers, IPv4-mapped ones for IPv4 (then without a flow label). The traffic class is 0 and the
    lengths are left open; P_Key is the default one, all other BTH fields 0.
    """
    template = np.zeros(HEADER_ROOM, np.uint8)
    fields = template.view(COMMON)
    low = (1 << 64) - 1
    fields["ip_word"] = 6 << 28 | flow_label
    fields["ip_nh"] = 17
    fields["ip_hlim"] = 64
    fields["src_high"], fields["src_low"] = source >> 64, source & low
    fields["dst_high"], fields["dst_low"] = destination >> 64, destination & low
    fields["udp_sport"] = source_port
    fields["udp_dport"] = profile.udp_port
    fields["pkey"] = P_KEY
    return template[:EXTENSION_AT]


def fixed_words(
    profile: WireProfile = DEFAULT_WIRE_PROFILE,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """(value, mask) of the first 56 bytes as 7 words: the fields every MRC packet has alike.

    Those are the IP version, next header UDP, the UDP destination port, TVer 0 and P_Key 0xFFFF.
    """
    values, masks = np.zeros(HEADER_ROOM, np.uint8).view(COMMON), np.zeros(HEADER_ROOM, np.uint8).view(COMMON)
    for name, value, mask in (
        ("ip_word", 6 << 28, 0xF << 28),
        ("ip_nh", 17, 0xFF),
        ("udp_dport", profile.udp_port, 0xFFFF),
        ("flags", 0, TVER_MASK),
        ("pkey", P_KEY, 0xFFFF),
    ):
        values[name], masks[name] = value, mask
    return values.view(np.uint64)[:_FIXED_WORDS].copy(), masks.view(np.uint64)[:_FIXED_WORDS].copy()
