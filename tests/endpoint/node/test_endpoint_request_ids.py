# SPDX-License-Identifier: BSD-2-Clause
"""A request id (16 bits, wire.md section 3) that is still out is not given again when the ids come round."""

from __future__ import annotations

from hand_operations import PORT_STATUS_UPDATE, answered, requests
from hand_peer import MILLISECOND, HandPeer

ROUND = 4096


def test_an_update_that_nobody_answers_keeps_its_id_when_probes_come_round_to_it() -> None:
    hand = HandPeer()
    (node,) = hand.endpoint.peer_nodes.values()
    hand.endpoint.set_port(0, False, hand.now)
    (update,) = requests(hand.transmitted(), PORT_STATUS_UPDATE)
    # As after 65,436 probes.
    first = (update.psn - 99) % (1 << 16)
    hand.endpoint._operations._next_id = first
    ids = {hand.endpoint.probe_ev(node, 4) for _ in range(ROUND - 1)}
    assert ids == {(first + number) % (1 << 16) for number in range(ROUND)} - {update.psn}
    hand.transmitted()
    hand.now += 100 * MILLISECOND
    hand.endpoint.on_timer(hand.now)
    answered(hand, update, plane=1)
    assert requests(hand.run(hand.now + 5000 * MILLISECOND), PORT_STATUS_UPDATE) == []
