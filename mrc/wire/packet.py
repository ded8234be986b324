# SPDX-License-Identifier: BSD-2-Clause
"""One packet from its BTH on, as a list of named layers and back.

The reading goes as far as the bytes do: what is missing is said in `malformed`, never raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mrc.errors import CallerError, MalformedPacket
from mrc.wire.headers import HEADERS, pack_header, unpack_header
from mrc.wire.icrc import icrc_bytes
from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS, ICRC_LENGTH, OPCODES
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

Layer = tuple[str, dict[str, int]]


@dataclass(slots=True)
class Transport:
    """A packet from the BTH to the ICRC.

    `layers` in wire order, the BTH first; `payload` without its padding; `icrc` None when there is none;
    `malformed` None or a short stable reason.
    """

    layers: list[Layer] = field(default_factory=list)
    payload: bytes = b""
    icrc: int | None = None
    trimmed: bool = False
    malformed: str | None = None

    def layer(self, name: str) -> dict[str, int] | None:
        """The fields of the layer of that name, or None."""
        return next((fields for known, fields in self.layers if known == name), None)


def is_trimmed(
    data: bytes | memoryview,
    dscp: int,
    profile: WireProfile = DEFAULT_WIRE_PROFILE,
    *,
    lengths_say_more: bool = False,
    icrc_wrong: bool = False,
) -> bool:
    """Whether a packet given from its BTH on is trimmed: a TRIMMED codepoint, and not whole (wire.md section 12).

    Not whole is what is too short for its opcode's headers and ICRC, or shorter than an IP or UDP length in it says
    (`lengths_say_more`), or has a wrong ICRC (`icrc_wrong`; False where there is none to check).
    """
    if dscp not in profile.trimmed_dscps or len(data) < BTH_LENGTH:
        return False
    opcode = OPCODES.get(data[0])
    if opcode is None:
        return False
    if lengths_say_more or icrc_wrong:
        return True
    return len(data) < BTH_LENGTH + opcode.header_length(bool(HEADERS["bth"].unpack(data)["ts"])) + ICRC_LENGTH


def decode_transport(
    data: bytes | memoryview, *, trimmed: bool = False, profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> Transport:
    """Read a packet from its BTH to its ICRC. Never raises; see `Transport.malformed`."""
    packet = Transport(trimmed=trimmed)
    try:
        _decode_into(packet, memoryview(data), profile)
    except MalformedPacket as error:
        packet.malformed = str(error)
    return packet


def _decode_into(packet: Transport, data: memoryview, profile: WireProfile) -> None:
    bth = unpack_header("bth", data, profile)
    packet.layers.append(("bth", bth))
    opcode = OPCODES.get(bth["opcode"])
    at = BTH_LENGTH
    if opcode is None:
        packet.payload = bytes(data[at:])
        raise MalformedPacket("unknown_opcode", f"{bth['opcode']:#04x}")
    for name in opcode.headers:
        if name == "tseth" and not bth["ts"]:
            continue
        try:
            packet.layers.append((name, unpack_header(name, data[at:], profile)))
        except MalformedPacket:
            packet.payload = bytes(data[at:])
            if packet.trimmed:
                return
            raise
        at += HEADER_LENGTHS[name]
    if packet.trimmed:
        packet.payload = bytes(data[at:])
        return
    if len(data) < at + ICRC_LENGTH:
        packet.payload = bytes(data[at:])
        raise MalformedPacket("no_icrc", f"{len(data) - at} bytes follow the headers, the ICRC takes 4")
    packet.icrc = int.from_bytes(data[-ICRC_LENGTH:], "little")
    body = data[at:-ICRC_LENGTH]
    if bth["pad"] > len(body):
        raise MalformedPacket("bad_pad", f"pad count {bth['pad']}, {len(body)} bytes of payload")
    packet.payload = bytes(body[: len(body) - bth["pad"]])
    if body and not opcode.has_payload:
        raise MalformedPacket("unexpected_payload", f"{len(body)} bytes after a {opcode.name}")


def encode_transport(
    layers: Iterable[tuple[str, Mapping[str, int]]],
    payload: bytes = b"",
    *,
    icrc: int | None = None,
    profile: WireProfile = DEFAULT_WIRE_PROFILE,
) -> bytes:
    """The bytes of a packet from its BTH on: the layers as given, the payload, its padding, and the ICRC if named.

    The BTH's pad count is filled in unless it is given. Raises CallerError when the layers do not begin with a
    BTH or a field does not fit.
    """
    items = [(name, dict(values)) for name, values in layers]
    if not items or items[0][0] != "bth":
        raise CallerError("a packet begins with a bth layer")
    pad = items[0][1].setdefault("pad", -len(payload) % 4)
    data = b"".join(pack_header(name, values, profile) for name, values in items) + payload + bytes(pad)
    return data if icrc is None else data + icrc_bytes(icrc)
