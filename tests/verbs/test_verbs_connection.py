# SPDX-License-Identifier: BSD-2-Clause
"""What two ends tell each other: there and back as JSON, malformed members refused, the smaller of both taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verbs_pair import Pair

from mrc.errors import PeerError
from mrc.verbs import ConnectionParameters, DeviceCap, QPState, RemoteMemory, SendWR, VerbsError, connect, describe

GOOD: dict[str, Any] = {
    "qp_num": 17,
    "psn": 5,
    "path_mtu": 1024,
    "mpr_dest": 8,
    "max_wimm_dest": 32,
    "caps": 5,
    "node": {"host": "h1"},
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "addr", "rkey"]), inner),
    max_leaves=8,
)


def test_parameters_there_and_back() -> None:
    """QPN, first PSN, path MTU, addresses, mpr_dest, max_wimm_dest, and what an end can do. MRC-QP-04."""
    pair = Pair()
    told = describe(pair.left.qp, path_mtu=2048, mpr_dest=9, max_wimm_dest=4, dynamic_mpr=True)
    assert ConnectionParameters.from_json(json.loads(json.dumps(told.to_json()))) == told
    assert told.caps == DeviceCap.TRIM_NACK | DeviceCap.SVC_TIME | DeviceCap.DYNAMIC_MPR
    assert (told.path_mtu, told.mpr_dest, told.max_wimm_dest) == (2048, 9, 4)
    assert told.node == pair.left.qp.context.address
    assert (told.qp_num, told.psn) == (pair.left.qp.qp_num, pair.left.qp.first_psn)


def test_memory_there_and_back() -> None:
    """VA, length and R_Key of a region. MRC-QP-04."""
    region = Pair().left.pd.mr(bytearray(7))
    told = region.remote
    assert (told.addr, told.length, told.rkey) == (region.addr, 7, region.rkey)
    assert RemoteMemory.from_json(json.loads(json.dumps(told.to_json()))) == told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("qp_num", 0),
        ("qp_num", 1 << 24),
        ("psn", -1),
        ("psn", 1 << 24),
        ("path_mtu", 1500),
        ("path_mtu", True),
        ("mpr_dest", 0),
        ("mpr_dest", 256),
        ("max_wimm_dest", -1),
        ("caps", "all"),
        ("node", "h1"),
        ("node", None),
    ],
)
def test_malformed_members_are_the_peers_error(name: str, value: Any) -> None:
    with pytest.raises(PeerError, match=name):
        ConnectionParameters.from_json(GOOD | {name: value})
    ConnectionParameters.from_json(GOOD)


@given(JSON_VALUES)
def test_anything_is_taken_or_the_peers_error(document: Any) -> None:
    for kind in (ConnectionParameters, RemoteMemory):
        try:
            kind.from_json(document)
        except PeerError:
            continue
        assert isinstance(document, dict)


def test_unknown_capabilities_are_left_out() -> None:
    assert ConnectionParameters.from_json(GOOD | {"caps": 0xFF}).caps == DeviceCap(7)


def test_both_take_the_smaller_path_mtu_and_what_the_other_grants() -> None:
    pair = Pair()
    ours = describe(pair.left.qp, path_mtu=4096, mpr_dest=9, max_wimm_dest=3, dynamic_mpr=True)
    theirs = describe(pair.right.qp, path_mtu=512, mpr_dest=12, max_wimm_dest=5)
    connect(pair.left.qp, ours, theirs, timeout=9)
    connect(pair.right.qp, theirs, ours)
    left, right = pair.left.qp.query(), pair.right.qp.query()
    assert (left.path_mtu, right.path_mtu) == (512, 512)
    assert (left.mpr, left.mpr_dest, right.mpr, right.mpr_dest) == (12, 9, 9, 12)
    assert (left.max_wimm, left.max_wimm_dest, right.max_wimm) == (5, 3, 3)
    assert (left.dynamic_mpr, right.dynamic_mpr) == (False, False)
    assert (left.timeout, right.timeout) == (9, 14)


def test_dynamic_mpr_is_used_where_both_offer_it() -> None:
    pair = Pair().connect(dynamic_mpr=True)
    assert pair.left.qp.query().dynamic_mpr
    source, target, arrived = pair.memory(bytes([7]) * 100_000)
    pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
    pair.left.poll_all(1)
    assert arrived == bytes([7]) * 100_000


def test_a_description_of_another_qp_is_refused() -> None:
    pair = Pair()
    with pytest.raises(VerbsError, match="describe QP"):
        connect(pair.left.qp, describe(pair.right.qp), describe(pair.right.qp))
    assert pair.left.qp.state == QPState.RESET


def test_an_offer_out_of_range_is_refused() -> None:
    with pytest.raises(VerbsError, match="mpr_dest=0 is out of its range"):
        describe(Pair().left.qp, mpr_dest=0)
