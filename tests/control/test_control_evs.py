# SPDX-License-Identifier: BSD-2-Clause
"""EV profiles and what is done to their EVs (api.md, Controller), judged by the packets that leave."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from control_pair import MILLISECOND, READY, ControlPair, refused, spine_ev

from mrc.control import EvEventMask, EvFormatAttr, EvOp, EvOpKind, EvProfileAttr, ProfileState
from mrc.endpoint.config import QpConfig
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState
from mrc.trace.vocabulary import EV_TOTALS, EventType
from mrc.verbs import SendWR
from mrc.wire.entropy import EvField, EvMode

OFFLINE, ONLINE = ProfileState.OFFLINE, ProfileState.ONLINE
REPLACE, MODIFY, QUERY = EvOpKind.REPLACE, EvOpKind.MODIFY_STATE, EvOpKind.QUERY_STATE
ALL = {spine_ev(plane, spine) for plane in (0, 1) for spine in range(4)}


def deny(ev: int | None, **more: Any) -> EvOp:
    return EvOp(MODIFY, ev=ev, state=EvState.DENIED, **more)


def allow(ev: int | None, **more: Any) -> EvOp:
    return EvOp(MODIFY, ev=ev, state=EvState.GOOD, **more)


def explicit(pair: ControlPair, count: int, **more: Any) -> None:
    attr = EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, 0, count, **more)
    pair.controller.modify_ev_profile(1, attr)


def fill(pair: ControlPair, *evs: int) -> None:
    batch = [EvOp(REPLACE, index=index, new_ev=ev) for index, ev in enumerate(evs)]
    assert all(not result.errno for result in pair.controller.ev_operations(1, batch))


# ------------------------------------------------------------------ profiles


def test_an_explicit_array_is_filled_before_it_goes_online() -> None:
    """MRC-CTL-15, MRC-CTL-14, MRC-CTL-08, MRC-CTL-04."""
    pair = ControlPair()
    explicit(pair, 4)
    controller = pair.controller
    assert controller.query_ev_array(1) == [None] * 4
    fill(pair, spine_ev(0, 0), spine_ev(0, 2), spine_ev(1, 1))
    with refused(errno.EINVAL, "1 of 4 entries of the array are not populated"):
        controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    assert controller.query_ev_profile(1).state == OFFLINE
    assert controller.ev_operations(1, [EvOp(REPLACE, index=3, new_ev=spine_ev(1, 3))])[0].errno == 0
    controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY | {"min_active": 2}))
    left, _ = pair.connect(ev_profile_id=1)
    pair.sent()
    pair.write(left)
    assert set(pair.sent()["h0"]) == {spine_ev(0, 0), spine_ev(0, 2), spine_ev(1, 1), spine_ev(1, 3)}
    assert controller.query_ev_array(1) == [spine_ev(0, 0), spine_ev(0, 2), spine_ev(1, 1), spine_ev(1, 3)]


def test_too_little_room_for_an_array_is_told_with_the_size_it_takes() -> None:
    """MRC-CTL-26, MRC-CTL-14."""
    pair = ControlPair()
    explicit(pair, 6)
    with refused(errno.E2BIG, "6 entries, room for 5") as caught:
        pair.controller.query_ev_array(1, 5)
    assert caught.value.needed == 6
    assert len(pair.controller.query_ev_array(1, 6)) == 6
    pair.connect()
    with refused(errno.E2BIG) as caught:
        pair.controller.query_evs(0, 7)
    assert caught.value.needed == len(pair.controller.query_evs(0, 8)) == 8


def test_fields_of_a_generated_profile() -> None:
    """Width, init_val, min_val, max_val, mask; as many EVs of each plane. MRC-CTL-10, MRC-CTL-08."""
    pair = ControlPair()
    # plane(8) zero(8) uplink(16): planes 0 and 1, uplinks 1 and 2.
    fields = (EvField(8, mask=0x01), EvField(8), EvField(16, mask=0x03, min_val=1, max_val=2))
    controller = pair.controller
    attr = EvProfileAttr(OFFLINE, EvProfileMode.GENERATED, 0, 4, fields=fields)
    controller.modify_ev_profile(1, attr)
    assert controller.query_ev_profile(1).fields == fields
    controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    left, _ = pair.connect(ev_profile_id=1)
    pair.sent()
    pair.write(left)
    assert set(pair.sent()["h0"]) == {spine_ev(plane, spine) for plane in (0, 1) for spine in (1, 2)}


@pytest.mark.parametrize(("asked", "has"), [(1, 2), (2, 2), (3, 4), (4095, 4096)])
def test_a_query_returns_the_count_that_the_planes_divide(asked: int, has: int) -> None:
    """It is rounded up, in every mode that takes one."""
    controller = ControlPair().controller
    for mode, fields in ((EvProfileMode.EXPLICIT, None), (EvProfileMode.GENERATED, (EvField(16, mask=0xFFFF),))):
        attr = EvProfileAttr(OFFLINE, mode, format_id=0, count=asked, fields=fields)
        controller.modify_ev_profile(mode.value + 1, attr)
        assert controller.query_ev_profile(mode.value + 1).count == has
    assert controller.query_ev_array(EvProfileMode.EXPLICIT.value + 1) == [None] * has


@pytest.mark.parametrize(
    ("attributes", "number", "says"),
    [
        ({"ev_mode": EvProfileMode.EXPLICIT}, errno.EINVAL, "needs count"),
        ({"ev_mode": EvProfileMode.GENERATED, "count": 4}, errno.EINVAL, "needs fields"),
        ({"ev_mode": EvProfileMode.AUTO, "count": 4}, errno.EINVAL, "takes no count"),
        ({"ev_mode": EvProfileMode.EXPLICIT, "count": 4098}, errno.E2BIG, "at most 4096"),
        ({"ev_mode": EvProfileMode.EXPLICIT, "count": 4, "min_active": 5}, errno.EINVAL, "min_active 5"),
        ({"ev_mode": EvProfileMode.EXPLICIT, "count": 4, "format_id": 9}, errno.ENOENT, "no EV format profile 9"),
        ({"ev_mode": EvProfileMode.EXPLICIT, "count": 2, "evs": (0, 1, 2, 3)}, errno.E2BIG, "4 EVs for an array of 2"),
        ({"ev_mode": EvProfileMode.GENERATED, "count": 4, "fields": (EvField(8, mask=1),)}, errno.E2BIG, "2 EVs of 4"),
        ({"ev_mode": 1}, errno.EINVAL, "out of its range"),
        ({"ev_mode": EvProfileMode.EXPLICIT, "count": 0}, errno.EINVAL, "out of its range"),
    ],
)
def test_an_ev_profile_that_cannot_be(attributes: dict[str, Any], number: int, says: str) -> None:
    """MRC-CTL-25, MRC-CTL-26, MRC-CTL-27, MRC-CTL-04: what api.md calls EINVAL, E2BIG and ENOENT."""
    controller = ControlPair().controller
    with refused(number, says) as caught:
        controller.modify_ev_profile(1, EvProfileAttr(OFFLINE, **{"format_id": 0} | attributes))
    assert (caught.value.needed is not None) == (number == errno.E2BIG)
    assert controller.query_ev_profile(1) == EvProfileAttr(ProfileState.INIT)


@pytest.mark.parametrize(
    ("attributes", "number", "says", "needed"),
    [
        ({"mode": EvMode.UDP}, errno.EINVAL, "reads SRV6 EVs, not UDP", None),
        ({"mode": EvMode.STEV, "fields": (8,)}, errno.EINVAL, "not STEV", None),
        ({"mode": EvMode.SRV6, "fields": (64, 65)}, errno.E2BIG, "129 bits, there are 128", 129),
        ({"mode": EvMode.SRV6, "fields": (1,) * 17}, errno.E2BIG, "at most 16", 17),
        ({"mode": EvMode.SRV6, "fields": (0,)}, errno.EINVAL, "at least 1 bit", None),
    ],
)
def test_an_ev_format_that_cannot_be(attributes: dict[str, Any], number: int, says: str, needed: int | None) -> None:
    """MRC-CTL-05, MRC-CTL-32, MRC-CTL-26, MRC-CTL-04."""
    controller = ControlPair().controller
    with refused(number, says) as caught:
        controller.modify_ev_format(1, EvFormatAttr(OFFLINE, **attributes))
    assert caught.value.needed == needed
    assert controller.query_ev_format(1) == EvFormatAttr(ProfileState.INIT)


# ------------------------------------------------------------------ deny and allow


def test_a_denied_ev_carries_nothing_and_carries_again() -> None:
    """In the middle of a write: data, retransmissions, probes, acknowledgements. MRC-CTL-34, MRC-CTL-12, MRC-CTL-13."""
    pair = ControlPair(rate_bps=1_000_000_000)
    left, right = pair.connect()
    victim = spine_ev(0, 1)
    pair.post(left)
    pair.run(1 * MILLISECOND)
    before = pair.sent()
    assert before["h0"][victim] > 0
    for controller in (pair.controller, pair.far_controller):
        (result,) = controller.ev_operations(0, [deny(victim)])
        assert (result.errno, result.count) == (0, 1)
    pair.run(3 * MILLISECOND)
    after = pair.sent()
    assert set(after["h0"]) == ALL - {victim}
    assert victim not in after["h1"]
    assert after["h1"].total() > 10
    assert pair.controller.ev_operations(0, [EvOp(QUERY, ev=victim)])[0].state == EvState.DENIED
    pair.controller.ev_operations(0, [allow(victim)])
    assert pair.controller.ev_operations(0, [EvOp(QUERY, ev=victim)])[0].state == EvState.GOOD
    pair.run(2 * MILLISECOND)
    assert set(pair.sent()["h0"]) == ALL
    pair.finish()
    assert right.state == left.state


def test_a_denied_ev_carries_no_operation_of_the_node_either() -> None:
    """A receiver learns by EV probes, answers probes and tells of its ports: on EVs that are allowed. MRC-CTL-34."""
    pair = ControlPair(rate_bps=1_000_000_000)
    left, _ = pair.connect()
    allowed = {spine_ev(0, 3), spine_ev(1, 0)}
    denied = ALL - allowed
    for controller in (pair.controller, pair.far_controller):
        assert all(not result.errno for result in controller.ev_operations(0, [deny(ev) for ev in denied]))
    pair.sent()
    for _ in range(12):
        pair.write(left, 1 << 16)
        pair.run(10 * MILLISECOND)
    pair.right.endpoint.set_port(0, False, pair.fabric.now)
    pair.right.call(lambda: None)
    pair.run(40 * MILLISECOND)
    sent = pair.sent()
    assert set(sent["h0"]) <= allowed
    assert set(sent["h1"]) <= allowed
    # Learning by probes did happen, on both.
    assert pair.right.endpoint.counters.ev_probes_sent > 5
    assert pair.left.endpoint.counters.ev_probes_answered > 5
    assert pair.right.endpoint.counters.port_updates_sent > 0


def test_with_every_ev_denied_nothing_leaves_until_one_is_allowed() -> None:
    """MRC-CTL-34: not an acknowledgement, not a probe. Within the retry budget all goes on."""
    pair = ControlPair(rate_bps=1_000_000_000)
    left, _ = pair.connect()
    pair.post(left)
    pair.run(1 * MILLISECOND)
    for controller in (pair.controller, pair.far_controller):
        controller.ev_operations(0, [deny(ev) for ev in ALL])
    pair.sent()
    pair.run(10 * MILLISECOND)
    sent = pair.sent()
    assert not sent["h0"]
    assert not sent["h1"]
    for controller in (pair.controller, pair.far_controller):
        controller.ev_operations(0, [allow(spine_ev(1, 2))])
    pair.finish()
    assert set(pair.sent()["h0"]) == {spine_ev(1, 2)}


def test_what_was_denied_holds_for_qps_to_come() -> None:
    """MRC-CTL-34, MRC-CTL-12."""
    pair = ControlPair()
    first, _ = pair.connect()
    pair.controller.ev_operations(0, [deny(spine_ev(1, 1))])
    first.close()
    left, _ = pair.connect()
    pair.sent()
    pair.write(left)
    assert set(pair.sent()["h0"]) == ALL - {spine_ev(1, 1)}


def test_an_ev_is_denied_towards_one_peer() -> None:
    """MRC-CTL-12, MRC-CTL-27: by the peer's name or any of its addresses."""
    pair = ControlPair()
    left, _ = pair.connect()
    address = pair.right.ports()[1].address
    results = pair.controller.ev_operations(
        0,
        [
            deny(spine_ev(0, 0), peer="h1"),
            deny(spine_ev(0, 1), peer=address),
            deny(spine_ev(0, 2), peer="h7"),
            deny(spine_ev(0, 2), peer="10.0.0.1"),
        ],
        keep_going=True,
    )
    assert [result.errno for result in results] == [0, 0, errno.ENOENT, errno.ENOENT]
    pair.sent()
    pair.write(left)
    assert set(pair.sent()["h0"]) == ALL - {spine_ev(0, 0), spine_ev(0, 1)}


