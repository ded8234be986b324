# SPDX-License-Identifier: BSD-2-Clause
"""Whole packets that answer each other under Scapy's own settings, as `sr` compares them (wire.md sections 3 to 8)."""

from __future__ import annotations

import pytest
from scapy.config import conf
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from mrc.layers import (
    AETH,
    BTH,
    CC_STATE,
    EETH,
    ERTH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    AtomicAckETH,
    AtomicETH,
    in_srv6,
    in_udp,
)

A, B, C = "fd00::1", "fd00::2", "fd00::3"
THERE = {"source_leaf": 0, "destination_leaf": 1, "destination_host": 1}
BACK = {"source_leaf": 1, "destination_leaf": 0, "destination_host": 0}
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def sack(**fields: int) -> Packet:
    return BTH(dqp=1) / SETH(**fields) / CC_STATE()


def built(packet: Packet) -> Packet:
    return type(packet)(bytes(packet))


def pairs(answer: Packet, request: Packet) -> bool:
    """Whether `sr` would pair them: both tests it makes, for each way packets travel."""
    verdicts = set()
    for there, back in (
        (in_udp(0xC001, A, B), in_udp(0xC0FF, B, A)),
        (in_udp(0xC001, "192.0.2.1", "192.0.2.2"), in_udp(0xC0FF, "192.0.2.2", "192.0.2.1")),
        (in_srv6(0x01000003, A, B, **THERE), in_srv6(2, B, A, **BACK)),
        (in_srv6(0x01000003, A, B, srh=True, **THERE), in_srv6(2, B, A, srh=True, **BACK)),
        (ETHER / in_srv6(0x01000003, A, B, **THERE), ETHER / in_srv6(2, B, A, **BACK)),
    ):
        sent, received = there / request, built(back / answer)
        for asked in (sent, built(sent)):
            verdicts.add(received.hashret() == asked.hashret() and bool(received.answers(asked)))
    assert len(verdicts) == 1, "not the same for all ways"
    return verdicts.pop()


PROBE = BTH(dqp=2) / PETH(probe_id=7)
REQUEST = BTH(psn=0x01C0DE) / ERTH(op=1)
WRITE = BTH(psn=0xFFFFFE) / METH() / RETH() / b"x"


def rc(opcode: int, psn: int, headers: Packet = None) -> Packet:
    return BTH(opcode=opcode, psn=psn) / headers if headers is not None else BTH(opcode=opcode, psn=psn)


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        (PROBE, sack(probe_id=7), True),
        (PROBE, sack(probe_id=8), False),
        (PROBE, sack(ack_psn_offset=7), False),
        (PROBE, BTH() / AETH(), False),
        (PROBE, PROBE, False),
        # Section 3: the request id is PSN bits 15:0.
        (REQUEST, BTH(psn=0x00C0DE) / EETH(op=1), True),
        (REQUEST, BTH(psn=0x00C0DF) / EETH(op=1), False),
        (REQUEST, REQUEST, False),
        # An ACK covers what its PSN reaches, a NAK names one packet.
        (WRITE, BTH(psn=0xFFFFFE) / AETH(), True),
        (WRITE, BTH(psn=3) / AETH(), True),
        (WRITE, BTH(psn=0xFFFFFD) / AETH(), False),
        (WRITE, BTH(psn=0xFFFFFE) / AETH(syndrome=0x62), True),
        (WRITE, BTH(psn=3) / AETH(syndrome=0x62), False),
        # ack_psn is what triggered a SACK.
        (WRITE, sack(cack_psn=0xFFFFFC, ack_psn_offset=2), True),
        (WRITE, sack(cack_psn=1, ack_psn_offset=-3), True),
        (WRITE, sack(cack_psn=1, ack_psn_offset=0), False),
        (WRITE, sack(probe_id=2, cack_psn=0xFFFFFE), False),
        (WRITE, BTH() / NETH(nack_psn=0xFFFFFE), True),
        (WRITE, BTH() / NETH(nack_psn=0xFFFFFF), False),
        (WRITE, WRITE, False),
        (BTH() / AETH(), BTH() / AETH(), False),
        # Standard RC.
        (rc(0x0A, 5, RETH()), rc(0x11, 5, AETH()), True),
        (rc(0x04, 5), rc(0x11, 6, AETH()), True),
        (rc(0x04, 5), rc(0x11, 4, AETH()), False),
        (rc(0x04, 5), BTH(psn=5) / AETH(), False),
        (rc(0x0C, 5, RETH()), rc(0x0D, 5, AETH()), True),
        (rc(0x0C, 5, RETH()), rc(0x10, 5, AETH()), True),
        (rc(0x0C, 5, RETH()), rc(0x10, 6, AETH()), False),
        (rc(0x0C, 5, RETH()), rc(0x11, 5, AETH()), False),
        (rc(0x0C, 5, RETH()), rc(0x11, 5, AETH(syndrome=0x62)), True),
        (rc(0x14, 5, AtomicETH()), rc(0x12, 5, AETH() / AtomicAckETH()), True),
        (rc(0x14, 5, AtomicETH()), rc(0x12, 6, AETH() / AtomicAckETH()), False),
        (rc(0x11, 5, AETH()), rc(0x11, 5, AETH()), False),
    ],
)
def test_what_answers_what(request_: Packet, answer: Packet, expected: bool) -> None:
    assert pairs(answer, request_) is expected


def test_addresses_still_count() -> None:
    answer = built(in_srv6(2, B, C, **BACK) / sack(probe_id=7))
    assert not answer.answers(in_srv6(0x01000003, A, B, **THERE) / PROBE)
    assert not built(in_udp(3, B, C) / sack(probe_id=7)).answers(in_udp(3, A, B) / PROBE)


def test_others_are_compared_as_ever() -> None:
    """Ports count again where no BTH is, and a tunnelled packet's outer addresses."""
    question = IPv6(src=A, dst=B) / UDP(sport=1000, dport=2000) / b"q"
    assert built(IPv6(src=B, dst=A) / UDP(sport=2000, dport=1000) / b"a").answers(question)
    assert not built(IPv6(src=B, dst=A) / UDP(sport=2000, dport=1001) / b"a").answers(question)
    assert not built(IPv6(src=B, dst=C) / question).answers(IPv6(src=A, dst=B) / question)
    assert not built(IP(src="192.0.2.2", dst="192.0.2.1") / UDP(sport=2, dport=4791) / b"a").answers(
        IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=3, dport=4791) / PROBE
    )
    assert conf.checkIPsrc
    assert conf.checkIPinIP
