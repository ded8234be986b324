# SPDX-License-Identifier: BSD-2-Clause
"""What many packets have alike: a template for those that go one way."""

from __future__ import annotations

from mrc.wire.headers import HEADERS
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import EXTENSION_AT, P_KEY, header_at

_UDP, _HOP_LIMIT = 17, 64
# Alike in all of them.
_FIXED = int.from_bytes(
    HEADERS["ipv6"].pack({"version": 6, "nh": _UDP, "hlim": _HOP_LIMIT})
    + HEADERS["udp"].pack({})
    + HEADERS["bth"].pack({"pkey": P_KEY}),
    "big",
)


def _shift(header: str, field: str) -> int:
    """How far a field lies from the end of the 60 bytes, in bits."""
    layout = HEADERS[header]
    return layout.field(field).shift + 8 * (EXTENSION_AT - header_at(header) - layout.length)


_LABEL, _SOURCE, _DESTINATION = (_shift("ipv6", field) for field in ("fl", "src", "dst"))
_SOURCE_PORT, _DESTINATION_PORT = (_shift("udp", field) for field in ("sport", "dport"))


def packet_template(
    source: int, destination: int, source_port: int, flow_label: int, profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> bytes:
    """The first 60 bytes every packet from `source` to `destination` on one EV shares.

    Both are 128-bit numbers, IPv4-mapped ones for IPv4 (then without a flow label). The traffic class is 0 and the
    lengths are left open; P_Key is the default one, all other BTH fields 0.
    """
    addresses = source << _SOURCE | destination << _DESTINATION
    ports = source_port << _SOURCE_PORT | profile.udp_port << _DESTINATION_PORT
    return (_FIXED | flow_label << _LABEL | addresses | ports).to_bytes(EXTENSION_AT, "big")