def test_a_batch_ends_at_the_first_entry_that_fails() -> None:
    """MRC-CTL-16."""
    pair = ControlPair()
    pair.connect()
    batch = [deny(spine_ev(0, 1)), deny(spine_ev(0, 9)), deny(spine_ev(0, 2))]
    assert [result.errno for result in pair.controller.ev_operations(0, batch)] == [0, errno.ENOENT]
    denied = [entry.ev for entry in pair.controller.query_evs(0) if entry.state == EvState.DENIED]
    assert denied == [spine_ev(0, 1)]


def test_a_batch_that_keeps_going_does_all_it_can() -> None:
    """MRC-CTL-12, MRC-CTL-25, MRC-CTL-27."""
    pair = ControlPair()
    pair.connect()
    results = pair.controller.ev_operations(
        0,
        [
            deny(spine_ev(0, 9)),
            deny(spine_ev(0, 1)),
            EvOp(MODIFY, ev=spine_ev(0, 2), state=EvState.ASSUMED_BAD),
            EvOp(MODIFY, ev=spine_ev(0, 2), state=EvState.SKIP),
            EvOp(MODIFY, ev=spine_ev(0, 2)),
            EvOp(QUERY, ev=spine_ev(0, 1)),
            EvOp(QUERY, ev=-1),
            EvOp(REPLACE, ev=spine_ev(0, 1), new_ev=spine_ev(0, 2)),
        ],
        keep_going=True,
    )
    codes = [errno.ENOENT, 0, errno.EINVAL, errno.EINVAL, errno.EINVAL, 0, errno.EINVAL, errno.EINVAL]
    assert [result.errno for result in results] == codes
    assert results[5].state == EvState.DENIED
    states = {entry.ev: entry.state for entry in pair.controller.query_evs(0)}
    assert states == {ev: EvState.DENIED if ev == spine_ev(0, 1) else EvState.GOOD for ev in ALL}


