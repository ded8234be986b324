# SPDX-License-Identifier: BSD-2-Clause
"""Faults the adversary found, each reduced to what it takes."""

from __future__ import annotations

from mrc.endpoint.config import LossConfig
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.requestor.loss import LossDetector
from mrc.endpoint.requestor.sent import SentPackets

MICROSECOND, MILLISECOND = 1_000, 1_000_000
SIZE, EV = 344, 0


def test_a_probe_finds_a_lost_packet_even_when_no_more_transmissions_can_be_remembered() -> None:
    """PSN 0 is lost, and PSN 1 refused and sent again until the record is full: then nothing may be sent any more, and
    only the answer to a probe can say that PSN 0 is missing. MRC-LOSS-09."""
    sent, rtt = SentPackets(16, 0), RttEstimator()
    rtt.sample(100 * MICROSECOND, 0)
    config = LossConfig()
    loss = LossDetector(sent, rtt, config, 16 * MILLISECOND)
    now = 0
    for _ in range(2):
        sent.transmit_one(SIZE, EV, now)
    while sent.make_log_room(1) > 0:
        now += MILLISECOND
        sent.lose(sent.transmission[1])
        sent.transmit_again_one(1, SIZE, EV, now)
    assert not loss.holes()
    loss.on_probe_answered(sent.next_transmission, now + MILLISECOND)
    lost = [loss.next_hole() for _ in range(3)]
    assert lost == [0, 127, -1], "and that the last one of PSN 1 is too, which left before the probe"
    sent.lose(0)
    assert sent.make_log_room(1) > 0
