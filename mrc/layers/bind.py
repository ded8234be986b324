# SPDX-License-Identifier: GPL-2.0-only
"""Where the layers sit on each other and, if asked, on UDP; and the switches of WireProfile that change their looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


class _Pairing:
    """Whether UDP and IPv6 have been taught to compare packets by their BTH, which is done once."""

    taught = False


def is_bound() -> bool:
    """Whether Scapy dissects what goes to the UDP ports of MRC with these layers."""
    return any(layer is BTH for _, layer in UDP.payload_guess)


def bind_to_udp(profile: WireProfile | None = None) -> None:
    """Have Scapy dissect UDP ports 4791 and 4971 with these layers from now on, and pair questions with their answers.

    For the whole process, as everything in Scapy; scapy.contrib.roce no longer gets a packet. With a profile, as
    `use_wire_profile`. `unbind_from_udp` takes it back.
    """
    if profile is not None:
        ActiveProfile.profile = profile
        _lay_out(profile)
    if not _Pairing.taught:
        pair_by_transport(BTH)
        _Pairing.taught = True
    # First in UDP's list, before any other claim to these ports or to the source ports that carry EVs: Scapy takes the
    # first match, and scapy.contrib.roce appends its claim whenever it is imported.
    unbind_from_udp()
    claims = [({"dport": port}, BTH) for port in ActiveProfile.profile.accepted_udp_ports]
    UDP.payload_guess = claims + UDP.payload_guess


def unbind_from_udp() -> None:
    """Give the UDP ports back, to scapy.contrib.roce for one. Packets are built as before."""
    UDP.payload_guess = [(fields, layer) for fields, layer in UDP.payload_guess if layer is not BTH]


@contextmanager
def bound_to_udp(profile: WireProfile | None = None) -> Iterator[None]:
    """Dissect with these layers inside the block, by `profile` if given; then all is as it was before.

    >>> from scapy.layers.inet6 import IPv6
    >>> from mrc.layers import BTH, PETH, bound_to_udp, in_udp
    >>> data = bytes(in_udp(3, "fd00::1", "fd00::2") / BTH() / PETH(probe_id=7))
    >>> with bound_to_udp():
    ...     print(IPv6(data)[PETH].probe_id)
    7
    """
    bound, before = is_bound(), ActiveProfile.profile
    bind_to_udp(profile)
    try:
        yield
    finally:
        if profile is not None:
            ActiveProfile.profile = before
            _lay_out(before)
        if bound:
            bind_to_udp()
        else:
            unbind_from_udp()


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


def _lay_out(profile: WireProfile) -> None:
    """Give the layers the fields and defaults of a profile."""
    _replace_fields(BTH, bth_fields(profile.solicited_event_first))
    _replace_fields(EETH, eeth_fields(profile.eeth_op_shift))
    for field in NETH.fields_desc:
        if field.name == "cc_type":
            field.default = profile.neth_cc_type
    _replace_fields(NETH, NETH.fields_desc)
    defaults = {"sport": _SOURCE_PORT, "dport": profile.udp_port}
    if profile.udp_checksum_zero:
        defaults["chksum"] = 0
    bind_top_down(UDP, BTH, **defaults)


def use_wire_profile(profile: WireProfile) -> None:
    """Have the layers build and dissect by `profile` from now on: for the whole process, as everything in Scapy.

    Switches: udp_port, accepted_udp_ports, udp_checksum_zero, solicited_event_first, eeth_op_shift, neth_cc_type,
    icrc_covers_outer and the TRIMMED codepoints. Packets made before keep their old fields. Layers that are not bound
    to UDP stay so.
    """
    ActiveProfile.profile = profile
    _lay_out(profile)
    if is_bound():
        bind_to_udp()


bind_top_down(SETH, CC_STATE)
_lay_out(ActiveProfile.profile)
