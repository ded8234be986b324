# SPDX-License-Identifier: BSD-2-Clause
"""What is dropped before it reaches a queue pair, and under which counter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rc_hand import ACK, ONLY, OUR_PSN, PEER_PSN, HandPeer, answer, bth, icrc, in_ip, write

from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError
from mrc.wire.received_batch import ReceivedBatch

GOOD = write(ONLY, PEER_PSN, b"abcd", ackreq=True)


def changed(at: int, value: int, *, again: bool = True) -> Callable[[int], bytes]:
    """The good packet with one byte other than it was, counted from the UDP header; its ICRC worked out `again`."""

    def change(version: int) -> bytes:
        packet = bytearray(in_ip(GOOD, version))
        packet[(40 if version == 6 else 20) + at] = value
        return bytes(packet[:-4]) + (icrc(bytes(packet[:-4])) if again else bytes(packet[-4:]))

    return change


def not_udp(version: int) -> bytes:
    packet = bytearray(in_ip(GOOD, version)[:-4])
    packet[6 if version == 6 else 9] = 6
    return bytes(packet) + icrc(bytes(packet))


FAULTS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "no room for a BTH": ("too_short", lambda version: in_ip(GOOD, version)[: (40 if version == 6 else 20) + 15]),
    "TCP": ("not_ipv6_udp", not_udp),
    "cut short": ("bad_length", lambda version: in_ip(GOOD, version)[:-4]),
    "the UDP length": ("bad_length", changed(5, 43)),
    "no RETH": ("bad_length", lambda version: in_ip(bth(ONLY, PEER_PSN), version)),
    "half a RETH": ("bad_length", lambda version: in_ip(bth(ONLY, PEER_PSN) + bytes(8), version)),
    "more padding than payload": ("bad_length", lambda version: in_ip(bth(ONLY, PEER_PSN, pad=1) + bytes(16), version)),
    "an ACK with a payload": ("bad_length", lambda version: in_ip(bth(0x11, 1) + bytes(8), version)),
    "another port": ("bad_udp_port", lambda version: in_ip(GOOD, version, dport=4790)),
    "another transport version": ("bad_tver", changed(9, 1)),
    "an opcode of MRC": ("unknown_opcode", changed(8, 0xCA)),
    "an opcode of UD": ("unknown_opcode", changed(8, 0x64)),
    "an opcode that nobody has": ("unknown_opcode", changed(8, 0x1F)),
    "a bit of the payload": ("bad_icrc", changed(36, 0xFF, again=False)),
    "a bit of the PSN": ("bad_icrc", changed(19, 0xFF, again=False)),
    "a bit of the ICRC": ("bad_icrc", lambda version: in_ip(GOOD, version)[:-1] + b"\0"),
    "another partition": ("bad_pkey", changed(11, 0xFE)),
    "another queue pair": ("unknown_qp", changed(15, 0xFE)),
}


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("counter", "fault"), FAULTS.values(), ids=FAULTS)
def test_dropped_and_counted(version: int, counter: str, fault: Callable[[int], bytes]) -> None:
    peer = HandPeer(version=version)
    # Between two good ones, so that it is told apart in a batch.
    good = in_ip(GOOD, version), in_ip(write(ONLY, PEER_PSN + 1, b"efgh", ackreq=True), version)
    peer.receive_packets([good[0], fault(version), good[1]])
    assert [(each.psn, *each.aeth) for each in peer.sent()] == [(PEER_PSN + 1, ACK, 2)]
    assert peer.endpoint.counters.as_dict() == {counter: 1}
    alone = HandPeer(version=version)
    alone.receive_packets([fault(version)])
    assert (alone.sent(), alone.endpoint.counters.as_dict()) == ([], {counter: 1})


@pytest.mark.parametrize("version", [4, 6])
def test_a_limited_member_of_the_partition_is_taken(version: int) -> None:
    """RC-WIRE-08: of P_Keys 0xFFFF and 0x7FFF the lower 15 bits agree, and one is a full member's (IBTA 10.9)."""
    peer = HandPeer(version=version)
    peer.receive_packets([changed(10, 0x7F)(version)])
    assert [(each.psn, *each.aeth) for each in peer.sent()] == [(PEER_PSN, ACK, 1)]
    assert peer.count("bad_pkey") == 0


def test_another_ip_version() -> None:
    peer = HandPeer()
    peer.receive_packets([b"\x70" + in_ip(GOOD)[1:]])
    assert (peer.sent(), peer.endpoint.counters.as_dict()) == ([], {"not_ipv6_udp": 1})


def test_from_somebody_else() -> None:
    peer = HandPeer()
    peer.receive_packets([in_ip(GOOD, source="fd09::3")])
    assert (peer.sent(), peer.count("bad_source"), any(peer.memory)) == ([], 1, False)