def test_a_batch_as_a_whole_is_refused() -> None:
    """MRC-CTL-26, MRC-CTL-27, MRC-CTL-04."""
    pair = ControlPair()
    pair.connect()
    most = pair.controller.query_device().max_batch
    with refused(errno.E2BIG) as caught:
        pair.controller.ev_operations(0, [deny(spine_ev(0, 1))] * (most + 1))
    assert caught.value.needed == most + 1
    with refused(errno.ENOENT, "no EV profile 5"):
        pair.controller.ev_operations(5, [deny(spine_ev(0, 1))])
    assert {entry.state for entry in pair.controller.query_evs(0)} == {EvState.GOOD}


# ------------------------------------------------------------------ replacing


def test_an_ev_is_replaced_in_all_its_copies_or_in_one() -> None:
    """MRC-CTL-11, MRC-CTL-27."""
    pair = ControlPair()
    a, b, c, d = (spine_ev(0, 0), spine_ev(0, 1), spine_ev(1, 0), spine_ev(1, 1))
    explicit(pair, 6)
    fill(pair, a, a, a, c, c, d)
    run = pair.controller.ev_operations
    assert run(1, [EvOp(REPLACE, ev=a, new_ev=b, index=1)])[0].count == 1
    assert pair.controller.query_ev_array(1) == [a, b, a, c, c, d]
    assert run(1, [EvOp(REPLACE, ev=a, new_ev=b)])[0].count == 1
    assert pair.controller.query_ev_array(1) == [b, b, a, c, c, d]
    assert run(1, [EvOp(REPLACE, ev=b, new_ev=a, all_copies=True)])[0].count == 2
    assert run(1, [EvOp(REPLACE, ev=a, new_ev=b, all_copies=True)])[0].count == 3
    assert pair.controller.query_ev_array(1) == [b, b, b, c, c, d]
    wrong = [
        EvOp(REPLACE, ev=a, new_ev=b),
        EvOp(REPLACE, index=6, new_ev=b),
        EvOp(REPLACE, ev=c, index=0, new_ev=b),
        EvOp(REPLACE, new_ev=b),
        EvOp(REPLACE, ev=b),
    ]
    codes = [errno.ENOENT, errno.ENOENT, errno.ENOENT, errno.ENOENT, errno.EINVAL]
    assert [result.errno for result in run(1, wrong, keep_going=True)] == codes
    assert pair.controller.query_ev_array(1) == [b, b, b, c, c, d]


