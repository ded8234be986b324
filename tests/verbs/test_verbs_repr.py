# SPDX-License-Identifier: BSD-2-Clause
"""repr() of what a program holds: one line, with the number, the state and what else tells it from others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from verbs_pair import Pair

from mrc.verbs import MR, QP, AccessFlag, QPAttr, QPState, RecvWR, SendWR, VerbsError


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_qp_tells_its_number_its_state_and_its_peer(pair: Pair) -> None:
    qp, number = pair.left.qp, f"{pair.left.qp.qp_num:#08x}"
    assert repr(qp) == f"<QP {number} RESET: 0 sends and 0 receives outstanding>"
    pair.connect()
    there = f"to QP {pair.right.qp.qp_num:#08x} at h1"
    assert repr(qp) == f"<QP {number} RTS {there}: 0 sends and 0 receives outstanding>"
    qp.post_recv(RecvWR(1))
    source, target = pair.left.pd.mr(bytearray(8)), pair.right.pd.mr(bytearray(8))
    qp.post_send(SendWR(1, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
    assert repr(qp) == f"<QP {number} RTS {there}: 1 sends and 1 receives outstanding>"
    qp.modify(QPAttr(qp_state=QPState.ERROR))
    assert repr(qp).startswith(f"<QP {number} ERROR (its owner moved it to ERROR) {there}: ")
    qp.close()
    assert repr(qp) == f"<QP {number} closed>"


def test_a_completion_queue_tells_how_full_it_is(pair: Pair) -> None:
    cq = pair.left.cq
    assert repr(cq) == "<CQ of h0: 0 of 256 completions waiting, 1 QPs>"
    pair.left.qp.close()
    cq.close()
    assert repr(cq) == "<CQ of h0 closed>"


def test_an_overrun_is_told(pair: Pair) -> None:
    pair.left.cq.overrun = True
    assert repr(pair.left.cq) == "<CQ of h0: 0 of 256 completions waiting, some lost (overrun), 1 QPs>"


def test_a_region_tells_its_keys_place_and_access(pair: Pair) -> None:
    mr = pair.left.pd.mr(bytearray(4096), iova=0x1000)
    assert repr(mr) == f"<MR {mr.lkey:#010x}: 4096 bytes at 0x1000, LOCAL_WRITE|REMOTE_WRITE>"
    plain = pair.left.pd.mr(b"abc", AccessFlag(0), iova=0)
    assert repr(plain) == f"<MR {plain.lkey:#010x}: 3 bytes at 0x0, none>"
    mr.close()
    assert repr(mr) == f"<MR {mr.lkey:#010x} closed>"


@pytest.mark.parametrize("shown", [str, repr])
def test_a_refused_region_can_be_shown(pair: Pair, shown: Callable[[object], str]) -> None:
    """As a debugger does that shows a failed constructor's variables."""
    refused = MR.__new__(MR)
    with pytest.raises(VerbsError):
        refused.__init__(pair.left.pd, b"read-only", AccessFlag.LOCAL_WRITE)  # type: ignore[misc]
    assert "0x00000000" in shown(refused)
    refused.close()


def test_the_others_tell_whose_they_are_and_what_they_hold(pair: Pair) -> None:
    left = pair.left
    left.pd.mr(bytearray(8))
    assert repr(left.pd) == "<PD of h0: 1 MRs, 1 QPs>"
    assert repr(left.context) == "<Context of h0: 1 PDs, 1 CQs, 1 QPs>"
    assert repr(left.channel) == f"<CompChannel of h0: fd {left.channel.fileno()}, 1 CQs>"


def test_what_is_closed_says_so(pair: Pair) -> None:
    left = pair.left
    left.context.close()
    for thing, name in ((left.pd, "PD"), (left.context, "Context"), (left.channel, "CompChannel")):
        assert repr(thing) == f"<{name} of h0 closed>"


@pytest.mark.parametrize("shown", [str, repr])
def test_nothing_is_shown_by_its_address(pair: Pair, shown: Callable[[object], str]) -> None:
    pair.connect()
    left = pair.left
    things = [left.context, left.pd, left.channel, left.cq, left.qp, left.pd.mr(bytearray(8)), left.context.device]
    for thing in things:
        assert " object at 0x" not in shown(thing)
        assert "\n" not in repr(thing)


def test_two_qps_are_told_apart(pair: Pair) -> None:
    left = pair.left
    other = QP(left.pd, send_cq=left.cq, recv_cq=left.cq)
    assert repr(other) != repr(left.qp)
