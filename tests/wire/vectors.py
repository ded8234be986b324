# SPDX-License-Identifier: BSD-2-Clause
"""Byte vectors worked out by hand from wire.md sections 2 to 8, before any codec was looked at.

Each line of hex says which fields it holds; wherever fields share a byte the arithmetic is written out.
`VECTORS` cover every MRC opcode and header; `packet_vectors.py` has whole packets.
"""

from __future__ import annotations

from vector_forms import (
    REQUESTOR,
    RESPONDER,
    Vector,
    aeth,
    bth,
    cc_state,
    erth,
    immdt,
    meth,
    neth,
    peth,
    reth,
    seth,
    tseth,
    vector,
)

_DATA_256 = bytes(range(256))
_DATA_88 = bytes(range(88))

# One message of 600 bytes at path MTU 256 (600 = 256 + 256 + 88): DMALen 600 = 0x258 in all three, VA steps by 0x100.
_WRITES = (
    vector(
        "write_first",
        """c6 00 ffff 00 2b0222 00 000000           # BTH: byte 1: SE 0 M 0 pad 0 TVer 0; DQP responder; PSN 0
           0000 0007                                # METH: RQMSN 0 (plain write), MSN 7
           00007f0012345000 cafe0001 00000258       # RETH: VA, R_Key, DMALen 600""",
        bth(0xC6, RESPONDER, 0),
        meth(0, 7),
        reth(0x7F0012345000, 0xCAFE0001, 600),
        payload=_DATA_256,
    ),
    vector(
        "write_middle",
        """c7 00 ffff 00 2b0222 00 000001           # BTH: PSN 1
           0000 0007                                # METH: the same MSN
           00007f0012345100 cafe0001 00000258       # RETH: VA + 256""",
        bth(0xC7, RESPONDER, 1),
        meth(0, 7),
        reth(0x7F0012345100, 0xCAFE0001, 600),
        payload=_DATA_256,
    ),
    vector(
        "write_last",
        """c8 00 ffff 00 2b0222 80 000002           # BTH: byte 8: AckReq 1 << 7 = 80; PSN 2
           0000 0007                                # METH
           00007f0012345200 cafe0001 00000258       # RETH: VA + 512""",
        bth(0xC8, RESPONDER, 2, ackreq=1),
        meth(0, 7),
        reth(0x7F0012345200, 0xCAFE0001, 600),
        payload=_DATA_88,
    ),
    vector(
        "write_last_with_immediate_pad_3",
        """c9 30 ffff 00 2b0222 a0 fffffe           # BTH: pad 3 << 4 = 30; AckReq 80 + rtx 20: a0; PSN 2^24 - 2
           0001 ffff                                # METH: RQMSN 1, MSN 65535
           00007f0012345100 cafe0001 00000101       # RETH: DMALen 257 = 256 + 1
           deadbeef                                 # ImmDt""",
        bth(0xC9, RESPONDER, 0xFFFFFE, pad=3, ackreq=1, rtx=1),
        meth(1, 0xFFFF),
        reth(0x7F0012345100, 0xCAFE0001, 257),
        immdt(0xDEADBEEF),
        payload=b"\x5a",
        padding="000000",
    ),
    vector(
        "write_only_zero_length",
        """ca 00 ffff 00 2b0222 80 ffffff           # BTH: AckReq; PSN 2^24 - 1
           0000 0000                                # METH
           0000000000000000 00000000 00000000       # RETH: nothing to place, R_Key not checked""",
        bth(0xCA, RESPONDER, 0xFFFFFF, ackreq=1),
        meth(0, 0),
        reth(0, 0, 0),
    ),
    vector(
        "write_only_pad_2_timestamp",
        """ca 20 ffff 00 2b0222 90 000a0b           # BTH: pad 2 << 4 = 20; AckReq 80 + ts 1 << 4 = 10: 90
           0000 0102                                # METH
           abcd 0001                                # TSETH: tsr 0 << 15 | reserved 0 << 4 | ftype 1
           fedcba9876543210 11223344 00000002       # RETH
        """,
        bth(0xCA, RESPONDER, 0x000A0B, pad=2, ackreq=1, ts=1),
        meth(0, 0x0102),
        tseth(0xABCD, 0),
        reth(0xFEDCBA9876543210, 0x11223344, 2),
        payload=b"\x11\x22",
        padding="0000",
    ),
    vector(
        "write_only_with_immediate_pad_1_all_flags",
        """cb 90 ffff 00 2b0222 b0 123456           # BTH: SE 1 << 7 = 80 + pad 10: 90; AckReq 80 + rtx 20 + ts 10: b0
           0003 0004                                # METH: RQMSN 3, MSN 4
           ffff 8001                                # TSETH: tsr 1 << 15 = 8000 | ftype 1
           00007f00aaaa0003 80000001 00000003       # RETH
           00000001                                 # ImmDt""",
        bth(0xCB, RESPONDER, 0x123456, se=1, pad=1, ackreq=1, rtx=1, ts=1),
        meth(3, 4),
        tseth(0xFFFF, 1),
        reth(0x7F00AAAA0003, 0x80000001, 3),
        immdt(1),
        payload=b"\xa1\xa2\xa3",
        padding="00",
    ),
    vector(
        "write_middle_retransmitted_m",
        """c7 40 8001 00 2b0222 20 000063           # BTH: M 1 << 6 = 40; P_Key 8001; rtx 1 << 5 = 20; PSN 99
           0000 0001                                # METH
           0000000000000100 00000000 00000300       # RETH: DMALen 768""",
        bth(0xC7, RESPONDER, 99, m=1, pkey=0x8001, rtx=1),
        meth(0, 1),
        reth(0x100, 0, 768),
        payload=_DATA_256,
    ),
)

