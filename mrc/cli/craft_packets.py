# SPDX-License-Identifier: BSD-2-Clause
"""The packets of `mrc craft`, built with the Scapy layers: whatever no field names is worked out there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from mrc.cli.craft_fields import CraftRequest
from mrc.errors import CallerError
from mrc.fabric.address import address
from mrc.layers import BTH, ICRC, in_srv6, in_udp, segmented, with_hmac
from mrc.layers.base import HEADERS
from mrc.wire.address_template import AddressTemplate
from mrc.wire.opcodes import ICRC_LENGTH, Op
from mrc.wire.profile import WireProfile
from mrc.wire.trimming import trim
from mrc.wire.usid import path_of_ev

_SCAPY_NAMES = {"srh.segments": "addresses", "vlan.vid": "vlan", "vlan.pcp": "prio"}
# Bits of the SRH's flags as Scapy cuts them, the highest first.
_SRH_FLAGS = (("unused1", 7, 1), ("protected", 6, 1), ("oam", 5, 1), ("alert", 4, 1), ("hmac", 3, 1), ("unused2", 0, 7))
_MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
_ETHER_LENGTH = 14
_LARGEST_PAYLOAD = 65_000
# What counts on from one packet to the next, by opcode; requests are counted by their own rule.
_COUNTED = {
    Op.SACK: ("seth", "cack_psn"),
    Op.NACK: ("neth", "nack_psn"),
    Op.PROBE: ("peth", "probe_id"),
}


@dataclass(frozen=True, slots=True)
class CraftOptions:
    """`count` packets, or as many as the words ask for; `pmtu` in bytes; `no_icrc` leaves the ICRC off; `trim` is None,
    "fabric" or "lasthop", `trim_to` what is kept then, in bytes of the frame; without `ether` a packet begins with its
    outermost IP header. `template` says where in the outer destination the bits of an EV go, in srv6 mode.
    """

    count: int | None = None
    pmtu: int = 4096
    no_icrc: bool = False
    trim: str | None = None
    ether: bool = True
    trim_to: int | None = None
    template: AddressTemplate | None = None


def crafted(request: CraftRequest, options: CraftOptions, profile: WireProfile) -> Iterator[bytes]:
    """The bytes of each packet asked for. The layers have to follow `profile` already.

    Raises CallerError for what no packet can be made of.
    """
    evs = request.values.get("ev", [0 if request.mode.startswith("srv6") else 0xC000])
    for number, transport in enumerate(_transports(request, options)):
        below = _below(request, evs[number % len(evs)], options.template)
        yield _finished(request, options, profile, below / transport)


def _transports(request: CraftRequest, options: CraftOptions) -> Iterator[Packet]:
    """Each packet from its BTH on."""
    opcode = request.opcode
    payload = request.values.get("payload")
    if request.message:
        if payload is not None and options.count is not None:
            raise CallerError("the payload says how many packets the message takes: leave --count or the payload out")
        if payload is None:
            payload = _counting((options.count or 1) * options.pmtu)
        yield from segmented(_stack(request) / Raw(payload), options.pmtu)
        return
    if payload is None:
        payload = _counting(options.pmtu) if opcode.full_payload else b"\0" * (opcode.value == Op.WRITE_LAST)
    if len(payload) > _LARGEST_PAYLOAD:
        raise CallerError(f"{len(payload)} bytes do not fit into one packet: `mrc craft write` cuts them into several")
    packet = _stack(request)
    if payload:
        packet /= Raw(payload)
    for number in range(options.count or 1):
        yield _counted_on(request, packet, number, len(payload))


def _counting(length: int) -> bytes:
    return (bytes(range(256)) * (length // 256 + 1))[:length]


def _stack(request: CraftRequest) -> Packet:
    """The BTH and the headers after it, a TSETH only when something is said about it."""
    packet = _layer(BTH, "bth", request)
    if "opcode" not in packet.fields:
        packet.opcode = request.opcode.value
    for name in request.opcode.headers:
        if name != "tseth" or request.of("tseth") or request.values.get("bth.ts"):
            packet /= _layer(HEADERS[name], name, request)
    return packet


def _layer(kind: type[Packet], name: str, request: CraftRequest) -> Packet:
    return kind(**_fields(kind, name, request))


def _fields(kind: type[Packet], name: str, request: CraftRequest) -> dict[str, Any]:
    """What was said about the layer `name`, as Scapy calls it in `kind`."""
    fields: dict[str, Any] = {}
    for short, value in request.of(name).items():
        if name == "srh" and short == "flags":
            fields |= {bit: value >> shift & mask for bit, shift, mask in _SRH_FLAGS}
            continue
        scapy_name = _SCAPY_NAMES.get(f"{name}.{short}", short)
        width = next((f for f in kind.fields_desc if f.name == scapy_name and hasattr(f, "length_from")), None)
        # The long reserved fields of an EETH are bytes in Scapy.
        is_bytes = isinstance(value, int) and width is not None
        fields[scapy_name] = value.to_bytes(len(width.default), "big") if is_bytes and width else value
    return fields


def _counted_on(request: CraftRequest, packet: Packet, number: int, length: int) -> Packet:
    """Packet `number` of a row: a message of its own where the opcode is a whole one, else the next of its message."""
    packet = packet.copy()
    opcode = request.opcode
    counted = _COUNTED.get(Op(opcode.value)) if opcode.is_mrc else None
    if counted is not None:
        header = packet[HEADERS[counted[0]]]
        bits = 16 if counted[1] == "probe_id" else 24
        value = getattr(header, counted[1]) + number
        setattr(header, counted[1], value % (1 << bits))
        return packet
    bth = packet[BTH]
    bth.psn = (bth.psn + number) % (1 << 24)
    if opcode.is_request:
        reth, meth = packet[HEADERS["reth"]], packet[HEADERS["meth"]]
        reth.va = (reth.va + number * length) % (1 << 64)
        if opcode.starts and opcode.ends:
            meth.msn = (meth.msn + number) % (1 << 16)
            if "immdt" in opcode.headers:
                meth.rqmsn = (meth.rqmsn + number) % (1 << 16)
    return packet


def _below(request: CraftRequest, ev: int, template: AddressTemplate | None) -> Packet:
    """Everything below the BTH, with what was said about it."""
    if template is not None and (request.mode != "srv6" or request.of("usid")):
        raise CallerError("--template is for srv6 mode, and takes the place of usid fields")
    if request.mode.startswith("srv6"):
        plane = 0 if template is not None else path_of_ev(ev)[0]
        source, destination = _ends("ipv6", request, plane)
        srh = request.mode == "srv6-srh"
        below = in_srv6(ev, source, destination, srh=srh, template=template, **request.of("usid"))
        _set(below, "outer", request)
        if request.mode == "srv6-srh":
            _set(below[IPv6ExtHdrSegmentRouting], "srh", request)
        _set(below.getlayer(IPv6, 2), "ipv6", request)
    elif request.of("ipv4"):
        if request.of("ipv6"):
            raise CallerError("a packet has ipv4 fields or ipv6 fields, not both")
        below = in_udp(ev, *_ends("ipv4", request, 0))
        _set(below, "ipv4", request)
    else:
        below = in_udp(ev, *_ends("ipv6", request, 0))
        _set(below, "ipv6", request)
    _set(below[UDP], "udp", request)
    ether = Ether(**(_MACS | _fields(Ether, "ether", request)))
    if request.of("vlan"):
        ether /= _layer(Dot1Q, "vlan", request)
    return ether / below


def _ends(family: str, request: CraftRequest, plane: int) -> tuple[str, str]:
    """The innermost addresses: those given, else those of the default lab's hosts 0 and 1."""
    given = request.of(family)
    source, destination = address("h0", plane), address("h1", plane)
    if family == "ipv4":
        source, destination = "192.0.2.1", "192.0.2.2"
    return given.get("src", source), given.get("dst", destination)


