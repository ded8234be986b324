"""Faults the adversary found, each reduced to what it takes."""

from __future__ import annotations

import numpy as np

from mrc.endpoint.config import LossConfig
from mrc.endpoint.loss import AfterAll, LossDetector
from mrc.endpoint.rtt import RttEstimator
from mrc.endpoint.sent import SentPackets

MICROSECOND, MILLISECOND = 1_000, 1_000_000
SIZE = np.array([344], np.int64)
EV = np.zeros(1, np.int64)


def test_a_probe_finds_a_lost_packet_even_when_no_more_transmissions_can_be_remembered() -> None:
    """PSN 0 is lost, and PSN 1 refused and sent again until the record is full: then nothing may be sent any more, and
    only the answer to a probe can say that PSN 0 is missing. MRC-LOSS-09."""
    sent, rtt = SentPackets(16, 0), RttEstimator()
    rtt.sample(100 * MICROSECOND, 100 * MICROSECOND, 0)
    config = LossConfig()
    loss = LossDetector(sent, rtt, config, 16 * MILLISECOND)
    now = 0
    for psn in sent.add_new(2).tolist():
        sent.transmit(np.array([psn]), sent.slots_of(psn, 1), SIZE, EV, now)
    while sent.make_log_room(1) > 0:
        now += MILLISECOND
        sent.mark_lost(sent.transmission[1:2])
        sent.transmit(np.array([1]), sent.slots_of(1, 1), SIZE, EV, now)
    assert loss.holes().tolist() == []
    loss.on_probe_answered(AfterAll(sent.next_transmission, now + MILLISECOND))
    assert loss.holes().tolist() == [0, 127], "and that the last one of PSN 1 is too, which left before the probe"
    sent.mark_lost(np.array([0]))
    assert sent.make_log_room(1) > 0
