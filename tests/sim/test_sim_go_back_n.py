# SPDX-License-Identifier: BSD-2-Clause
"""The go-back-N yardstick does what RoCEv2 does: in order, one NAK a gap, back to what it names."""

from __future__ import annotations

from behaviour.go_back_n import GoBackNConfig, GoBackNFlow

from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.sim.link import SimPacket

MICROSECOND, MILLISECOND = 1_000, 1_000_000
WRITE_MIDDLE, ACKNOWLEDGE = 0x07, 0x11


class Watched:
    """A flow of one path whose requests and answers are written down as they pass the leaf of their sender."""

    def __init__(self, **config: int) -> None:
        self.flow = GoBackNFlow("h0", "h1", GoBackNConfig(path_mtu=1024, **config))
        # Without a rate a window leaves at once; one way takes 40 us.
        self.fabric = SimFabric(Clos(1, 2, 1), LinkModel(delay_ns=10 * MICROSECOND), agents=self.flow.agents)
        self.flow.start(self.fabric)
        self.requests: list[tuple[int, int]] = []
        self.answers: list[tuple[int, str, int]] = []
        self.lose: set[int] = set()
        self.fabric.uplink(0, 0, 0).lose_if = self._request
        self.fabric.uplink(0, 1, 0).lose_if = self._answer

    def _request(self, packet: SimPacket, number: int) -> bool:
        assert packet.data[48] == WRITE_MIDDLE
        self.requests.append((self.fabric.now // MICROSECOND, int.from_bytes(packet.data[57:60], "big")))
        return number in self.lose

    def _answer(self, packet: SimPacket, number: int) -> bool:
        assert packet.data[48] == ACKNOWLEDGE
        kind = "NAK" if packet.data[60] == 0x60 else "ACK"
        self.answers.append((self.fabric.now // MICROSECOND, kind, int.from_bytes(packet.data[57:60], "big")))
        return False


def test_a_window_leaves_and_acknowledgements_open_it() -> None:
    """Eight of 1 kB with an ACK for each four: the first eight pass the leaf after 10 us, the next four 80 us later."""
    watched = Watched(window_packets=8, ack_every_bytes=4096)
    watched.fabric.run(95 * MICROSECOND)
    assert watched.requests == [(10, psn) for psn in range(8)] + [(90, psn) for psn in range(8, 16)]
    assert watched.answers == [(50, "ACK", 3), (50, "ACK", 7)]
    assert watched.flow.delivered_bytes == 8 * 1024


def test_a_gap_is_reported_once_and_everything_from_it_on_comes_again() -> None:
    """The third of eight is lost: one NAK for PSN 2, though five packets came after it, and those five come again."""
    watched = Watched(window_packets=8, ack_every_bytes=1 << 20)
    watched.lose = {3}
    watched.fabric.run(95 * MICROSECOND)
    assert watched.answers == [(50, "NAK", 2)]
    assert watched.requests == [(10, psn) for psn in range(8)] + [(90, psn) for psn in range(2, 10)]
    assert watched.flow.delivered_bytes == 2 * 1024
    watched.fabric.run(135 * MICROSECOND)
    assert watched.flow.delivered_bytes == 10 * 1024


def test_a_packet_lost_again_waits_for_the_timeout() -> None:
    """The responder says no more about a gap it has named: 1 ms after the last progress PSN 2 comes again."""
    watched = Watched(window_packets=4, ack_every_bytes=1 << 20)
    watched.lose = {3, 5}
    watched.fabric.run(2 * MILLISECOND)
    assert [when for when, psn in watched.requests if psn == 2] == [10, 90, 1090]
    assert watched.answers[0] == (50, "NAK", 2)
    assert watched.flow.sender.timeouts == 1


def test_an_acknowledgement_lost_is_made_good_by_the_duplicates() -> None:
    """The timeout sends the window again; the responder answers old requests with where it stands."""
    watched = Watched(window_packets=4, ack_every_bytes=4096)
    watched.fabric.uplink(0, 1, 0).lose_number(1)
    watched.fabric.run(1_500 * MICROSECOND)
    assert watched.flow.sender.timeouts == 1
    assert watched.flow.delivered_bytes > 4 * 1024
    assert [psn for _, psn in watched.requests][:12] == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]
