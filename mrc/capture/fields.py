"""A packet as the document `mrc dissect --json` prints (wire.md section 13).

Field names and layouts are those of `mrc.wire.headers`. What section 13 does not name is not there: IP version and
header length, IPv4 options, segment routing TLVs, the VLAN's drop bit. Padding and ICRC do not count as payload, and
where there is no payload there is no payload layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mrc.capture.ends import ev_of, path_of
from mrc.capture.frames import Record
from mrc.capture.texts import ipv4_text, ipv6_text, segments
from mrc.capture.transport import icrc_ok
from mrc.capture.walked import Walked
from mrc.wire.headers import HEADERS, shown, unpack_header
from mrc.wire.names import OPCODE_WORDS
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

Fields = dict[str, Any]

# Fields of the layouts that section 13 does not name.
NOT_NAMED = {"ipv4": ("version", "ihl"), "ipv6": ("version",), "vlan": ("dei",)}


def _plain(name: str) -> Callable[[bytes, int], Fields]:
    layout, drop = HEADERS[name], NOT_NAMED.get(name, ())

    def fields(data: bytes, at: int) -> Fields:
        values: Fields = layout.unpack(data[at : at + layout.length])
        for field in drop:
            del values[field]
        return values

    return fields


_ETHER, _IPV4, _IPV6, _SRH = _plain("ether"), _plain("ipv4"), _plain("ipv6"), _plain("srh")


def _ether(data: bytes, at: int) -> Fields:
    fields = _ETHER(data, at)
    return fields | {end: fields[end].to_bytes(6, "big").hex(":") for end in ("dst", "src")}


def _sll(data: bytes, at: int) -> Fields:
    return {"protocol": data[at] << 8 | data[at + 1]}


def _ipv4(data: bytes, at: int) -> Fields:
    fields = _IPV4(data, at)
    return fields | {end: ipv4_text(fields[end].to_bytes(4, "big")) for end in ("src", "dst")}


def _ipv6(data: bytes, at: int) -> Fields:
    fields = _IPV6(data, at)
    return fields | {end: ipv6_text(fields[end].to_bytes(16, "big")) for end in ("src", "dst")}


def _srh(data: bytes, at: int) -> Fields:
    return _SRH(data, at) | {"segments": segments(data, at)}


_CARRIERS: dict[str, Callable[[bytes, int], Fields]] = {
    "ether": _ether,
    "vlan": _plain("vlan"),
    "sll": _sll,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "srh": _srh,
    "udp": _plain("udp"),
}


def layer_documents(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[dict[str, Any]]:
    """The layers of a packet, outermost first: `{"layer": name, "fields": {...}}`, then the payload as
    `{"layer": "payload", "length": n}` when n is not 0, then the ICRC when there is one."""
    data = walked.data
    documents: list[dict[str, Any]] = []
    for name, at in walked.layers:
        carrier = _CARRIERS.get(name)
        if carrier is not None:
            fields = carrier(data, at)
        else:
            fields = shown(unpack_header(name, data[at : at + HEADERS[name].length], profile))
        documents.append({"layer": name, "fields": fields})
    if walked.payload_length:
        documents.append({"layer": "payload", "length": walked.payload_length})
    if walked.icrc_at is not None:
        crc = int.from_bytes(data[walked.icrc_at : walked.icrc_at + 4], "little")
        documents.append({"layer": "icrc", "fields": {"crc": crc}})
    return documents


def opcode_name(walked: Walked) -> str | None:
    """The word that stands for the opcode in a filter; None without a BTH, or for an opcode that does not exist."""
    bth = walked.transport_index
    if bth is None or bth >= len(walked.layers):
        return None
    return OPCODE_WORDS.get(walked.data[walked.layers[bth][1]])


def packet_document(
    number: int, record: Record, walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> dict[str, Any]:
    """What `--json` says of one packet.

    `number` counts from 1; `time` is in seconds since the epoch, None where the file has no time stamp; `length` is
    that of the packet on the wire, also when the capture kept less, and so is the payload's; `ev` and `path` as
    `mrc.capture.ends`, `opcode_name` as a filter takes it; `icrc_ok` as `mrc.capture.transport.icrc_ok`; `malformed`
    and `trimmed` as `mrc.capture.walked.Walked`.
    """
    return {
        "number": number,
        "time": None if record.time_ns is None else record.time_ns / 1_000_000_000,
        "length": record.wire_length,
        "ev": ev_of(walked, profile),
        "path": path_of(walked, profile),
        "opcode_name": opcode_name(walked),
        "layers": layer_documents(walked, profile),
        "icrc_ok": icrc_ok(walked, profile),
        "malformed": walked.malformed,
        "trimmed": walked.trimmed,
    }
