# SPDX-License-Identifier: BSD-2-Clause
"""Times that are wrong: stepped back, whole milliseconds, two clocks. Figures keep the order, or are unknown."""

from __future__ import annotations

import random

from analyzing import found_in, only_direction
from crafted_flows import MICROSECOND, Crafted, CraftedRc, ev_of, pcap_of, transfer

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(4)]
SECOND = 1_000_000_000
Records = list[tuple[int, bytes]]


def lossy() -> tuple[Records, int]:
    """A transfer with 1 % loss, and how many packets that were."""
    crafted = Crafted(payload=64)
    truth = transfer(crafted, 2000, PATHS, lambda chance, ev: chance.random() < 0.01)
    return crafted.records, sum(truth.lost.values())


def set_back(records: Records, at: int, ns: int) -> Records:
    return [(time + 5 * SECOND - (ns if number >= at else 0), frame) for number, (time, frame) in enumerate(records)]


def test_a_clock_set_back_moves_no_loss() -> None:
    records, lost = lossy()
    for ns in (2 * SECOND, 20_000 * MICROSECOND):
        capture = pcap_of(set_back(records, 1200, ns))
        figures = only_direction(capture).figures
        assert (figures.lost, figures.spurious_retransmissions) == (lost, 0)
        assert 95 < (figures.rtt.p50_us or 0) < 105
        (found,) = found_in(capture)["clock-stepped"]
        assert found.packet == 1201


def test_a_clock_set_back_in_a_capture_of_rc() -> None:
    crafted = CraftedRc()
    for psn in range(60):
        crafted.write(psn * 10 * MICROSECOND, psn, 10, ackreq=True)
        crafted.ack(psn * 10 * MICROSECOND + 5 * MICROSECOND, psn)
    figures = only_direction(pcap_of(set_back(crafted.records, 70, SECOND))).figures
    assert (figures.lost, figures.retransmissions, figures.rtt.max_us) == (0, 0, 5.0)


def test_two_captures_one_behind_the_other_are_no_step() -> None:
    """Each plane was captured into a file of its own, and the files were joined without sorting."""
    records, lost = lossy()
    by_plane = [[record for record in records if record[1][14 + 40 + 8 + 5] == plane] for plane in range(2)]
    assert all(by_plane)
    capture = pcap_of(by_plane[0] + by_plane[1])
    assert "clock-stepped" not in found_in(capture)
    assert only_direction(capture).figures.lost == lost


def test_whole_milliseconds_keep_the_order_and_say_no_round_trips() -> None:
    records, lost = lossy()
    capture = pcap_of([(time // 1_000_000 * 1_000_000, frame) for time, frame in records])
    figures = only_direction(capture).figures
    assert (figures.lost, figures.spurious_retransmissions, figures.rtt.samples) == (lost, 0, 0)
    assert "coarse-times" in found_in(capture)


def test_a_few_packets_on_whole_milliseconds_are_chance() -> None:
    crafted = Crafted()
    for psn in range(4):
        crafted.data(psn * 1_000_000, psn, PATHS[0])
        crafted.sack(psn * 1_000_000 + 1_000_000, psn, psn, PATHS[0])
    assert "coarse-times" not in found_in(crafted.pcap())
    assert only_direction(crafted.pcap()).figures.rtt.p50_us == 1000.0


def test_answers_of_a_clock_that_is_behind() -> None:
    """Each host captured what it sent; the receiver's clock is 3 ms behind."""
    records, lost = lossy()
    forward = [record for record in records if len(record[1]) > 200]
    back = [(time - 3_000_000, frame) for time, frame in records if len(frame) <= 200]
    capture = pcap_of([(time + SECOND, frame) for time, frame in sorted(forward + back)])
    figures = only_direction(capture).figures
    assert (figures.lost, figures.spurious_retransmissions, figures.rtt.samples) == (lost, 0, 0)
    assert "answers stand up to" in found_in(capture)["clocks-apart"][0].text


def test_without_a_fault_no_word_of_clocks() -> None:
    for seed in range(10):
        crafted, chance = Crafted(payload=64), random.Random(seed)
        transfer(crafted, 400, PATHS, lambda chance, ev: False, seed=seed, one_way_ns=chance.randrange(1000, 90_000))
        assert not {"clocks-apart", "clock-stepped", "coarse-times"} & found_in(crafted.pcap()).keys()