_ACKNOWLEDGEMENTS = (
    vector(
        "acknowledge",
        """d1 00 ffff 00 1a0111 00 00000b           # BTH: DQP requestor; PSN = cack_psn 11
           1f 000003                                # AETH: ACK, credits 1f; 3 messages completed""",
        bth(0xD1, REQUESTOR, 11),
        aeth(0x1F, 3),
    ),
    *(
        vector(
            f"acknowledge_nak_{name}",
            f"""d1 00 ffff 00 1a0111 00 00000c       # BTH: PSN = the offending PSN 12
                {syndrome:02x} 00ffff                # AETH: NAK 3 << 5 = 60, + code""",
            bth(0xD1, REQUESTOR, 12),
            aeth(syndrome, 0xFFFF),
        )
        for syndrome, name in (
            (0x60, "psn_sequence_error"),
            (0x61, "invalid_request"),
            (0x62, "remote_access_error"),
            (0x63, "remote_operational_error"),
        )
    ),
)

_SACKS = (
    # Section 6: PSN 0..11 sent, 5 and 8 lost. Bit i is PSN 4 + 1 + i: 6, 7, 9, 10, 11 are bits 1, 2, 4, 5, 6:
    # 02 + 04 + 10 + 20 + 40 = 76. Triggered by PSN 11: 11 - 4 = 7. Five packets held above a hole. Ten packets of 1024
    # bytes, UDP length 8 + 12 + 4 + 16 + 1024 + 4 = 1068, each counted as 1068 + 40: 11080 / 256 = 43.3, so 43 = 2b.
    vector(
        "sack_section_6_example",
        """dc 00 ffff 00 1a0111 00 000004           # BTH: DQP requestor; PSN = cack_psn 4
           0000 0007                                # SETH: m 0 << 5 | pr 0 << 1; ack_psn_offset 7
           01000003 0222 0111                       # entropy; spdcid = responder's low half, dpdcid = requestor's
           00 000004                                # reserved, cack_psn
           00 08 0001                               # cc_type 0 cc_flags 0; mpr 8 (1024 PSNs); sack_offset 1
           0000000000000076                         # bitmap
           1234 0005 00 00002b                      # CC_STATE: tx_timestamp; ooo_count 5; 0; rcvd_bytes 43""",
        bth(0xDC, REQUESTOR, 4),
        seth(4, ack_psn_offset=7, mpr=8, sack_offset=1, bitmap=0b1110110),
        cc_state(0x1234, 5, 0, 0, 43),
    ),
    # Triggered by PSN 0xFD with cack_psn 0x100: offset -3 = 2^16 - 3 = fffd. sack_offset -2 = fffe.
    vector(
        "sack_negative_offsets_m_1_rtx",
        """dc 00 ffff 00 1a0111 20 000100           # BTH: rtx 1 << 5 = 20, as in the packet that triggered it
           0020 fffd                                # m 1 << 5 = 20; ack_psn_offset -3
           8000ffff 0222 0111 00 000100             # entropy, spdcid, dpdcid, reserved, cack_psn 256
           00 ff fffe 8000000000000003              # cc 0 0; mpr 255; sack_offset -2; bitmap bits 63, 1, 0
           ffff 7fff d5 ffffff                      # ooo_count 15 ones; restore_cwnd 1 << 7 = 80 | pen 55: d5""",
        bth(0xDC, REQUESTOR, 0x100, rtx=1),
        seth(
            0x100, m=1, ack_psn_offset=-3, entropy=0x8000FFFF, mpr=255, sack_offset=-2, bitmap=1 << 63 | 1 << 1 | 1 << 0
        ),
        cc_state(0xFFFF, 0x7FFF, 1, 0x55, 0xFFFFFF),
    ),
    vector(
        "sack_m_2_most_negative",
        """dc 00 ffff 00 1a0111 00 ffffff           # BTH: cack_psn 2^24 - 1, the next PSN is 0
           0040 8000                                # m 2 << 5 = 40; ack_psn_offset -2^15
           00000000 0222 0111 00 ffffff             # entropy 0
           0f 00 7fff ffffffffffffffff              # cc_type 0 cc_flags f; mpr 0: not in use; sack_offset 2^15 - 1
           0000 0000 7f 000000                      # restore_cwnd 0 | rcv_cwnd_pen 7f""",
        bth(0xDC, REQUESTOR, 0xFFFFFF),
        seth(
            0xFFFFFF, m=2, ack_psn_offset=-32768, entropy=0, cc_flags=15, sack_offset=32767, bitmap=0xFFFFFFFFFFFFFFFF
        ),
        cc_state(0, 0, 0, 0x7F, 0),
    ),
    # type a << 12 = a000, next 15 << 7 = 0a80, m 3 << 5 = 0060: aae0.
    vector(
        "sack_m_3_type_next",
        """dc 00 ffff 00 1a0111 00 000010
           aae0 0000 01000003 0222 0111 00 000010   # type a, next 15 (hex), m 3; ack_psn_offset 0
           a5 00 0001 0000000000000000              # cc_type a, cc_flags 5; sack_offset 1; bitmap 0
           0000 0001 80 000001                      # ooo_count 1; restore_cwnd; rcvd_bytes 1""",
        bth(0xDC, REQUESTOR, 16),
        seth(16, type=0xA, next=0x15, m=3, ack_psn_offset=0, cc_type=0xA, cc_flags=5),
        cc_state(0, 1, 1, 0, 1),
    ),
    # pr 1 << 1 = 2: bytes 2-3 are the probe_id, unsigned, and no ack_psn_offset.
    vector(
        "sack_probe_answer_idle",
        """dc 00 ffff 00 1a0111 00 00000b
           0002 beef 01000003 0222 0111 00 00000b   # pr 1; probe_id beef
           00 08 0001 0000000000000000              # an idle QP: sack_offset 1, bitmap 0
           0bb8 0000 00 00002b""",
        bth(0xDC, REQUESTOR, 11),
        seth(11, pr=1, probe_id=0xBEEF, mpr=8),
        cc_state(0x0BB8, 0, 0, 0, 43),
    ),
    vector(
        "sack_probe_answer_m_2",
        """dc 00 ffff 00 1a0111 00 00000b
           0042 0001 01000003 0222 0111 00 00000b   # m 2 << 5 = 40 | pr 1 << 1 = 2: 42; probe_id 1
           00 08 0001 0000000000000000
           0bb8 0000 00 00002b""",
        bth(0xDC, REQUESTOR, 11),
        seth(11, m=2, pr=1, probe_id=1, mpr=8),
        cc_state(0x0BB8, 0, 0, 0, 43),
    ),
)

