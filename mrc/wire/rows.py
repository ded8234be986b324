"""A packet as a row of bytes: where each field lies.

Whatever carried it, a row reads the same (byte offsets):

    0   inner IPv6 header      40   UDP header      48   BTH      60   extension headers, then payload

where an IPv4 packet has an IPv6-shaped header with IPv4-mapped addresses (`mrc.wire.ipv4`). `mrc.wire.fields` has the
fields of many rows as arrays.
"""

from __future__ import annotations

from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS, ICRC_LENGTH, OPCODES

UDP_AT, BTH_AT, EXTENSION_AT = 40, 48, 60
HEADER_ROOM = 128  # bytes of a row kept for headers when sending

# psn_word: ackreq(1) reserved(1) rtx(1) ts(1) reserved(4) psn(24)
ACKREQ, RTX, TS = 1 << 31, 1 << 29, 1 << 28
PSN_FLAGS_AT = BTH_AT + 8  # the byte of psn_word that holds them
PSN_BITS_MASK = 0xFFFFFF
# flags: se(1) m(1) pad(2) tver(4)
PAD_SHIFT, TVER_MASK = 4, 0x0F

P_KEY = 0xFFFF

SETH_M_SHIFT, SETH_PR = 5, 1 << 1
TIMESTAMP_FTYPE = 1
TIMESTAMP_UNIT_NS = 128  # of a tx_timestamp with tsr 0
TSR_BIT = 1 << 15


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
