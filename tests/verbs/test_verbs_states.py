# SPDX-License-Identifier: BSD-2-Clause
"""The states of a QP and the attributes of each way, all of them, against api.md written out by hand."""

from __future__ import annotations

import errno
import itertools
from typing import Any

import pytest
from verbs_pair import INIT, Pair

from mrc.verbs import AHAttr, DeviceCap, QPAttr, QPAttrMask, QpHint, QPState, VerbsError
from mrc.verbs.transitions import TRANSITIONS

RESET, INIT_STATE, RTR, RTS, ERROR = QPState.RESET, QPState.INIT, QPState.RTR, QPState.RTS, QPState.ERROR

SENDING = {"max_wimm", "mpr", "linear_retries", "exponential_retries", "timeout"}
# (from, to): what it needs, what it may have besides.
BY_HAND: dict[tuple[QPState, QPState], tuple[set[str], set[str]]] = {
    (RESET, INIT_STATE): (set(), {"ev_profile_id", "cc_profile_id", "hint"}),
    (INIT_STATE, INIT_STATE): (set(), {"ev_profile_id", "cc_profile_id", "hint"}),
    (INIT_STATE, RTR): (
        {"ah_attr", "dest_qp_num", "rq_psn", "path_mtu"},
        {"max_wimm_dest", "mpr_dest", "dynamic_mpr", "dest_caps", "hint", *SENDING},
    ),
    (RTR, RTS): ({"sq_psn"}, {"hint", *SENDING}),
}
for _state in QPState:
    BY_HAND[_state, RESET] = set(), set()
    BY_HAND[_state, ERROR] = set(), set()

OTHERS: dict[str, Any] = {"hint": QpHint(1, 2, 3), "dynamic_mpr": True, "dest_caps": DeviceCap.TRIM_NACK}
WAYS = list(itertools.product(QPState, QPState))


def way_id(way: tuple[QPState, QPState]) -> str:
    return f"{way[0].name}-{way[1].name}"


def values(pair: Pair) -> dict[str, Any]:
    """A good value for every attribute."""
    return INIT | pair.rtr() | pair.rts() | OTHERS


@pytest.mark.parametrize("way", WAYS, ids=way_id)
def test_a_way_exists_or_is_refused(way: tuple[QPState, QPState]) -> None:
    pair = Pair()
    pair.bring_left_to(way[0])
    needed = BY_HAND.get(way, (set(), set()))[0]
    good = values(pair)
    attr = QPAttr(qp_state=way[1], **{name: good[name] for name in needed})
    if way in BY_HAND:
        pair.left.qp.modify(attr)
        assert pair.left.qp.state == way[1]
    else:
        with pytest.raises(VerbsError, match=f"in {way[0].name} cannot go to {way[1].name}") as caught:
            pair.left.qp.modify(attr)
        assert caught.value.errno == errno.EINVAL
        assert pair.left.qp.state == way[0]


@pytest.mark.parametrize("way", sorted(BY_HAND), ids=way_id)
def test_every_attribute_is_needed_taken_or_refused(way: tuple[QPState, QPState]) -> None:
    needed, optional = BY_HAND[way]
    pair = Pair()
    good = values(pair)
    assert set(good) == {name.lower() for name in QPAttrMask.__members__} - {"qp_state"}
    for name in good:
        pair = Pair()
        good = values(pair)
        pair.bring_left_to(way[0])
        qp, chosen = pair.left.qp, {each: good[each] for each in needed}
        if name in needed:
            del chosen[name]
            with pytest.raises(VerbsError, match=f"needs {name}$") as caught:
                qp.modify(QPAttr(qp_state=way[1], **chosen))
        elif name in optional:
            qp.modify(QPAttr(qp_state=way[1], **chosen, **{name: good[name]}))
            assert qp.state == way[1]
            assert getattr(qp.query(), name) == good[name]
            continue
        else:
            with pytest.raises(VerbsError, match=f"does not take {name}$") as caught:
                qp.modify(QPAttr(qp_state=way[1], **chosen, **{name: good[name]}))
        assert caught.value.errno == errno.EINVAL
        assert qp.state == way[0]


