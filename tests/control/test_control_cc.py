# SPDX-License-Identifier: BSD-2-Clause
"""CC profiles (api.md, Controller; nscc.md)."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from control_pair import MILLISECOND, ControlPair, refused

from mrc.control import CcProfileAttr, ProfileState
from mrc.control.snapshot import snapshot
from mrc.endpoint.congestion import ControllerConfig, FixedWindow, FixedWindowConfig, Nscc, NsccConfig, Unlimited

INIT, OFFLINE, ONLINE = ProfileState.INIT, ProfileState.OFFLINE, ProfileState.ONLINE


def test_a_qp_has_the_algorithm_and_the_configuration_of_its_profile() -> None:
    """MRC-CTL-17."""
    pair = ControlPair()
    config = NsccConfig(line_rate_bps=1_000_000_000, base_rtt=20_000, initial_cwnd=3000)
    pair.controller.modify_cc_profile(1, CcProfileAttr(OFFLINE, "uet-1.0-nscc"))
    pair.controller.modify_cc_profile(1, CcProfileAttr(ONLINE, nscc=config))
    assert pair.controller.query_cc_profile(1) == CcProfileAttr(ONLINE, "uet-1.0-nscc", config)
    left, right = pair.connect(cc_profile_id=1)
    assert isinstance(left.figures.controller, Nscc)
    assert left.figures.controller.cwnd == 3000
    assert right.figures.controller is not None
    assert right.figures.controller.cwnd != 3000
    pair.write(left)


def test_another_algorithm() -> None:
    """MRC-CTL-17."""
    pair = ControlPair()
    pair.controller.modify_cc_profile(1, CcProfileAttr(OFFLINE, "fixed"))
    with refused(errno.EINVAL, "needs config"):
        pair.controller.modify_cc_profile(1, CcProfileAttr(ONLINE))
    pair.controller.modify_cc_profile(1, CcProfileAttr(ONLINE, fixed=FixedWindowConfig()))
    left, _ = pair.connect(cc_profile_id=1)
    assert isinstance(left.figures.controller, FixedWindow)


def test_congestion_control_is_turned_off() -> None:
    """Without a single acknowledgement the sender goes on, where a window holds it back. MRC-CTL-17."""
    sent = {}
    configs: dict[str, ControllerConfig | None] = {"none": None, "fixed": FixedWindowConfig(window_packets=8)}
    for algorithm, config in configs.items():
        pair = ControlPair(rate_bps=1_000_000_000)
        pair.controller.modify_cc_profile(1, CcProfileAttr(OFFLINE, algorithm))
        pair.controller.modify_cc_profile(1, CcProfileAttr(ONLINE, config=config))
        assert pair.controller.query_cc_profile(1) == CcProfileAttr(ONLINE, algorithm, config)
        left, _ = pair.connect(cc_profile_id=1)
        for spine in range(4):
            for plane in (0, 1):
                pair.fabric.cut(f"p{plane}s{spine}")
        pair.post(left)
        pair.run(MILLISECOND // 4)
        sent[algorithm] = sum(pair.sent()["h0"].values())
        assert isinstance(left.figures.controller, Unlimited) == (algorithm == "none")
        shown = snapshot(pair.controller.profiles, pair.controller, 1)["qps"][0]
        assert (shown["cwnd_bytes"] is None) == (algorithm == "none")
        for spine in range(4):
            for plane in (0, 1):
                pair.fabric.heal(f"p{plane}s{spine}")
        pair.finish()
        assert left.figures.controller is not None
        assert left.figures.controller.inflight == 0
    assert sent["fixed"] == 8
    assert sent["none"] > 32  # as many as the links of 1 Gbit/s carry


@pytest.mark.parametrize(
    ("attributes", "number", "says"),
    [
        ({"algorithm": "cubic"}, errno.EINVAL, "no congestion control algorithm 'cubic'"),
        ({"algorithm": "fixed", "nscc": NsccConfig()}, errno.EINVAL, "fixed is configured by fixed, not by nscc"),
        ({"algorithm": 7}, errno.EINVAL, "out of its range"),
    ],
)
def test_a_cc_profile_that_cannot_be(attributes: dict[str, Any], number: int, says: str) -> None:
    """MRC-CTL-32, MRC-CTL-25, MRC-CTL-04."""
    controller = ControlPair().controller
    with refused(number, says):
        controller.modify_cc_profile(1, CcProfileAttr(OFFLINE, **attributes))
    assert controller.query_cc_profile(1) == CcProfileAttr(INIT)
