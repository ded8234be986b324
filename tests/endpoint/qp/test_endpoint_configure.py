# SPDX-License-Identifier: BSD-2-Clause
"""Parameters given after a QP was created, and what they do on the wire (api.md: modify_qp sets them on the way up)."""

from __future__ import annotations

import pytest
from hand_peer import FIRST, LAST, PEER_FIRST_PSN, PEER_QPN, REGION_VA, SACK, HandPeer, data, of, peer_address
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError

SMALL, LARGE = QpConfig(path_mtu=256), QpConfig(path_mtu=1024)


def _up_to(hand: HandPeer, state: QpState, qp: QueuePair) -> None:
    """From RESET on."""
    sources = {plane: peer_address(plane) for plane in range(2)}
    peer = QpPeer(PEER_QPN + 1, PEER_FIRST_PSN, hand.profile, sources)
    steps = (qp.to_init, lambda: qp.to_rtr(peer), qp.to_rts)
    for step in steps[qp.state : state]:
        step()


@pytest.mark.parametrize("state", [QpState.RESET, QpState.INIT, QpState.RTR])
def test_what_is_set_before_rts_is_what_the_requestor_uses(state: QpState) -> None:
    """behaviour.md, QP life: "set with attributes". PSN and path MTU of what is sent."""
    hand = HandPeer(SMALL)
    qp = hand.endpoint.create_qp(SMALL)
    _up_to(hand, state, qp)
    qp.configure(LARGE, first_psn=0x4711)
    _up_to(hand, QpState.RTS, qp)
    hand.qp = qp
    hand.post(1500)
    sent = data(hand.transmitted())
    assert [(packet.opcode, packet.psn, len(packet.payload)) for packet in sent] == [
        (FIRST, 0x4711, 1024),
        (LAST, 0x4712, 476),
    ]


def test_what_is_set_before_rtr_is_what_the_responder_uses() -> None:
    """The SACK threshold, say: 4 packets of 256 bytes count 1024 each."""
    hand = HandPeer(SMALL)
    qp = hand.endpoint.create_qp(SMALL)
    qp.configure(QpConfig(path_mtu=256, sack_threshold_bytes=4096))
    _up_to(hand, QpState.RTS, qp)
    hand.qp = qp
    packets = [hand.request(at, bytes(256), va=REGION_VA + 256 * at) for at in range(4)]
    assert len(of(hand.exchange(*packets), SACK)) == 1


def test_what_is_not_named_stays_as_it_was() -> None:
    """A first PSN and a controller given before, or drawn, are kept."""
    windows = RecordingWindows(1 << 30)
    qp = Endpoint().create_qp(SMALL, windows)
    drawn = qp.first_psn
    qp.configure(LARGE)
    assert (qp.first_psn, qp.config) == (drawn, LARGE)
    qp.configure(LARGE, first_psn=0)
    qp.configure(SMALL)
    assert (qp.first_psn, qp.config) == (0, SMALL)
    qp.to_init()
    qp.to_rtr(QpPeer(PEER_QPN, 0, HandPeer(SMALL).profile, {}))
    assert qp.controller is windows.only


def test_a_controller_set_late_is_the_one_that_is_told() -> None:
    """behaviour.md, Congestion control: "Pluggable"."""
    created, late = RecordingWindows(1 << 30), RecordingWindows(1 << 30)
    hand = HandPeer(SMALL)
    qp = hand.endpoint.create_qp(SMALL, created)
    qp.configure(SMALL, controller=late)
    _up_to(hand, QpState.RTS, qp)
    hand.qp = qp
    hand.post(256)
    hand.transmitted()
    hand.receive(hand.ack(0))
    assert created.made == []
    assert len(late.only.of("ack")) == 1


@pytest.mark.parametrize("state", ["RTS", "ERROR"])
def test_parameters_are_fixed_from_rts_on(state: str) -> None:
    hand = HandPeer(SMALL)
    if state == "ERROR":
        hand.qp.to_error("over")
    with pytest.raises(CallerError, match=f"is in {state}: its parameters are fixed"):
        hand.qp.configure(LARGE, first_psn=3)
    assert hand.qp.config == SMALL


def test_a_number_given_is_the_number_and_given_once() -> None:
    """QPNs are 24 bit; those below 0x10 are set apart (wire.md section 3: 2 is for endpoint operations)."""
    endpoint = Endpoint()
    for qpn in (0x10, 0x4711, 0xFFFFFF):
        assert endpoint.create_qp(qpn=qpn).qpn == qpn
    for wrong in (0x10, 0x4711, 0xFFFFFF, 0x0F, 2, -1, 1 << 24):
        with pytest.raises(CallerError, match=r"is taken, or not one of 0x10\.\.0xffffff"):
            endpoint.create_qp(qpn=wrong)
    assert sorted(endpoint.qps) == [0x10, 0x4711, 0xFFFFFF]


def test_a_qp_created_anew_under_the_number_of_one_destroyed_has_its_turn() -> None:
    """The one before it was waiting for its own turn when it was destroyed."""
    hand = HandPeer(SMALL)
    hand.post(256)
    hand.endpoint.destroy_qp(hand.qp)
    qp = hand.endpoint.create_qp(SMALL, qpn=hand.qp.qpn)
    _up_to(hand, QpState.RTS, qp)
    hand.qp = qp
    hand.post(256)
    assert len(data(hand.transmitted())) == 1
    hand.receive(hand.ack(0))
    assert hand.completed() == [(1, WorkStatus.SUCCESS)]
