# SPDX-License-Identifier: BSD-2-Clause
"""Where a packet comes from, where it goes, and on which path."""

from __future__ import annotations

from mrc.capture.names import container_names
from mrc.capture.texts import ipv4_text, ipv6_text, segments
from mrc.capture.walked import Walked
from mrc.wire.entropy import fields_to_ev
from mrc.wire.opcodes import FIRST_MRC_OPCODE
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

# Source, destination and path.
Ends = tuple[str, str, str]
NO_PATH = "-"


def ends_of(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> Ends:
    """The innermost addresses of a packet and its path, "-" where there is none.

    Of RoCEv1 the GIDs; without any the MAC addresses.
    """
    data, ip = walked.data, walked.ip
    if not ip:
        for name, at in reversed(walked.layers):
            if name == "ether":
                return data[at + 6 : at + 12].hex(":"), data[at : at + 6].hex(":"), NO_PATH
        return "-", "-", NO_PATH
    last, path = ip[-1], path_of(walked, profile) or NO_PATH
    if data[last] >> 4 == 4:
        return ipv4_text(data[last + 12 : last + 16]), ipv4_text(data[last + 16 : last + 20]), path
    return ipv6_text(data[last + 8 : last + 24]), ipv6_text(data[last + 24 : last + 40]), path


def path_of(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> str | None:
    """The path of a packet in words; None for one that has none.

    The uSIDs still in the outer destination (and in the segments that follow), by the names of our plan; the outer
    destination itself where it is no uSID container; without an outer header the EV of an MRC packet.
    """
    data = walked.data
    if not walked.ip:
        return None
    first = walked.ip[0]
    routing = [at for name, at in walked.layers if name == "srh" and at > first]
    if len(walked.ip) == 1 and not routing:
        ev = ev_of(walked, profile)
        return None if ev is None else f"EV=0x{ev:08x}"
    if data[first] >> 4 == 4:
        return ipv4_text(data[first + 16 : first + 20])
    names: list[str] = []
    for address in (data[first + 24 : first + 40], *_segments_left(data, routing[:1])):
        known = container_names(address)
        names += [ipv6_text(address)] if known is None else known
    return ">".join(names)


def ev_of(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> int | None:
    """The EV that an MRC packet travels on, from the UDP source port and the innermost flow label (0 over IPv4); None
    for any other packet."""
    data, bth = walked.data, walked.transport_index
    if bth is None or bth >= len(walked.layers) or walked.udp_at is None:
        return None
    if data[walked.layers[bth][1]] < FIRST_MRC_OPCODE:
        return None
    ip, udp = walked.ip[-1], walked.udp_at
    label = 0 if data[ip] >> 4 == 4 else data[ip + 2] << 8 | data[ip + 3]
    return fields_to_ev(data[udp] << 8 | data[udp + 1], label, profile)


def _segments_left(data: bytes, routing: list[int]) -> list[bytes]:
    """The segments still to be visited, next one first."""
    found: list[bytes] = []
    for at in routing:
        count = min(data[at + 3], len(segments(data, at)))
        found += [data[at + 8 + 16 * index : at + 24 + 16 * index] for index in range(count - 1, -1, -1)]
    return found
