# SPDX-License-Identifier: BSD-2-Clause
"""Which QPs go with one that was given up, and when: the docstring of `Silence.wait_in_vain`, rule by rule.

QPs are played here, so that each time is exact; `test_silent_peer.py` has whole endpoints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.requestor.loss import STOPPED_NS
from mrc.endpoint.silence import Silence

# A whole silence of a QP, and what one took that NACKs had left fewer retries.
LONG, SHORT = 10 * STOPPED_NS, STOPPED_NS
NOW = 100 * LONG


@dataclass
class _Requestor:
    waits_at_most_ns: int = LONG
    waited_ns: int = 0
    waits: bool = True


@dataclass
class _Peer:
    key: Any = "peer"


@dataclass
class _Config:
    gives_up_after_ns: int | None = LONG


@dataclass
class _Qp:
    """Connected before the peer was heard, and with work."""

    qpn: int
    heard_at: int = NOW - LONG
    ready_at: int = 0
    state: QpState = QpState.RTS
    requestor: _Requestor = field(default_factory=_Requestor)
    peer_node: _Peer | None = field(default_factory=_Peer)
    config: _Config = field(default_factory=_Config)


class Hall:
    """A `Silence`, and QPs by their numbers."""

    def __init__(self, *qps: _Qp) -> None:
        self.silence = Silence()
        self.qps = {qp.qpn: qp for qp in qps}

    def give_up(self, qpn: int, waited: int, now: int = NOW) -> list[int]:
        given_up = self.qps[qpn]
        of_peer = [cast(QueuePair, qp) for qp in self.qps.values() if qp.peer_node == given_up.peer_node]
        found = self.silence.wait_in_vain(cast(QueuePair, given_up), of_peer, waited, now)
        given_up.state = QpState.ERROR
        return [qp.qpn for qp in found]

    def due(self, now: int) -> list[tuple[int, int]]:
        qps = {qpn: cast(QueuePair, qp) for qpn, qp in self.qps.items()}
        return [(qp.qpn, of) for qp, of in self.silence.due(qps, now)]

    @property
    def deadline(self) -> int | None:
        return self.silence.next_deadline()


def test_they_go_at_once_where_the_peer_was_silent_for_so_long() -> None:
    """To the nanosecond: it was heard last when as much time before as a QP waits at most."""
    hall = Hall(_Qp(1), _Qp(2))
    assert hall.give_up(1, SHORT) == [2]
    assert hall.deadline is None


def test_they_wait_where_it_was_not_silent_for_so_long() -> None:
    """NACKs had used up retries of the first: it waited for less, and the others go when the whole time is over."""
    hall = Hall(*(_Qp(qpn, heard_at=NOW - 2 * SHORT) for qpn in (1, 2)))
    assert hall.give_up(1, SHORT) == []
    assert hall.deadline == NOW - 2 * SHORT + LONG
    assert hall.due(hall.deadline - 1) == []
    assert hall.due(hall.deadline) == [(2, 1)]
    assert hall.deadline is None


def test_what_was_heard_as_the_wait_began_counts_as_heard() -> None:
    """The peer was alive when the oldest packet left. What waits goes in the next look, with the time of that."""
    hall = Hall(_Qp(1), _Qp(2))
    assert hall.give_up(1, LONG) == []
    assert hall.deadline == NOW
    assert hall.due(NOW) == [(2, 1)]


@pytest.mark.parametrize(("gives_up", "expected"), [(LONG // 2, LONG // 2), (None, LONG)])
def test_the_time_is_that_of_the_configuration(gives_up: int | None, expected: int) -> None:
    """With long round trips the timeouts take longer than configured. Without an end only what it may wait counts."""
    hall = Hall(_Qp(1, heard_at=NOW, config=_Config(gives_up)), _Qp(2))
    assert hall.give_up(1, SHORT) == []
    assert hall.deadline == NOW + expected


def test_nothing_is_watched_where_none_waits() -> None:
    hall = Hall(_Qp(1, heard_at=NOW), _Qp(2, requestor=_Requestor(waits=False)))
    assert hall.give_up(1, SHORT) == []
    assert hall.deadline is None


@pytest.mark.parametrize("without", ["an end", "a node"])
def test_nothing_is_watched_for_one_without(without: str) -> None:
    first, second = _Qp(1, heard_at=NOW), _Qp(2)
    if without == "an end":
        first.requestor.waits_at_most_ns = 1 << 62
    else:
        first.peer_node = second.peer_node = None
    hall = Hall(first, second)
    assert hall.give_up(1, SHORT) == []
    assert hall.deadline is None


def test_one_that_cannot_send_does_not_go() -> None:
    hall = Hall(_Qp(1), _Qp(2, state=QpState.ERROR, requestor=_Requestor(waited_ns=LONG)), _Qp(3))
    assert hall.give_up(1, SHORT) == [3]


def test_one_whose_own_timeout_has_run_out_goes_though_it_was_connected_later() -> None:
    late = [_Qp(qpn, ready_at=NOW - SHORT, requestor=_Requestor(waited_ns=waited)) for qpn, waited in ((2, 1), (3, 0))]
    assert Hall(_Qp(1), *late).give_up(1, SHORT) == [2]


def test_those_of_one_silence_go_together() -> None:
    """Each QP that is given up saw others wait. They go when the longest wait is over, with the last one."""
    hall = Hall(*(_Qp(qpn, heard_at=NOW) for qpn in (1, 2, 3, 4)))
    hall.qps[4].requestor.waits = False
    hall.qps[1].config = _Config(LONG + SHORT)
    assert hall.give_up(1, SHORT) == []
    hall.qps[3].requestor.waits = False  # it has no work for a moment
    hall.qps[4].requestor.waits = True
    assert hall.give_up(2, SHORT, NOW + 1) == []
    hall.qps[3].requestor.waits = True
    assert hall.deadline == NOW + LONG + SHORT
    assert hall.due(hall.deadline) == [(3, 2), (4, 2)]


def test_a_later_silence_is_another_one() -> None:
    hall = Hall(*(_Qp(qpn, heard_at=NOW) for qpn in (1, 2, 3)))
    hall.qps[1].config = _Config(LONG + 4 * SHORT)
    assert hall.give_up(1, SHORT) == []
    hall.qps[2].heard_at = NOW + SHORT
    hall.qps[2].ready_at = NOW + SHORT  # neither its own wait, nor one since before the peer was heard
    assert hall.give_up(2, SHORT, NOW + 2 * SHORT) == []
    assert hall.deadline == NOW + SHORT + LONG
    assert hall.due(hall.deadline) == [(3, 2)]


def _of_two_peers(*heard: int) -> Hall:
    """QPs 1 and 2 of one peer, 3 and 4 of another; 1 and 3 are given up."""
    hall = Hall(*(_Qp(qpn, heard_at=heard[qpn > 2], peer_node=_Peer(qpn > 2)) for qpn in (1, 2, 3, 4)))
    assert hall.give_up(1, SHORT) == hall.give_up(3, SHORT) == []
    return hall


def test_the_second_peer_s_go_before_those_of_the_first() -> None:
    """What the first has said meanwhile is nothing of the second."""
    hall = _of_two_peers(NOW, NOW - 2 * SHORT)
    hall.qps[2].heard_at = NOW + SHORT
    hall.qps[5] = _Qp(5, heard_at=NOW + SHORT, peer_node=None)
    assert hall.due(NOW - 2 * SHORT + LONG) == [(4, 3)]
    assert hall.due(NOW + LONG) == []


def test_those_of_two_peers_go_at_once() -> None:
    assert _of_two_peers(NOW, NOW).due(NOW + LONG) == [(2, 1), (4, 3)]


def test_after_a_stop_every_peer_has_its_whole_time_again() -> None:
    """This endpoint itself stood still: nothing that came meanwhile has been looked at."""
    hall = _of_two_peers(NOW, NOW - SHORT)
    stopped = NOW + LONG + STOPPED_NS
    assert hall.due(stopped) == []
    assert hall.deadline == stopped + LONG - SHORT
    assert hall.due(stopped + LONG - SHORT) == [(4, 3)]
    assert hall.deadline == stopped + LONG
    assert hall.due(stopped + LONG) == [(2, 1)]
