# SPDX-License-Identifier: BSD-2-Clause
"""Windows that several QPs share (behaviour.md, Congestion control; nscc.md)."""

from __future__ import annotations

import pytest
from draws import draws
from hand_peer import MICROSECOND, PEER_QPN, HandPeer, Sent, data, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_window import RecordingWindows
from several import CONFIG, NOMINAL, SMALL, Several

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.datapath.qps import SendState, send_state

RTT = 100 * MICROSECOND
TRIMMED, NO_BITMAP, UNEXP_EVENT = 0x01, 0x06, 0x19


# ------------------------------------------------------------------ one window for several QPs


def test_a_timer_that_finds_losses_lets_the_others_send() -> None:
    """nscc.md: taken off once, "on the first of acknowledged, lost, NACKed".

    What runs out is the local ACK timeout of QP 0.
    """
    several = Several(2, 4 * NOMINAL, config=QpConfig(path_mtu=256, timeout=10))
    several.of(0).post(256 * 4)
    several.hand.transmitted()
    several.of(1).post(256 * 20)
    assert several.sent() == []
    sent = data(several.hand.run(several.hand.now + (1024 << 10) + 1))
    assert (1, 0) in [several.which(packet) for packet in sent]


@pytest.mark.parametrize("how", ["to_error", "destroyed", "UNEXP_EVENT", "NAK"])
def test_what_a_failed_qp_had_in_flight_is_given_back_to_the_others(how: str) -> None:
    """nscc.md, Inflight: it belongs to the controller; behaviour.md, Congestion control: that "may govern several
    QPs"."""
    several = Several(2, 8 * NOMINAL)
    several.of(0).post(256 * 20)
    several.hand.transmitted()
    several.of(1).post(256 * 20)
    assert several.sent() == []
    assert several.window.inflight == 8 * NOMINAL
    if how == "to_error":
        several.qps[0].to_error("enough")
    elif how == "destroyed":
        several.hand.endpoint.destroy_qp(several.qps[0])
    elif how == "UNEXP_EVENT":
        several.hand.receive(several.of(0).nack(3, UNEXP_EVENT))
    else:
        several.hand.receive(several.of(0).ack(3, syndrome=0x62))
    assert several.window.inflight == 0
    assert several.sent() == [(1, number) for number in range(8)]
    several.hand.receive(several.of(1).ack(7))
    assert several.sent() == [(1, number) for number in range(8, 16)]
    assert several.window.inflight == 8 * NOMINAL


def test_a_qp_that_fails_while_it_waits_leaves_nothing_behind() -> None:
    """behaviour.md, Errors: "put that QP, and nothing else, into ERROR, flush its work with error completions"."""
    several = Several(3, 8 * NOMINAL)
    several.of(0).post(256 * 8)
    several.hand.transmitted()
    for at in (1, 2):
        several.of(at).post(256 * 20)
    assert several.sent() == []
    several.qps[1].to_error("enough")
    assert several.hand.completed() == [(1, WorkStatus.FLUSHED)]
    several.hand.endpoint.destroy_qp(several.qps[1])
    several.hand.receive(several.of(0).ack(7))
    assert several.sent() == [(2, number) for number in range(8)]


def _sent_as_the_other_goes_on(several: Several, number: int) -> list[tuple[int, int]]:
    """QP 0 is acknowledged up to `number`, then what it sent on account of that, five times over."""
    sent: list[tuple[int, int]] = []
    for _ in range(5):
        several.hand.receive(several.of(0).ack(number))
        sent += several.sent()
        number = max([number, *(sent_number for at, sent_number in sent if at == 0)])
    return sent


def test_a_qp_pending_for_two_reasons_has_its_turn_when_the_last_of_them_goes() -> None:
    """behaviour.md, Requestor: "Sends while inflight < cwnd, PSN <= cack_psn + window".

    QP 1 has used up its 128 PSNs with small packets, all acknowledged but one; QP 0 then fills the window to the last
    byte and beyond. The last small packet's acknowledgement moves cack_psn but frees too little of the shared window;
    what opens it is an answer to QP 0.
    """
    several = Several(2, 200 * NOMINAL, config=SMALL)
    for _ in range(200):
        several.of(1).post(0)
    assert several.sent() == [(1, number) for number in range(128)]
    several.hand.receive(several.of(1).ack(126))
    several.hand.endpoint.wake(several.qps[1])
    assert several.sent() == [(1, number) for number in range(128, 200)]
    several.hand.receive(several.of(1).ack(198))
    for _ in range(128):
        several.of(1).post(0)
    assert len(several.sent()) == 127  # 128 past cack_psn, and one is left to send
    several.window.become(several.window.inflight + 1)
    several.of(0).post(256 * 100)
    assert several.sent() == [(0, 0)]
    several.hand.now += RTT
    several.hand.receive(several.of(1).ack(199))
    assert several.sent() == []  # more than the window is in flight
    assert (1, 327) in _sent_as_the_other_goes_on(several, 0)


def test_a_retransmission_has_its_turn_when_anothers_answer_opens_the_window() -> None:
    """behaviour.md, Requestor: sent again "within cwnd". The NACK itself frees too little."""
    several = Several(2, 1000)
    several.of(1).post(0)
    (small,) = data(several.hand.transmitted())
    several.of(0).post(256 * 30)
    assert several.sent() == [(0, 0), (0, 1), (0, 2)]  # inflight is 1,120 of 1,000 bytes, 88 of them QP 1's
    several.hand.now += RTT
    several.hand.receive(several.of(1).nack(0, TRIMMED, ev=small.ev))
    assert several.sent() == []
    assert (1, 0) in _sent_as_the_other_goes_on(several, 2)


