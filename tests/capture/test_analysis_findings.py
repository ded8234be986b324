# SPDX-License-Identifier: BSD-2-Clause
"""Each kind of finding, on a capture made to have it; and none on one that has nothing."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

import pytest
from analyzing import analysis_of, found_in, only_direction, path_of
from crafted_flows import MICROSECOND, TRIMMED, UNEXP_EVENT, Crafted, ev_of, transfer
from draws import draws
from hypothesis import given
from hypothesis import strategies as st

from mrc.capture.analysis.causes import in_order
from mrc.capture.analysis.finding import Finding
from mrc.capture.analysis.findings import findings
from mrc.capture.analysis.path_findings import chance_of, stands_out

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(4)]
LOSSY = PATHS[2]
A, B = PATHS[0], PATHS[4]
MILLISECOND = 1000 * MICROSECOND


def us(count: float) -> int:
    return int(count * MICROSECOND)


def never(chance: random.Random, ev: int) -> bool:
    return False


def in_turn(crafted: Crafted, count: int, every_us: float = 4, paths: list[int] | None = None) -> None:
    """PSNs in turn over paths, each acknowledged 100 us later."""
    for psn in range(count):
        ev = (paths or PATHS)[psn % len(paths or PATHS)]
        crafted.data(us(every_us * psn), psn, ev)
        crafted.sack(us(every_us * psn + 100), psn, psn, ev)


def test_nothing_wrong_nothing_found() -> None:
    crafted = Crafted()
    transfer(crafted, 2000, PATHS, never)
    assert found_in(crafted.pcap()) == {}


@pytest.mark.parametrize("seed", range(draws(15)))
def test_no_fault_no_finding(seed: int) -> None:
    """Paths of which each takes a few microseconds more or less, drawn from the seed."""
    chance, crafted = random.Random(seed), Crafted(payload=64)
    answers = []
    for psn in range(400):
        ev = PATHS[psn % len(PATHS)]
        crafted.data(us(4 * psn), psn, ev)
        answers.append((us(4 * psn + 100 + chance.uniform(0, 3)), psn, ev))
    for at, psn, ev in answers:
        crafted.sack(at, psn, psn, ev)
    crafted.records.sort(key=lambda record: record[0])
    assert found_in(crafted.pcap()) == {}


def test_loss_alike_on_all_paths_convicts_none_of_them_whatever_the_seed() -> None:
    """15 captures with 0.5 % on each path: chance alone makes one path the worst."""
    for seed in range(draws(15)):
        crafted = Crafted(payload=64)
        transfer(crafted, 1500, PATHS, lambda chance, ev: chance.random() < 0.005, seed=seed)
        assert "lossy-path" not in found_in(crafted.pcap()), seed


def test_a_lossy_path_is_the_first_finding_with_its_figures() -> None:
    crafted = Crafted()
    truth = transfer(crafted, 8000, PATHS, lambda chance, ev: ev == LOSSY and chance.random() < 0.05)
    found = found_in(crafted.pcap())
    assert next(iter(found)) == "lossy-path"
    (lossy,) = found["lossy-path"]
    assert (lossy.ev, lossy.severity) == (LOSSY, "error")
    share = truth.lost[LOSSY] / truth.sent[LOSSY]
    assert lossy.text == (
        f"path EV 0x00000002 (p0l0>p0s2>p0l1>p0h1) loses {share * 100:.1f} %: {truth.lost[LOSSY]} of "
        f"{truth.sent[LOSSY]:,} data packets lost, against 0 % on the 7 others; on the link p0l0>p0s2 or p0s2>p0l1"
    )
    direction = only_direction(crafted.pcap())
    assert {path.ev: (path.packets, path.lost) for path in direction.figures.paths} == {
        ev: (truth.sent[ev], truth.lost[ev]) for ev in PATHS
    }
    # The first packet lost on it, by its number in the file.
    number = path_of(direction, LOSSY).first_lost_packet
    assert lossy.packet == number
    assert lossy.time_ns == crafted.records[(number or 0) - 1][0]


def test_loss_on_all_paths_alike_is_nobodys_fault() -> None:
    crafted = Crafted()
    truth = transfer(crafted, 8000, PATHS, lambda chance, ev: chance.random() < 0.01)
    found = found_in(crafted.pcap())
    assert "lossy-path" not in found
    (loss,) = found["loss"]
    assert f"{sum(truth.lost.values())} of {sum(truth.sent.values()):,} packets" in loss.text
    assert "on all paths alike" in loss.text


def test_a_path_that_dies() -> None:
    """From PSN 400 on everything on B is lost; each loss is noticed and sent again on A."""
    crafted = Crafted()
    paths = [A, B]
    for psn in range(440):
        ev = paths[psn % 2]
        crafted.data(us(4 * psn), psn, ev)
        if psn < 400:
            crafted.sack(us(4 * psn + 100), psn, psn, ev)
    dead = [psn for psn in range(400, 440) if psn % 2]
    arrived = tuple(psn for psn in range(400, 440) if not psn % 2)
    crafted.sack(us(1900), 400, 438, A, received=arrived[1:])
    for number, psn in enumerate(dead):
        crafted.data(us(1901 + number), psn, A, rtx=True)
    crafted.sack(us(2050), 439, 439, A, rtx=True)
    crafted.probe(us(2100), B, 9)
    crafted.data(us(20_000), 440, A)
    crafted.sack(us(20_100), 440, 440, A)
    found = found_in(crafted.pcap())
    (died,) = found["dead-path"]
    assert died.ev == B
    assert "the last 20 packets on it were all lost, 1 probe on it unanswered" in died.text
    assert died.time_ns == 401 * 4000
    assert "it stayed out" in found["path-out"][0].text
    assert "1 of 1 probe unanswered" in found["unanswered-probes"][0].text


@pytest.mark.parametrize(("syndrome", "name"), [(0x61, "NAK invalid request"), (0x62, "NAK remote access error")])
def test_a_nak_ends_the_qp(syndrome: int, name: str) -> None:
    crafted = Crafted()
    in_turn(crafted, 4)
    crafted.ack(us(200), 4, syndrome=syndrome)
    (found,) = found_in(crafted.pcap())["qp-error"]
    # BASE_PSN is 0xFFFFF0: its fifth PSN is 0xFFFFF4.
    assert f"the responder ended the QP: {name} for PSN {0xFFFFF4}, 1 time" in found.text
    assert found.packet == 9


def test_an_unexpected_event_ends_the_qp() -> None:
    crafted = Crafted()
    in_turn(crafted, 4)
    crafted.nack(us(200), 3, B, UNEXP_EVENT)
    assert "UNEXP_EVENT" in found_in(crafted.pcap())["qp-error"][0].text


def test_a_psn_sent_again_and_again_and_a_tail_never_acknowledged() -> None:
    crafted = Crafted()
    in_turn(crafted, 4)
    for number in range(6):
        crafted.data((30 + 20 * number) * MILLISECOND, 4, PATHS[number], rtx=number > 0)
    crafted.ack(200 * MILLISECOND, 3)
    found = found_in(crafted.pcap())
    assert f"PSN {0xFFFFF4} was sent 6 times and never acknowledged" in found["retries-exhausted"][0].text
    assert f"1 packet to the end of the capture never acknowledged, from PSN {0xFFFFF4} on" in (
        found["never-acknowledged"][0].text
    )


def test_packets_of_the_last_instant_are_on_their_way() -> None:
    crafted = Crafted()
    in_turn(crafted, 8)
    crafted.data(us(140), 8, A)
    assert "never-acknowledged" not in found_in(crafted.pcap())


def test_retransmissions_for_nothing() -> None:
    crafted = Crafted()
    in_turn(crafted, 40)
    for psn in range(6):
        crafted.data(us(400 + psn), psn, A, rtx=True)
    (found,) = found_in(crafted.pcap())["spurious-retransmissions"]
    assert "6 of 6 retransmissions (100.0 %) were spurious" in found.text


def test_a_slow_path() -> None:
    crafted = Crafted()
    for psn in range(8 * 30):
        ev = PATHS[psn % 8]
        crafted.data(us(4 * psn), psn, ev)
    for psn in range(8 * 30):
        ev = PATHS[psn % 8]
        crafted.sack(us(4 * psn + (900 if ev == LOSSY else 100)), psn, psn, ev)
    (slow,) = found_in(crafted.pcap())["slow-path"]
    assert slow.ev == LOSSY
    assert "half of its round trips take longer than 900 us, on the others 100 us" in slow.text


def test_congestion_on_one_path() -> None:
    crafted = Crafted()
    in_turn(crafted, 16)
    crafted.sack(us(300), 15, 15, B, m=1)
    crafted.nack(us(310), 2, B, TRIMMED)
    (found,) = found_in(crafted.pcap())["congestion"]
    assert found.text.startswith(
        "congestion: 1 SACK with an ECN mark, 1 packet trimmed, 100.0 % of them on path EV 0x01"
    )


def test_what_came_trimmed_beside_nothing_but_a_probe() -> None:
    crafted = Crafted(at="receiver")
    for psn in range(3):
        crafted.trimmed(us(psn), psn, A)
    crafted.probe(us(50), A, 1)
    (found,) = found_in(crafted.pcap())["congestion"]
    assert "0 SACKs with an ECN mark, 3 packets trimmed" in found.text


def test_planes_loaded_unequally() -> None:
    crafted = Crafted()
    in_turn(crafted, 120, paths=[A, A, B])
    (found,) = found_in(crafted.pcap())["plane-imbalance"]
    assert "plane 0 66.7 %, plane 1 33.3 %" in found.text


def test_a_port_goes_down_and_an_update_nobody_answers() -> None:
    crafted = Crafted()
    in_turn(crafted, 4)
    crafted.port_status(us(300), 1, 0b01)
    crafted.port_status_response(us(350), 1)
    crafted.port_status(us(900), 2, 0b11)
    found = found_in(crafted.pcap())
    assert found["port-down"][0].text == "fd4d:5243::1 reported to fd4d:5243::2 that its port 2 is down"
    assert found["port-down"][0].packet == 9
    assert "1 endpoint request of 2 got no response" in found["unanswered-endpoint-requests"][0].text


def test_a_path_that_corrupts() -> None:
    crafted = Crafted(at="receiver")
    for psn in range(80):
        crafted.data(us(psn), psn, PATHS[psn % 8], corrupt=psn % 8 == 2 and psn < 40)
    found = found_in(crafted.pcap())
    assert "5 of 80 packets (6.2 %) have a wrong ICRC" in found["bad-icrc"][0].text
    assert found["bad-icrc"][0].packet == 3
    assert found["corrupting-path"][0].ev == LOSSY


def test_a_capture_with_holes_of_its_own() -> None:
    crafted = Crafted()
    in_turn(crafted, 20)
    del crafted.records[8:12:2]
    assert "2 PSNs acknowledged that the capture never saw" in found_in(crafted.pcap())["not-captured"][0].text


def test_losses_before_a_capture_at_the_receiver() -> None:
    """PSN 3 comes as a retransmission only; until then the responder reports it missing."""
    crafted = Crafted(at="receiver")
    for psn in (0, 1, 2, 4, 5):
        crafted.data(us(4 * psn), psn, PATHS[psn])
    crafted.sack(us(21), 2, 5, PATHS[5], received=(4, 5))
    crafted.data(us(200), 3, A, rtx=True)
    crafted.sack(us(201), 5, 3, A, rtx=True)
    assert "1 packet came as a retransmission only" in found_in(crafted.pcap())["loss-before-capture"][0].text


def test_a_stall() -> None:
    crafted = Crafted()
    in_turn(crafted, 8)
    crafted.data(us(200), 8, A)
    crafted.data(us(200_200), 8, A, rtx=True)
    crafted.data(us(200_204), 9, A)
    crafted.sack(us(200_300), 9, 9, A)
    (found,) = found_in(crafted.pcap())["stall"]
    assert found.text == "nothing was sent for 200 ms although packets were unacknowledged: 99.9 % of the time"
    assert found.packet == 17


def test_window_limited() -> None:
    """Ten packets at once, the last asks for an answer; it comes 90 us later, and the next ten follow."""
    crafted = Crafted()
    for burst in range(12):
        for number in range(10):
            psn = 10 * burst + number
            crafted.data(us(100 * burst + number), psn, PATHS[psn % 8], ackreq=number == 9)
        crafted.sack(us(100 * burst + 99), psn, psn, PATHS[psn % 8])
    (found,) = found_in(crafted.pcap())["window-limited"]
    # 11 waits of 90 us in 1109 us.
    assert "89.3 % of 1.11 ms went by waiting for answers, with at most 10 packets in flight" in found.text


def test_idle() -> None:
    crafted = Crafted()
    for psn in range(120):
        crafted.data(us(1000 * psn), psn, A)
        crafted.sack(us(1000 * psn + 100), psn, psn, A)
    (found,) = found_in(crafted.pcap())["idle"]
    assert "for 90.0 % of 119 ms the sender had nothing to send" in found.text


def test_one_way_only() -> None:
    crafted = Crafted()
    for psn in range(8):
        crafted.data(us(psn), psn, A)
    (found,) = found_in(crafted.pcap())["no-answers"]
    assert found.severity == "info"
    assert found.text == (
        "no answer at all was captured: the responder is silent, or its packets take another way. "
        "Or one comes later: the capture ends 7 us after the first request"
    )
    # Whatever comes then: the file goes on.
    other = Crafted(hosts=(2, 3), requestor=0x111, responder=0x222)
    other.data(us(10_008), 0, A)
    other.sack(us(10_018), 0, 0, A)
    crafted.records += other.records
    (found,) = found_in(crafted.pcap())["no-answers"]
    assert found.severity == "warning"
    assert found.text.endswith("take another way")


def test_packets_that_are_malformed_and_nothing_to_analyze() -> None:
    crafted = Crafted()
    for psn in range(3):
        crafted.data(us(psn), psn, A)
    # Cut in the inner IPv6 header, as if no more had ever been there.
    when, frame = crafted.records[1]
    crafted.records[1] = (when, frame[:60])
    (malformed,) = found_in(crafted.pcap())["malformed"]
    assert malformed.text == "1 packet malformed: short_header"
    assert malformed.packet == 2
    crafted.records = crafted.records[1:2]
    assert "none of 1 packet is RoCEv2 or MRC" in found_in(crafted.pcap())["nothing-to-analyze"][0].text
    assert "none of 0 packets" in found_in(Crafted().pcap())["nothing-to-analyze"][0].text


def test_findings_come_worst_first() -> None:
    crafted = Crafted()
    in_turn(crafted, 120, paths=[A, A, B])
    crafted.ack(us(2000), 200, syndrome=0x62)
    kinds = list(found_in(crafted.pcap()))
    assert kinds[0] == "qp-error"
    assert analysis_of(crafted.pcap()).packets == 241


@given(st.integers(1, 300), st.integers(1, 99), st.data())
def test_the_chance_of_losses_is_the_binomial_tail(of: int, percent: int, data: st.DataObject) -> None:
    """Against fractions, term by term."""
    at_least, share = data.draw(st.integers(0, of)), Fraction(percent, 100)
    exact = sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(at_least, of + 1))
    found = chance_of(at_least, of, percent / 100)
    assert found == (1.0 if at_least <= of * share else pytest.approx(float(exact), rel=1e-4, abs=1e-300))


@pytest.mark.parametrize(
    ("lost", "packets", "others_lost", "others", "named"),
    [
        (50, 10_000, 350, 70_000, False),  # 0.5 % like all others
        (70, 10_000, 350, 70_000, False),  # 0.7 % against 0.5 %: chance, one of eight in a hundred captures
        (5_500, 1_000_000, 35_000, 7_000_000, False),  # no chance, but 0.55 % against 0.5 % changes nothing
        (3, 100, 0, 700, False),  # three losses that might have been anywhere
        (2, 100, 0, 700, False),
        (8, 100, 0, 700, True),
        (100, 10_000, 350, 70_000, True),  # 1 % against 0.5 %
        (1_000, 10_000, 0, 70_000, True),
    ],
)
def test_a_path_is_named_for_what_chance_does_not_explain(
    lost: int, packets: int, others_lost: int, others: int, named: bool
) -> None:
    assert stands_out(lost, packets, others_lost, others, 8) is named


def test_among_paths_alike_hardly_any_capture_names_one() -> None:
    """Eight paths that lose 0.5 %, in a thousand captures: about one is named, as the threshold says."""
    draw = random.Random(5)
    wrong = 0
    for _ in range(1000):
        lost = [_binomial(draw) for _ in range(8)]
        wrong += any(stands_out(each, 4000, sum(lost) - each, 28_000, 8) for each in lost)
    assert wrong <= 8


def _binomial(draw: random.Random) -> int:
    """Of 4000 packets, those lost at 0.5 %: waiting times between losses are geometric."""
    at, count = 0, 0
    while True:
        at += math.ceil(math.log(1 - draw.random()) / math.log1p(-0.005))
        if at > 4000:
            return count
        count += 1


def test_what_follows_from_a_lossy_path_stands_below_it() -> None:
    """With the endpoint of `transfer`, which sends again but leaves no path: only the packets sent again follow."""
    crafted = Crafted()
    truth = transfer(crafted, 8000, PATHS, lambda chance, ev: ev == LOSSY and chance.random() < 0.05)
    found = findings(analysis_of(crafted.pcap()))
    place = next(index for index, each in enumerate(found) if each.kind == "lossy-path")
    below = [each for each in found if each.cause == place]
    assert found[place + 1 : place + 1 + len(below)] == below
    again = next(each for each in below if each.kind == "path-retransmissions")
    assert again.text == f"{truth.lost[LOSSY]} packets of it sent again: 100.0 % of all that were lost"
    assert all(each.ev == LOSSY for each in below)
    assert found[place].cause is None


def test_a_symptom_on_another_path_is_not_put_below() -> None:
    lossy = Finding("error", "lossy-path", "lossy", "q", 1)
    here, elsewhere = (Finding("warning", "path-out", "out", qp, ev) for qp, ev in (("q", 1), ("q", 2)))
    other_qp = Finding("warning", "path-out", "out", "r", 1)
    ordered = in_order([elsewhere, other_qp, here, lossy])
    assert [(each.kind, each.qp, each.ev, each.cause) for each in ordered] == [
        ("lossy-path", "q", 1, None),
        ("path-out", "q", 1, 0),
        ("path-out", "q", 2, None),
        ("path-out", "r", 1, None),
    ]


def test_congestion_is_the_cause_of_a_slow_path_and_of_a_window_that_limits() -> None:
    congestion = Finding("info", "congestion", "congestion", "q", 1)
    slow, other = (Finding("warning", "slow-path", "slow", "q", ev) for ev in (1, 2))
    limited, elsewhere = (Finding("info", "window-limited", "limited", qp) for qp in ("q", "r"))
    ordered = in_order([slow, other, limited, elsewhere, congestion])
    assert [(each.kind, each.qp, each.ev, each.cause) for each in ordered] == [
        ("slow-path", "q", 2, None),
        ("window-limited", "r", None, None),
        ("congestion", "q", 1, None),
        ("slow-path", "q", 1, 2),
        ("window-limited", "q", None, 2),
    ]


def test_retries_that_were_exhausted_come_before_the_error_they_end_with() -> None:
    error = Finding("error", "qp-error", "error", "q", weight=1e9)
    exhausted = Finding("error", "retries-exhausted", "exhausted", "q", weight=1e8)
    assert [(each.kind, each.cause) for each in in_order([error, exhausted])] == [
        ("retries-exhausted", None),
        ("qp-error", 0),
    ]


def test_a_dead_path_is_the_cause_of_its_being_lossy() -> None:
    dead, lossy = (Finding("error", kind, kind, "q", 1) for kind in ("dead-path", "lossy-path"))
    again = Finding("info", "path-retransmissions", "again", "q", 1)
    ordered = in_order([again, lossy, dead])
    assert [(each.kind, each.cause) for each in ordered] == [
        ("dead-path", None),
        ("lossy-path", 0),
        ("path-retransmissions", 0),
    ]


def test_all_losses_on_one_plane_are_the_planes() -> None:
    crafted = Crafted(payload=64)
    truth = transfer(crafted, 4000, PATHS, lambda chance, ev: ev >> 24 == 1 and chance.random() < 0.03)
    found = found_in(crafted.pcap())
    (lossy,) = found["lossy-plane"]
    assert lossy.evs == tuple(PATHS[4:])
    lost, sent = sum(truth.lost.values()), sum(truth.sent[ev] for ev in PATHS[4:])
    assert lossy.text.startswith(f"plane 1 loses {lost / sent * 100:.1f} %: {lost} of {sent:,} data packets")
    assert not {"lossy-path", "loss"} & found.keys()


def test_few_losses_that_lie_on_one_plane_are_said_to() -> None:
    crafted = Crafted(payload=64)
    lost = iter((PATHS[4], PATHS[6], None))
    wanted = [next(lost)]

    def on_plane_1(chance: random.Random, ev: int) -> bool:
        if ev != wanted[0]:
            return False
        wanted[0] = next(lost)
        return True

    transfer(crafted, 400, PATHS, on_plane_1)
    assert "were lost, all on plane 1 (too few to accuse it); noticed 2" in found_in(crafted.pcap())["loss"][0].text


def test_a_plane_that_dies() -> None:
    crafted = Crafted(payload=64)
    transfer(crafted, 800, PATHS, lambda chance, ev: ev >> 24 == 1 and len(crafted.records) > 900)
    found = found_in(crafted.pcap())
    (dead,) = found["dead-plane"]
    assert dead.evs == tuple(PATHS[4:])
    assert dead.text.startswith("plane 1 went dead")
    assert "dead-path" not in found


@pytest.mark.parametrize("kept", [64, 100, 128])
def test_a_snaplen_too_short_names_one_that_would_do(kept: int) -> None:
    crafted = Crafted()
    in_turn(crafted, 40)
    header, *_ = crafted.pcap()[:24], None
    records = b"".join(
        struct.pack("<IIII", 1_700_000_000, time, min(kept, len(frame)), len(frame)) + frame[:kept]
        for time, frame in crafted.records
    )
    found = found_in(header + records)
    assert list(found) == ["snaplen-too-short"]
    assert f"it kept {kept} bytes, a snaplen of 256 would do" in found["snaplen-too-short"][0].text
    crafted_again = b"".join(
        struct.pack("<IIII", 1_700_000_000, time, min(256, len(frame)), len(frame)) + frame[:256]
        for time, frame in crafted.records
    )
    assert found_in(header + crafted_again) == {}


def test_a_loss_taken_back_brings_the_path_back() -> None:
    """The requestor took PSN 3 for lost; the SACK of its first transmission comes after that of the retransmission."""
    crafted = Crafted()
    for psn in range(10):
        crafted.data(us(4 * psn), psn, B if psn % 2 else A)
    crafted.sack(us(120), 2, 7, B, received=(4, 5, 6, 7))
    crafted.data(us(121), 3, A, rtx=True)
    crafted.sack(us(230), 9, 3, A, rtx=True)
    crafted.sack(us(300), 9, 3, B)
    direction = only_direction(crafted.pcap())
    assert (direction.figures.lost, direction.figures.spurious_retransmissions) == (0, 1)
    assert [each["state"] for each in path_of(direction, B).state_changes] == ["ASSUMED_BAD", "GOOD"]
    assert path_of(direction, B).state_changes[1]["trigger"] == "not lost after all"


def test_what_is_spurious_and_never_taken_back_leaves_the_path_out() -> None:
    """Acknowledged nine microseconds after the resend: it had arrived, but the requestor cannot know."""
    crafted = Crafted()
    for psn in range(10):
        crafted.data(us(4 * psn), psn, B if psn % 2 else A)
    crafted.sack(us(120), 2, 7, B, received=(4, 5, 6, 7))
    crafted.data(us(121), 3, A, rtx=True)
    crafted.sack(us(130), 9, 9, B)
    direction = only_direction(crafted.pcap())
    assert (direction.figures.lost, path_of(direction, B).state) == (0, "ASSUMED_BAD")
