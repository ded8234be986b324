# SPDX-License-Identifier: BSD-2-Clause
"""One direction of a link: when packets arrive, which are marked, trimmed, dropped or lost. Expectations by hand.

A packet of 1000 bytes with 38 bytes of framing takes 8304 ns at 1 Gbit/s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mrc.errors import CallerError
from mrc.sim.clock import Clock
from mrc.sim.link import Codepoints, Egress, LinkModel, SimPacket
from mrc.wire.profile import WireProfile

GIGABIT = 1_000_000_000
EACH_NS = 8304
ECT0, CE = 0b10, 0b11
NO_TRIM, TRIMMABLE, TRIMMABLE_RETX, TRIMMED, TRIMMED_LASTHOP, CONTROL = 0, 4, 8, 12, 16, 46
PRIORITY = (TRIMMED, TRIMMED_LASTHOP, CONTROL)


class Cable:
    """An egress, its clock, and what arrives at its far end as (time, name, packet)."""

    def __init__(self, *, last_hop: bool = False, seed: int = 0, **model: Any) -> None:
        self.clock = Clock()
        self.arrived: list[tuple[int, str, SimPacket]] = []
        self.names: dict[int, str] = {}
        self.sent: list[SimPacket] = []
        self.egress = Egress(
            "p0l0-p0s0",
            "p0s0",
            LinkModel(**model),
            self._take,
            self.clock,
            Codepoints.of(WireProfile(), last_hop=last_hop),
            np.random.default_rng(seed),
        )

    def _take(self, packet: SimPacket) -> None:
        self.arrived.append((self.clock.now, packet.data[:1].decode(), packet))

    def send(self, names: str, dscp: int = TRIMMABLE, ecn: int = ECT0, size: int = 1000) -> None:
        """Packets whose first byte is their name, one for each letter."""
        for name in names:
            data = name.encode() + bytes(size - 41)
            packet = SimPacket(data, size, 0, dscp << 2 | ecn, dscp in PRIORITY)
            self.sent.append(packet)
            self.egress.accept(packet)

    def run(self, until: int = 1_000_000_000) -> None:
        self.clock.run(until)

    @property
    def times(self) -> list[tuple[int, str]]:
        return [(when, name) for when, name, _ in self.arrived]

    @property
    def order(self) -> str:
        return "".join(name for _, name, _ in self.arrived)

    def named(self, name: str) -> SimPacket:
        (packet,) = (packet for _, each, packet in self.arrived if each == name)
        return packet


def test_packets_follow_each_other_at_the_rate_of_the_link() -> None:
    cable = Cable(rate_bps=GIGABIT, delay_ns=500)
    cable.send("abc")
    cable.run()
    assert cable.times == [(EACH_NS + 500, "a"), (2 * EACH_NS + 500, "b"), (3 * EACH_NS + 500, "c")]
    assert cable.egress.counters.as_dict() == {
        **dict.fromkeys(cable.egress.counters.as_dict(), 0),
        "packets": 3,
        "bytes": 3000,
        "queue_high_water_bytes": 2000,
    }


def test_a_packet_to_an_idle_link_does_not_wait_for_the_propagation_of_the_last() -> None:
    cable = Cable(rate_bps=GIGABIT, delay_ns=500)
    cable.clock.at(0, lambda _: cable.send("a"))
    cable.clock.at(EACH_NS, lambda _: cable.send("b"))
    cable.clock.at(3 * EACH_NS, lambda _: cable.send("c"))
    cable.run()
    assert cable.times == [(EACH_NS + 500, "a"), (2 * EACH_NS + 500, "b"), (4 * EACH_NS + 500, "c")]
    assert cable.egress.counters.queue_high_water_bytes == 0


def test_framing_is_a_parameter() -> None:
    cable = Cable(rate_bps=GIGABIT, delay_ns=0, framing_bytes=0)
    cable.send("a")
    cable.run()
    assert cable.times == [(8000, "a")]


def test_a_link_without_a_rate_takes_its_delay_only() -> None:
    cable = Cable(delay_ns=700, queue_bytes=1, ecn_at_bytes=1, trim_at_bytes=1)
    cable.send("ab")
    cable.run()
    assert cable.times == [(700, "a"), (700, "b")]
    assert [packet.size for packet in cable.sent] == [1000, 1000]


def test_packets_that_fill_the_queue_beyond_the_threshold_are_marked() -> None:
    """One is being sent; b and c wait with 1000 and 2000 bytes, d and e make it 3000 and 4000."""
    cable = Cable(rate_bps=GIGABIT, ecn_at_bytes=2500)
    cable.send("abcde")
    cable.run()
    assert {name: packet.traffic_class & 3 for _, name, packet in cable.arrived} == {
        "a": ECT0,
        "b": ECT0,
        "c": ECT0,
        "d": CE,
        "e": CE,
    }
    assert cable.named("d").traffic_class >> 2 == TRIMMABLE
    assert cable.egress.counters.marked == 2


def test_exactly_the_threshold_is_not_above_it() -> None:
    cable = Cable(rate_bps=GIGABIT, ecn_at_bytes=2000)
    cable.send("abcd")
    cable.run()
    assert [name for _, name, packet in cable.arrived if packet.traffic_class & 3 == CE] == ["d"]


def test_what_is_not_ecn_capable_is_not_marked() -> None:
    cable = Cable(rate_bps=GIGABIT, ecn_at_bytes=0, mark=1.0)
    cable.send("abc", ecn=0)
    cable.run()
    assert all(packet.traffic_class & 3 == 0 for _, _, packet in cable.arrived)
    assert cable.egress.counters.marked == 0


def test_a_full_queue_drops_the_last_to_come() -> None:
    cable = Cable(rate_bps=GIGABIT, queue_bytes=2500)
    cable.send("abcde")
    cable.run()
    assert cable.order == "abc"
    assert cable.egress.counters.dropped == 2


@pytest.mark.parametrize(("last_hop", "codepoint"), [(False, TRIMMED), (True, TRIMMED_LASTHOP)])
@pytest.mark.parametrize("dscp", [TRIMMABLE, TRIMMABLE_RETX])
def test_a_trimmed_packet_keeps_its_headers_and_overtakes_the_data(last_hop: bool, codepoint: int, dscp: int) -> None:
    """40 bytes of IPv6, 8 of UDP, 12 of BTH and 8 more stay: 108 with the outer header, 146 with framing, 1168 ns.

    MRC-TRIM-01, MRC-TRIM-02.
    """
    cable = Cable(rate_bps=GIGABIT, delay_ns=0, trim_at_bytes=2000, last_hop=last_hop)
    cable.send("abcd", dscp)
    cable.run()
    assert cable.times == [
        (EACH_NS, "a"),
        (EACH_NS + 1168, "d"),
        (2 * EACH_NS + 1168, "b"),
        (3 * EACH_NS + 1168, "c"),
    ]
    trimmed = cable.named("d")
    assert (len(trimmed.data), trimmed.size) == (68, 108)
    assert trimmed.traffic_class == codepoint << 2 | ECT0
    assert cable.named("c").traffic_class == dscp << 2 | ECT0
    assert cable.egress.counters.trimmed == 1


@pytest.mark.parametrize(
    ("kept", "cut"), [(100, True), (128, True), (256, True), (999, True), (1000, False), (1024, False)]
)
def test_a_switch_keeps_its_configured_size(kept: int, cut: bool) -> None:
    """wire.md section 12: whole packets of 1000 bytes, the outer header's 40 counted; no longer ones pass uncut.

    MRC-TRIM-01, MRC-TRIM-09.
    """
    cable = Cable(rate_bps=GIGABIT, delay_ns=0, trim_at_bytes=2000, trim_to_bytes=kept)
    cable.send("abcd")
    cable.run()
    trimmed = cable.named("d")
    assert cable.order == "adbc"
    assert (len(trimmed.data), trimmed.size) == (min(kept, 1000) - 40, min(kept, 1000))
    assert trimmed.traffic_class == TRIMMED << 2 | ECT0
    assert cable.egress.counters.trimmed == cut


@pytest.mark.parametrize("dscp", [NO_TRIM, 20])
def test_what_may_not_be_trimmed_is_dropped_where_others_are_trimmed(dscp: int) -> None:
    cable = Cable(rate_bps=GIGABIT, trim_at_bytes=2000)
    cable.send("abcd", dscp)
    cable.run()
    assert cable.order == "abc"
    assert (cable.egress.counters.trimmed, cable.egress.counters.dropped) == (0, 1)


@pytest.mark.parametrize("dscp", PRIORITY)
def test_control_and_what_was_trimmed_before_go_first(dscp: int) -> None:
    cable = Cable(rate_bps=GIGABIT, trim_at_bytes=2000)
    cable.send("abc")
    cable.send("xyz", dscp)
    cable.run()
    assert cable.order == "axyzbc"


def test_the_priority_queue_is_as_long_as_the_other() -> None:
    cable = Cable(rate_bps=GIGABIT, queue_bytes=2000)
    cable.send("abcd")
    cable.send("wxyz", CONTROL)
    cable.run()
    assert cable.order == "awxbc"
    assert cable.egress.counters.dropped == 3


def test_a_link_that_goes_down_loses_what_waits_and_what_is_on_it() -> None:
    """a has arrived, b is on the cable, c is being sent, d and e wait; f comes while it is down."""
    cable = Cable(rate_bps=GIGABIT, delay_ns=EACH_NS + 100)
    cable.send("abcde")
    cable.run(2 * EACH_NS + 200)
    cable.egress.set_up(False)
    cable.send("f")
    cable.run(10 * EACH_NS)
    assert cable.order == "a"
    assert cable.egress.counters.lost == 5
    cable.egress.set_up(True)
    cable.send("gh")
    cable.run()
    assert cable.times[1:] == [(12 * EACH_NS + 100, "g"), (13 * EACH_NS + 100, "h")]


def test_a_link_down_for_a_moment_keeps_nothing_from_before() -> None:
    cable = Cable(rate_bps=GIGABIT, delay_ns=100)
    cable.send("abc")
    cable.run(10)
    cable.egress.set_up(False)
    cable.egress.set_up(True)
    cable.send("xy")
    cable.run()
    assert cable.times == [(10 + EACH_NS + 100, "x"), (10 + 2 * EACH_NS + 100, "y")]


def test_numbered_packets_are_lost() -> None:
    cable = Cable(rate_bps=GIGABIT)
    cable.send("ab")
    cable.run(3 * EACH_NS)
    cable.egress.lose_number(1, 3)
    cable.send("cdef")
    cable.run()
    assert cable.order == "abdf"
    assert cable.egress.counters.lost == 2


def test_packets_are_lost_by_what_they_are() -> None:
    cable = Cable()
    cable.egress.lose_if = lambda packet, number: packet.data.startswith(b"b") and number > 2
    cable.send("abbc")
    cable.run()
    assert cable.order == "abc"


def test_chances_come_out_as_asked() -> None:
    """Of 4000 packets 1000 are lost, give or take five standard deviations of 27; half of the others come twice."""
    cable = Cable(loss=0.25, duplicate=0.5)
    cable.send("a" * 4000)
    cable.run()
    counters = cable.egress.counters
    assert abs(counters.lost - 1000) < 140
    assert abs(counters.duplicated - 1500) < 140
    assert len(cable.arrived) == 4000 - counters.lost + counters.duplicated


def test_a_corrupted_packet_differs_by_one_bit_and_the_original_is_untouched() -> None:
    cable = Cable(corrupt=1.0, duplicate=1.0)
    cable.send("a")
    cable.run()
    original = b"a" + bytes(959)
    for _, _, packet in cable.arrived:
        differences = [got ^ sent for got, sent in zip(packet.data, original, strict=True) if got != sent]
        assert len(differences) == 1
        assert differences[0].bit_count() == 1
    assert cable.egress.counters.corrupted == 2


def test_jitter_lets_later_packets_overtake() -> None:
    cable = Cable(delay_ns=1000, reorder=0.5, jitter_ns=5000)
    cable.send("abcdefghijklmnopqrstuvwxyz")
    cable.run()
    assert sorted(cable.order) == list("abcdefghijklmnopqrstuvwxyz")
    assert cable.order != "abcdefghijklmnopqrstuvwxyz"
    assert all(1000 <= when <= 6000 for when, _ in cable.times)


def test_a_change_holds_for_what_is_sent_from_then_on() -> None:
    cable = Cable(rate_bps=GIGABIT, delay_ns=0)
    cable.send("abc")
    cable.clock.at(EACH_NS + 1, lambda _: cable.egress.set(rate_bps=GIGABIT // 2))
    cable.run()
    assert cable.times == [(EACH_NS, "a"), (2 * EACH_NS, "b"), (4 * EACH_NS, "c")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": 1.5},
        {"duplicate": -0.1},
        {"rate_bps": 0},
        {"delay_ns": -1},
        {"queue_bytes": -1},
        {"ecn_at_bytes": -1},
        {"trim_at_bytes": -1},
        {"trim_to_bytes": 99},
    ],
    ids=str,
)
def test_what_no_link_can_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CallerError, match=next(iter(wrong))):
        LinkModel(**wrong)
    cable = Cable()
    with pytest.raises(CallerError, match=next(iter(wrong))):
        cable.egress.set(**wrong)


def test_a_property_no_link_has_is_refused() -> None:
    with pytest.raises(CallerError, match="colour"):
        Cable().egress.set(colour="red")
