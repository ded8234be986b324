# SPDX-License-Identifier: BSD-2-Clause
"""Packets that are broken off, too short or too long (behaviour.md, Errors)."""

from __future__ import annotations

from collections.abc import Container, Iterable

from mrc.conformance.cases.robustness.hostile import (
    BTH,
    case,
    every_kind,
    expect_dropped,
    expect_unharmed,
    headers_of,
    know_ordinary_counters,
    send_all,
    transport,
)
from mrc.conformance.script import Bench, Crafted, pattern

SIX_KINDS = frozenset({"Last with Immediate", "Only with TSETH", "ACK", "SACK", "PROBE", "ENDPOINT_REQUEST"})
WHERE = "the first read behind the end of a packet: which length was trusted before it was checked"


def _broken_off(packet: Crafted, lengths: Iterable[int]) -> list[Crafted]:
    frame = packet.frame()
    return [packet.but(whole=frame[:length]) for length in lengths]


def _broken_off_everywhere(bench: Bench, kinds: Container[str] | None = None) -> None:
    for name, packet in every_kind(bench).items():
        if kinds is None or name in kinds:
            whole = len(packet.frame())
            # Of the payload not every byte.
            lengths = {*range(min(whole, 160)), *range(160, whole, 97), *range(max(whole - 9, 0), whole)}
            send_all(bench, _broken_off(packet, sorted(lengths)))
    expect_unharmed(bench)


@case("MRC-ERR-01/truncated", look_at=WHERE)
def packets_that_break_off(bench: Bench) -> None:
    """A packet of every kind is broken off behind each of its bytes, from the outermost IP header on, its headers
    saying the old length: nothing is raised, nothing changes, and the target works."""
    _broken_off_everywhere(bench)


@case("MRC-ERR-01/truncated-udp", mode="udp", look_at=WHERE)
def packets_without_an_outer_header_that_break_off(bench: Bench) -> None:
    """Packets of six kinds without an outer header are broken off behind each of their bytes: nothing is raised,
    nothing changes."""
    _broken_off_everywhere(bench, SIX_KINDS)


@case("MRC-ERR-01/truncated-ipv4", mode="udp", ip=4, look_at=WHERE)
def packets_over_ipv4_that_break_off(bench: Bench) -> None:
    """Packets of six kinds over IPv4 are broken off behind each of their bytes: nothing is raised, nothing changes."""
    _broken_off_everywhere(bench, SIX_KINDS)


@case("MRC-ERR-02/broken-off", connections=2, look_at="which packet that breaks off is not counted")
def packets_that_break_off_are_counted(bench: Bench) -> None:
    """A packet of every kind is broken off behind each byte from its BTH on: none is answered, each is counted."""
    know_ordinary_counters(bench)
    for packet in every_kind(bench).values():
        whole, inside = len(packet.frame()), len(transport(packet))
        expect_dropped(bench, _broken_off(packet, range(whole - inside - 4, min(whole - 1, whole - inside + 48))))
    expect_unharmed(bench)


@case("MRC-ERR-02/short", connections=2, look_at=WHERE)
def packets_too_short_for_their_opcode(bench: Bench) -> None:
    """A packet of every kind with each length that is too short for its headers, its own lengths and its ICRC right:
    each is dropped and counted, and changes nothing."""
    know_ordinary_counters(bench)
    for packet in every_kind(bench).values():
        body = transport(packet)
        expect_dropped(bench, [packet.but(body=body[:length]) for length in range(headers_of(packet))])
    expect_unharmed(bench)


@case("MRC-ERR-02/long", connections=2, look_at="whether a control packet may be longer than its headers")
def control_packets_too_long_for_their_opcode(bench: Bench) -> None:
    """A control packet of every kind with 1 to 64 bytes too many, its own lengths and its ICRC right: each is dropped
    and counted, and changes nothing."""
    know_ordinary_counters(bench)
    for name, packet in every_kind(bench).items():
        if not packet.payload and not name.startswith("Only"):
            body = transport(packet)
            expect_dropped(bench, [packet.but(body=body + bytes(more)) for more in range(1, 65)])
    expect_unharmed(bench)


@case("MRC-ERR-02/padding", connections=2, look_at="whether the pad count is compared with what there is to pad")
def padding_that_is_not_there(bench: Bench) -> None:
    """Requests without payload and control packets with pad counts of 1 to 3, and no padding: each is dropped and
    counted, and changes nothing."""
    know_ordinary_counters(bench)
    for packet in every_kind(bench).values():
        if not packet.payload:
            body = transport(packet)
            padded = [body[:1] + bytes([body[1] | pad << 4]) + body[2:] for pad in (1, 2, 3)]
            expect_dropped(bench, [packet.but(body=each) for each in padded])
    expect_unharmed(bench)


@case("MRC-ERR-02/lengths", look_at="which of the lengths in IP and UDP headers is trusted")
def lengths_that_contradict_the_packet(bench: Bench) -> None:
    """Requests whose IP or UDP length, or both, say something else than there is, from 0 to 65535, all with a right
    ICRC: each is dropped and counted, and changes nothing."""
    bench.written(0, pattern(16))
    good = bench.make.request(0, pattern(32), ackreq=1)
    right = 8 + len(transport(good)) + 4
    wrong = [0, 1, 7, 8, 19, 20, BTH, right - 4, right - 1, right + 1, right + 4, 1500, 1 << 15, 0xFFFF]
    expect_dropped(bench, [good.but(plen=each) for each in wrong])
    expect_dropped(bench, [good.but(udp_len=each) for each in wrong])
    expect_dropped(bench, [good.but(plen=each, udp_len=each) for each in wrong])
    expect_unharmed(bench)
