# SPDX-License-Identifier: BSD-2-Clause
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
from mrc.capture.texts import ipv4_text, ipv6_text, seconds_text, segments
from mrc.capture.transport import icrc_ok
from mrc.capture.walked import Walked
from mrc.wire.headers import HEADERS, TRANSPORT_HEADERS, shown, unpack_header
from mrc.wire.names import OPCODE_WORDS
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

Fields = dict[str, Any]

# Fields of the layouts that section 13 does not name.
NOT_NAMED = {"ipv4": ("version", "ihl"), "ipv6": ("version",), "grh": ("version",), "vlan": ("dei",)}


# Of headers with two addresses, how these are written.
ADDRESS_TEXTS: dict[str, Callable[[bytes], str]] = {
    "ether": lambda address: address.hex(":"),
    "ipv4": ipv4_text,
    "ipv6": ipv6_text,
    "grh": ipv6_text,
}


def _carrier_fields(name: str, data: bytes, at: int) -> Fields:
    """The fields of a header below the transport."""
    layout, text = HEADERS[name], ADDRESS_TEXTS.get(name)
    fields: Fields = dict(shown(layout.unpack(data[at : at + layout.length])))
    for field in NOT_NAMED.get(name, ()):
        del fields[field]
    if text is not None:
        for end in ("src", "dst"):
            fields[end] = text(fields[end].to_bytes(layout.field(end).bits // 8, "big"))
    if name == "srh":
        fields["segments"] = segments(data, at)
    return fields


def layer_documents(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[dict[str, Any]]:
    """The layers of a packet, outermost first: `{"layer": name, "fields": {...}}`, then the payload as
    `{"layer": "payload", "length": n}` when n is not 0, then the ICRC when there is one."""
    data = walked.data
    documents: list[dict[str, Any]] = []
    for name, at in walked.layers:
        if name not in TRANSPORT_HEADERS:
            fields = _carrier_fields(name, data, at)
        else:
            fields = shown(unpack_header(name, data[at : at + HEADERS[name].length], profile))
        documents.append({"layer": name, "fields": fields})
    if walked.payload_length:
        documents.append({"layer": "payload", "length": walked.payload_length})
    if walked.icrc_at is not None:
        crc = int.from_bytes(data[walked.icrc_at : walked.icrc_at + 4], "big")
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

    `number` counts from 1; `time` is in seconds since the epoch, as text, since JSON's
    numbers do not hold its nanoseconds, and None where the file has no time stamp; `length` is
    that of the packet on the wire, also when the capture kept less, and so is the payload's; `ev` and `path` as
    `mrc.capture.ends`, `opcode_name` as a filter takes it; `icrc_ok` as `mrc.capture.transport.icrc_ok`; `malformed`
    and `trimmed` as `mrc.capture.walked.Walked`. Only reassembled packets have `fragments`.
    """
    document = {
        "number": number,
        "time": None if record.time_ns is None else seconds_text(record.time_ns),
        "length": record.wire_length,
        "ev": ev_of(walked, profile),
        "path": path_of(walked, profile),
        "opcode_name": opcode_name(walked),
        "layers": layer_documents(walked, profile),
        "icrc_ok": icrc_ok(walked, profile),
        "malformed": walked.malformed,
        "trimmed": walked.trimmed,
    }
    return document | {"fragments": list(walked.fragments)} if walked.fragments else document
