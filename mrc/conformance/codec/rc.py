# SPDX-License-Identifier: BSD-2-Clause
"""The opcodes of plain RoCEv2 RC that the cases about it send or expect (IBTA volume 1, 9.2 and 9.3)."""

from __future__ import annotations

from mrc.conformance.codec.headers import Opcode, OpcodeTable

RC_OPCODES: dict[int, Opcode] = {
    opcode.value: opcode
    for opcode in (
        Opcode(0x04, "SEND Only", (), has_payload=True),
        Opcode(0x06, "RDMA WRITE First", ("reth",), has_payload=True),
        Opcode(0x07, "RDMA WRITE Middle", (), has_payload=True),
        Opcode(0x08, "RDMA WRITE Last", (), has_payload=True),
        Opcode(0x09, "RDMA WRITE Last with Immediate", ("immdt",), has_payload=True),
        Opcode(0x0A, "RDMA WRITE Only", ("reth",), has_payload=True),
        Opcode(0x0B, "RDMA WRITE Only with Immediate", ("reth", "immdt"), has_payload=True),
        Opcode(0x0C, "RDMA READ Request", ("reth",)),
        Opcode(0x11, "Acknowledge", ("aeth",)),
    )
}
RC = OpcodeTable("RC", RC_OPCODES)
SEND_ONLY, READ_REQUEST, RC_ACK = 0x04, 0x0C, 0x11
RC_FIRST, RC_MIDDLE, RC_LAST, RC_LAST_IMMEDIATE, RC_ONLY, RC_ONLY_IMMEDIATE = range(0x06, 0x0C)
RC_WRITES = frozenset(range(0x06, 0x0C))

SEQUENCE_ERROR = 0x60
RNR_NAK = 0x20  # bits 4 to 0 are the code of the time to wait
RNR_NAKS = {RNR_NAK | code: f"RNR NAK, timer {code}" for code in range(32)}
# How long a requestor waits after an RNR NAK, hundredths of a millisecond, by that code.
RNR_HUNDREDTHS_OF_MS = (
    *(65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192),
    *(256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152),
)
