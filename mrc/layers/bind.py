"""Where the layers sit on each other and on UDP, and the switches of WireProfile that change what they look like."""

from __future__ import annotations

from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_top_down

from mrc.layers.base import ActiveProfile
from mrc.layers.bth import BTH, bth_fields
from mrc.layers.control import CC_STATE, NETH, SETH
from mrc.layers.endpoint_operations import EETH, eeth_fields
from mrc.layers.pairing import pair_by_transport
from mrc.wire.profile import WireProfile

# Source port of a packet without an EV: the first that hosts choose from. Scapy's own default is DNS.
_SOURCE_PORT = 0xC000


def bind_udp(profile: WireProfile) -> None:
    """Puts the BTH first in UDP's list, before any other claim to these ports or to the source ports that carry EVs.

    Scapy takes the first match; scapy.contrib.roce appends its claim whenever it is imported, so it never comes first.
    """
    others = [(fields, layer) for fields, layer in UDP.payload_guess if layer is not BTH]
    UDP.payload_guess = [({"dport": port}, BTH) for port in profile.accepted_udp_ports] + others
    defaults = {"sport": _SOURCE_PORT, "dport": profile.udp_port}
    if profile.udp_checksum_zero:
        defaults["chksum"] = 0
    bind_top_down(UDP, BTH, **defaults)


def _replace_fields(layer: type[Packet], fields: list[object]) -> None:
    layer.fields_desc = fields
    # Scapy keeps what it derived from fields_desc by class.
    for cache in (
        Packet.class_packetfields,
        Packet.class_default_fields,
        Packet.class_default_fields_ref,
        Packet.class_fieldtype,
    ):
        cache.pop(layer, None)


def use_wire_profile(profile: WireProfile) -> None:
    """Has the layers build and dissect by `profile` from now on: for the whole process, as everything in Scapy.

    Switches: udp_port, accepted_udp_ports, udp_checksum_zero, solicited_event_first, eeth_op_shift, neth_cc_type,
    icrc_covers_outer and the TRIMMED codepoints. Packets made before keep their old fields.
    """
    ActiveProfile.profile = profile
    _replace_fields(BTH, bth_fields(profile.solicited_event_first))
    _replace_fields(EETH, eeth_fields(profile.eeth_op_shift))
    for field in NETH.fields_desc:
        if field.name == "cc_type":
            field.default = profile.neth_cc_type
    _replace_fields(NETH, NETH.fields_desc)
    bind_udp(profile)


bind_top_down(SETH, CC_STATE)
pair_by_transport(BTH)
bind_udp(ActiveProfile.profile)
