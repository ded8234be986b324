# SPDX-License-Identifier: BSD-2-Clause
"""What the consortium's pseudocode has otherwise, one parameter each (nscc.md, Consortium pseudocode), by hand.

nscc_network.py has the numbers. Each test also shows what the text has, which is the default.
"""

from __future__ import annotations

import pytest
from nscc_network import BASE_RTT, MTU, NETWORK, SIZES, TARGET, Window

EARLY = 1_000


@pytest.mark.parametrize(("keeps", "cwnd"), [(False, 95_000), (True, 100_000)], ids=["text", "consortium"])
def test_a_resource_nack(keeps: bool, cwnd: int) -> None:
    """ "leaves cwnd alone"; a trim takes its size off in either case. MRC-CC-35."""
    window = Window(resource_nack_keeps_cwnd=keeps)
    window.fill()
    window.nack(EARLY, MTU, trimmed=False)
    assert window.cwnd == cwnd
    assert window.controller.inflight == 95_000
    window.nack(EARLY, MTU, trimmed=True)
    assert window.cwnd == cwnd - MTU


@pytest.mark.parametrize(("keeps", "cwnd"), [(False, MTU), (True, 100_000)], ids=["text", "consortium"])
def test_a_resource_nack_at_the_end_of_an_interval_in_which_nothing_got_through(keeps: bool, cwnd: int) -> None:
    """The interval ends base_rtt + target = 21,000 ns after it began. Quick adapt is the text's answer. MRC-CC-35."""
    window = Window(resource_nack_keeps_cwnd=keeps, quick_adapt_when_limited_only=False, eta=0)
    window.ack(EARLY, 0, delay=TARGET)
    window.nack(EARLY + 21_000, MTU, trimmed=False)
    assert window.cwnd == cwnd


@pytest.mark.parametrize(("feeds", "average"), [(False, 0), (True, 1_500)], ids=["text", "consortium"])
def test_a_trim_and_the_delay_average(feeds: bool, average: int) -> None:
    """An eighth of the configured 12,000 ns. A resource NACK feeds nothing. MRC-CC-36."""
    window = Window(trim_feeds_base_rtt=feeds)
    window.nack(EARLY, MTU, trimmed=False)
    assert window.controller.avg_delay == 0
    window.nack(EARLY, MTU, trimmed=True)
    assert window.controller.avg_delay == average


def test_a_trim_where_no_base_rtt_is_configured_feeds_the_measured_one() -> None:
    """Nothing before there is one; then an eighth of 20,000 ns. MRC-CC-36."""
    window = Window(trim_feeds_base_rtt=True, base_rtt=None)
    window.nack(EARLY, MTU)
    assert window.controller.avg_delay == 0
    window.controller.on_rtt(EARLY, 20_000)
    window.nack(EARLY, MTU)
    assert window.controller.avg_delay == 2_500


@pytest.mark.parametrize(("early", "cwnd"), [(False, 100_000), (True, 82_200)], ids=["text", "consortium"])
def test_a_penalty_on_an_acknowledgement_without_a_sample(early: bool, cwnd: int) -> None:
    """100,000 - 12,800 in flight, less 50 x 12,800 >> 7 = 5,000. It increases nothing in either case. MRC-CC-37."""
    window = Window(penalty_without_sample=early)
    window.fill()
    window.ack(EARLY, 12_800, delay=None, penalty=50)
    assert (window.cwnd, window.inc) == (cwnd, 0)


@pytest.mark.parametrize("early", [False, True], ids=["text", "consortium"])
def test_a_penalty_on_an_acknowledgement_with_a_sample_applies_once(early: bool) -> None:
    """MRC-CC-37."""
    window = Window(penalty_without_sample=early)
    window.fill()
    window.ack(EARLY, 12_800, delay=0, penalty=50)
    assert (window.cwnd, window.inc) == (82_200, 0)


@pytest.mark.parametrize(
    ("only", "cwnds"),
    [(False, (82_200, 82_200, 82_200)), (True, (82_200, 82_200, 100_000))],
    ids=["text", "consortium"],
)
def test_a_window_saved_unasked_and_restored_on_request(only: bool, cwnds: tuple[int, ...]) -> None:
    """The penalty comes without restore_cwnd; it ends; restore_cwnd comes with a penalty of 0. MRC-CC-38."""
    window = Window(restore_on_request_only=only, eta=0)
    window.fill()
    seen = []
    for now, size, penalty, restore in ((1, 12_800, 50, False), (2, 0, 0, False), (3, 0, 0, True)):
        window.ack(now * EARLY, size, delay=0, penalty=penalty, restore=restore)
        seen.append(window.cwnd)
    assert tuple(seen) == cwnds


