# SPDX-License-Identifier: BSD-2-Clause
"""What the tester makes of a frame of the target's: a packet, and whether an honest peer would have taken it."""

from __future__ import annotations

from collections.abc import Sequence

from mrc.conformance.codec.carriage import Carriage, parsed_address, read_carriage
from mrc.conformance.codec.headers import MRC, P_KEY, OpcodeTable
from mrc.conformance.codec.icrc import ICRC_LENGTH, UDP_LENGTH, icrc
from mrc.conformance.codec.transport import Transport, read_transport
from mrc.conformance.packets import Heard
from mrc.conformance.setup import Plane
from mrc.conformance.target import Frame
from mrc.wire.profile import WireProfile


def heard(frame: Frame, at: int, planes: Sequence[Plane], profile: WireProfile, table: OpcodeTable = MRC) -> Heard:
    """Read a frame that came in `at` ns. What an honest peer drops has its reason in `fault`."""
    found = read_carriage(frame.data)
    if isinstance(found, str):
        return Heard(at, frame.plane, frame.data, Carriage(0, 0), {}, b"", b"", None, profile, 0, fault=found)
    transport = read_transport(frame.data[found.transport_at :], profile, table)
    packet = Heard(
        at,
        frame.plane,
        frame.data,
        found.carriage,
        transport.layers,
        transport.payload,
        transport.padding,
        transport.icrc,
        profile,
        0,
    )
    size = len(frame.data) - found.inner_at
    computed = icrc(frame.data[found.inner_at : -ICRC_LENGTH]) if transport.icrc is not None else None
    plane = next((each for each in planes if each.number == frame.plane), None)
    packet.fault = _fault(found.carriage, transport, size, computed, plane, profile)
    return packet


def _fault(
    carriage: Carriage,
    transport: Transport,
    size: int,
    computed: int | None,
    plane: Plane | None,
    profile: WireProfile,
) -> str:
    if plane is None:
        return "it came in on a plane the tester is not on"
    if (carriage.src, carriage.dst) != (parsed_address(plane.target)[1], parsed_address(plane.tester)[1]):
        return f"its addresses are not those of the two ends in plane {plane.number}"
    header = 40 if carriage.version == 6 else 20
    if carriage.ip_length != size - (40 if carriage.version == 6 else 0):
        return f"its IP length says {carriage.ip_length}"
    if carriage.udp_length != size - header or size < header + UDP_LENGTH:
        return f"its UDP length says {carriage.udp_length}"
    if carriage.dport not in profile.accepted_udp_ports:
        return f"it goes to UDP port {carriage.dport}"
    if transport.icrc is None:
        return transport.wrong
    if transport.icrc != computed:
        return f"its ICRC is {transport.icrc:#010x} where {computed:#010x} is right"
    bth = transport.layers["bth"]
    if bth["tver"]:
        return f"its TVer is {bth['tver']}"
    if bth["pkey"] != P_KEY:
        return f"its P_Key is {bth['pkey']:#06x}"
    return transport.wrong
