# SPDX-License-Identifier: BSD-2-Clause
"""CC profiles (api.md, Controller; nscc.md)."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from control_pair import ControlPair, refused

from mrc.control import CcProfileAttr, ProfileState
from mrc.endpoint.congestion import FixedWindow, Nscc, NsccConfig

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
    pair.controller.modify_cc_profile(1, CcProfileAttr(ONLINE))
    left, _ = pair.connect(cc_profile_id=1)
    assert isinstance(left.figures.controller, FixedWindow)


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
