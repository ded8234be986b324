# SPDX-License-Identifier: BSD-2-Clause
"""A peer with room for few packets above a hole, and one packet lost: the writes still get through (MRC-NACK-20..22).

The room is for 128 packets. What arrives beyond it is refused with NO_PKT_BUFFER until the hole has closed.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from sim_transfer import MICROSECOND, SECOND, check_all_arrived, run, start, two_hosts

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig, ResponderConfig
from mrc.endpoint.counters import Counters
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric

PACKETS = 1024  # of 1 KiB
ROOM = 128
FIXED_WINDOW = 384  # packets


@dataclass(frozen=True)
class Outcome:
    took_ns: int
    sent: int
    nacks: int


def _one_packet_lost(controller: str, delay_us: int, **limits: int) -> Outcome:
    """1 MiB over two planes of 10 Gbit/s, four links of `delay_us` each way. The 12th packet of one path is lost."""
    fabric = SimFabric(Clos(2, 2, 4), LinkModel(rate_bps=10**10, delay_ns=delay_us * MICROSECOND), seed=0)
    peer = QpConfig(path_mtu=1024, responder=ResponderConfig(**limits))
    qp, _ = fabric.connect("h0", "h1", QpConfig(path_mtu=1024), controller, peer)
    fabric.uplink(0, 0, 0).lose_number(12)
    transfer = fabric.write(qp, PACKETS * 1024)
    assert fabric.run(SECOND, lambda: transfer.done)
    assert (transfer.status, qp.error) == (WorkStatus.SUCCESS, None)
    assert transfer.arrived
    assert transfer.completed_at is not None
    counters: Counters = qp.counters
    return Outcome(transfer.completed_at, counters.data_packets_sent, counters.nacks_received)


def test_a_fixed_window_goes_on_when_a_peer_has_no_room_above_a_hole() -> None:
    """Of a window of 384 packets at most 255 find no room: all but the lost one and the 128 behind it.

    The path timer, 1 ms, repairs the hole at the latest: in that time (a round trip takes 400 us) waits of one round
    trip, two and four allow three rounds of refusals, a fourth while the retransmission is under way. New packets add
    none: none is sent.
    """
    with_room = _one_packet_lost("fixed", 50)
    without = _one_packet_lost("fixed", 50, max_held_packets=ROOM)
    assert with_room.sent == PACKETS + 1
    assert without.nacks > 0
    assert without.sent <= PACKETS + 1 + 4 * (FIXED_WINDOW - 1 - ROOM)
    assert without.took_ns <= 4 * with_room.took_ns


def test_nscc_goes_on_when_a_peer_has_no_room_above_a_hole() -> None:
    """Its window of 128 packets holds hardly more than there is room for: each refusal costs one retransmission."""
    with_room = _one_packet_lost("nscc", 10)
    without = _one_packet_lost("nscc", 10, max_held_packets=ROOM)
    assert without.nacks > 0
    assert without.sent <= PACKETS + 1 + 2 * ROOM
    assert without.took_ns <= 2 * with_room.took_ns


@pytest.mark.parametrize(
    "limits", [{"max_held_packets": 0}, {"max_held_packets": 16}, {"max_span": 1}, {"max_span": 64}]
)
@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_however_little_room_there_is_the_oldest_packet_gets_through(limits: dict[str, int], loss: float) -> None:
    """The PSN that becomes the oldest goes at once and fits: one packet a round trip at the least."""
    fabric = two_hosts(paths=LinkModel(delay_ns=10 * MICROSECOND, jitter_ns=5 * MICROSECOND, loss=loss))
    config = QpConfig(path_mtu=256, responder=ResponderConfig(**limits))
    transfers = start(fabric, [("h0", [300 * 256]), ("h1", [])], config)
    assert run(fabric, transfers)
    check_all_arrived(transfers[0])
