# SPDX-License-Identifier: BSD-2-Clause
"""The text of the Lua dissector: generated tables, then the files of Lua beside this one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from mrc import __version__
from mrc.capture.carriers import TUNNELS
from mrc.capture.wireshark.words import lua_format, word_functions
from mrc.wire.headers import HEADERS, Field, HeaderLayout
from mrc.wire.icrc import IPV6_ICRC_MASK, TRANSPORT_ICRC_MASK
from mrc.wire.ipv4 import IPV4_ICRC_MASK
from mrc.wire.names import FIELD_NAMES, NumberNames
from mrc.wire.opcodes import BTH_LENGTH, FIRST_MRC_OPCODE, ICRC_LENGTH, OPCODES, Opcode
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

# The first line of every script written here; what lacks it is somebody else's.
MARKER = "-- MRC dissector for Wireshark, written by `mrc wireshark`."

# In this order: each uses what the ones before it define. Behind "words" come the functions written from their table.
PARTS = ("fields", "icrc", "place", "values", "words", "follow", "packet", "ports")
_HEXADECIMAL = {
    *("opcode", "pkey", "dqp", "va", "rkey", "data", "syndrome", "entropy", "spdcid", "dpdcid", "bitmap", "reason"),
    *("vendor_info", "port_status_mask"),
}
_WIDEST_NUMBER = 64


def dissector_source(profile: WireProfile = DEFAULT_WIRE_PROFILE) -> str:
    """The Lua script, ready for Wireshark. The switches of `profile` that say how to read a packet are built in."""
    folder = files("mrc.capture.wireshark")
    parts = []
    for name in PARTS:
        parts.append((folder / f"{name}.lua").read_text(encoding="utf-8"))
        if name == "words":
            parts += [*word_functions(header_layouts(profile)), ""]
    return "\n".join([MARKER, f"-- mrc {__version__}", "", *_tables(profile), "", *parts])


def header_layouts(profile: WireProfile) -> dict[str, HeaderLayout]:
    """The headers that MRC opcodes have, the profile's switches applied to their bits."""
    names = dict.fromkeys(["bth", *(header for opcode in _mrc_opcodes() for header in opcode.headers)])
    layouts = {name: HEADERS[name] for name in names}
    if not profile.solicited_event_first:
        layouts["bth"] = _changed(layouts["bth"], "se:1 m:1", "m:1 se:1")
    if profile.eeth_op_shift == 4:
        layouts["eeth"] = _changed(layouts["eeth"], "reserved:3 op:2 reserved2:2", "reserved:1 op:2 reserved2:4")
    return layouts


def _changed(layout: HeaderLayout, bits: str, other_bits: str) -> HeaderLayout:
    text = " ".join(f"{field.name}:{'s' if field.signed else ''}{field.bits}" for field in layout.fields)
    return HeaderLayout.parse(layout.name, text.replace(bits, other_bits))


def _mrc_opcodes() -> list[Opcode]:
    return [opcode for opcode in OPCODES.values() if opcode.is_mrc]


def _tables(profile: WireProfile) -> Iterator[str]:
    yield f"local PORTS = {{{', '.join(map(str, profile.accepted_udp_ports))}}}"
    yield f"local FIRST_MRC_OPCODE = 0x{FIRST_MRC_OPCODE:02X}"
    yield f"local DSCP_TRIMMED, DSCP_TRIMMED_LASTHOP = {profile.dscp_trimmed}, {profile.dscp_trimmed_lasthop}"
    yield f"local ICRC_COVERS_OUTER = {_boolean(profile.icrc_covers_outer)}"
    yield f"local EV_LOW_HALF_IN_SOURCE_PORT = {_boolean(profile.ev_low_half_in_source_port)}"
    yield f"local TUNNELS = {{{', '.join(map(_quoted, TUNNELS))}}}"
    yield f"local FIRST_PORT_BIT = {profile.first_port_bit}"
    yield f"local BTH_LENGTH, ICRC_LENGTH = {BTH_LENGTH}, {ICRC_LENGTH}"
    for name in ("udp", "ipv4", "ipv6"):
        yield f"local {name.upper()}_LENGTH = {HEADERS[name].length}"
    # What the ICRC sets to ones: by distance from the start of the header, the bits.
    for name, mask in (("IPV4", IPV4_ICRC_MASK), ("IPV6", IPV6_ICRC_MASK), ("TRANSPORT", TRANSPORT_ICRC_MASK)):
        yield f"local {name}_MASK = {{{', '.join(f'[{at}] = 0x{ones:02X}' for at, ones in enumerate(mask) if ones)}}}"
    yield ""
    yield "local OPCODES = {"
    for opcode in _mrc_opcodes():
        headers = ", ".join(f'"{name}"' for name in opcode.headers)
        properties = f'name = "{opcode.name}", headers = {{{headers}}}, has_payload = {_boolean(opcode.has_payload)}'
        yield f"  [0x{opcode.value:02X}] = {{{properties}}},"
    yield "}"
    yield ""
    yield "local HEADERS = {"
    for name, layout in header_layouts(profile).items():
        yield f"  {name} = {{length = {layout.length}, fields = {{"
        for field in layout.fields:
            yield from (f"    {{{entry}}}," for entry in _entries(layout, field))
        yield "  }},"
    yield "}"


def _entries(layout: HeaderLayout, field: Field) -> Iterator[str]:
    if (layout.name, field.name) == ("seth", "ack_psn_offset"):
        # Section 6: the same two bytes, unsigned, in the answer to a probe.
        yield f'{_entry(layout, field)}, absent_with = "pr"'
        yield f'{_entry(layout, Field("probe_id", field.shift, field.bits, False))}, only_with = "pr"'
    else:
        yield _entry(layout, field)


def _entry(layout: HeaderLayout, field: Field) -> str:
    """One field: the bytes it lies in, and which of their bits are its own (`shift` from the end of those bytes)."""
    at, length = layout.span(field)
    parts = [f'name = "{field.name}"', f"at = {at}", f"length = {length}"]
    if 8 * length > _WIDEST_NUMBER:
        return ", ".join([*parts, 'kind = "bytes"'])
    kind = ("int" if field.signed else "uint") + str(8 * length if length <= 4 else 64)
    parts += [f'kind = "{kind}"', f"base = base.{_base(field)}"]
    if field.bits != 8 * length:
        shift = field.shift - 8 * (layout.length - at - length)
        parts += [f"shift = {shift}", f"bits = {field.bits}", f"mask = 0x{((1 << field.bits) - 1) << shift:X}"]
    names = FIELD_NAMES.get((layout.name, field.name))
    if names is not None:
        parts += [f"names = {{{_pairs(layout, names)}}}", f'unknown = "{_lua_text(names.unknown)}"']
    return ", ".join(parts)


def _pairs(layout: HeaderLayout, names: NumberNames) -> str:
    # Wireshark dissects the standard opcodes itself.
    shown = {op: OPCODES[op].name for op in OPCODES if OPCODES[op].is_mrc} if layout.name == "bth" else names
    return ", ".join(f'[{number}] = "{words}"' for number, words in shown.items())


def _quoted(text: str) -> str:
    return f'"{text}"'


def _lua_text(text: str) -> str:
    """`reason 0x{:02x}` with a format of Lua's in it."""
    before, _, rest = text.partition("{")
    form, _, after = rest.partition("}")
    return f"{before}{lua_format(form.removeprefix(':'))}{after}"


def _base(field: Field) -> str:
    return "HEX" if field.name in _HEXADECIMAL or field.reserved else "DEC"


def _boolean(value: bool) -> str:
    return "true" if value else "false"