def test_the_table_has_no_other_ways() -> None:
    assert set(TRANSITIONS) == set(BY_HAND)


def test_all_that_is_wrong_is_named_at_once() -> None:
    pair = Pair()
    with pytest.raises(VerbsError, match=r"does not take mpr, timeout$"):
        pair.left.qp.modify(QPAttr(qp_state=QPState.INIT, mpr=8, timeout=3))


OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("ev_profile_id", -1),
    ("ev_profile_id", 1 << 16),
    ("cc_profile_id", "nscc"),
    ("hint", (1, 2, 3)),
    ("ah_attr", {"host": "h1"}),
    ("dest_qp_num", 0),
    ("dest_qp_num", 1 << 24),
    ("rq_psn", -1),
    ("rq_psn", 1 << 24),
    ("path_mtu", 1500),
    ("path_mtu", 8192),
    ("max_wimm_dest", -1),
    ("max_wimm_dest", (1 << 15) + 1),
    ("mpr_dest", 0),
    ("mpr_dest", 256),
    ("dynamic_mpr", 1),
    ("dest_caps", 1),
    ("sq_psn", 1 << 24),
    ("max_wimm", 1.0),
    ("mpr", 0),
    ("linear_retries", 8),
    ("linear_retries", -1),
    ("exponential_retries", 26),
    ("timeout", 25),
    ("timeout", -1),
    ("timeout", True),
]


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE, ids=[f"{name}-{value!r}" for name, value in OUT_OF_RANGE])
def test_a_value_out_of_its_range_is_refused(name: str, value: Any) -> None:
    pair = Pair()
    with pytest.raises(VerbsError, match=f"{name}=.* is out of its range") as caught:
        pair.left.qp.modify(QPAttr(**{name: value}))
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linear_retries", 7),
        ("exponential_retries", 25),
        ("timeout", 24),
        ("timeout", 0),
        ("mpr", 255),
        ("max_wimm", 0),
    ],
)
def test_the_ends_of_the_ranges_are_taken(name: str, value: int) -> None:
    pair = Pair()
    pair.bring_left_to(QPState.RTR)
    pair.left.qp.modify(QPAttr(qp_state=QPState.RTS, **pair.rts(**{name: value})))
    assert getattr(pair.left.qp.query(), name) == value


def test_a_mask_names_the_attributes_that_count() -> None:
    pair = Pair()
    attr = QPAttr(qp_state=QPState.INIT, ev_profile_id=0, cc_profile_id=0, timeout=14)
    pair.left.qp.modify(attr, QPAttrMask.QP_STATE | QPAttrMask.EV_PROFILE_ID | QPAttrMask.CC_PROFILE_ID)
    assert pair.left.qp.state == QPState.INIT
    assert pair.left.qp.query().timeout is None


def test_a_mask_that_names_what_is_not_given_is_refused() -> None:
    with pytest.raises(VerbsError, match="the mask names timeout, which the attributes leave out"):
        Pair().left.qp.modify(QPAttr(), QPAttrMask.TIMEOUT)


def test_without_a_state_the_qp_stays_where_it_is() -> None:
    pair = Pair()
    pair.bring_left_to(QPState.INIT)
    pair.left.qp.modify(QPAttr(hint=QpHint(num_qps_per_peer=4)))
    assert pair.left.qp.state == QPState.INIT
    assert pair.left.qp.query().hint == QpHint(num_qps_per_peer=4)
    pair.left.qp.modify(QPAttr(qp_state=QPState.RESET))
    pair.bring_left_to(QPState.RTS)
    with pytest.raises(VerbsError, match="RTS cannot go to RTS"):
        pair.left.qp.modify(QPAttr())


def test_query_tells_all_that_was_given() -> None:
    pair = Pair()
    pair.bring_left_to(QPState.RTS)
    assert pair.left.qp.query() == QPAttr(qp_state=QPState.RTS, **INIT, **pair.rtr(), **pair.rts())