def test_at_another_address_of_ours() -> None:
    """A QP is at one address: what comes in where another is, is not for it."""
    peer = HandPeer()
    peer.endpoint.receive(ReceivedBatch.from_packets([in_ip(GOOD)], port=1), peer.now)
    assert (peer.sent(), peer.count("bad_source"), any(peer.memory)) == ([], 1, False)


@pytest.mark.parametrize(("opcode", "headers"), [(0x0D, 4), (0x0E, 0), (0x0F, 4), (0x10, 4), (0x12, 12)])
def test_answers_to_what_is_never_asked_here(opcode: int, headers: int) -> None:
    peer = HandPeer()
    for psn in (PEER_PSN, PEER_PSN - 1, PEER_PSN + 5):
        peer.receive(bth(opcode, psn) + bytes(headers))
    assert (peer.sent(), peer.qp.state, peer.count("answers_to_nothing")) == ([], QpState.RTS, 3)
    assert len(peer.answers(GOOD)) == 1


def test_what_a_router_may_change_is_not_looked_at() -> None:
    for version, places in ((6, (1, 2, 3, 7)), (4, (1, 8, 10, 11))):
        for place in places:
            peer = HandPeer(version=version)
            packet = bytearray(in_ip(GOOD, version))
            packet[place] ^= 0x55 if place != 1 else 0x05
            peer.receive_packets([bytes(packet)])
            assert len(peer.sent()) == 1, (version, place)


def test_before_the_peer_is_known_nothing_is_taken() -> None:
    peer = HandPeer()
    qp = peer.endpoint.create_qp(qpn=0x77, first_psn=0)
    for ready in (lambda: None, qp.to_init):
        ready()
        peer.endpoint.wake(qp)
        peer.receive(bth(ONLY, 0, dqp=0x77) + bytes(16))
    assert (peer.sent(), peer.count("bad_source")) == ([], 2)
    peer.endpoint.destroy_qp(qp)
    assert peer.count("bad_source") == 2


def test_a_queue_pair_that_is_gone() -> None:
    peer = HandPeer()
    peer.post(100)
    peer.endpoint.destroy_qp(peer.qp)
    assert (peer.sent(), peer.endpoint.next_deadline()) == ([], None)
    peer.receive(GOOD)
    assert peer.count("unknown_qp") == 1
    with pytest.raises(CallerError, match="not one of this endpoint's"):
        peer.endpoint.destroy_qp(peer.qp)


def test_a_queue_pair_destroyed_as_its_work_completes() -> None:
    peer = HandPeer(complete=lambda done: peer.endpoint.destroy_qp(peer.qp))
    for _ in range(2):
        peer.post(300)
    assert len(peer.sent()) == 4
    peer.receive(answer(OUR_PSN + 1))
    assert (peer.sent(), peer.endpoint.qps, peer.endpoint.next_deadline()) == ([], {}, None)


def test_a_timer_of_a_queue_pair_that_is_gone() -> None:
    peer = HandPeer()
    peer.post(100)
    assert len(peer.sent()) == 1
    assert peer.endpoint.next_deadline() is not None
    peer.endpoint.destroy_qp(peer.qp)
    assert peer.endpoint.next_deadline() is None
    peer.endpoint.on_timer(1 << 60)


def test_given_up() -> None:
    peer = HandPeer()
    peer.post(100)
    peer.qp.to_error("enough")
    peer.qp.to_error("again")
    assert (peer.qp.state, peer.qp.error) == (QpState.ERROR, "enough")
    assert [event.detail for event in peer.endpoint.events] == ["enough"]


def test_numbers_out_of_range() -> None:
    peer = HandPeer()
    for qpn in (0xF, 1 << 24, peer.qp.qpn):
        with pytest.raises(CallerError, match="QPN"):
            peer.endpoint.create_qp(qpn=qpn)
    for psn in (-1, 1 << 24):
        with pytest.raises(CallerError, match="PSN"):
            peer.endpoint.create_qp(first_psn=psn)


@pytest.mark.parametrize(
    "wrong",
    [
        {"path_mtu": 1500},
        {"timeout": 0},
        {"timeout": 32},
        {"retry_count": 8},
        {"retry_count": -1},
        {"rnr_retry": 8},
        {"min_rnr_timer": 32},
        {"window_packets": 0},
        {"window_packets": (1 << 15) + 1},
        {"ack_every_packets": 0},
        {"ack_every_packets": (1 << 15) + 1},
        {"traffic_class": 256},
    ],
)
def test_parameters_out_of_range(wrong: dict[str, int]) -> None:
    with pytest.raises(CallerError, match=next(iter(wrong))):
        HandPeer(**wrong)


def test_a_port_that_goes_down_is_an_event_and_nothing_more() -> None:
    peer = HandPeer()
    peer.endpoint.set_port(0, False, 5)
    peer.endpoint.set_port(0, True, 6)
    assert [(event.at_ns, event.detail) for event in peer.endpoint.events] == [
        (5, "port 0 is down"),
        (6, "port 0 is up"),
    ]
    assert len(peer.answers(GOOD)) == 1
