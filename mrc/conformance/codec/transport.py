# SPDX-License-Identifier: BSD-2-Clause
"""From the BTH to the padding: layers to bytes and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mrc.conformance.codec.headers import BTH_LENGTH, MRC, OpcodeTable, layouts
from mrc.conformance.codec.icrc import ICRC_LENGTH
from mrc.conformance.codec.layout import Layout
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile

__all__ = ["Transport", "has_field", "read_transport", "write_transport"]

LayerValues = tuple[str, Mapping[str, int]]


@lru_cache(maxsize=8)
def _layouts(profile: WireProfile) -> dict[str, Layout]:
    return layouts(profile)


def has_field(layer: str, name: str, profile: WireProfile) -> bool:
    """Whether a header has a field of that name; the SETH has probe_id beside ack_psn_offset."""
    return name in _layouts(profile)[layer].places or (layer, name) == ("seth", "probe_id")


def write_transport(
    layers: Sequence[LayerValues], payload: bytes, padding: bytes | None, profile: WireProfile
) -> bytes:
    """BTH, headers, payload and padding. Without `padding` and a pad count of its own the BTH gets the right ones."""
    if not layers or layers[0][0] != "bth":
        raise CallerError("a packet begins with a bth")
    if padding is None:
        padding = bytes(-len(payload) % 4)
    known = _layouts(profile)
    data = b""
    for name, values in layers:
        values = dict(values)
        if name == "bth":
            values.setdefault("pad", len(padding) & 3)
        elif name == "seth" and "probe_id" in values:
            number = values.pop("probe_id")
            values["ack_psn_offset"] = number - (1 << 16) if number >> 15 else number
        data += known[name].write(values)
    return data + payload + padding


@dataclass(slots=True)
class Transport:
    """A packet from its BTH on, as far as its bytes go. `wrong` says what contradicts the opcode, "" if nothing."""

    layers: dict[str, dict[str, int]] = field(default_factory=dict)
    payload: bytes = b""
    padding: bytes = b""
    icrc: int | None = None
    wrong: str = ""


def read_transport(data: bytes, profile: WireProfile, table: OpcodeTable = MRC) -> Transport:
    """Read from the BTH to the ICRC."""
    found, known = Transport(), _layouts(profile)
    if len(data) < BTH_LENGTH + ICRC_LENGTH:
        found.wrong = f"{len(data)} bytes, too few for a BTH and an ICRC"
        return found
    found.icrc = int.from_bytes(data[-ICRC_LENGTH:], "little")
    body = data[:-ICRC_LENGTH]
    bth = found.layers["bth"] = known["bth"].read(body)
    opcode = table.opcodes.get(bth["opcode"])
    if opcode is None:
        found.payload = body[BTH_LENGTH:]
        found.wrong = f"opcode {bth['opcode']:#04x}, which {table.transport} does not have"
        return found
    at = BTH_LENGTH
    for name in opcode.headers:
        if name == "tseth" and not bth["ts"]:
            continue
        layout = known[name]
        if len(body) < at + layout.length:
            found.wrong = f"{len(body) - at} bytes where the {name} takes {layout.length}"
            return found
        values = layout.read(body, at)
        if name == "seth" and values["pr"]:
            values = {"probe_id" if key == "ack_psn_offset" else key: value for key, value in values.items()}
            values["probe_id"] &= 0xFFFF
        found.layers[name] = values
        at += layout.length
    rest = body[at:]
    if bth["pad"] > len(rest):
        found.wrong = f"pad count {bth['pad']}, {len(rest)} bytes after the headers"
    elif rest and not opcode.has_payload:
        found.wrong = f"{len(rest)} bytes after the headers of a {opcode.name}"
    else:
        found.payload, found.padding = rest[: len(rest) - bth["pad"]], rest[len(rest) - bth["pad"] :]
    return found
