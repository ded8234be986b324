# SPDX-License-Identifier: BSD-2-Clause
"""What an endpoint reports to its owner: events with their kind, time, fields and sentence; whole completions."""

from __future__ import annotations

import pytest
from hand_operations import PORT_STATUS_UPDATE, request
from hand_peer import MILLISECOND, HandPeer

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.events import Event
from mrc.trace.vocabulary import PORT, QP_STATE

CONFIG = QpConfig(path_mtu=256)
BRIEF = QpConfig(path_mtu=256, timeout=10, linear_retries=1, exponential_retries=0)  # 1.05 ms, once more, over
REMOTE_ACCESS = 0x62


def _ended(at_ns: int, qpn: int, state: str, why: str) -> Event:
    return Event(QP_STATE, at_ns, qpn, (state, "ERROR", why), why)


def _status(mask: int, req_id: int) -> bytes:
    return request(req_id, PORT_STATUS_UPDATE, port_status_mask=mask)


def test_a_local_port_that_goes_and_comes_back_is_two_events() -> None:
    """Event: "`kind`, `at_ns`, `qpn` and `values` are those of a trace; `detail` is a sentence." """
    hand = HandPeer(CONFIG)
    hand.endpoint.set_port(1, up=False, now=7)
    hand.endpoint.set_port(1, up=True, now=9)
    assert list(hand.endpoint.events) == [
        Event(PORT, 7, None, ("local", 1, False), "port 1 is down"),
        Event(PORT, 9, None, ("local", 1, True), "port 1 is up"),
    ]


def test_whether_a_port_is_up_can_be_asked() -> None:
    hand = HandPeer(CONFIG)
    asked = [hand.endpoint.port_is_up(port) for port in (0, 1)]
    hand.endpoint.set_port(1, up=False, now=7)
    asked += [hand.endpoint.port_is_up(port) for port in (0, 1)]
    hand.endpoint.set_port(1, up=True, now=8)
    asked += [hand.endpoint.port_is_up(port) for port in (0, 1)]
    assert asked == [True, True, True, False, True, True]


def test_a_peers_port_that_goes_and_comes_back_is_two_events() -> None:
    """behaviour.md, Ports: the peer "gets a PORT_STATUS_UPDATE". Plane 1 is the peer's second port: bit 1."""
    hand = HandPeer(CONFIG)
    started = hand.now
    hand.receive(_status(0b01, 1))
    hand.now += MILLISECOND
    hand.receive(_status(0b11, 2))
    assert list(hand.endpoint.events) == [
        Event(PORT, started, None, ("peer", 1, False), "the peer's port on plane 1 is down"),
        Event(PORT, started + MILLISECOND, None, ("peer", 1, True), "the peer's port on plane 1 is up"),
    ]


def test_a_qp_that_a_packet_ends_is_an_event_of_that_time() -> None:
    """behaviour.md, Errors: "leave an event". What it says is what the QP says."""
    hand = HandPeer(CONFIG)
    hand.post(256)
    hand.transmitted()
    hand.now += 3 * MILLISECOND
    hand.receive(hand.ack(0, syndrome=REMOTE_ACCESS))
    detail = f"the peer refused PSN {hand.psn(0)}: remote_access_error"
    assert list(hand.endpoint.events) == [_ended(hand.now, hand.qp.qpn, "RTS", detail)]
    assert hand.qp.error == detail


def test_a_qp_that_a_timer_ends_is_an_event_of_that_time() -> None:
    """behaviour.md, Retry budget: "Budget gone: QP to error, "retry counter exceeded"". One retry: 2.1 ms."""
    hand = HandPeer(BRIEF)
    started = hand.now
    hand.post(256)
    hand.run(started + 100 * MILLISECOND)
    detail = (
        f"retry counter exceeded: no acknowledgement of PSN {hand.psn(0)} after 1 retries, then a local ACK timeout"
    )
    assert list(hand.endpoint.events) == [_ended(started + 2 * (1024 << 10), hand.qp.qpn, "RTS", detail)]


