# SPDX-License-Identifier: BSD-2-Clause
"""Times that are wrong: stepped back, whole milliseconds, two clocks. Figures keep the order, or are unknown."""

from __future__ import annotations

import random

from analyzing import analysis_of, found_in, only_direction
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
        assert 95_000 < (figures.rtt.p50_ns or 0) < 105_000
        (found,) = found_in(capture)["clock-stepped"]
        assert found.packet == 1201


def set_forward(records: Records, at: int, ns: int) -> Records:
    return [(time + SECOND + (ns if number >= at else 0), frame) for number, (time, frame) in enumerate(records)]


def test_a_clock_set_forward_moves_no_loss() -> None:
    records, lost = lossy()
    for ns in (3600 * SECOND, SECOND, 20_000 * MICROSECOND):
        capture = pcap_of(set_forward(records, 1200, ns))
        figures = only_direction(capture).figures
        assert (figures.lost, figures.spurious_retransmissions) == (lost, 0)
        assert (figures.rtt.max_ns or 0) < 120_000
        found = found_in(capture)
        (stepped,) = found["clock-stepped"]
        assert "set forward" in stepped.text
        assert stepped.packet == 1201
        assert "stall" not in found
        whole = analysis_of(capture).duration_ns
        assert abs(whole - analysis_of(pcap_of(records)).duration_ns) < 20_000


def test_a_clock_set_forward_twice_and_back() -> None:
    records, lost = lossy()
    records = set_forward(set_back(set_forward(records, 700, SECOND), 1100, SECOND), 1500, 2 * SECOND)
    capture = pcap_of(records)
    assert only_direction(capture).figures.lost == lost
    words = [each.text.partition(":")[0] for each in found_in(capture)["clock-stepped"]]
    assert sorted(words) == [
        "the clock was set back by 1.00 s",
        "the clock was set forward by 1.00 s",
        "the clock was set forward by 2.00 s",
    ]


def answered_one_by_one(held_ns: int) -> Crafted:
    """One packet in flight at a time, in one message; the answer to the 50th takes so much longer."""
    crafted, now = Crafted(payload=64), 0
    for psn in range(100):
        crafted.data(now, psn, PATHS[psn % 8], ackreq=True)
        now += 80 * MICROSECOND + (held_ns if psn == 50 else 0)
        crafted.sack(now, psn, psn, PATHS[psn % 8])
        now += 5 * MICROSECOND
    return crafted


def test_with_one_packet_in_flight_nobody_can_tell() -> None:
    capture = answered_one_by_one(2 * SECOND).pcap()
    figures, found = only_direction(capture).figures, found_in(capture)
    (unsure,) = found["clock-unsure"]
    assert "the clock was set forward, or everything stood still" in unsure.text
    assert unsure.packet == 102
    assert not {"stall", "clock-stepped"} & found.keys()
    assert (figures.goodput_gbps, figures.rtt.max_ns, figures.longest_stall_ns, figures.idle_share) == (None,) * 4
    assert figures.rtt.p99_ns == 80_000
    assert found_in(answered_one_by_one(0).pcap()).keys() == {"window-limited"}


def test_answers_that_come_all_at_once_were_held_up() -> None:
    """Everything that was in flight is answered in one moment: a host stood still, no clock."""
    crafted = Crafted(payload=64)
    for psn in range(400):
        sent = psn * 4 * MICROSECOND + (SECOND if psn > 200 else 0)
        crafted.data(sent, psn, PATHS[psn % 8])
        answered = sent + 80 * MICROSECOND
        if 197 < psn <= 200:
            answered = 800 * MICROSECOND + SECOND + (psn - 197) * 100
        crafted.sack(answered, psn, psn, PATHS[psn % 8])
    found = found_in(pcap_of(sorted(crafted.records)))
    assert not {"clock-stepped", "clock-unsure"} & found.keys()
    assert "stall" in found


def test_what_a_timer_sends_again_behind_a_pause_is_no_step() -> None:
    crafted = Crafted(payload=64)
    for psn in range(300):
        sent = psn * 4 * MICROSECOND + (SECOND if psn > 200 else 0)
        crafted.data(sent, psn, PATHS[psn % 8])
        if 190 < psn <= 200:
            sent = SECOND + psn * 4 * MICROSECOND - 60 * MICROSECOND
            crafted.data(sent, psn, PATHS[psn % 8], rtx=True)
        crafted.sack(sent + 80 * MICROSECOND, psn, psn, PATHS[psn % 8], rtx=190 < psn <= 200)
    found = found_in(pcap_of(sorted(crafted.records)))
    assert not {"clock-stepped", "clock-unsure"} & found.keys()
    assert "stall" in found


