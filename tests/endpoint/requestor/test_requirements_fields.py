# SPDX-License-Identifier: BSD-2-Clause
"""What every packet of ours has, whatever its kind, and which class it goes out in (wire.md sections 1, 3, 8, 12)."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from hand_peer import (
    ACK,
    ECT0,
    MICROSECOND,
    PROBE,
    REGION_VA,
    SACK,
    SECOND,
    HandPeer,
    Sent,
    data,
    in_ipv6,
    local_address,
    numbers,
    of,
    peer_address,
)

from mrc.endpoint.config import NO_CAPABILITIES, Capability, EndpointConfig, QpConfig
from mrc.endpoint.paths.addressing import PlanePair, srv6_paths
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.usid import UsidTemplate

CONFIG = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers


def connected(wire: WireProfile, capabilities: Capability = NO_CAPABILITIES) -> HandPeer:
    """A HandPeer whose endpoint has this WireProfile and whose peer can do this."""
    hand = HandPeer(CONFIG, endpoint=EndpointConfig(wire=wire, seed=1), capabilities=capabilities)
    pairs = [
        PlanePair(plane, plane, *(str(IPv6Address(end(plane))) for end in (local_address, peer_address)), 4)
        for plane in range(2)
    ]
    hand.profile = srv6_paths(pairs, UsidTemplate(source_leaf=0, destination_leaf=1, destination_host=1), wire)
    hand.qp = hand.connect(CONFIG)
    return hand


def _every_kind(hand: HandPeer) -> dict[str, list[Sent]]:
    """First transmissions, retransmissions, a tail probe, SACKs, ACKs and a NAK of one QP."""
    first: list[Sent] = []
    for _ in range(20):
        hand.post(256)
        first += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += 100 * MICROSECOND
    again = data(hand.exchange(hand.sack(4, above=range(6, 20), trigger=19)))
    assert numbers(hand, again) == [5]
    hand.receive(hand.ack(19))
    hand.post(256)
    first += data(hand.transmitted())
    probes = of(hand.run(hand.now + SECOND // 2, stop_at_first=True), PROBE)
    answers = hand.exchange(hand.request(0, b"x", bth={"ackreq": 1}))
    naks = of(hand.exchange(hand.request(1, b"x", rkey=1)), ACK)
    kinds = {
        "data": first,
        "retransmission": again,
        "probe": probes,
        "sack": of(answers, SACK),
        "ack": of(answers, ACK),
        "nak": naks,
    }
    assert all(kinds.values()), kinds
    return kinds


@pytest.mark.parametrize("port", [4791, 4971, 7000])
def test_every_packet_goes_to_the_configured_port(port: int) -> None:
    """4791 unless configured otherwise. MRC-WIRE-05."""
    wire = WireProfile() if port == 4791 else WireProfile(udp_port=port)
    for kind, packets in _every_kind(connected(wire)).items():
        assert {int.from_bytes(packet.whole[42:44], "big") for packet in packets} == {port}, kind


@pytest.mark.parametrize("accepted", [(4791,), (7000, 4971)])
def test_the_accepted_ports_are_configurable(accepted: tuple[int, ...]) -> None:
    """MRC-WIRE-06."""
    hand = connected(WireProfile(udp_port=accepted[0], accepted_udp_ports=accepted))
    for number, port in enumerate((4791, 4971, 7000)):
        hand.receive(hand.request(number, b"x", va=REGION_VA + number, dport=port))
        assert hand.buffer[number : number + 1] == (b"x" if port in accepted else b"\0"), port
    assert hand.counters["bad_udp_port"] == 3 - len(accepted)


# ------------------------------------------------------------------ classes


def _dscps(hand: HandPeer) -> dict[str, set[int]]:
    return {kind: {packet.traffic_class >> 2 for packet in packets} for kind, packets in _every_kind(hand).items()}


@pytest.mark.parametrize("capabilities", [NO_CAPABILITIES, Capability.TRIM_NACK])
def test_a_qp_may_have_a_traffic_class_of_its_own(capabilities: Capability) -> None:
    """Its data, retransmissions and probes have it, with ECT(0) in place of its ECN bits; answers do not."""
    for given in (3 << 2, 3 << 2 | 3):
        hand = HandPeer(replace(CONFIG, traffic_class=given), capabilities=capabilities)
        kinds = _every_kind(hand)
        for kind in ("data", "retransmission", "probe"):
            assert {packet.traffic_class for packet in kinds[kind]} == {3 << 2 | 0b10}, kind
        for kind in ("sack", "ack", "nak"):
            assert {packet.traffic_class for packet in kinds[kind]} == {46 << 2}, kind


@pytest.mark.parametrize("wrong", [-1, 256])
def test_a_traffic_class_is_a_byte(wrong: int) -> None:
    with pytest.raises(CallerError, match=r"traffic_class must be 0\.\.255"):
        QpConfig(traffic_class=wrong)


def test_each_codepoint_is_a_switch() -> None:
    """MRC-ECN-11."""
    wire = WireProfile(
        dscp_no_trim=1,
        dscp_trimmable=2,
        dscp_trimmable_retx=3,
        dscp_trimmed=20,
        dscp_trimmed_lasthop=24,
        dscp_control=40,
    )
    plain, trimming = _dscps(connected(wire)), _dscps(connected(wire, Capability.TRIM_NACK))
    control = {"sack": {40}, "ack": {40}, "nak": {40}}
    assert plain == {**control, "data": {1}, "retransmission": {1}, "probe": {2}}
    assert trimming == {**plain, "data": {2}, "retransmission": {3}}
    for dscp, trimmed in ((12, False), (16, False), (20, True), (24, True)):
        hand = connected(wire)
        cut = in_ipv6(hand.request(0, b"data" * 10)[48 : 48 + 12 + 8], traffic_class=dscp << 2 | ECT0)[:-4]
        batch = ReceivedBatch.from_packets([cut], 0, [dscp << 2 | ECT0])
        hand.endpoint.receive(batch, hand.now)
        assert hand.counters.get("trimmed_received", 0) == int(trimmed), dscp
