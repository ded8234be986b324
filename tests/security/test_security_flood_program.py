# SPDX-License-Identifier: BSD-2-Clause
"""The filter under a flood, run by the kernel: what may be for a QP passes, what surely is not does not."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest
from attacks import STRANGER, every_kind, trimmed
from hand_peer import HandPeer, icrc, in_ipv6, peer_address

from mrc.net.filters import attach_filter
from mrc.net.flood_program import AHEAD, BEHIND, MOST, Lists, flood_program
from mrc.net.ports import SRV6, UDP_IPV6

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A filter at one end sees what the other sends from its first byte on, as on a raw socket for IPv6-in-IPv6."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


def passes(pair: Pair, packet: bytes) -> bytes | None:
    pair[0].send(packet)
    try:
        return pair[1].recv(65536)
    except BlockingIOError:
        return None


def lists(hand: HandPeer) -> Lists:
    return Lists((4791, 4971), (2, hand.qp.qpn), (peer_address(0), peer_address(1)))


def hostile(hand: HandPeer) -> dict[str, bytes]:
    good = hand.request(0, b"x" * 64)
    changed = {
        "version": (0, b"\x40"),
        "next header": (6, b"\x06"),
        "port": (42, b"\x00\x09"),
        "opcode": (48, b"\x04"),
        "TVer": (49, b"\x01"),
        "P_Key": (50, b"\x7f\xff"),
        "QPN": (53, b"\x00\x00\x01"),
        "source": (20, b"\xba\xd0\xba\xd0"),
    }
    packets = {name: good[:at] + new + good[at + len(new) :] for name, (at, new) in changed.items()}
    chance = random.Random(5)
    return packets | {"short": good[:63], "noise": chance.randbytes(300), "a byte": b"\x60"}


def test_all_that_may_be_for_a_qp_passes_whole(pair: Pair) -> None:
    hand = HandPeer()
    attach_filter(pair[1], flood_program(SRV6, lists(hand)))
    kinds = every_kind(hand, None)
    for packet in [*kinds.values(), in_ipv6(kinds["write"][48:-4], dport=4971), trimmed(kinds["write"])]:
        assert passes(pair, packet) == packet
    wrong = kinds["write"][:-1] + b"\x00"
    assert passes(pair, wrong) == wrong, "the kernel knows no ICRC"
    assert icrc(wrong[:-4]) != wrong[-4:]


@pytest.mark.parametrize("name", list(hostile(HandPeer())))
def test_what_is_surely_not_does_not(pair: Pair, name: str) -> None:
    hand = HandPeer()
    attach_filter(pair[1], flood_program(SRV6, lists(hand)))
    assert passes(pair, hostile(hand)[name]) is None


def test_the_counting_socket_is_given_exactly_the_rest(pair: Pair) -> None:
    hand = HandPeer()
    attach_filter(pair[1], flood_program(SRV6, lists(hand), refused=True))
    for packet in every_kind(hand, None).values():
        assert passes(pair, packet) is None
    for packet in hostile(hand).values():
        assert passes(pair, packet) == packet


def test_more_qps_and_peers_than_a_filter_can_list_all_pass(pair: Pair) -> None:
    hand = HandPeer()
    many = Lists((4791,), tuple(range(0x10, 0x10 + MOST + 1)), tuple(range(MOST + 1)))
    attach_filter(pair[1], flood_program(SRV6, many))
    packet = every_kind(hand, STRANGER)["write"]
    assert passes(pair, packet) == packet
    assert passes(pair, hostile(hand)["port"]) is None


NEAR = [0, 1, -1, 32_640, -32_640, AHEAD - 1, -BEHIND]
FAR = [AHEAD, AHEAD + 1, -BEHIND - 1, 1 << 22, -(1 << 22), 1 << 23]


@pytest.mark.parametrize("epsn", [1000, 0, (1 << 24) - 1, 5 << 24 | 77, 1 << 23])
def test_requests_pass_by_their_psn_all_else_whatever_its_psn(pair: Pair, epsn: int) -> None:
    """PSNs are 24 bits on the wire and wrap; epsn is counted without end. No QP is judged by the epsn of another."""
    hand = HandPeer()
    other = 0x77
    known = Lists((4791,), (2, hand.qp.qpn, other), (peer_address(0),), {0x76: 5, hand.qp.qpn: epsn})
    attach_filter(pair[1], flood_program(SRV6, known))
    kinds = every_kind(hand, None)
    requests = [name for name, packet in kinds.items() if 0xC6 <= packet[48] <= 0xCB]
    assert len(requests) >= 9
    assert "trimmed" in requests
    for name, packet in kinds.items():
        for away in (*NEAR, *FAR):
            moved = packet[:57] + ((epsn + away) % (1 << 24)).to_bytes(3, "big") + packet[60:]
            expected = moved if name not in requests or away in NEAR else None
            assert passes(pair, moved) == expected, (name, away)
            for_other = moved[:53] + other.to_bytes(3, "big") + moved[56:]
            assert passes(pair, for_other) == for_other


def test_a_psn_out_of_range_is_counted_and_one_in_it_is_not(pair: Pair) -> None:
    hand = HandPeer()
    known = Lists((4791,), (hand.qp.qpn,), (peer_address(0),), {hand.qp.qpn: 1000})
    attach_filter(pair[1], flood_program(SRV6, known, refused=True))
    near, far = (
        every_kind(hand, None)["write"][:57] + psn.to_bytes(3, "big") + every_kind(hand, None)["write"][60:]
        for psn in (1000, 1000 + AHEAD)
    )
    assert passes(pair, near) is None
    assert passes(pair, far) == far


def test_of_a_flood_of_probes_one_in_thirty_two_passes_and_everything_else(pair: Pair) -> None:
    """At random, so that a probe of the peer's has the same chance. 156 of 1,000 more or less are five deviations."""
    hand = HandPeer()
    few = Lists((4791,), (2, hand.qp.qpn), (peer_address(0), peer_address(1)), {hand.qp.qpn: 1000}, few_probes=True)
    attach_filter(pair[1], flood_program(SRV6, few))
    kinds = every_kind(hand, None)
    probe = kinds.pop("probe")
    passed = sum(passes(pair, probe) is not None for _ in range(32_000))
    assert 844 < passed < 1156
    for name in kinds:
        assert passes(pair, kinds[name]) is not None, name


@pytest.mark.parametrize("count", [0, 1, 2, MOST])
@pytest.mark.parametrize("refused", [False, True])
def test_lists_of_any_length_make_a_program_the_kernel_takes(pair: Pair, count: int, refused: bool) -> None:
    for framing in (SRV6, UDP_IPV6):
        numbers = tuple(range(count))
        known = Lists((4791,), numbers, numbers, dict.fromkeys(numbers, 9), few_probes=True)
        attach_filter(pair[1], flood_program(framing, known, refused=refused))
