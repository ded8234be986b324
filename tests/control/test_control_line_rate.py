# SPDX-License-Identifier: BSD-2-Clause
"""What congestion control is told the network carries: --line-rate (nscc.md, "let the line rate be a parameter")."""

from __future__ import annotations

import errno

import pytest
from control_pair import ControlPair, refused

from mrc.control import CcProfileAttr
from mrc.control.loading import set_line_rate
from mrc.endpoint.congestion import Nscc, NsccConfig


def test_the_default_profile_has_it_and_keeps_all_else() -> None:
    pair = ControlPair()
    profiles = pair.controller.profiles
    profiles.ccs.load(0, CcProfileAttr(algorithm="nscc", nscc=NsccConfig(gamma=0.5, base_rtt=20_000)))
    set_line_rate(profiles, 1_000_000_000)
    expected = NsccConfig(gamma=0.5, base_rtt=20_000, line_rate_bps=1_000_000_000)
    assert pair.controller.query_cc_profile(0).nscc == expected
    left, _ = pair.connect()
    assert isinstance(left.figures.controller, Nscc)
    # nscc.md: max_cwnd is 1.5 BDP, and 1 Gbit/s times 20 us are 2,500 bytes.
    assert left.figures.controller.max_cwnd == 3750
    pair.write(left)


@pytest.mark.parametrize("rate", [999_999, 10_000_000_000_001])
def test_a_rate_out_of_range(rate: int) -> None:
    pair = ControlPair()
    with refused(errno.EINVAL, "line_rate_bps must be"):
        set_line_rate(pair.controller.profiles, rate)
    assert pair.controller.query_cc_profile(0).nscc == NsccConfig()


def test_an_algorithm_without_one() -> None:
    pair = ControlPair()
    pair.controller.profiles.ccs.load(0, CcProfileAttr(algorithm="fixed"))
    with refused(errno.EINVAL, "the algorithm fixed takes no line rate: choose nscc"):
        set_line_rate(pair.controller.profiles, 1_000_000_000)


def test_not_under_a_qp() -> None:
    pair = ControlPair()
    pair.connect()
    with refused(errno.EBUSY, "used by 1 QPs"):
        set_line_rate(pair.controller.profiles, 1_000_000_000)