_NACK_REASONS = (
    (0x01, "trimmed"),
    (0x02, "trimmed_lasthop"),
    (0x06, "no_bitmap"),
    (0x07, "no_pkt_buffer"),
    (0x0A, "no_resource"),
    (0x0B, "psn_oor_window"),
    (0x19, "unexp_event"),
)

_NACKS = (
    *(
        vector(
            f"nack_{name}",
            f"""dd 00 ffff 00 1a0111 00 000005           # BTH: DQP requestor; PSN = the packet that caused it, 5
                0000 {reason:02x} 00                     # type 0 next 0 reserved; reason; vendor_info
                01000003 0222 0111 00 000005             # entropy, spdcid, dpdcid, reserved, nack_psn
                20 00 0bb8                               # cc_type 2 << 4 | cc_flags 0; reserved; tx_timestamp 3000""",
            bth(0xDD, REQUESTOR, 5),
            neth(reason, 5),
        )
        for reason, name in _NACK_REASONS
    ),
    # type 5 << 12 = 5000, next 0a << 7 = 0500: 5500. cc_type 0, one source's choice, with cc_flags 3: 03.
    vector(
        "nack_rtx_every_field",
        """dd 00 ffff 00 1a0111 20 fedcba           # BTH: rtx 20
           5500 01 a5 ffff0000 0222 0111 00 fedcba  # type 5 next a; reason 1; vendor_info a5
           03 00 ffff""",
        bth(0xDD, REQUESTOR, 0xFEDCBA, rtx=1),
        neth(
            1,
            0xFEDCBA,
            type=5,
            next=0xA,
            vendor_info=0xA5,
            entropy=0xFFFF0000,
            cc_type=0,
            cc_flags=3,
            tx_timestamp=0xFFFF,
        ),
    ),
)


