# SPDX-License-Identifier: BSD-2-Clause
"""What holds for NSCC whatever happens: the window keeps its bounds, the count of bytes in flight is right."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from nscc_network import MTU, NETWORK, SIZES

from mrc.endpoint.congestion import Nscc, NsccConfig

CONFIGS = {
    "known": NETWORK,
    "untrimmed": dataclasses.replace(NETWORK, trimming=False),
    "unmeasured": NsccConfig(),
    "slow": NsccConfig(line_rate_bps=1_000_000, base_rtt_window_s=0.001),
    "hardware": dataclasses.replace(
        NETWORK,
        base_rtt_window_s=None,
        quick_adapt_when_limited_only=False,
        penalty_when_limited_only=False,
        zero_delay=1_000,
    ),
    "extreme": NsccConfig(gamma=1, max_md_jump=0, fi=1 << 40, fi_scale=1 << 40, eta=1 << 40, qa_gate=0),
}
QPS = 3
MOST_AT_ONCE = 150

packets = st.integers(0, 40)
rtts = st.none() | st.integers(-5, 200_000) | st.integers(1, 1 << 62)
steps = st.one_of(
    st.tuples(st.just("send"), st.integers(0, QPS - 1)),
    st.tuples(
        st.just("ack"), st.integers(0, QPS - 1), packets, st.booleans(), rtts, st.integers(0, 127), st.booleans()
    ),
    st.tuples(st.just("lose"), st.integers(0, QPS - 1), packets),
    st.tuples(st.just("nack"), st.integers(0, QPS - 1), packets, st.booleans()),
    st.tuples(st.just("rtt"), rtts.filter(lambda rtt: rtt is not None)),
)
pauses = st.sampled_from([0, 0, 1, 1_000, 12_000, 30_000, 10_000_000, 11_000_000_000])


@given(
    name=st.sampled_from(sorted(CONFIGS)),
    start=st.integers(0, 1 << 62),
    story=st.lists(st.tuples(pauses, steps), max_size=120),
)
def test_the_window_keeps_its_bounds_and_inflight_is_the_sum_of_all_qps(
    name: str, start: int, story: list[tuple[int, tuple[object, ...]]]
) -> None:
    """MRC-CC-12, MRC-CC-24."""
    controller = Nscc(SIZES, CONFIGS[name])
    outstanding = [0] * QPS
    now = start

    def remove(qp: int, most: int) -> int:
        size = min(outstanding[qp], most * MTU)
        outstanding[qp] -= size
        controller.removed(size)
        return size

    for pause, step in story:
        now += pause
        match step:
            case ("send", int(qp)):
                for _ in range(MOST_AT_ONCE):
                    if controller.may_send:
                        outstanding[qp] += MTU
                        controller.sent(MTU)
            case ("ack", int(qp), int(count), bool(marked), rtt, int(penalty), bool(restore)):
                assert rtt is None or isinstance(rtt, int)
                controller.on_ack(now, remove(qp, count), marked, rtt, penalty, restore)
            case ("lose", int(qp), int(count)):
                controller.on_loss(now, remove(qp, count))
            case ("nack", int(qp), int(count), bool(trimmed)):
                controller.on_nack(now, remove(qp, count), trimmed)
            case ("rtt", int(rtt)):
                controller.on_rtt(now, rtt)
            case _:
                raise AssertionError(step)
        assert MTU <= controller.cwnd <= controller.max_cwnd
        assert controller.max_cwnd >= 2 * MTU
        assert controller.inflight == sum(outstanding) >= 0
        assert controller.inc >= 0
