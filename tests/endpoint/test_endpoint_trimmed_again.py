"""A packet that a full last hop trims again and again, and the flows of drills (behaviour.md, Retry budget)."""

from __future__ import annotations

from nacking import TRIMMED, nacked_again, send, trained

from mrc.drill.ends import tuning
from mrc.net.node import transfer_config


def test_a_packet_trimmed_again_and_again_does_not_end_a_flow_of_a_drill() -> None:
    """NACKs that name a PSN draw on its budget, and in 25 incasts of 7 to 1, where the last hop trims a third of all
    packets, two of some 60,000 PSNs were trimmed eleven times in a row."""
    hand = trained(tuning())
    latest = send(hand, 2)[1]
    for _ in range(30):
        latest = nacked_again(hand, 1, TRIMMED, latest)
    assert hand.qp.error is None
    assert hand.counters["losses_by_nack"] == 30


def test_what_ended_a_transfer_says_that_it_was_trimmed() -> None:
    """A transfer has 7 linear and 3 exponential retries: whoever meets such a hop is to know that the peer lives."""
    hand = trained(transfer_config(path_mtu=256))
    latest = send(hand, 2)[1]
    for _ in range(10):
        latest = nacked_again(hand, 1, TRIMMED, latest)
    assert hand.qp.error is None
    hand.receive(hand.nack(1, TRIMMED, ev=latest.ev, rtx=1))
    assert str(hand.qp.error).endswith("after 10 retries, then NACK TRIMMED")