_ENDPOINT_OPERATIONS = (
    vector(
        "probe",
        """de 00 ffff 00 2b0222 00 000000           # BTH: DQP responder; uses no PSN, sends 0
           0000 00 00 beef 0000                     # type/next/reserved; reserved; vendor_info; probe_id; reserved
           0111 0222 0bb8 0001                      # spdcid, dpdcid; tx_timestamp; tsr 0 ftype 1""",
        bth(0xDE, RESPONDER, 0),
        peth(0xBEEF, tx_timestamp=0x0BB8),
    ),
    # type f << 12 = f000, next 1f << 7 = 0f80: ff80. tsr 1 << 15 = 8000, ftype 0: the timestamp is not valid.
    vector(
        "probe_every_field",
        """de 00 ffff 00 2b0222 00 000000
           ff80 00 5a 0001 0000 0111 0222 ffff 8000""",
        bth(0xDE, RESPONDER, 0),
        peth(1, type=0xF, next=0x1F, vendor_info=0x5A, tx_timestamp=0xFFFF, tsr=1, ftype=0),
    ),
    vector(
        "endpoint_request_port_status_update",
        """d8 00 ffff 00 000002 00 00c0de           # BTH: DQP 2; request id c0de in PSN bits 15:0
           0000 00 00 0000000b 00000000             # op 0; 0; vendor_info; ports 1, 2, 4: 1 + 2 + 8 = b; 0
           0bb8 0001""",
        bth(0xD8, 2, 0xC0DE),
        erth(0, port_status_mask=0b1011, tx_timestamp=0x0BB8),
    ),
    # type 1 << 12 = 1000, next 1 << 7 = 0080, op 1: 1081.
    vector(
        "endpoint_request_ev_probe",
        """d8 00 ffff 00 000002 00 000001
           1081 00 ee ffffffff 00000000 8000 8001   # op 1 in bits 1:0; tsr 1, ftype 1""",
        bth(0xD8, 2, 1),
        erth(1, type=1, next=1, vendor_info=0xEE, port_status_mask=0xFFFFFFFF, tx_timestamp=0x8000, tsr=1),
    ),
    vector(
        "endpoint_response_port_status_update",
        """d9 00 ffff 00 000002 00 00c0de           # BTH: the request's id, reflected
           0000                                     # op 0
           0000 00000000 00000000 00000000 00000000 00000000 00000000  # bytes 2-27: 26 reserved
           0bb8 000000000000                        # tx_timestamp reflected; bytes 30-35: 6 reserved""",
        bth(0xD9, 2, 0xC0DE),
        ("eeth", {"type": 0, "next": 0, "op": 0, "tx_timestamp": 0x0BB8}),
    ),
    # op 1 << 2 = 4; with type 2 << 12 = 2000 and next 3 << 7 = 0180: 2184.
    vector(
        "endpoint_response_ev_probe",
        """d9 00 ffff 00 000002 00 000001
           2184 0000 00000000 00000000 00000000 00000000 00000000 00000000 8000 000000000000""",
        bth(0xD9, 2, 1),
        ("eeth", {"type": 2, "next": 3, "op": 1, "tx_timestamp": 0x8000}),
    ),
)

