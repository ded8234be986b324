# SPDX-License-Identifier: BSD-2-Clause
"""The message that connects the QPs of a session: there and back, what older peers leave out, what is malformed."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import PeerError
from mrc.fabric import Clos
from mrc.net.session.qps import (
    TUNING,
    answer_qps,
    connect_qps,
    describe_qps,
    from_message,
    make_qps,
    to_message,
)
from mrc.net.transfer.terms import file_qps
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import QP, Context, DeviceCap, QPCap, QPState, SendWR

MESSAGE: dict[str, Any] = {
    "node": {"host": "h1"},
    "qps": [{"qpn": 20, "first_psn": 1}, {"qpn": 21, "first_psn": 2}],
    "mpr_dest": 8,
    "path_mtu": 1024,
    "caps": 5,
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*MESSAGE]), inner),
    max_leaves=8,
)


@pytest.fixture
def contexts() -> Iterator[list[Context]]:
    fabric = SimFabric(Clos(spines=2))
    made = [Context(SimDevice(fabric, host), tuning=TUNING) for host in ("h0", "h1")]
    yield made
    for context in made:
        context.close()


def test_qps_described_in_messages_connect(contexts: list[Context]) -> None:
    queues = [context.cq(64) for context in contexts]
    ends = [file_qps(context.pd(), cq, 3) for context, cq in zip(contexts, queues, strict=True)]
    sides = [describe_qps(qps, mtu, dynamic_mpr=True) for qps, mtu in zip(ends, (4096, 1024), strict=True)]
    told = [from_message(json.loads(json.dumps(to_message(side))), 64) for side in sides]
    assert told == sides
    connect_qps(ends[1], sides[1], told[0])
    connect_qps(ends[0], sides[0], told[1])
    for qp in (*ends[0], *ends[1]):
        attributes = qp.query()
        assert (attributes.qp_state, attributes.path_mtu) == (QPState.RTS, 1024)
        assert attributes.dest_caps == DeviceCap.TRIM_NACK | DeviceCap.SVC_TIME | DeviceCap.DYNAMIC_MPR
        assert attributes.dynamic_mpr
        assert attributes.timeout == TUNING.timeout
    for number, qp in enumerate(ends[0]):
        qp.post_send(SendWR(number))
    done: list[int] = []
    while len(done) < 3:
        done += [completion.wr_id for completion in queues[0].poll(3)]
    assert sorted(done) == [0, 1, 2]


@pytest.mark.parametrize(("receives", "granted"), [(0, 0), (10, 10), (4096, 1024)])
def test_a_qp_with_receives_grants_writes_with_immediate(contexts: list[Context], receives: int, granted: int) -> None:
    """One receive is consumed by each; at most 1024 are granted."""
    context = contexts[0]
    qps = make_qps(context.pd(), context.cq(64), 2, QPCap(max_send_wr=1, max_recv_wr=receives))
    sides = describe_qps(qps, 1024)
    assert [side.max_wimm_dest for side in sides] == [granted] * 2
    assert [DeviceCap.DYNAMIC_MPR in side.caps for side in sides] == [False] * 2
    assert from_message(to_message(sides), 2) == sides


def test_a_peer_that_made_another_number_of_qps_is_refused_and_ours_are_closed(contexts: list[Context]) -> None:
    ends = [make_qps(each.pd(), each.cq(64), 2, QPCap(max_send_wr=1, max_recv_wr=0)) for each in contexts]
    theirs = describe_qps(ends[1], 1024)
    with pytest.raises(PeerError, match="asked for 2 QPs, the peer made 1"):
        answer_qps(ends[0], theirs[:1], 1024)
    assert contexts[0].device.endpoint.qps == {}
    assert len(contexts[1].device.endpoint.qps) == 2


def test_what_the_system_refuses_in_the_middle_leaves_no_qp(
    contexts: list[Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the protection domain could not be closed, and a receiver would end with its session."""
    context, cap = contexts[0], QPCap(max_send_wr=1, max_recv_wr=0)
    pd, cq = context.pd(), context.cq(64)
    theirs = describe_qps(make_qps(contexts[1].pd(), contexts[1].cq(64), 2, cap), 1024)

    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("mrc.net.session.qps.connect", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            answer_qps(make_qps(pd, cq, 2, cap), theirs, 1024)
    left = [refuse, QP]
    with monkeypatch.context() as patched:
        patched.setattr("mrc.net.session.qps.QP", lambda *args, **options: left.pop()(*args, **options))
        with pytest.raises(OSError, match="Too many open files"):
            make_qps(pd, cq, 2, cap)
    assert context.device.endpoint.qps == {}
    pd.close()


def test_a_peer_that_tells_no_capabilities_has_none() -> None:
    told = from_message({key: value for key, value in MESSAGE.items() if key != "caps"}, 64)
    assert [(each.qp_num, each.psn, each.caps) for each in told] == [(20, 1, DeviceCap(0)), (21, 2, DeviceCap(0))]


def test_an_answer_without_a_path_mtu_takes_ours() -> None:
    answer = {key: value for key, value in MESSAGE.items() if key != "path_mtu"}
    assert {each.path_mtu for each in from_message(answer, 64, 512)} == {512}
    assert {each.path_mtu for each in from_message(MESSAGE, 64, 512)} == {1024}
    with pytest.raises(PeerError, match="path_mtu"):
        from_message(answer, 64)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node", None),
        ("node", []),
        ("qps", []),
        ("qps", [{"qpn": 20, "first_psn": 1}] * 65),
        ("qps", [{"qpn": 2, "first_psn": 1}]),
        ("mpr_dest", 0),
        ("mpr_dest", 256),
        ("max_wimm_dest", -1),
        ("max_wimm_dest", 1 << 16),
        ("path_mtu", 1500),
        ("caps", -1),
        ("caps", None),
    ],
)
def test_malformed_members_are_the_peers_error(name: str, value: Any) -> None:
    with pytest.raises(PeerError):
        from_message(MESSAGE | {name: value}, 64)
    from_message(MESSAGE, 64)


@given(st.dictionaries(st.sampled_from([*MESSAGE]), JSON_VALUES))
def test_anything_is_taken_or_the_peers_error(body: dict[str, Any]) -> None:
    for document in (body, MESSAGE | body):
        try:
            from_message(document, 64)
        except PeerError:
            continue
        assert set(document) >= {"node", "qps", "mpr_dest", "path_mtu"}