def test_the_end_of_a_penalty_alone_restores_nothing() -> None:
    """The text restores 100,000 when a penalty with restore_cwnd ends. MRC-CC-38."""
    for only, cwnd in ((False, 100_000), (True, 82_200)):
        window = Window(restore_on_request_only=only, eta=0)
        window.fill()
        window.ack(EARLY, 12_800, delay=0, penalty=50, restore=True)
        window.ack(2 * EARLY, 0, delay=0)
        assert window.cwnd == cwnd


def test_a_penalty_after_one_that_ended_saves_the_window_anew_and_only_once() -> None:
    """82,200 are saved by the second, before its first cut: 74,400 in flight less 5,000, then 61,600 less 5,000.
    MRC-CC-38."""
    window = Window(restore_on_request_only=True, penalty_when_limited_only=False, eta=0)
    window.fill()
    window.ack(EARLY, 12_800, delay=0, penalty=50)
    window.ack(2 * EARLY, 0, delay=0)
    window.ack(3 * EARLY, 12_800, delay=0, penalty=50)
    assert window.cwnd == 69_400
    window.ack(4 * EARLY, 12_800, delay=0, penalty=50)
    assert window.cwnd == 56_600
    window.ack(5 * EARLY, 0, delay=0, restore=True)
    assert window.cwnd == 82_200


@pytest.mark.parametrize(
    ("at_period", "now", "cwnd"),
    [
        (False, BASE_RTT, 100_000),
        (True, BASE_RTT, 100_900),
        (True, BASE_RTT - 1, 100_000),
        (False, BASE_RTT + 1, 100_900),
    ],
)
def test_a_fulfil_when_exactly_one_period_has_passed(at_period: bool, now: int, cwnd: int) -> None:
    """22,500 x 1,000 / 100,000 = 225, and eta 675. MRC-CC-39."""
    window = Window(fulfil_at_period=at_period)
    window.ack(now, 1_000, delay=TARGET)
    assert (window.cwnd, window.inc) == (cwnd, 22_500_000 if cwnd == 100_000 else 0)


def test_last_adjust_starts_when_the_first_packet_that_is_acknowledged_left() -> None:
    """Round trips of 21,000 ns, a period of 30,000: the first packet left at 979,000. From 0 the first acknowledgement
    fulfils: 225 and eta 675; from then on the second: 450 and 675. MRC-CC-40."""
    text, consortium = (
        Window(last_adjust_starts_now=starts, adjust_period_threshold=30_000) for starts in (False, True)
    )
    for window, cwnd in ((text, 100_900), (consortium, 100_000)):
        window.ack(1_000_000, 1_000, delay=TARGET)
        assert window.cwnd == cwnd
    consortium.ack(1_009_000, 0, delay=TARGET)
    assert consortium.cwnd == 100_000
    consortium.ack(1_009_001, 1_000, delay=TARGET)
    assert consortium.cwnd == 101_125


def test_last_adjust_starts_at_a_first_acknowledgement_without_a_sample() -> None:
    """MRC-CC-40."""
    window = Window(last_adjust_starts_now=True)
    window.ack(1_000_000, 1_000, delay=None)
    window.ack(1_012_000, 1_000, delay=TARGET)
    assert window.cwnd == 100_000
    window.ack(1_012_001, 0, delay=TARGET)
    assert window.cwnd == 100_900


def test_alpha_from_the_size_of_a_packet_or_of_its_payload() -> None:
    """4 a b mss / target = 4 x 0.75 x 4,500 / 9,000, or with 5,000. 900 bytes at half the target. MRC-CC-41."""
    assert NETWORK.parameters_for(SIZES, BASE_RTT).alpha == pytest.approx(1.5)
    for uses_mtu, inc in ((False, 6_075_000), (True, 6_750_000)):
        window = Window(alpha_uses_mtu=uses_mtu)
        window.ack(EARLY, 900, delay=4_500)
        assert window.inc == pytest.approx(inc, abs=1)