def test_other_packets_in_a_pause_show_that_the_clock_went_on() -> None:
    """A neighbour solicitation each 100 ms while the flow stands still."""
    capture = answered_one_by_one(2 * SECOND)
    pause = capture.records[100][0]
    others = [(pause + each * 100_000 * MICROSECOND, bytes(12) + b"\x08\x06" + bytes(46)) for each in range(1, 20)]
    found = found_in(pcap_of(sorted(capture.records + others)))
    assert not {"clock-stepped", "clock-unsure"} & found.keys()
    assert "stall" in found


def both_ends(gain_ns: int, *, srv6: bool) -> bytes:
    """A transfer captured at both ends; the receiver's clock gains so much while it goes on."""
    frames: Records = []
    for at, seen_ns in (("sender", 0), ("receiver", 50_000)):
        hops = (64, 61) if at == "sender" else (61, 64)
        crafted = Crafted(at=at, payload=64, srv6=srv6, hop_limits=hops if srv6 else (64, 64))
        transfer(crafted, 1500, PATHS, lambda chance, ev: False)
        span = crafted.records[-1][0]
        for time, frame in crafted.records:
            forward = frame[14 + 40 * srv6 + 7] and len(frame) > 130 + 40 * srv6
            there = time + (seen_ns if forward else -seen_ns)
            if at == "receiver":
                there += gain_ns * there // span
            # Time stamps in the packets are the requestor's; both places see the same bytes.
            frames.append((SECOND + there, frame))
    return pcap_of(sorted(frames, key=lambda each: each[0]))


def test_the_clocks_of_two_places_drift_apart() -> None:
    for gain_ns in (30_000, -30_000):
        capture = both_ends(gain_ns, srv6=True)
        figures = only_direction(capture).figures
        assert (figures.lost, figures.retransmissions, figures.packets) == (0, 0, 1500)
        assert abs((figures.clock_drift_ns or 0) - gain_ns) < 2_000
        (found,) = found_in(capture)["clocks-drift"]
        assert ("gains" if gain_ns > 0 else "loses") in found.text
    assert "clocks-drift" not in found_in(both_ends(0, srv6=True))
    assert only_direction(both_ends(0, srv6=True)).figures.clock_drift_ns is None


def test_where_nothing_tells_the_places_apart_a_drift_leaves_losses_open() -> None:
    figures = only_direction(both_ends(30_000, srv6=False)).figures
    assert (figures.lost, figures.spurious_retransmissions, figures.rtt.samples) == (None, None, 0)
    assert figures.clock_drift_ns is not None


def test_a_clock_set_back_in_a_capture_of_rc() -> None:
    crafted = CraftedRc()
    for psn in range(60):
        crafted.write(psn * 10 * MICROSECOND, psn, 10, ackreq=True)
        crafted.ack(psn * 10 * MICROSECOND + 5 * MICROSECOND, psn)
    figures = only_direction(pcap_of(set_back(crafted.records, 70, SECOND))).figures
    assert (figures.lost, figures.retransmissions, figures.rtt.max_ns) == (0, 0, 5000)


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


def test_whole_milliseconds_of_rc_double_nothing() -> None:
    """A NAK makes it go back within the millisecond."""
    crafted = CraftedRc()
    for psn in range(40):
        crafted.write(psn * 1_000_000, psn, 10, ackreq=True)
        if psn == 20:
            crafted.ack(psn * 1_000_000, psn, syndrome=0x60)
            crafted.write(psn * 1_000_000, psn, 10, ackreq=True)
        crafted.ack(psn * 1_000_000, psn)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.packets, figures.retransmissions, figures.lost, figures.duplicates) == (41, 1, 1, 0)


def test_a_few_packets_on_whole_milliseconds_are_chance() -> None:
    crafted = Crafted()
    for psn in range(4):
        crafted.data(psn * 1_000_000, psn, PATHS[0])
        crafted.sack(psn * 1_000_000 + 1_000_000, psn, psn, PATHS[0])
    assert "coarse-times" not in found_in(crafted.pcap())
    assert only_direction(crafted.pcap()).figures.rtt.p50_ns == 1_000_000


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
