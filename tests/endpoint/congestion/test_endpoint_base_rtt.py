# SPDX-License-Identifier: BSD-2-Clause
"""Base RTT is measured with EV probes before there is data (nscc.md, Line rate and base RTT)."""

from __future__ import annotations

from hand_operations import EV_PROBE, answered, requests
from hand_peer import MICROSECOND, PEER_QPN, HandPeer

from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import Configured, FixedWindow, Nscc, NsccConfig

RTT = 80 * MICROSECOND
CONFIG = QpConfig(path_mtu=256)


def test_ev_probes_at_qp_start_measure_base_rtt() -> None:
    """nscc.md: "measure base RTT with EV probes at QP start". MRC-CC-34."""
    hand = HandPeer(CONFIG, controller="nscc")
    controller = hand.qp.controller
    assert isinstance(controller, Nscc)
    assert controller.base_rtt is None
    probes = requests(hand.transmitted(), EV_PROBE)
    assert len(probes) == 3
    hand.now += RTT
    for probe in probes:
        answered(hand, probe, plane=probe.port)
    assert controller.base_rtt == RTT
    # 1.5 x 10 Gbit/s x 80 us.
    assert controller.max_cwnd == 150_000


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


def test_a_configured_base_rtt_is_not_measured() -> None:
    """nscc.md: "Line rate and base RTT are configuration on hardware". MRC-CC-34."""
    configured = HandPeer(CONFIG, controller=Configured(Nscc, NsccConfig(base_rtt=RTT)))
    assert configured.transmitted() == []
    fixed = HandPeer(CONFIG, controller=FixedWindow)
    assert fixed.transmitted() == []


def test_the_line_rate_is_a_parameter() -> None:
    """nscc.md: "let the line rate be a parameter of the CC profile with a measured default". MRC-CC-34."""
    default, faster = NsccConfig(base_rtt=RTT), NsccConfig(base_rtt=RTT, line_rate_bps=100 * 10**9)
    assert default.line_rate_bps == 10 * 10**9
    windows = [HandPeer(CONFIG, controller=Configured(Nscc, each)).qp.controller for each in (default, faster)]
    # 1.5 x 10 Gbit/s x 80 us are 150,000 bytes.
    assert [window.max_cwnd for window in windows if isinstance(window, Nscc)] == [150_000, 1_500_000]