def test_an_ev_is_replaced_under_a_write() -> None:
    """The old one carries nothing from then on; no byte is lost and none sent twice. MRC-CTL-11, MRC-CTL-35."""
    pair = ControlPair(rate_bps=1_000_000_000)
    a, b, c = spine_ev(0, 0), spine_ev(1, 0), spine_ev(0, 3)
    explicit(pair, 2, min_active=1)
    fill(pair, a, b)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    left, _ = pair.connect(ev_profile_id=1)
    pair.post(left)
    pair.run(1 * MILLISECOND)
    assert set(pair.sent()["h0"]) == {a, b}
    assert pair.controller.ev_operations(1, [EvOp(REPLACE, ev=a, new_ev=c)])[0].errno == 0
    pair.finish()
    assert set(pair.sent()["h0"]) == {b, c}
    assert left.figures.counters.retransmitted_packets == 0


def test_an_ev_that_leads_nowhere_replaces_nothing() -> None:
    """MRC-CTL-04, MRC-CTL-25: this fabric has four spines a plane."""
    pair = ControlPair()
    a, b = spine_ev(0, 0), spine_ev(1, 0)
    explicit(pair, 2)
    fill(pair, a, b)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    pair.connect(ev_profile_id=1)
    (result,) = pair.controller.ev_operations(1, [EvOp(REPLACE, ev=a, new_ev=spine_ev(0, 4))])
    assert result.errno == errno.EINVAL
    assert pair.controller.query_ev_array(1) == [a, b]
    assert {entry.ev for entry in pair.controller.query_evs(1)} == {a, b}


