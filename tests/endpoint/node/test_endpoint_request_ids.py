# SPDX-License-Identifier: BSD-2-Clause
"""A request id (16 bits, wire.md section 3) that is still out is not given again when the ids come round."""

from __future__ import annotations

import pytest
from hand_operations import PORT_STATUS_UPDATE, answered, requests
from hand_peer import MILLISECOND, HandPeer

from mrc.wire.transmit_batch import TransmitBatch

ROUND = 4096


@pytest.mark.seconds
def test_an_update_that_nobody_answers_keeps_its_id_when_65536_probes_pass_by() -> None:
    hand = HandPeer()
    (node,) = hand.endpoint.peer_nodes.values()
    hand.endpoint.set_port(0, False, hand.now)
    (update,) = requests(hand.transmitted(), PORT_STATUS_UPDATE)
    batch = TransmitBatch(ROUND + 1)
    used: set[int] = set()
    for _ in range((1 << 16) // (ROUND - 1) + 1):
        ids = {hand.endpoint.probe_ev(node, 4) for _ in range(ROUND - 1)}
        assert len(ids) == ROUND - 1
        assert update.psn not in ids
        used |= ids
        batch.clear()
        hand.endpoint.transmit(batch, hand.now)
        hand.now += 100 * MILLISECOND
        hand.endpoint.on_timer(hand.now)
    assert used == set(range(1 << 16)) - {update.psn}
    answered(hand, update, plane=1)
    assert requests(hand.run(hand.now + 5000 * MILLISECOND), PORT_STATUS_UPDATE) == []
