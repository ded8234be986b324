# SPDX-License-Identifier: BSD-2-Clause
"""Requests with one bit that is not as it should be, and requests that ask for what cannot be (behaviour.md,
Errors)."""

from __future__ import annotations

import random
from typing import Any

from mrc.conformance.cases.robustness.hostile import case, expect_unharmed, headers_of, transport
from mrc.conformance.script import Bench, pattern, us, wire

_OPCODE_AND_FLAGS = (0, 1, 8)  # bytes of the BTH
ONE_BIT = "the field that the bit belongs to, which the story names"


def _flip(body: bytes, bit: int) -> bytes:
    changed = bytearray(body)
    changed[bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


def _bits_flipped(bench: Bench, **fields: Any) -> None:
    """Each bit of opcode and flags of a request flipped, and every ninth of the rest of its headers, on a second
    connection; where that ends the QP, as a wrong R_Key does, the next is on another. The first connection works
    throughout, and nothing but the payload, at offset 4096, is written anywhere."""
    victim, psn = bench.another(), 0
    good = victim.make.request(0, pattern(16), offset=4096, ackreq=1, **fields)
    bits = range(8 * headers_of(good))
    for bit in sorted({*bits[::9], *(bit for bit in bits if bit // 8 in _OPCODE_AND_FLAGS)}):
        good = victim.make.request(psn, pattern(16), offset=4096, ackreq=1, **fields)
        bench.send(good.but(body=_flip(transport(good), bit)), victim.make.request(psn, ackreq=1))
        bench.wait(us(1))
        answers = victim.read()
        if any(answer.kind == "NAK" for answer in answers):
            victim.expect_state("ERROR")
            victim, psn = bench.another(), 0
            continue
        told = [answer.cack_psn for answer in answers if answer.kind == "SACK"]
        if told and told[-1] < psn and "immediate" in fields:
            # It waits for a receive, and so does what comes behind it (MRC-IMM-07).
            victim, psn = bench.another(), 0
        else:
            bench.check(bool(told) and told[-1] >= psn, f"a SACK for PSN {psn} behind it", f"cack_psn {told}")
            psn = told[-1] + 1
    bench.expect_state("RTS")
    bench.expect_goes_on(0)


@case("MRC-ERR-01/flipped", connections=18, look_at=ONE_BIT)
def requests_with_a_bit_flipped(bench: Bench) -> None:
    """A write with one bit of its headers flipped, one after the other, under a right ICRC: the target takes it, drops
    it or refuses it, but raises nothing, and only the QP that is refused suffers."""
    _bits_flipped(bench)


@case("MRC-ERR-01/flipped-immediate", connections=42, look_at=ONE_BIT)
def immediates_with_a_bit_flipped(bench: Bench) -> None:
    """A write with immediate and a timestamp, for which there is no receive, with one bit of its headers flipped, one
    after the other: nothing is raised, and only the QP that is refused suffers."""
    _bits_flipped(bench, immediate=5, timestamp=3)


@case("MRC-ERR-01/two-gigabytes", connections=5, look_at="what is set aside, or added up, for a DMALen of 2^31")
def requests_for_two_gigabytes(bench: Bench) -> None:
    """An Only with 64 bytes and a DMALen of 2^31 or 2^32 - 1 is refused. A First of a message of so many bytes writes
    what it brings or is refused, and the Middle that would lie 2^31 bytes behind is refused. Nothing else is written,
    and another connection works."""
    for dmalen in (1 << 31, (1 << 32) - 1):
        only = bench.another()
        only.request(0, pattern(64), dmalen=dmalen)
        only.expect("NAK", psn=0, syndrome=wire.INVALID_REQUEST)
        only.expect_nothing_written()
        first = bench.another()
        first.request(0, pattern(bench.mtu), opcode=wire.FIRST, dmalen=dmalen, ackreq=1)
        first.wait(us(10))
        if not any(answer.kind == "NAK" for answer in first.read()):
            first.expect_memory(0, pattern(bench.mtu))
            first.request(1, pattern(bench.mtu), opcode=wire.MIDDLE, dmalen=dmalen, offset=(1 << 31) - bench.mtu)
            first.expect("NAK", psn=1, syndrome=wire.REMOTE_ACCESS_ERROR)
        first.expect_nothing_written()
    expect_unharmed(bench, write_out=False)


@case("MRC-ERR-01/addresses", connections=14, look_at="sums of VA and length that do not fit their type")
def requests_for_every_kind_of_address(bench: Bench) -> None:
    """Requests for VAs at which sums of 31, 32, 63 and 64 bits run over, 0 and those just outside the region: each is
    refused with remote access error and writes nothing; another connection works."""
    start, length = bench.target.region_va, bench.target.region_length
    beyond = [start - 1, start - 64, start + length, start + length - 63]
    edges = [
        0,
        1,
        (1 << 31) - 1,
        (1 << 32) - 32,
        (1 << 63) - 1,
        1 << 63,
        (1 << 63) + start,
        (1 << 64) - 64,
        (1 << 64) - 1,
    ]
    outside = [va % (1 << 64) for va in beyond + edges if not start <= va % (1 << 64) <= start + length - 64]
    for va in outside:
        victim = bench.another()
        victim.request(0, pattern(64), va=va)
        victim.expect("NAK", psn=0, syndrome=wire.REMOTE_ACCESS_ERROR)
        victim.expect_nothing_written()
    expect_unharmed(bench, write_out=False)


@case("MRC-ERR-01/random", connections=56, look_at="which value of a field is used before it is checked")
def requests_of_random_bytes(bench: Bench) -> None:
    """300 packets with a write's opcode and random bytes behind their BTH, of any length up to 200 bytes and under
    right ICRCs, half of them in bursts: nothing is raised, nothing is written outside the region or without its R_Key,
    and another connection works."""
    dice = random.Random(4791)
    victim = bench.another()
    for _ in range(60):
        packets = []
        for _ in range(dice.choice((1, 1, 1, 17))):
            psn = (victim.tester.first_psn + dice.randrange(4)) & 0xFFFFFF
            head = bytes([dice.choice(sorted(wire.WRITES)), dice.randrange(4) << 4, 0xFF, 0xFF, 0])
            head += victim.target.qpn.to_bytes(3, "big") + bytes([dice.choice((0, 0x10, 0x80, 0xB0))])
            body = head + psn.to_bytes(3, "big") + dice.randbytes(dice.randrange(200))
            packets.append(victim.make.request(0).but(body=body))
        bench.send(*packets)
        bench.wait(us(1))
        if any(answer.kind == "NAK" for answer in victim.read()):
            victim = bench.another()
    victim.expect_nothing_written()
    expect_unharmed(bench, write_out=False)
