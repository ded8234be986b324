# SPDX-License-Identifier: BSD-2-Clause
"""The two life cycles as tables, walked exhaustively (behaviour.md, QP life and Paths)."""

from __future__ import annotations

import itertools

import pytest
from hand_peer import PEER_QPN, HandPeer, paths

from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.states import EvInput, EvState, next_state
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState, check_transition
from mrc.errors import CallerError

G, S, B, D = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED
# Rows: the inputs; columns: GOOD, SKIP, ASSUMED_BAD, DENIED. Written from the table of behaviour.md, Paths.
EV_TABLE = {
    EvInput.MARKED: (S, S, B, D),  # SACK m=1, NACK TRIMMED; ignored in SKIP
    EvInput.ALWAYS_SKIP: (B, B, B, D),  # SACK m=2
    EvInput.LOST: (B, B, B, D),  # one loss is enough
    EvInput.PASSED: (G, G, B, D),  # the rotation passes it
    EvInput.PROBED_CLEAR: (G, S, G, D),
    EvInput.PROBED_MARKED: (G, S, S, D),
    EvInput.SPURIOUS: (G, S, G, D),
    EvInput.DENY: (D, D, D, D),
    EvInput.ALLOW: (G, S, B, G),  # back only by the controller
}


def test_the_tables_cover_every_state_and_input() -> None:
    assert set(EV_TABLE) == set(EvInput)
    assert tuple(EvState) == (G, S, B, D)


@pytest.mark.parametrize(("state", "happened"), list(itertools.product(EvState, EvInput)))
def test_every_state_of_an_ev_on_every_input(state: EvState, happened: EvInput) -> None:
    """MRC-PATH-04, MRC-PATH-06, MRC-PATH-10, MRC-PATH-14."""
    assert next_state(state, happened) == EV_TABLE[happened][tuple(EvState).index(state)]


FORWARD = {(QpState.RESET, QpState.INIT), (QpState.INIT, QpState.RTR), (QpState.RTR, QpState.RTS)}


@pytest.mark.parametrize(("current", "wanted"), list(itertools.product(QpState, QpState)))
def test_every_transition_of_a_qp(current: QpState, wanted: QpState) -> None:
    """RESET -> INIT -> RTR -> RTS, ERROR from any state; back to RESET as in the verbs. Nothing else.

    MRC-QP-01, MRC-QP-02.
    """
    if (current, wanted) in FORWARD or wanted in (QpState.ERROR, QpState.RESET):
        check_transition(current, wanted)
    else:
        with pytest.raises(CallerError, match=current.name):
            check_transition(current, wanted)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_error_from_any_state(steps: int) -> None:
    """MRC-QP-02, MRC-ERR-05."""
    endpoint = Endpoint()
    qp = endpoint.create_qp()
    for step in (qp.to_init, lambda: qp.to_rtr(QpPeer(PEER_QPN, 0, paths(), {})), qp.to_rts)[:steps]:
        step()
    qp.to_error("over")
    assert qp.state == QpState.ERROR
    assert len(endpoint.events) == 1
    qp.to_error("again")
    assert len(endpoint.events) == 1


def test_an_empty_or_ambiguous_profile_is_refused() -> None:
    endpoint = Endpoint()
    profile = paths()
    for wrong in ([], [*profile, profile[0]]):
        qp = endpoint.create_qp()
        qp.to_init()
        with pytest.raises(CallerError):
            qp.to_rtr(QpPeer(PEER_QPN, 0, wrong, {}))


def test_a_destroyed_qp_takes_nothing_and_its_counts_stay() -> None:
    hand = HandPeer(QpConfig(path_mtu=256))
    hand.exchange(hand.request(0, b"x"))
    hand.endpoint.destroy_qp(hand.qp)
    assert hand.exchange(hand.request(1, b"y")) == []
    assert hand.counters["requests_received"] == hand.counters["unknown_qp"] == 1
    with pytest.raises(CallerError):
        hand.endpoint.destroy_qp(hand.qp)


def test_another_endpoints_qp_of_the_same_number_is_not_ours_to_destroy() -> None:
    """The refusal changes nothing: our own QP of that number stays."""
    ours, theirs = Endpoint(), Endpoint()  # the same seed draws the same QPN
    mine, foreign = ours.create_qp(), theirs.create_qp()
    assert mine.qpn == foreign.qpn
    with pytest.raises(CallerError):
        ours.destroy_qp(foreign)
    assert ours.qps == {mine.qpn: mine}