def test_four_evs_a_plane_become_eight_under_a_write() -> None:
    """Modify-online: copies in a larger array become other EVs; its count stays. MRC-CTL-35, MRC-CTL-04."""
    pair = ControlPair(spines=8, rate_bps=1_000_000_000)
    four = [spine_ev(plane, spine) for plane in (0, 1) for spine in range(4)]
    eight = [spine_ev(plane, spine) for plane in (0, 1) for spine in range(8)]
    explicit(pair, 16, min_active=2)
    fill(pair, *four, *four)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    left, _ = pair.connect(ev_profile_id=1)
    pair.post(left)
    pair.run(1 * MILLISECOND)
    assert set(pair.sent()["h0"]) == set(four)
    with refused(errno.EINVAL, "does not take count"):
        pair.controller.modify_ev_profile(1, EvProfileAttr(count=18))
    more = [ev for ev in eight if ev not in four]
    batch = [EvOp(REPLACE, index=8 + place, new_ev=ev) for place, ev in enumerate(more)]
    assert all(not result.errno for result in pair.controller.ev_operations(1, batch))
    pair.finish()
    sent = pair.sent()["h0"]
    assert set(sent) == set(eight)
    assert left.figures.counters.retransmitted_packets == 0


def test_qps_move_from_one_profile_to_another() -> None:
    """MRC-CTL-35: and the old one may go OFFLINE then."""
    pair = ControlPair(rate_bps=1_000_000_000)
    left, _ = pair.connect()
    two = (spine_ev(0, 2), spine_ev(1, 2))
    pair.controller.modify_ev_profile(1, EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, 0, min_active=1, evs=two))
    with refused(errno.EINVAL, "not ONLINE"):
        pair.controller.move_qps(0, 1)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    pair.post(left)
    pair.run(1 * MILLISECOND)
    pair.sent()
    assert pair.controller.move_qps(0, 1) == 1
    pair.finish()
    assert set(pair.sent()["h0"]) == set(two)
    with refused(errno.EBUSY):
        pair.controller.modify_ev_profile(1, EvProfileAttr(OFFLINE))


def test_what_is_lost_on_an_ev_that_was_replaced_is_sent_again() -> None:
    """Packets in flight on an EV whose link dies just before it is replaced. MRC-CTL-35."""
    pair = ControlPair(rate_bps=1_000_000_000)
    a, b, c = spine_ev(0, 0), spine_ev(1, 0), spine_ev(0, 1)
    explicit(pair, 2, min_active=1)
    fill(pair, a, b)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    left, _ = pair.connect(ev_profile_id=1)
    pair.post(left)
    pair.run(1 * MILLISECOND)
    pair.fabric.cut("p0s0")
    pair.controller.ev_operations(1, [EvOp(REPLACE, ev=a, new_ev=c)])
    pair.sent()
    pair.finish()
    assert set(pair.sent()["h0"]) == {b, c}
    assert left.figures.counters.retransmitted_packets > 0