def test_the_parameters_reach_the_endpoint() -> None:
    pair = Pair()
    pair.left.qp.modify(QPAttr(qp_state=QPState.INIT, **INIT))
    pair.left.qp.modify(QPAttr(qp_state=QPState.RTR, **pair.rtr(path_mtu=512, max_wimm_dest=5, mpr_dest=9)))
    pair.left.qp.modify(
        QPAttr(
            qp_state=QPState.RTS,
            **pair.rts(sq_psn=4711, max_wimm=6, mpr=10, linear_retries=3, exponential_retries=4, timeout=11),
        )
    )
    qp = pair.left.qp.endpoint_qp
    config = qp.config
    assert (config.path_mtu, config.max_wimm_dest, config.mpr_dest) == (512, 5, 9)
    assert (config.max_wimm, config.mpr, config.timeout) == (6, 10, 11)
    assert (config.linear_retries, config.exponential_retries) == (3, 4)
    assert qp.first_psn == pair.left.qp.first_psn == 4711
    assert qp.requestor.sent.next_psn & 0xFFFFFF == 4711


def test_an_unknown_peer_changes_nothing() -> None:
    pair = Pair()
    pair.bring_left_to(QPState.INIT)
    before = pair.left.qp.query()
    with pytest.raises(Exception, match="no other host 'h9'"):
        pair.left.qp.modify(QPAttr(qp_state=QPState.RTR, **pair.rtr(ah_attr=AHAttr({"host": "h9"}))))
    assert pair.left.qp.query() == before


def test_reset_begins_anew_under_the_same_number() -> None:
    pair = Pair().connect()
    number = pair.left.qp.qp_num
    pair.left.qp.modify(QPAttr(qp_state=QPState.RESET))
    assert pair.left.qp.query() == QPAttr(qp_state=QPState.RESET)
    assert pair.left.qp.qp_num == number
    pair.right.qp.modify(QPAttr(qp_state=QPState.RESET))
    pair.connect()
    assert pair.left.qp.state == pair.right.qp.state == QPState.RTS


def test_attributes_that_are_never_given_have_defaults() -> None:
    """MRC-QP-08."""
    pair = Pair()
    rtr, rts = pair.rtr(), pair.rts()
    pair.left.qp.modify(QPAttr(qp_state=QPState.INIT))
    needed = {name: rtr[name] for name in ("ah_attr", "dest_qp_num", "rq_psn", "path_mtu")}
    pair.left.qp.modify(QPAttr(qp_state=QPState.RTR, **needed))
    pair.left.qp.modify(QPAttr(qp_state=QPState.RTS, sq_psn=rts["sq_psn"]))
    attr = pair.left.qp.query()
    assert (attr.ev_profile_id, attr.cc_profile_id) == (0, 0)
    assert (attr.mpr, attr.mpr_dest, attr.max_wimm, attr.max_wimm_dest) == (8, 8, 32, 32)
    assert (attr.linear_retries, attr.exponential_retries, attr.timeout) == (7, 7, 14)


def test_what_a_peer_can_do_is_on_unless_it_is_turned_off() -> None:
    """MRC-QP-07."""
    agreed = []
    for caps in (None, DeviceCap(0)):
        pair = Pair()
        pair.bring_left_to(QPState.INIT)
        pair.left.qp.modify(QPAttr(qp_state=QPState.RTR, **pair.rtr(dest_caps=caps)))
        agreed.append(pair.left.qp.endpoint_qp.agreed)
    assert agreed == [pair.left.qp.endpoint_qp.config.capabilities, DeviceCap(0)]
    assert DeviceCap.TRIM_NACK in agreed[0]


def test_an_attribute_of_a_later_state_is_taken_early() -> None:
    pair = Pair()
    pair.bring_left_to(QPState.INIT)
    pair.left.qp.modify(QPAttr(qp_state=QPState.RTR, **pair.rtr(), mpr=16, max_wimm=5))
    pair.left.qp.modify(QPAttr(qp_state=QPState.RTS, sq_psn=pair.rts()["sq_psn"]))
    assert (pair.left.qp.query().mpr, pair.left.qp.query().max_wimm) == (16, 5)
