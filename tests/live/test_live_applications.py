# SPDX-License-Identifier: BSD-2-Clause
"""What benchmarks/busy-application and benchmarks/ring run in a lab: every case moves its bytes and loses no QP."""

from __future__ import annotations

import pytest
from applications.busy import CASES, Case, Times, run_case
from applications.end import Plan
from applications.ends import HERE, run_ends
from applications.ring import run_one, run_ring

from mrc.errors import PeerError
from mrc.lab import Lab

MIB = 1 << 20
# Far below what a QP waits for its peer.
SHORT = Times(seconds=0.4, hold_s=0.2, first=8)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_moves_bytes_and_loses_no_qp(lab: Lab, case: Case) -> None:
    found = run_case(case, SHORT, lab, HERE)
    assert found["lost"] == []
    assert found["packets_sent"] >= SHORT.first * MIB // 4096
    assert (found["goodput_gbps"] is None) == case.posts
    assert case.posts or found["goodput_gbps"] > 0
    assert ("held_mib" in found) == bool(case.held)


def test_a_ring_moves_as_much_as_one_sender(lab: Lab) -> None:
    ring, one = run_ring(MIB, 3, lab, HERE), run_one(MIB, 3, lab, HERE)
    assert ring["lost"] == one["lost"] == []
    for each in (ring, one):
        assert each["packets_sent"] - each["retransmitted_packets"] == 4 * 3 * MIB // 4096
        assert each["goodput_gbps"] > 0


def test_a_process_that_fails_is_named_with_what_it_says(lab: Lab) -> None:
    plan = Plan(size=-1, sends=True)
    with pytest.raises(PeerError, match="the process on h0 ended: ValueError: negative"):
        run_ends(lab, HERE, [("h0", plan)], [], 1.0)