def test_all_evs_may_go_bad_where_none_has_to_stay() -> None:
    """min_active 0: both are ASSUMED_BAD while their links are down, and the write ends once they are back."""
    pair = ControlPair(rate_bps=1_000_000_000, tuning=QpConfig())
    a, b = spine_ev(0, 0), spine_ev(1, 0)
    explicit(pair, 2, min_active=0)
    fill(pair, a, b)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, event_mask=EvEventMask.GOOD | EvEventMask.ASSUMED_BAD))
    assert pair.controller.query_ev_profile(1).min_active == 0
    left, _ = pair.connect(ev_profile_id=1)
    pair.post(left)
    pair.run(1 * MILLISECOND)
    pair.fabric.cut("p0s0", "p1s0")
    pair.run(40 * MILLISECOND)
    states = pair.controller.ev_operations(1, [EvOp(QUERY, ev=a), EvOp(QUERY, ev=b)])
    assert [each.state for each in states] == [EvState.ASSUMED_BAD] * 2
    pair.fabric.heal("p0s0", "p1s0")
    pair.finish()


def test_event_mask_and_state_are_queried() -> None:
    """MRC-CTL-08."""
    pair = ControlPair()
    mask = EvEventMask.GOOD | EvEventMask.ASSUMED_BAD
    attr = EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, 0, 4, min_active=2, event_mask=mask)
    pair.controller.modify_ev_profile(7, attr)
    assert pair.controller.query_ev_profile(7) == attr


def test_the_write_of_a_denied_profile_may_be_posted_first() -> None:
    """Work posted while every EV is denied leaves once one is allowed."""
    pair = ControlPair()
    left, _ = pair.connect()
    pair.controller.ev_operations(0, [deny(ev) for ev in ALL])
    left.post_send(SendWR(wr_id=1))
    pair.run(2 * MILLISECOND)
    pair.sent()
    pair.controller.ev_operations(0, [allow(spine_ev(0, 0))])
    pair.run(1 * MILLISECOND)
    assert set(pair.sent()["h0"]) == {spine_ev(0, 0)}


def test_a_trace_tells_of_the_evs_that_came_later_too() -> None:
    """docs/trace.md: the totals of every EV, at the end."""

    class Ear:
        def __init__(self) -> None:
            self.totals: dict[object, object] = {}

        def now(self) -> int:
            return 0

        def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...], /) -> None:
            if kind is EV_TOTALS:
                self.totals[values[0]] = values[1]

    ear = Ear()
    pair = ControlPair(tracer=ear)
    a, b, c = spine_ev(0, 0), spine_ev(1, 0), spine_ev(0, 3)
    explicit(pair, 2, min_active=1)
    fill(pair, a, b)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))
    left, _ = pair.connect(ev_profile_id=1)
    pair.write(left, 1 << 18)
    pair.controller.ev_operations(1, [EvOp(REPLACE, ev=a, new_ev=c)])
    pair.write(left, 1 << 18)
    left.close()
    # 512 packets of 1,024 bytes, in equal shares of the planes.
    assert ear.totals == {a: 128, b: 256, c: 128}


def test_an_empty_array_is_filled_in_order_and_a_new_ev_has_the_state_it_is_given() -> None:
    """MRC-CTL-11, MRC-CTL-15."""
    pair = ControlPair()
    evs = [spine_ev(plane, spine) for plane in (0, 1) for spine in (0, 1)]
    explicit(pair, 4)
    results = pair.controller.ev_operations(1, [EvOp(REPLACE, new_ev=ev) for ev in [*evs, evs[0]]])
    assert [result.errno for result in results] == [0, 0, 0, 0, errno.ENOENT]
    assert pair.controller.query_ev_array(1) == evs
    replaced = EvOp(REPLACE, ev=evs[0], new_ev=spine_ev(0, 2), state=EvState.DENIED)
    assert pair.controller.ev_operations(1, [replaced])[0].errno == 0
    (queried,) = pair.controller.ev_operations(1, [EvOp(QUERY, ev=spine_ev(0, 2))])
    assert queried.state == EvState.DENIED
    refused_state = EvOp(REPLACE, ev=evs[1], new_ev=evs[0], state=EvState.SKIP)
    assert pair.controller.ev_operations(1, [refused_state])[0].errno == errno.EINVAL
    assert pair.controller.query_ev_array(1)[1] == evs[1]
