# SPDX-License-Identifier: BSD-2-Clause
"""A packet as a row of bytes: where each field lies.

Whatever carried it, a row reads the same (byte offsets):

    0   inner IPv6 header      40   UDP header      48   BTH      60   extension headers, then payload

where an IPv4 packet has an IPv6-shaped header with IPv4-mapped addresses (`mrc.wire.ipv4`). Places are worked out from
the layouts of `mrc.wire.headers` and the opcode table, once, when a module is imported. `mrc.wire.fields` has the
fields of many rows as arrays.
"""

from __future__ import annotations

from mrc.wire.headers import HEADERS
from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS, ICRC_LENGTH, OPCODES

UDP_AT: int = HEADERS["ipv6"].length
BTH_AT: int = UDP_AT + HEADERS["udp"].length
EXTENSION_AT = BTH_AT + BTH_LENGTH


def _headers_at(ts: bool) -> dict[str, int]:
    found = {"ipv6": 0, "udp": UDP_AT, "bth": BTH_AT}
    for opcode in OPCODES.values():
        at = EXTENSION_AT
        for header in opcode.headers if opcode.is_mrc else ():
            if header != "tseth" or ts:
                found[header] = at
                at += HEADER_LENGTHS[header]
    return found


_HEADERS_AT = {ts: _headers_at(ts) for ts in (False, True)}


def header_at(header: str, ts: bool = False) -> int:
    """Where a header begins in an MRC packet that has it, in bytes; `ts`: a TSETH is among its headers."""
    return _HEADERS_AT[ts][header]


def offsets_in(header: str, fields: str) -> tuple[int, ...]:
    """The first byte of each field, counted from the header's own; `fields` are names with spaces between. Raises
    CallerError for a field that the header does not have."""
    layout = HEADERS[header]
    return tuple(layout.span(layout.field(name))[0] for name in fields.split())


def fields_at(header: str, fields: str, ts: bool = False) -> tuple[int, ...]:
    """`offsets_in`, counted from the start of the row."""
    at = header_at(header, ts)
    return tuple(at + offset for offset in offsets_in(header, fields))


def masks_in(header: str, fields: str) -> tuple[int, ...]:
    """The bits of each field in the word, of whole bytes, that ends where the last of them does."""
    found = [HEADERS[header].field(name) for name in fields.split()]
    end = found[-1].shift & ~7
    return tuple((1 << field.bits) - 1 << field.shift - end for field in found)


def lowest_bit(mask: int) -> int:
    """How far a field with this mask is shifted."""
    return (mask & -mask).bit_length() - 1


def shifts_in(header: str, fields: str) -> tuple[int, ...]:
    """How far each field is shifted in that word."""
    return tuple(map(lowest_bit, masks_in(header, fields)))


HEADER_ROOM = 128  # bytes of a row kept for headers when sending

# psn_word, the last of the BTH
ACKREQ, RTX, TS, PSN_BITS_MASK = masks_in("bth", "ackreq rtx ts psn")
(PSN_FLAGS_AT,) = fields_at("bth", "ackreq")  # the byte of psn_word that holds them
# flags, the BTH's second byte
_PAD_MASK, TVER_MASK = masks_in("bth", "pad tver")
PAD_SHIFT = lowest_bit(_PAD_MASK)

P_KEY = 0xFFFF

# seth_word, the first of the SETH
_SETH_M, SETH_PR, _ = masks_in("seth", "m pr reserved2")
SETH_M_SHIFT = lowest_bit(_SETH_M)
TIMESTAMP_FTYPE = 1
TIMESTAMP_UNIT_NS = 128  # of a tx_timestamp with tsr 0
# tseth_word, the last of a TSETH and of headers that end like one
TSR_BIT, _ = masks_in("tseth", "tsr ftype")


# For each opcode value: is it MRC, does it have a TSETH, may it have a payload (0 or 1); its bytes after the BTH
# without TSETH, -1 when unknown.
_OPCODES = [OPCODES.get(value) for value in range(256)]
IS_MRC = bytes(each is not None and each.is_mrc for each in _OPCODES)
HAS_TSETH = bytes(each is not None and "tseth" in each.headers for each in _OPCODES)
HAS_PAYLOAD = bytes(each is not None and each.has_payload for each in _OPCODES)
EXTENSION_LENGTH = tuple(-1 if each is None else each.header_length(ts=False) for each in _OPCODES)

REQUEST_LENGTH = HEADER_LENGTHS["meth"] + HEADER_LENGTHS["reth"]
REQUEST_TS_LENGTH = REQUEST_LENGTH + HEADER_LENGTHS["tseth"]
MIN_PACKET = BTH_AT + BTH_LENGTH + ICRC_LENGTH
