# SPDX-License-Identifier: BSD-2-Clause
"""Reflected timestamps with the time a packet was held, and the receiver's penalty (wire.md section 6)."""

from __future__ import annotations

import pytest
from hand_peer import ECT0, NACK, SACK, HandPeer, of

from mrc.endpoint.config import Capability, EndpointConfig, QpConfig
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile

CONFIG = QpConfig(path_mtu=256)


def _holding(capabilities: Capability = Capability.SVC_TIME, **wire: int) -> HandPeer:
    endpoint = EndpointConfig(wire=WireProfile(**wire))  # type: ignore[arg-type]
    return HandPeer(CONFIG, capabilities=capabilities, endpoint=endpoint)


def _reflected(hand: HandPeer, packet: bytes, held_ns: int) -> int:
    """What the SACK of `packet` reflects when it leaves `held_ns` after the packet came."""
    hand.receive(packet)
    hand.now += held_ns
    (sack,) = of(hand.transmitted(), SACK)
    return sack["cc_state"]["tx_timestamp"]


def test_a_timestamp_of_the_other_clock_moves_in_that_clocks_unit() -> None:
    """wire.md section 4: tsr 1 means implementation-defined, "our tsr=1 unit is 1 us", a switch."""
    for unit in (1000, 250):
        hand = _holding(tsr1_unit_ns=unit)
        packet = hand.request(0, b"x", bth={"ackreq": 1}, timestamp=500, tsr=1)
        assert _reflected(hand, packet, 10_999) == 500 + 10_999 // unit


def test_the_sum_wraps_at_16_bits() -> None:
    hand = _holding()
    assert _reflected(hand, hand.request(0, b"x", bth={"ackreq": 1}, timestamp=0xFFFF), 2 * 128) == 1


@pytest.mark.parametrize(("ftype", "reflected"), [(0, 0), (1, 50), (2, 0)])
def test_a_probe_has_a_timestamp_where_its_ftype_says_so(ftype: int, reflected: int) -> None:
    """wire.md section 8: "ftype is 1 when the timestamp is valid". Held for 10 units of 128 ns."""
    hand = _holding()
    assert _reflected(hand, hand.probe(timestamp=40, ftype=ftype), 1280) == reflected


def test_a_nack_reflects_the_time_held_too() -> None:
    hand = _holding(Capability.SVC_TIME | Capability.TRIM_NACK)
    cut = bytearray(hand.request(0, bytes(200), timestamp=40)[:68])
    cut[:2] = (6 << 12 | (12 << 2 | ECT0) << 4).to_bytes(2, "big")
    hand.receive(bytes(cut), hand.request(5000, b"x", timestamp=60))
    hand.now += 1280
    assert [nack["neth"]["tx_timestamp"] for nack in of(hand.transmitted(), NACK)] == [50, 70]


def test_packets_of_one_answer_batch_are_held_each_for_its_own_time() -> None:
    hand = _holding()
    for number in range(3):
        hand.receive(hand.request(number, b"x", bth={"ackreq": 1}, timestamp=100))
        hand.now += 128
    assert [sack["cc_state"]["tx_timestamp"] for sack in of(hand.transmitted(), SACK)] == [103, 102, 101]


# ------------------------------------------------------------------ receiver penalty


def test_sacks_carry_the_receivers_penalty_until_it_changes() -> None:
    """wire.md section 6: restore_cwnd(1), rcv_cwnd_pen(7), beside rcvd_bytes(24)."""
    hand = HandPeer(CONFIG)
    told = []
    for number, (penalty, restore) in enumerate([(0, False), (127, True), (1, False), (0, True), (0, False)]):
        hand.qp.set_receiver_penalty(penalty, restore)
        for at in range(2):
            packet = hand.request(2 * number + at, bytes(250), bth={"ackreq": 1})
            (sack,) = of(hand.exchange(packet), SACK)
            state = sack["cc_state"]
            told.append((state["rcv_cwnd_pen"], state["restore_cwnd"]))
            assert state["rcvd_bytes"] == -(-(2 * number + at + 1) * (int.from_bytes(packet[44:46], "big") + 40) // 256)
    assert told == [(0, 0), (0, 0), (127, 1), (127, 1), (1, 0), (1, 0), (0, 1), (0, 1), (0, 0), (0, 0)]


@pytest.mark.parametrize("penalty", [-1, 128])
def test_a_penalty_beyond_7_bits_is_refused(penalty: int) -> None:
    hand = HandPeer(CONFIG)
    with pytest.raises(CallerError):
        hand.qp.set_receiver_penalty(penalty)


def test_a_penalty_before_rtr_is_refused() -> None:
    hand = HandPeer(CONFIG)
    with pytest.raises(CallerError, match="RTR"):
        hand.endpoint.create_qp(CONFIG).set_receiver_penalty(1)
