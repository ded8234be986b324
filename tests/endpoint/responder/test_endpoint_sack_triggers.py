# SPDX-License-Identifier: BSD-2-Clause
"""Which packets trigger a SACK, and what it counts, against counting one packet after the other (behaviour.md)."""

from __future__ import annotations

import pytest
from hand_peer import CE, ECT0, SACK, HandPeer, of
from hypothesis import example, given
from hypothesis import strategies as st

from mrc.endpoint.config import QpConfig

# IPv6 40, UDP 8, BTH 12, METH 4, RETH 16, ICRC 4: what a packet counts beside its padded payload.
AROUND = 84
LEAST = 1024
# Payloads around what counts as 1024 (940 and 84 are 1024), alike and mixed.
sizes = st.sampled_from([0, 1, 936, 940, 941, 944, 1000, 2000])
batches = st.lists(st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=6), min_size=1, max_size=4)


def _by_counting(batches: list[list[tuple[int, bool]]], threshold: int, beyond: bool) -> list[list[int]]:
    """For each batch the numbers of the packets that trigger: AckReq does, and the bytes since the last SACK."""
    since, number, all_triggers = 0, 0, []
    for batch in batches:
        triggers = []
        for payload, ackreq in batch:
            since += max(AROUND + payload + -payload % 4, LEAST)
            if ackreq or since > threshold or (since == threshold and not beyond):
                triggers.append(number)
                since = 0
            number += 1
        all_triggers.append(triggers)
    return all_triggers


@given(batches, st.sampled_from([1, 1025, 2048, 2049, 3072, 4000]), st.booleans())
@example([[(0, False)] * 3, [(0, False)] * 2, [(0, False)]], 2049, False)
@example([[(0, False), (940, False), (941, False), (2000, False)]], 2048, False)
@example([[(0, False), (940, False), (941, False), (2000, False)]], 2048, True)
@example([[(2000, False), (0, False), (0, True), (944, False)], [(944, False)] * 3], 2049, False)
@example([[(0, True), (2000, False)], [(0, False), (944, False)]], 2049, False)
def test_a_sack_is_due_when_the_bytes_since_the_last_one_reach_the_threshold(
    batches: list[list[tuple[int, bool]]], threshold: int, beyond: bool
) -> None:
    """Or exceed it, by a switch. MRC-SACK-15, MRC-SACK-16, MRC-SACK-17, MRC-SACK-29."""
    hand = HandPeer(QpConfig(sack_threshold_bytes=threshold, sack_beyond_threshold=beyond))
    number, found = 0, []
    for batch in batches:
        packets = []
        for payload, ackreq in batch:
            packets.append(hand.request(number, bytes(payload), bth={"ackreq": int(ackreq)}))
            number += 1
        sacks = of(hand.exchange(*packets), SACK)
        found.append(
            [sack["seth"]["cack_psn"] + sack["seth"]["ack_psn_offset"] - hand.peer_first_psn for sack in sacks]
        )
    assert found == _by_counting(batches, threshold, beyond)


@pytest.mark.parametrize("marked", [0, 1, 3])
def test_marked_requests_are_counted_batch_after_batch(marked: int) -> None:
    hand = HandPeer(QpConfig(path_mtu=256))
    for batch in range(2):
        classes = [CE] * marked + [ECT0] * (4 - marked)
        hand.exchange(*(hand.request(4 * batch + at, b"x") for at in range(4)), traffic_class=classes)
        assert hand.counters.get("ecn_marked_received", 0) == marked * (batch + 1)


def test_the_sack_of_a_copy_is_one_from_which_bytes_are_counted() -> None:
    """ "bytes since the last SACK": what a copy brings counts nothing, its SACK begins the count anew."""
    hand = HandPeer(QpConfig(sack_threshold_bytes=3 * LEAST))
    assert of(hand.exchange(hand.request(0, b"x")), SACK) == []
    assert len(of(hand.exchange(hand.request(0, b"x")), SACK)) == 1
    sacks = [len(of(hand.exchange(hand.request(number, b"x")), SACK)) for number in (1, 2, 3)]
    assert sacks == [0, 0, 1]


def test_packets_that_are_refused_or_out_of_the_window_trigger_no_sack() -> None:
    """Row 4 of the table has a NACK and nothing else, marks and AckReq notwithstanding."""
    hand = HandPeer(QpConfig())
    packets = [hand.request(5000 + at, b"x", bth={"ackreq": 1, "rtx": 1}, traffic_class=CE) for at in range(20)]
    assert of(hand.exchange(*packets), SACK) == []


def test_rcvd_bytes_wraps_at_24_bits() -> None:
    """2^24 x 256 bytes is 4 GiB: the running total comes to that exactly, then one packet beyond it."""
    hand = HandPeer(QpConfig())
    packets = [hand.request(number, b"x", bth={"ackreq": 1}) for number in (0, 1)]
    hand.qp.responder.sacks.received_bytes = (1 << 32) - (int.from_bytes(packets[0][44:46], "big") + 40)
    told = [of(hand.exchange(packet), SACK)[0]["cc_state"]["rcvd_bytes"] for packet in packets]
    assert told == [0, 1]
