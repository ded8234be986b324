# SPDX-License-Identifier: BSD-2-Clause
"""Vectors as Scapy packets and back."""

from __future__ import annotations

from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.packet import Packet, Raw
from vector_forms import Layers, Vector

from mrc.layers.base import HEADERS
from mrc.layers.bth import BTH

CLASSES: dict[str, type[Packet]] = {
    "bth": BTH,
    "ipv4": IP,
    "ipv6": IPv6,
    "udp": UDP,
    "srh": IPv6ExtHdrSegmentRouting,
    **HEADERS,
}
# Names of section 13 that Scapy spells otherwise in its own headers.
RENAMED = {"segments": "addresses"}


def crafted(layers: Layers, without: tuple[str, ...] = ()) -> Packet:
    """The stack of `layers`; fields named in `without` ("bth.pad") are left to be worked out."""
    stack = None
    for layer in layers:
        fields: dict[str, Any] = {
            RENAMED.get(name, name): value
            for name, value in layer["fields"].items()
            if f"{layer['layer']}.{name}" not in without
        }
        if layer["layer"] == "srh":
            fields.pop("flags")
        if layer["layer"] == "ipv4":
            fields["flags"] = "DF"
        header = CLASSES[layer["layer"]](**fields)
        stack = header if stack is None else stack / header
    assert stack is not None
    return stack


def with_payload(packet: Packet, vector: Vector) -> Packet:
    return packet / Raw(vector.payload) if vector.payload else packet


def check_fields(packet: Packet, layers: Layers) -> None:
    """Every field of every layer, and the layers in this order."""
    layer: Any = packet
    for expected in layers:
        assert type(layer) is CLASSES[expected["layer"]], f"{expected['layer']} expected, {layer!r}"
        for name, value in expected["fields"].items():
            if expected["layer"] == "srh" and name == "flags":
                continue
            assert layer.getfieldval(RENAMED.get(name, name)) == value, f"{expected['layer']}.{name}"
        layer = layer.payload
