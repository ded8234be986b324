# SPDX-License-Identifier: BSD-2-Clause
"""QPs towards one peer that has fallen silent are given up together; those of a peer that is there are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_peer import PEER_QPN, SECOND
from several import CONFIG as SEVERAL
from several import NOMINAL, Several

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import LossConfig, QpConfig
from mrc.endpoint.events import Event
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.requestor.loss import STOPPED_NS

CONFIG = replace(SEVERAL, timeout=14)
FOR_EVER = replace(CONFIG, exponential_retries=25)
PATIENT = replace(CONFIG, timeout=15)
TIMEOUT = 1024 << 14  # ns
SILENT = (8 + 254) * TIMEOUT  # seven linear retries and seven exponential ones, by hand


def _posted(several: Several, *places: int, length: int = 4) -> None:
    for at in places:
        several.of(at).post(length)
    several.hand.transmitted()


def _ended(several: Several) -> dict[int, tuple[int, str]]:
    """When each QP that is in ERROR went there, and why, by its place."""
    of_qp = {qp.qpn: at for at, qp in enumerate(several.qps)}
    return {
        of_qp[event.qpn]: (event.at_ns, str(event.detail))
        for event in several.hand.endpoint.events
        if event.qpn in of_qp
    }


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("count", [2, 5])
def test_they_are_given_up_when_the_first_is(count: int, own: bool) -> None:
    """Each began to wait at another time, the last a second after the first."""
    several = Several(count, 1 << 20, own=own, config=CONFIG)
    hand = several.hand
    began = hand.now
    for at in range(count):
        hand.run(began + at * SECOND // count)
        _posted(several, at)
    hand.run(began + 10 * SECOND)
    ended = _ended(several)
    assert sorted(ended) == list(range(count))
    assert {at_ns for at_ns, _ in ended.values()} == {began + SILENT}
    assert [done.status for done in hand.endpoint.completions] == [WorkStatus.RETRY_EXCEEDED] * count
    assert all(f"given up with QP {several.qps[0].qpn:#08x}" in ended[at][1] for at in range(1, count))


@pytest.mark.parametrize("answered", [True, False])
def test_so_are_those_that_find_no_room_in_the_window_they_share(answered: bool) -> None:
    """It has room for one packet: in all that time not every QP has its turn. One that the peer has never answered
    keeps its own time: the peer may have come back as another."""
    several = Several(32, NOMINAL, config=replace(CONFIG, loss=LossConfig(path_timer_initial_ns=SECOND)))
    hand = several.hand
    for at in range(32 if answered else 0):
        _posted(several, at)
        hand.receive(hand.ack(0))
    hand.run(hand.now + TIMEOUT // 4)
    _posted(several, *range(32), length=256)
    began = hand.now
    hand.run(began + SILENT + TIMEOUT // 2)
    assert {at_ns for at_ns, _ in _ended(several).values()} == {began + SILENT}
    assert 0 < len(_ended(several)) <= 32
    assert (len(_ended(several)) == 32) == answered


def _shut_out_by_some_that_heard(asked_after: int) -> tuple[Several, int]:
    """32 QPs with work, a window with room for one packet, and a peer whose last requests came `asked_after` ns later:
    it answers nothing, so each QP's own timeouts are over before the peer has been silent for as long. Returns them and
    when the peer was heard last."""
    several = Several(32, NOMINAL, config=replace(CONFIG, loss=LossConfig(path_timer_initial_ns=SECOND)))
    hand = several.hand
    for at in range(32):
        _posted(several, at)
        hand.receive(hand.ack(0))
    _posted(several, *range(32), length=256)
    hand.run(hand.now + asked_after)
    for at in range(32):
        several.of(at).receive(hand.probe())
    hand.transmitted()
    return several, hand.now


def test_those_without_room_are_given_up_when_the_peer_has_been_silent_for_so_long() -> None:
    """The first to be given up has heard from the peer after its own oldest packet had left. It leaves the window to
    the others: they go when the peer has been silent for as long, and not after timeouts of their own from then on."""
    several, heard = _shut_out_by_some_that_heard(SECOND // 2)
    several.hand.run(heard + SILENT - 1)
    alone = _ended(several)
    assert 0 < len(alone) < 32
    assert not any("given up with" in why for _, why in alone.values())
    several.hand.run(heard + SILENT)
    ended = _ended(several)
    assert len(ended) == 32
    assert {at_ns for at, (at_ns, _) in ended.items() if at not in alone} == {heard + SILENT}
    assert all("given up with" in ended[at][1] for at in ended.keys() - alone.keys())


def test_they_go_on_where_the_peer_is_heard_again_meanwhile() -> None:
    several, heard = _shut_out_by_some_that_heard(SECOND // 2)
    hand = several.hand
    hand.run(heard + SILENT - SECOND // 4)
    again = min(set(range(32)) - set(_ended(several)))
    several.of(again).receive(hand.probe())
    heard_again = hand.now
    hand.run(heard + SILENT + TIMEOUT)
    alone = _ended(several)
    assert again in alone, "that it heard the peer does not lengthen its own timeouts"
    assert len(alone) < 32
    assert not any("given up with" in why for _, why in alone.values())
    hand.run(heard_again + SILENT)
    ended = _ended(several)
    assert len(ended) == 32
    together = {at_ns for at_ns, why in ended.values() if "given up with" in why}
    assert together == {heard_again + SILENT}


def test_they_go_on_where_this_endpoint_stood_still_meanwhile() -> None:
    """What has come in that time is looked at first."""
    several, heard = _shut_out_by_some_that_heard(3 * SECOND)
    hand = several.hand
    hand.run(heard + SILENT - 1)
    before = _ended(several)
    assert 0 < len(before) < 32
    hand.now = heard + SILENT + STOPPED_NS
    hand.endpoint.on_timer(hand.now)
    assert _ended(several) == before
    hand.run(hand.now + 3 * SECOND)
    ended = _ended(several)
    assert len(ended) == 32
    assert min(at_ns for at, (at_ns, _) in ended.items() if at not in before) > heard + SILENT + STOPPED_NS


def test_none_is_while_one_of_them_hears_from_the_peer() -> None:
    """The peer forgot the first QP, and is busy with the others."""
    several = Several(3, 1 << 20, config=CONFIG)
    hand = several.hand
    _posted(several, 0, 1, 2)
    began, number = hand.now, 0
    while hand.now < began + SILENT - TIMEOUT:
        hand.run(hand.now + SECOND // 10)
        several.of(1).receive(hand.ack(number))
        number += 1
        _posted(several, 1)
    hand.run(began + SILENT + TIMEOUT)
    assert [qp.state for qp in several.qps] == [QpState.ERROR, QpState.RTS, QpState.ERROR]
    # By its own timeouts.
    assert "given up with" not in _ended(several)[2][1]


def test_none_is_while_the_peer_asks() -> None:
    """Its requests arrive, on a QP of which nothing is outstanding, and of ours none: the way there is broken."""
    several = Several(3, 1 << 20, config=CONFIG)
    hand = several.hand
    _posted(several, 0)
    began = hand.now
    hand.run(began + SECOND)
    _posted(several, 1)
    hand.run(began + SILENT - SECOND)
    several.of(2).receive(hand.probe())
    hand.run(began + SILENT + TIMEOUT)
    assert [qp.state for qp in several.qps] == [QpState.ERROR, QpState.RTS, QpState.RTS]


@pytest.mark.parametrize("other", [FOR_EVER, PATIENT])
def test_one_with_more_patience_stays(other: QpConfig) -> None:
    several = Several(1, 1 << 20, config=CONFIG)
    hand = several.hand
    several.qps.append(hand.connect(other, qpn=PEER_QPN + 1))
    _posted(several, 0, 1)
    hand.run(hand.now + SILENT + SECOND)
    assert [qp.state for qp in several.qps] == [QpState.ERROR, QpState.RTS]


def test_one_without_work_stays_and_so_does_one_that_has_just_begun() -> None:
    several = Several(3, 1 << 20, config=CONFIG)
    hand = several.hand
    _posted(several, 0)
    began = hand.now
    hand.run(began + SILENT - TIMEOUT // 2)
    _posted(several, 1)
    hand.run(began + SILENT + TIMEOUT)
    assert [qp.state for qp in several.qps] == [QpState.ERROR, QpState.RTS, QpState.RTS]
    hand.run(began + 2 * SILENT)
    assert [qp.state for qp in several.qps] == [QpState.ERROR, QpState.ERROR, QpState.RTS]


def test_one_that_has_just_begun_goes_along_where_the_peer_was_heard_after_it_was_connected() -> None:
    """It may have waited for room in the window until now, and its peer is the one that is silent. The peer of a QP
    that was connected later may be another."""
    several = Several(2, 1 << 20, config=CONFIG)
    hand = several.hand
    hand.run(hand.now + SECOND)
    several.of(0).receive(hand.probe())
    _posted(several, 0)
    began = hand.now
    several.qps.append(hand.connect(CONFIG, qpn=PEER_QPN + 2))
    hand.run(began + SILENT - TIMEOUT // 2)
    _posted(several, 1, 2)
    hand.run(began + SILENT)
    assert [qp.state for qp in several.qps] == [QpState.ERROR, QpState.ERROR, QpState.RTS]


def test_one_that_its_owner_ends_takes_none_along() -> None:
    several = Several(2, 1 << 20, config=CONFIG)
    hand = several.hand
    _posted(several, 0, 1)
    hand.run(hand.now + SECOND)
    several.qps[0].to_error("the owner says so")
    assert [qp.state for qp in several.qps] == [QpState.ERROR, QpState.RTS]


def test_one_that_is_destroyed_as_another_one_ends_leaves_no_event() -> None:
    several = Several(3, 1 << 20, config=CONFIG)
    hand = several.hand
    _posted(several, 0, 1, 2)

    def destroy(event: Event) -> None:
        if event.qpn == several.qps[1].qpn:
            hand.endpoint.destroy_qp(several.qps[2])

    several.qps.sort(key=lambda qp: qp.qpn)
    hand.endpoint.listeners.append(destroy)
    hand.run(hand.now + 2 * SILENT)
    assert several.qps[2].qpn not in hand.endpoint.qps
    assert sorted(_ended(several)) == [0, 1]
