# SPDX-License-Identifier: GPL-2.0-only
"""The traffic class that the IP headers below a BTH carry when nobody gave them one (wire.md section 12)."""

from __future__ import annotations

from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, _IPv6ExtHdr
from scapy.packet import Packet

from mrc.layers.base import ActiveProfile
from mrc.wire.opcodes import OPCODES, Op

_ECT0 = 0b10


def traffic_class(opcode: int, rtx: int) -> int | None:
    """DSCP and ECN as one byte: data and probes ECT(0), control not ECN-capable; None for standard opcodes.

    An endpoint request takes the class its caller names; here, as in the endpoint, that of control.
    """
    known = OPCODES.get(opcode)
    if known is None or not known.is_mrc:
        return None
    profile = ActiveProfile.profile
    if known.is_request:
        return (profile.dscp_trimmable_retx if rtx else profile.dscp_trimmable) << 2 | _ECT0
    if opcode == Op.PROBE:
        return profile.dscp_trimmable << 2 | _ECT0
    return profile.dscp_control << 2


class _HandedDown(dict[type[Packet], dict[str, Any]]):
    """What `layer` gives the layer below it for fields that are not set there, the traffic class among it.

    Scapy looks this up once whenever two layers join, and builds a packet by joining copies of its layers from
    the innermost down. So an IP header that takes its class from here gets such a table too, for the one below it.
    """

    def __init__(self, layer: Packet, value: int) -> None:
        super().__init__(layer._overload_fields)
        self._layer, self._value = layer, value

    def __getitem__(self, lower: type[Packet]) -> dict[str, Any]:
        fields = super().__getitem__(lower)
        below = self._layer.underlayer
        if not isinstance(below, IP | IPv6 | _IPv6ExtHdr):
            return fields
        below.overload_fields = _HandedDown(below, self._value)
        name = _field_of(below)
        return fields if name is None else fields | {name: self._value}


def _field_of(layer: Packet) -> str | None:
    if isinstance(layer, IP):
        return "tos"
    return "tc" if isinstance(layer, IPv6) else None


def give_traffic_class(bth: Packet) -> None:
    """Have the IP headers below `bth`, and those put below it later, take the class of its opcode and rtx bit.

    What was set in a header stays.
    """
    layer = bth.underlayer
    if not isinstance(layer, UDP):
        return
    value = traffic_class(bth.opcode, bth.rtx)
    while isinstance(layer, UDP | IP | IPv6 | _IPv6ExtHdr):
        layer.overload_fields = layer._overload_fields if value is None else _HandedDown(layer, value)
        name = _field_of(layer)
        if name is not None:
            kept = {field: given for field, given in layer.overloaded_fields.items() if field != name}
            layer.overloaded_fields = kept if value is None else kept | {name: value}
        layer = layer.underlayer
