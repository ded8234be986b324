# SPDX-License-Identifier: BSD-2-Clause
"""A traffic class per QP: the one that an AHAttr names is that of this QP and of no other."""

from __future__ import annotations

import pytest
from verbs_pair import INIT, Pair

from mrc.endpoint.config import QpConfig
from mrc.verbs import AHAttr, QPAttr, QPState, VerbsError, connect, describe


def brought_up(pair: Pair, traffic_class: int | None) -> int | None:
    """What the left QP's configuration has once it is in RTS."""
    qp, address = pair.left.qp, AHAttr(pair.right.context.address, traffic_class)
    qp.modify(QPAttr(qp_state=QPState.INIT, **INIT))
    qp.modify(QPAttr(qp_state=QPState.RTR, **pair.rtr(ah_attr=address)))
    qp.modify(QPAttr(qp_state=QPState.RTS, **pair.rts()))
    assert qp.query().ah_attr == address
    return qp.endpoint_qp.config.traffic_class


def test_it_is_that_of_the_qp_which_names_it() -> None:
    pair = Pair()
    assert brought_up(pair, 12) == 12
    assert pair.right.qp.endpoint_qp.config.traffic_class is None
    pair.left.qp.modify(QPAttr(qp_state=QPState.RESET))
    assert brought_up(pair, None) is None


def test_connect_names_it() -> None:
    pair = Pair()
    ours, theirs = describe(pair.left.qp), describe(pair.right.qp)
    connect(pair.left.qp, ours, theirs, traffic_class=12)
    connect(pair.right.qp, theirs, ours)
    assert [end.qp.endpoint_qp.config.traffic_class for end in (pair.left, pair.right)] == [12, None]


def test_a_tuning_names_it_for_the_qps_that_name_none() -> None:
    tuning = QpConfig(traffic_class=4)
    assert brought_up(Pair(tuning=tuning), None) == 4
    assert brought_up(Pair(tuning=tuning), 12) == 12


@pytest.mark.parametrize("wrong", [-1, 256, 12 << 2, 16 << 2 | 2, True, "4"])
def test_out_of_range_or_that_of_trimmed_packets_is_einval(wrong: object) -> None:
    pair = Pair()
    with pytest.raises(VerbsError, match="EINVAL"):
        brought_up(pair, wrong)  # type: ignore[arg-type]
    assert pair.left.qp.state == QPState.INIT
