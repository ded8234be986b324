# SPDX-License-Identifier: BSD-2-Clause
"""What each header adds to the line of a packet, written out by hand; and what a line of the table may be."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.errors import CallerError
from mrc.wire.headers import HEADER_LENGTHS, HEADERS
from mrc.wire.names import FIELD_NAMES
from mrc.wire.words import WORDS, Phrase, fields_of, in_words, writer

SACK = {"cack_psn": 0xFFFFFE, "ack_psn_offset": 5, "entropy": 0x1000003, "sack_offset": 1}
SAID: list[tuple[str, dict[str, Any], str]] = [
    ("bth", {"opcode": 0xCA, "dqp": 0x12, "psn": 7}, "RDMA WRITE Only QP=0x000012 PSN=7"),
    ("bth", {"opcode": 0xC7, "ackreq": 1, "rtx": 1}, "RDMA WRITE Middle QP=0x000000 PSN=0 [AckReq] [rtx]"),
    ("bth", {"opcode": 0xFF, "dqp": 0x2B0222, "ackreq": 1}, "Unknown opcode 0xff QP=0x2b0222 PSN=0 [AckReq]"),
    ("meth", {"msn": 258}, "MSN=258"),
    ("meth", {"msn": 258, "rqmsn": 3}, "MSN=258 RQMSN=3"),
    ("tseth", {"tx_timestamp": 43981}, "TS=43981"),
    ("reth", {"va": 0xFEDCBA9876543210, "dmalen": 2}, "VA=0xfedcba9876543210 Len=2"),
    ("immdt", {"data": 0xBEEF}, "Imm=0x0000beef"),
    ("aeth", {"syndrome": 0x1F, "msn": 3}, "ACK MSN=3"),
    ("aeth", {"syndrome": 0x61, "msn": 3}, "NAK invalid request MSN=3"),
    ("aeth", {"syndrome": 0x20, "msn": 3}, "syndrome 0x20 MSN=3"),
    # The PSN that triggered it lies behind the wrap.
    ("seth", SACK, "cack=16777214 ack=3 EV=0x01000003"),
    ("seth", SACK | {"ack_psn_offset": -1}, "cack=16777214 ack=16777213 EV=0x01000003"),
    ("seth", SACK | {"pr": 1, "probe_id": 9, "m": 1}, "cack=16777214 probe_id=9 EV=0x01000003 [skip once]"),
    ("seth", SACK | {"bitmap": 0x76}, "cack=16777214 ack=3 EV=0x01000003 bitmap=+1:0x76"),
    ("seth", SACK | {"bitmap": 1, "sack_offset": -64}, "cack=16777214 ack=3 EV=0x01000003 bitmap=-64:0x1"),
    ("cc_state", {"ooo_count": 5}, "ooo=5"),
    ("cc_state", {"rcvd_bytes": 5}, ""),
    ("neth", {"reason": 6, "nack_psn": 7, "entropy": 1}, "NO_BITMAP nack=7 EV=0x00000001"),
    ("neth", {"reason": 0x42, "nack_psn": 7, "entropy": 1}, "reason 0x42 nack=7 EV=0x00000001"),
    ("peth", {"probe_id": 5}, "probe_id=5"),
    ("erth", {"op": 0, "port_status_mask": 11}, "PORT_STATUS_UPDATE ports=0xb"),
    ("erth", {"op": 1, "port_status_mask": 11}, "EV_PROBE"),
    ("erth", {"op": 3, "port_status_mask": 11}, "op 3"),
    ("eeth", {"op": 1}, "EV_PROBE"),
    ("atomiceth", {"va": 0x1000}, "VA=0x1000"),
    ("atomicacketh", {"orig": 1 << 63}, "Orig=9223372036854775808"),
    ("deth", {"sqpn": 0x12}, "SQP=0x000012"),
    ("ieth", {"rkey": 0x12}, "Invalidate=0x00000012"),
    ("rdeth", {"eec": 0x12}, "EEC=0x000012"),
    ("xrceth", {"xrcsrq": 0x12}, "SRQ=0x000012"),
    ("payload", {"length": 2}, "Payload=2"),
    ("payload", {"length": 0}, ""),
    ("icrc", {"wrong": True}, "[ICRC wrong]"),
    ("icrc", {"wrong": False}, ""),
    ("verdict", {"trimmed": True, "malformed": "bad_pad: {3}"}, "[trimmed] [malformed: bad_pad: {3}]"),
    ("verdict", {"trimmed": False, "malformed": None}, ""),
]


@pytest.mark.parametrize(("header", "fields", "said"), SAID)
def test_what_a_header_says(header: str, fields: dict[str, Any], said: str) -> None:
    assert in_words([(header, fields)]) == said


def test_every_header_that_may_follow_a_bth_says_something() -> None:
    assert {"bth", *HEADER_LENGTHS} <= WORDS.keys() == {header for header, _, _ in SAID}
    for header in ("bth", *HEADER_LENGTHS):
        named = {field.name for field in HEADERS[header].fields} | ({"probe_id"} if header == "seth" else set())
        assert set(fields_of(header)) <= named


def test_fields_with_names_are_fields() -> None:
    for header, field in FIELD_NAMES:
        assert HEADERS[header].field(field).name == field


def test_a_packet_is_a_column_of_one() -> None:
    """Packets with the same headers side by side; what only some of them say leaves no space."""
    say = writer(("bth", "meth", "cc_state", "payload"))
    order = [(header, field) for header in ("bth", "meth", "cc_state", "payload") for field in fields_of(header)]
    packets = [
        {("bth", "opcode"): 0xCA, ("bth", "psn"): 1, ("meth", "msn"): 2, ("payload", "length"): 3},
        {("bth", "opcode"): 0xC6, ("bth", "rtx"): 1, ("meth", "rqmsn"): 2, ("cc_state", "ooo_count"): 4},
    ]
    assert say([[packet.get(place, 0) for packet in packets] for place in order]) == [
        "RDMA WRITE Only QP=0x000000 PSN=1 MSN=2 Payload=3",
        "RDMA WRITE First QP=0x000000 PSN=0 [rtx] MSN=0 RQMSN=2 ooo=4",
    ]
    assert say([[] for _ in order]) == []


def test_the_same_header_twice_is_said_twice() -> None:
    assert in_words([("meth", {"msn": 1}), ("meth", {"msn": 2})]) == "MSN=1 MSN=2"


@pytest.mark.parametrize("text", ["a 'quote'", 'a "quote"', "a \\ backslash", "half {a", "100%"])
def test_a_text_that_a_program_could_not_quote_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="a phrase cannot have"):
        list(Phrase(text).parts())


@pytest.mark.parametrize("when", ["a > 3", "not a == 3", "a == b", "a and b"])
def test_a_condition_of_another_form_is_refused(when: str) -> None:
    with pytest.raises(CallerError, match=f"a phrase cannot depend on '{when}'"):
        Phrase("x", when).condition()
