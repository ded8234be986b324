"""What many packets have alike: a template for those that go one way."""

from __future__ import annotations

import numpy as np

from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import COMMON, EXTENSION_AT, HEADER_ROOM, P_KEY, U8


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