VECTORS: tuple[Vector, ...] = (*_WRITES, *_ACKNOWLEDGEMENTS, *_SACKS, *_NACKS, *_ENDPOINT_OPERATIONS)

# Headers MRC never sends but a RoCEv2 peer does (section 13; layouts as in IBTA chapter 9).
STANDARD_VECTORS: tuple[Vector, ...] = (
    vector(
        "rc_write_only_with_immediate_pad_1",
        "0b 10 ffff 00 000011 80 000001  0000560000001000 00001234 00000003  01020304  # BTH, RETH, ImmDt",
        bth(0x0B, 0x11, 1, pad=1, ackreq=1),
        reth(0x560000001000, 0x1234, 3),
        immdt(0x01020304),
        payload=b"abc",
        padding="00",
    ),
    vector(
        "rc_read_request",
        "0c 00 ffff 00 000011 00 000002  0000560000001000 00001234 00000400  # BTH, RETH: 1024 bytes",
        bth(0x0C, 0x11, 2),
        reth(0x560000001000, 0x1234, 1024),
    ),
    vector(
        "rc_compare_and_swap",
        """13 00 ffff 00 000011 80 000003
           0000560000001008 00001234 0000000000000002 0000000000000001  # AtomicETH: VA, R_Key, swap, compare""",
        bth(0x13, 0x11, 3, ackreq=1),
        ("atomiceth", {"va": 0x560000001008, "rkey": 0x1234, "swap": 2, "compare": 1}),
    ),
    vector(
        "rc_atomic_acknowledge",
        "12 00 ffff 00 000012 00 000003  1f 000001  8000000000000001  # BTH, AETH, AtomicAckETH",
        bth(0x12, 0x12, 3),
        aeth(0x1F, 1),
        ("atomicacketh", {"orig": 0x8000000000000001}),
    ),
    vector(
        "rc_send_only_with_invalidate",
        "17 00 ffff 00 000011 80 000004  00001234  # BTH, IETH: the R_Key to invalidate",
        bth(0x17, 0x11, 4, ackreq=1),
        ("ieth", {"rkey": 0x1234}),
        payload=b"data",
    ),
    vector(
        "ud_send_only_with_immediate",
        "65 00 ffff 00 000001 00 000005  80010000 00 000001  0000002a  # BTH, DETH: Q_Key, reserved, source QP; ImmDt",
        bth(0x65, 1, 5),
        ("deth", {"qkey": 0x80010000, "sqpn": 1}),
        immdt(42),
        payload=b"datagram",
    ),
    vector(
        "rd_send_only",
        "44 00 ffff 00 000011 80 000006  00000033  80010000 00 000044  # BTH, RDETH: reserved, EE context; DETH",
        bth(0x44, 0x11, 6, ackreq=1),
        ("rdeth", {"eec": 0x33}),
        ("deth", {"qkey": 0x80010000, "sqpn": 0x44}),
        payload=b"data",
    ),
    vector(
        "xrc_write_only",
        """aa 00 ffff 00 000011 80 000007  00000022  # BTH, XRCETH: reserved, shared receive queue
           0000560000001000 00001234 00000004""",
        bth(0xAA, 0x11, 7, ackreq=1),
        ("xrceth", {"xrcsrq": 0x22}),
        reth(0x560000001000, 0x1234, 4),
        payload=b"data",
    ),
    # Of byte 4 the highest bit is FECN, the next BECN.
    vector("cnp", "81 00 ffff 40 000011 00 000000", bth(0x81, 0x11, 0, becn=1), payload=bytes(16)),
)

# Not to be sent; a dissector shows them. The lower six bits of BTH byte 4 are reserved,
# byte 8 bit 6 reserved2, byte 8 bits 3:0 reserved3.
RESERVED_VECTORS: tuple[Vector, ...] = (
    vector(
        "reserved_bits_of_the_bth",
        """d1 05 ffff 81 1a0111 4a 000001           # TVer 5; FECN, reserved 1: 81; bit 6 = 40, low nibble a: 4a
           1f 000000""",
        bth(0xD1, REQUESTOR, 1, tver=5, fecn=1, reserved=1, reserved2=1, reserved3=0xA),
        aeth(0x1F, 0),
    ),
)