def test_a_new_edge_that_comes_while_the_window_is_shut_is_not_forgotten() -> None:
    """behaviour.md, Requestor: "Sends while inflight < cwnd, PSN <= cack_psn + window"."""
    config = QpConfig(path_mtu=256, mpr=1, capabilities=Capability.DYNAMIC_MPR, timeout=20)
    windows = RecordingWindows(1 << 40)
    hand = HandPeer(config, controller=windows, capabilities=Capability.DYNAMIC_MPR)
    limited, other = hand.qp, hand.connect(config, qpn=PEER_QPN + 1)
    hand.post(256 * 200, fill=7)
    assert len(data(hand.transmitted())) == 128
    hand.receive(hand.ack(127))  # an ACK tells no edge
    windows.only.become(4 * NOMINAL)
    hand.qp = other
    hand.post(256 * 4)
    assert len(data(hand.transmitted())) == 4
    hand.qp = limited
    assert data(hand.exchange(hand.sack(127, mpr=1))) == []
    hand.qp = other
    sent = data(hand.exchange(hand.ack(3)))
    hand.qp = limited
    assert numbers(hand, sent) == [128, 129, 130, 131]


# ------------------------------------------------------------------ whose controller


@pytest.mark.parametrize("named", ["fixed", "nscc"])
def test_qps_that_name_the_same_controller_share_it(named: str) -> None:
    """behaviour.md, Congestion control: "Pluggable"; one of each kind a destination."""
    hand = HandPeer(CONFIG, controller=named)
    same = hand.connect(CONFIG, qpn=PEER_QPN + 1)
    hand.controller = RecordingWindows(1 << 30)
    other = hand.connect(CONFIG, qpn=PEER_QPN + 2)
    assert hand.qp.controller is same.controller
    assert other.controller is not same.controller


def test_a_controller_outlives_the_qp_that_was_first() -> None:
    """behaviour.md, Congestion control: it "belongs to a destination", not to a QP."""
    several = Several(2, 8 * NOMINAL)
    several.hand.endpoint.destroy_qp(several.qps[0])
    third = several.hand.connect(CONFIG, qpn=PEER_QPN + 2)
    assert third.controller is several.qps[1].controller is several.window


# ------------------------------------------------------------------ whatever happens


ACTIONS = ("post", "post small", "ack", "sack", "trim", "no bitmap", "time", "error")


@settings(deadline=None, max_examples=draws(37))
@given(
    window=st.integers(1, 8 * NOMINAL),
    actions=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2), st.integers(0, 1000)), min_size=1, max_size=60
    ),
)
def test_no_qp_that_may_send_is_ever_left_behind(window: int, actions: list[tuple[str, int, int]]) -> None:
    """behaviour.md, Requestor: "Sends while inflight < cwnd, PSN <= cack_psn + window, and a path is available."

    Three QPs share a window. When the endpoint has nothing more to send, no QP has; the window is never overfilled by
    more than the packet that filled it; and what is in flight is what the QPs have out. MRC-SEND-01, MRC-CC-21.
    """
    several = Several(3, window, fair_share=4, config=SMALL)
    hand = several.hand
    latest: dict[tuple[int, int], Sent] = {}
    arrived: dict[int, set[int]] = {at: set() for at in range(3)}
    for action, at, choice in actions:
        qp = several.qps[at]
        several.of(at)
        mine = sorted(number for other, number in latest if other == at and number not in arrived[at])
        if action == "post":
            hand.post(256 * (choice % 40), fill=at)
        elif action == "post small":
            for _ in range(choice % 40):
                hand.post(0)
        elif action == "time":
            for packet in data(hand.run(hand.now + choice * MICROSECOND)):
                latest[several.which(packet)] = packet
        elif action == "error":
            if choice < 20:
                qp.to_error("enough")
        elif mine:
            hand.now += MICROSECOND
            number = mine[choice % len(mine)]
            packet = latest[at, number]
            if action == "ack":
                arrived[at] |= set(range(number + 1))
                hand.receive(hand.ack(number))
            elif action == "sack":
                arrived[at].add(number)
                cack = next(free for free in range(1 << 20) if free not in arrived[at]) - 1
                above = [other for other in arrived[at] if cack < other <= cack + 64]
                if number <= cack + 64:
                    hand.receive(hand.sack(cack, above, trigger=number, ev=packet.ev))
            else:
                reason = TRIMMED if action == "trim" else NO_BITMAP
                hand.receive(hand.nack(number, reason, ev=packet.ev, rtx=packet["bth"]["rtx"]))
        for packet in data(hand.transmitted()):
            latest[several.which(packet)] = packet
        assert [send_state(one.datapath) for one in several.qps if send_state(one.datapath) == SendState.READY] == []
        assert several.window.inflight < window + NOMINAL
        assert (several.window.inflight == 0) == (sum(one.outstanding for one in several.qps) == 0)
    for one in several.qps:
        one.to_error("the end")
    assert several.window.inflight == 0
    assert sum(1 for _ in hand.completed()) <= hand.posted