@pytest.mark.parametrize("last", ["receive", "transmit", "on_timer"])
def test_a_qp_that_its_owner_ends_is_an_event_of_the_last_time_known(last: str) -> None:
    """The endpoint "owns no clock: every entry takes `now`"; ending a QP takes none."""
    hand = HandPeer(CONFIG)
    hand.now += 5 * MILLISECOND
    if last == "receive":
        hand.receive(hand.ack(-1))
    elif last == "transmit":
        hand.transmitted()
    else:
        hand.endpoint.on_timer(hand.now)
    hand.qp.to_error("enough")
    assert list(hand.endpoint.events) == [_ended(hand.now, hand.qp.qpn, "RTS", "enough")]


def test_before_any_entry_the_time_is_0() -> None:
    endpoint = Endpoint()
    qp = endpoint.create_qp()
    qp.to_error("enough")
    assert list(endpoint.events) == [_ended(0, qp.qpn, "RESET", "enough")]


def test_listeners_hear_every_event_as_it_happens() -> None:
    hand, heard = HandPeer(CONFIG), list[Event]()
    hand.endpoint.listeners.append(heard.append)
    hand.endpoint.set_port(0, up=False, now=hand.now)
    hand.qp.to_error("enough")
    assert [event.kind for event in heard] == [PORT, QP_STATE]
    assert list(hand.endpoint.events) == heard


def test_the_latest_1024_events_are_kept() -> None:
    endpoint = Endpoint()
    for at in range(1030):
        endpoint.set_port(0, up=bool(at & 1), now=at)
    assert [event.at_ns for event in endpoint.events] == list(range(6, 1030))


# ------------------------------------------------------------------ completions


def test_a_completion_says_whose_it_is_and_how_much_was_written() -> None:
    """Completion: "`byte_len` bytes of the work request `wr_id` on QP `qpn`"; nothing was written by what failed."""
    hand = HandPeer(CONFIG)
    for length in (600, 0, 5, 7, 9):
        hand.post(length)
    hand.transmitted()
    hand.receive(hand.ack(3))  # packets 0 to 2 and 3
    hand.receive(hand.ack(5, syndrome=REMOTE_ACCESS))
    statuses = [WorkStatus.SUCCESS, WorkStatus.SUCCESS, WorkStatus.FLUSHED]
    statuses += [WorkStatus.REMOTE_ACCESS_ERROR, WorkStatus.FLUSHED]
    assert list(hand.endpoint.completions) == [
        Completion(at, hand.qp.qpn, status, size, WorkKind.RDMA_WRITE, None)
        for at, (status, size) in enumerate(zip(statuses, (600, 0, 0, 0, 0), strict=True))
    ]


def test_a_write_posted_to_a_qp_that_is_over_is_flushed_whole() -> None:
    hand = HandPeer(CONFIG)
    hand.qp.to_error("enough")
    hand.post(256)
    assert list(hand.endpoint.completions) == [
        Completion(0, hand.qp.qpn, WorkStatus.FLUSHED, 0, WorkKind.RDMA_WRITE, None)
    ]


def test_the_oldest_request_may_be_the_refused_one() -> None:
    """wire.md section 5: "in a NAK, the offending PSN", which may be the oldest that waits."""
    hand = HandPeer(CONFIG)
    for _ in range(3):
        hand.post(256)
    hand.transmitted()
    hand.receive(hand.ack(0))
    hand.receive(hand.ack(1, syndrome=REMOTE_ACCESS))
    assert hand.completed() == [
        (0, WorkStatus.SUCCESS),
        (1, WorkStatus.REMOTE_ACCESS_ERROR),
        (2, WorkStatus.FLUSHED),
    ]


def test_naks_of_what_does_not_wait_are_counted_and_dropped() -> None:
    """behaviour.md, Acknowledgement: what names "a PSN never sent is dropped and counted"; so is an old one."""
    hand = HandPeer(CONFIG)
    for _ in range(2):
        hand.post(256)
    hand.transmitted()
    hand.receive(hand.ack(0))
    hand.receive(hand.ack(2, syndrome=REMOTE_ACCESS))
    hand.receive(hand.ack(0, syndrome=REMOTE_ACCESS), hand.ack(3, syndrome=REMOTE_ACCESS))
    assert hand.counters["naks_received"] == 3
    assert hand.counters["ack_for_unsent_psn"] == 3
    hand.receive(hand.ack(1))
    assert hand.completed() == [(0, WorkStatus.SUCCESS), (1, WorkStatus.SUCCESS)]
