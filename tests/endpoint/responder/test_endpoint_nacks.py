# SPDX-License-Identifier: BSD-2-Clause
"""NACKs the responder sends: trimmed packets, PSNs beyond the window, QPs in ERROR (wire.md sections 7 and 12)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hand_peer import ACK, ECT0, NACK, PSN_MASK, REGION_VA, SACK, HandPeer, Sent, in_ipv6, of, peer_address

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, QpConfig, ResponderConfig
from mrc.endpoint.qp_states import QpState

DSCP_TRIMMED = 12
EV = 0x01000003
HALF = 1 << 23
CONFIG = QpConfig(path_mtu=256, mpr_dest=1)
WINDOW = 128


def _answers_trims(**others: object) -> HandPeer:
    return HandPeer(CONFIG, capabilities=Capability.TRIM_NACK, **others)  # type: ignore[arg-type]


def _trim(packet: bytes, dscp: int = DSCP_TRIMMED, *, kept: int = 8, lengths: bool = True) -> bytes:
    """What a switch leaves: headers through the BTH and `kept` bytes after it, another DSCP, perhaps new lengths."""
    cut = bytearray(packet[: 60 + kept])
    word = int.from_bytes(cut[:4], "big") & 0xF00FFFFF | (dscp << 2 | ECT0) << 20
    cut[:4] = word.to_bytes(4, "big")
    if lengths:
        cut[4:6] = cut[44:46] = (20 + kept).to_bytes(2, "big")
    return bytes(cut)


def _offset(hand: HandPeer, nack: Sent) -> int:
    return (nack["neth"]["nack_psn"] - hand.peer_first_psn + HALF & PSN_MASK) - HALF


# ------------------------------------------------------------------ trimmed packets


@pytest.mark.parametrize(("stamped", "kept"), [(False, 8), (True, 4)], ids=["no TSETH", "TSETH cut off"])
def test_a_nack_reflects_0_where_no_timestamp_survived(stamped: bool, kept: int) -> None:
    """wire.md section 12: METH "and TSETH where there is one"; behaviour.md: "0 when the request had no TSETH"."""
    hand = _answers_trims()
    (nack,) = hand.exchange(_trim(hand.request(0, bytes(200), timestamp=0xABCD if stamped else None), kept=kept))
    assert nack["neth"]["tx_timestamp"] == 0


def test_a_trimmed_packet_that_arrived_before_is_nacked_all_the_same() -> None:
    """The requestor takes such a NACK for its EV only (behaviour.md, Requestor)."""
    hand = _answers_trims()
    hand.exchange(hand.request(0, b"a"), hand.request(2, b"b"))
    for number in (0, 2):
        (nack,) = hand.exchange(_trim(hand.request(number, bytes(200), bth={"rtx": 1}, ev=EV)))
        assert (_offset(hand, nack), nack["neth"]["entropy"]) == (number, EV)


def test_a_trimmed_psn_half_the_circle_behind_is_only_counted() -> None:
    """behaviour.md, Responder, last row: "<= epsn - 2^23 | not written | no | none; counted"."""
    hand = _answers_trims()
    assert hand.exchange(_trim(hand.request(-HALF, bytes(200)))) == []
    assert hand.counters["psn_out_of_range"] == 1


@pytest.mark.parametrize("ours", [Capability(0), Capability.TRIM_NACK])
def test_without_the_capability_on_both_sides_nothing_is_answered(ours: Capability) -> None:
    """behaviour.md, Responder: "if that capability was negotiated, else nothing"."""
    config = QpConfig(path_mtu=256, capabilities=ours)
    theirs = Capability(0) if ours else Capability.TRIM_NACK
    hand = HandPeer(config, capabilities=theirs)
    assert hand.exchange(_trim(hand.request(0, bytes(200)))) == []
    assert hand.counters == {"trimmed_received": 1}


def test_a_trimmed_control_packet_or_one_from_a_stranger_is_not_answered() -> None:
    hand = _answers_trims()
    stranger = hand.request(0, bytes(200), source=peer_address(0) + 1)
    control = hand.sack(-1)
    assert hand.exchange(_trim(stranger), _trim(control)) == []
    assert hand.counters["bad_source"] == 1
    assert hand.counters["trimmed_received"] == 2


def test_trimmed_packets_of_other_ports_keys_and_versions_are_not_answered() -> None:
    """wire.md section 1: TVer "must be 0; anything else is dropped and counted"; the accepted UDP ports."""
    hand = _answers_trims()
    packets = [hand.request(0, bytes(200), dport=4790), hand.request(0, bytes(200), bth={"tver": 1})]
    packets.append(hand.request(0, bytes(200), bth={"pkey": 0x8001}))
    assert hand.exchange(*map(_trim, packets)) == []
    assert hand.counters["trimmed_received"] == 3


def test_trimmed_and_whole_packets_in_one_batch() -> None:
    """NACKs leave before the SACKs of the same batch: who sees the hole first would blame the path for it."""
    hand = _answers_trims()
    sent = hand.exchange(
        hand.request(0, b"a"),
        _trim(hand.request(1, bytes(200), ev=EV)),
        hand.request(2, b"c", va=REGION_VA + 2, bth={"ackreq": 1}),
    )
    assert [answer.opcode for answer in sent] == [NACK, SACK, ACK]
    assert _offset(hand, sent[0]) == 1
    assert sent[1]["seth"]["bitmap"] == 0b10
    assert hand.buffer[:3] == b"a\0c"


def test_successive_nacks_alternate_planes_and_so_do_the_sacks_between_them() -> None:
    """behaviour.md, Responder: "Successive SACKs alternate planes"; NACKs have no reason to do otherwise."""
    hand = _answers_trims()
    for number in range(8):
        plane, uplink = divmod(number, 4)
        hand.receive(hand.request(number, b"x", plane=plane, ev=plane << 24 | uplink), port=plane)
    hand.transmitted()
    nacks, sacks = [], []
    for number in range(8, 24):
        whole = hand.request(number + 1, b"x", bth={"ackreq": 1})
        sent = hand.exchange(_trim(hand.request(number, bytes(200))), whole)
        nacks += [answer.port for answer in of(sent, NACK)]
        sacks += [answer.port for answer in of(sent, SACK)]
    assert len(nacks) == len(sacks) == 16
    assert all(a != b for a, b in pairwise(nacks)), nacks
    assert all(a != b for a, b in pairwise(sacks)), sacks


def test_a_flood_of_trimmed_packets_leaves_a_bounded_number_of_nacks() -> None:
    """The newest 1,024 wait, no more: what is forged costs no memory."""
    hand = _answers_trims()
    for _ in range(40):
        hand.receive(*(_trim(hand.request(at, bytes(80))) for at in range(100)))
    nacks = hand.transmitted()
    assert len(nacks) == 1024
    assert _offset(hand, nacks[-1]) == 99


# ------------------------------------------------------------------ beyond the window


def test_the_other_text_says_nothing_beyond_the_window() -> None:
    """C: "one text says silent": a switch."""
    hand = HandPeer(QpConfig(path_mtu=256, mpr_dest=1, responder=ResponderConfig(nack_out_of_window=False)))
    assert hand.exchange(hand.request(WINDOW, b"out")) == []
    assert hand.counters["psn_out_of_window"] == 1


@pytest.mark.parametrize("planes", [2, 3, 4])
@pytest.mark.parametrize("nacks", [1, 2, 3])
def test_successive_sacks_alternate_planes_with_nacks_in_between(planes: int, nacks: int) -> None:
    """behaviour.md, SACK triggers: "so that one broken reverse path cannot condemn forward ones"."""
    hand = HandPeer(CONFIG, planes=planes)
    ports = []
    for number in range(3 * planes):
        (sack,) = of(hand.exchange(hand.request(number, b"x", bth={"ackreq": 1})), SACK)
        ports.append(sack.port)
        for place in range(nacks):
            assert len(of(hand.exchange(hand.request(WINDOW + 100 + place, b"out")), NACK)) == 1
    assert all(len(set(ports[at : at + planes])) == planes for at in range(2 * planes))


# ------------------------------------------------------------------ a QP in ERROR


def test_the_nak_that_ended_a_qp_is_said_again_while_requests_come() -> None:
    """A lost NAK is not lost for ever; at most one per received batch, and nothing else is answered."""
    hand = HandPeer(CONFIG)
    (first,) = hand.exchange(hand.request(3, b"x", rkey=1))
    for _ in range(3):
        (again,) = hand.exchange(hand.request(3, b"x", rkey=1, bth={"rtx": 1}), hand.request(4, b"y"))
        assert again["aeth"] == first["aeth"]
        assert again["aeth"]["syndrome"] == 0x62
        assert again.psn == first.psn == hand.peer_first_psn + 3
    assert hand.counters["wrong_qp_state"] == 6
    assert not any(hand.buffer)
    # Two QPs in ERROR leave each other alone.
    assert hand.exchange(hand.probe(), hand.sack(-1), hand.ack(-1), hand.ack(0, 0x61)) == []
    assert hand.exchange(hand.request(3, b"x", source=peer_address(0) + 1)) == []
    assert hand.run(hand.now + 10**10) == []


def test_unexp_event_ends_the_peers_qp_and_the_two_fall_silent() -> None:
    """A real requestor at the other end: remote operation error, then not one packet more either way."""
    asked, gone = HandPeer(CONFIG), HandPeer(CONFIG)
    asked.post(1000)
    gone.qp.to_error("gone")
    packets = [packet for packet in asked.transmitted() if packet.is_data]
    requests = []
    for number, packet in enumerate(packets):
        requests.append(gone.request(number, packet.payload, op=packet.opcode, dmalen=1000))
    (nack,) = of(gone.exchange(*requests), NACK)
    answer = bytearray(nack.whole[48:-4])
    answer[5:8] = asked.qp.qpn.to_bytes(3, "big")
    first = (asked.qp.first_psn + _offset(gone, nack)) & PSN_MASK
    answer[9:12] = answer[25:28] = first.to_bytes(3, "big")
    assert asked.exchange(in_ipv6(bytes(answer))) == []
    assert asked.qp.state == QpState.ERROR
    assert asked.completed() == [(0, WorkStatus.REMOTE_OPERATION_ERROR)]
    assert asked.run(asked.now + 10**10) == gone.run(gone.now + 10**10) == []


def test_a_qp_that_never_knew_a_peer_answers_nothing_in_error() -> None:
    hand = HandPeer(CONFIG)
    packet = hand.request(0, b"x")
    unborn = hand.endpoint.create_qp(CONFIG)
    unborn.to_init()
    unborn.to_error("before it lived")
    transport = bytearray(packet[48:-4])
    transport[5:8] = unborn.qpn.to_bytes(3, "big")
    assert hand.exchange(in_ipv6(bytes(transport))) == []
    assert unborn.counters.wrong_qp_state == 1
