"""What many packets have alike: a template for those that go one way."""

from __future__ import annotations

import struct

from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import EXTENSION_AT, P_KEY

# ip_word, two lengths' room, next header, hop limit; two addresses; UDP ports; length and checksum, opcode and flags;
# P_Key.
_START = struct.Struct(">IxxBB16s16sHH4x2xH")
_UDP, _HOP_LIMIT = 17, 64


def packet_template(
    source: int, destination: int, source_port: int, flow_label: int, profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> bytes:
    """The first 60 bytes every packet from `source` to `destination` on one EV shares.

    Both are 128-bit numbers, IPv4-mapped ones for IPv4 (then without a flow label). The traffic class is 0 and the
    lengths are left open; P_Key is the default one, all other BTH fields 0.
    """
    start = _START.pack(
        6 << 28 | flow_label,
        _UDP,
        _HOP_LIMIT,
        source.to_bytes(16, "big"),
        destination.to_bytes(16, "big"),
        source_port,
        profile.udp_port,
        P_KEY,
    )
    return start.ljust(EXTENSION_AT, b"\0")
