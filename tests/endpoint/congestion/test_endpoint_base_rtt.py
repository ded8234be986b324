# SPDX-License-Identifier: BSD-2-Clause
"""Base RTT is measured with EV probes before there is data (nscc.md, Line rate and base RTT)."""

from __future__ import annotations

from hand_operations import EV_PROBE, requests
from hand_peer import PEER_QPN, HandPeer

from mrc.endpoint.config import QpConfig

CONFIG = QpConfig(path_mtu=256)


def test_qps_that_start_together_measure_once() -> None:
    """They share a controller, and a thousand times three probes would hold up the first data."""
    hand = HandPeer(CONFIG, controller="nscc")
    for at in range(1, 20):
        hand.connect(CONFIG, qpn=PEER_QPN + at)
    probes = requests(hand.transmitted(), EV_PROBE)
    assert len(probes) == 3
    # Answered or not, they are over in time; who starts then and still knows nothing asks anew.
    hand.now += 10**9
    hand.run(hand.now)
    hand.connect(CONFIG, qpn=PEER_QPN + 20)
    assert len(requests(hand.transmitted(), EV_PROBE)) == 3