def _set(layer: Packet, name: str, request: CraftRequest) -> None:
    for field, value in _fields(type(layer), name, request).items():
        setattr(layer, field, value)


def _finished(request: CraftRequest, options: CraftOptions, profile: WireProfile, packet: Packet) -> bytes:
    """The bytes, after whatever is to be broken or cut is."""
    if "hmac" in request.values:
        key_id, key = request.values["hmac"]
        packet[IPv6ExtHdrSegmentRouting].hmac = 1
        packet = with_hmac(packet, key, key_id)
    if "icrc" in request.values:
        packet /= ICRC(crc=request.values["icrc"])
    try:
        data = bytes(packet)
    except OverflowError:
        raise CallerError("the payload does not fit into one packet") from None
    if options.no_icrc:
        data = _without_icrc(request, data)
    link_length = _ETHER_LENGTH + 4 * bool(request.of("vlan"))
    if options.trim is not None:
        kept = None if options.trim_to is None else options.trim_to - link_length
        last_hop = options.trim == "lasthop"
        data = data[:link_length] + trim(data[link_length:], profile, last_hop=last_hop, kept_bytes=kept)
    return data if options.ether else data[link_length:]


def _without_icrc(request: CraftRequest, data: bytes) -> bytes:
    """Remove the packet's last four bytes, and from every length that was not given."""
    packet = Ether(data)
    udp = packet[UDP]
    transport = bytes(udp.payload)
    udp.remove_payload()
    udp.add_payload(Raw(transport[:-ICRC_LENGTH]))
    lengths = [(udp, "udp", "len")]
    headers = [layer for layer in packet.iterpayloads() if isinstance(layer, IP | IPv6)]
    names = ("outer", "ipv6") if len(headers) == 2 else ("ipv4" if isinstance(headers[0], IP) else "ipv6",)
    for header, name in zip(headers, names, strict=True):
        lengths.append((header, name, "len" if name == "ipv4" else "plen"))
        if name == "ipv4":
            lengths.append((header, name, "chksum"))
    for layer, name, length in lengths:
        if f"{name}.{length}" not in request.values:
            layer.delfieldval(length)
    return bytes(packet)
