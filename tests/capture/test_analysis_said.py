# SPDX-License-Identifier: BSD-2-Clause
"""What is said beside the figures: how sure a finding is, where a file was taken, where it begins, what it carries."""

from __future__ import annotations

import pytest
from analyzing import analysis_of, found_in, only_direction, path_of
from click.testing import CliRunner
from crafted_flows import FIRST, LAST, LAST_IMM, MICROSECOND, MIDDLE, Crafted, CraftedRc, ev_of, pcap_of, transfer

from mrc.capture.analysis.findings import findings
from mrc.capture.analysis.report import report
from mrc.capture.analysis.traffic import traffic_text
from mrc.cli import main

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(2)]
A, B = PATHS[0], PATHS[2]
MILLISECOND = 1000 * MICROSECOND


def us(count: float) -> int:
    return int(count * MICROSECOND)


def lossless(*places: str, srv6: bool = True, count: int = 40) -> bytes:
    """A transfer that loses nothing, as these places see it."""
    hops = {"sender": (64, 61), "middle": (62, 62), "receiver": (61, 64)}
    records = []
    for at in places:
        crafted = Crafted(at=at, payload=64, srv6=srv6, hop_limits=hops[at])
        transfer(crafted, count, PATHS, lambda chance, ev: False)
        later = {"sender": 0, "middle": us(20), "receiver": us(40)}[at]
        for time, frame in crafted.records:
            forward = len(frame) > 130 + 40 * srv6
            records.append((us(100) + time + (later if forward else -later), frame))
    return pcap_of(sorted(records, key=lambda each: each[0]))


def terminal(capture: bytes) -> str:
    result = CliRunner().invoke(main, ["analyze", "-"], input=capture)
    assert result.exit_code == 0, result.output
    return result.stdout


# ------------------------------------------------------------------ where it was taken


@pytest.mark.parametrize("srv6", [True, False])
def test_a_merged_file_of_both_ends_is_named_as_such(srv6: bool) -> None:
    for places, expected in (
        (("sender",), "sender"),
        (("receiver",), "receiver"),
        (("sender", "receiver"), "both"),
        (("sender", "middle"), "sender"),
    ):
        figures = only_direction(lossless(*places, srv6=srv6)).figures
        assert (figures.capture_point, figures.lost_behind_capture or 0) == (expected, 0), places
    assert "at a second place" in figures.capture_point_why or expected != "both"


def test_the_terminal_gives_the_reason_for_the_place_and_no_doubt_that_both_ends_remove() -> None:
    text = terminal(lossless("sender", "receiver"))
    assert "  both ends  " in text
    assert "seen at both ends: fd4d:5243::1 > fd4d:5243::2 QP 0x2b0222: requests still have 4 uSIDs before them" in text
    assert "not to be known from here" not in text
    text = terminal(lossless("sender"))
    assert "seen at sender: " in text
    assert "SACKs lost on their way here are not seen" in text


def test_a_table_of_paths_has_planes_where_these_differ() -> None:
    assert " plane " in terminal(lossless("sender"))
    crafted = Crafted()
    transfer(crafted, 20, [ev_of(1, 0), ev_of(1, 1)], lambda chance, ev: False)
    assert " plane " not in terminal(crafted.pcap())


def test_a_route_that_is_the_ev_is_not_shown_twice() -> None:
    direction = only_direction(lossless("sender", srv6=False))
    assert [path.route for path in direction.figures.paths] == [f"EV={ev:#010x}" for ev in PATHS]
    assert "EV=" not in terminal(lossless("sender", srv6=False))


# ------------------------------------------------------------------ how sure a finding is


def test_losses_that_chance_explains_accuse_nobody_in_so_many_words() -> None:
    few = iter([True, True])

    def two_on_one_path(chance: object, ev: int) -> bool:
        return ev == A and next(few, False)

    crafted = Crafted(payload=64)
    transfer(crafted, 400, PATHS, two_on_one_path)
    (loss,) = found_in(crafted.pcap())["loss"]
    assert f"all on path EV 0x{A:08x} (p0l0>p0s0>p0l1>p0h1) (too few to accuse it)" in loss.text
    assert "too few to accuse it" in terminal(crafted.pcap())
    everywhere = Crafted(payload=64)
    transfer(everywhere, 2000, PATHS, lambda chance, ev: chance.random() < 0.1)
    assert "too few" not in found_in(everywhere.pcap())["loss"][0].text


def test_an_accusation_says_what_it_rests_on() -> None:
    crafted = Crafted(payload=64)
    transfer(crafted, 800, PATHS, lambda chance, ev: ev == A and chance.random() < 0.3)
    text = terminal(crafted.pcap())
    assert f"path EV 0x{A:08x}" in text
    assert "fewer than one capture in 1,000" in text
    assert "fewer than one capture" not in terminal(lossless("sender"))


def two_flows(*, late: bool = False) -> bytes:
    """Host 0 loses on EV 0, host 2 does not: from the spine on their packets take the same links. Host 2 sends
    meanwhile, or only when host 0 is done."""
    lossy, clean = Crafted(payload=64), Crafted(payload=64, hosts=(2, 1), requestor=0x3333, responder=0x4444)
    transfer(lossy, 1200, PATHS, lambda chance, ev: ev == A and chance.random() < 0.2)
    transfer(clean, 1200, PATHS, lambda chance, ev: False)
    later = lossy.records[-1][0] + MILLISECOND if late else 0
    return pcap_of(sorted([*lossy.records, *((time + later, frame) for time, frame in clean.records)]))


def test_the_link_is_named_that_no_other_packet_came_through() -> None:
    (lossy,) = found_in(two_flows())["lossy-path"]
    assert lossy.links == ("p0l0>p0s0",)
    assert lossy.text.endswith("; on the link p0l0>p0s0")
    # One flow does not tell the two links of the path apart that only it takes, nor does one that had not begun.
    alone = Crafted(payload=64)
    transfer(alone, 1200, PATHS, lambda chance, ev: ev == A and chance.random() < 0.2)
    for capture in (alone.pcap(), two_flows(late=True)):
        (lossy,) = found_in(capture)["lossy-path"]
        assert lossy.links == ("p0l0>p0s0", "p0s0>p0l1")
        assert "on the link p0l0>p0s0 or p0s0>p0l1" in lossy.text


def test_of_a_plane_the_links_of_all_its_paths_are_named() -> None:
    crafted = Crafted(payload=64)
    transfer(crafted, 1200, PATHS, lambda chance, ev: ev >> 24 == 0 and chance.random() < 0.1)
    (lossy,) = found_in(crafted.pcap())["lossy-plane"]
    assert lossy.links == (">p0l0", "p0l1>p0h1")
    assert "on the link from the sender to p0l0 or p0l1>p0h1" in lossy.text


def test_without_routes_no_link_is_named() -> None:
    crafted = Crafted(payload=64, srv6=False)
    transfer(crafted, 1200, PATHS, lambda chance, ev: ev == A and chance.random() < 0.2)
    assert found_in(crafted.pcap())["lossy-path"][0].links == ()


# ------------------------------------------------------------------ findings that something contradicts


def one_lost_on(ev: int, used_again_us: float) -> bytes:
    """Of ten packets the third is lost, on `ev`; so long after its retransmission data goes out on that EV again."""
    crafted = Crafted()
    for psn in range(10):
        path = ev if psn == 2 else B
        crafted.data(us(psn), psn, path)
        if psn != 2:
            received = tuple(range(3, psn + 1))
            cack = psn if psn < 2 else 1
            crafted.sack(us(100 + psn), cack, psn, path, received=received)
    crafted.data(us(120), 2, B, rtx=True)
    crafted.sack(us(220), 9, 2, B, rtx=True)
    crafted.data(us(120 + used_again_us), 10, ev, opcode=LAST)
    crafted.sack(us(220 + used_again_us), 10, 10, ev)
    return crafted.pcap()


def test_a_path_on_which_data_goes_on_was_not_taken_out_of_use() -> None:
    """Nothing brings a path back sooner than a round trip, which takes 100 us here."""
    capture = one_lost_on(A, 20)
    assert path_of(only_direction(capture), A).lost == 1
    assert "path-out" not in found_in(capture)
    (out,) = found_in(one_lost_on(A, 400))["path-out"]
    assert "was taken out of use 1 time, for 400 us in all" in out.text


def waiting(answered_after: list[int]) -> bytes:
    """One packet at a time, each asking for an answer and answered after so many nanoseconds."""
    crafted, now = Crafted(payload=64), 0
    for psn, took in enumerate(answered_after):
        crafted.data(now, psn, PATHS[psn % len(PATHS)], ackreq=True)
        crafted.sack(now + took, psn, psn, PATHS[psn % len(PATHS)])
        now += took + us(5)
    return crafted.pcap()


def test_a_timeout_is_no_window() -> None:
    assert "window-limited" in found_in(waiting([us(100)] * 120))
    crafted, now = Crafted(payload=64), 0
    for psn in range(120):
        path = PATHS[psn % len(PATHS)]
        crafted.data(now, psn, path, ackreq=True)
        if psn == 60:
            # Nothing comes back until a timer has sent it again.
            now += 40 * MILLISECOND
            crafted.data(now, psn, path, ackreq=True, rtx=True)
        crafted.sack(now + us(100), psn, psn, path, rtx=psn == 60)
        now += us(105)
    found = found_in(crafted.pcap())
    assert "stall" in found
    assert "window-limited" not in found
    assert (only_direction(crafted.pcap()).figures.waiting_share or 0) > 0.5


def test_a_responder_that_does_not_fill_in_ooo_count_held_nothing_that_is_known() -> None:
    for held, said in ((0, False), (3, True)):
        crafted = Crafted()
        crafted.data(0, 0, A, opcode=FIRST)
        crafted.sack(us(50), 0, 0, A, held=held)
        analysis = analysis_of(crafted.pcap())
        page = report("x", analysis, findings(analysis))
        assert ("the responder held up to" in page) is said


# ------------------------------------------------------------------ where it begins, and what it carries


def test_a_capture_begun_in_the_middle_says_so() -> None:
    whole = Crafted(payload=64)
    transfer(whole, 400, PATHS, lambda chance, ev: False)
    assert "begun-in-the-middle" not in found_in(whole.pcap())
    for begin in (2, 300):
        (found,) = found_in(pcap_of(whole.records[begin:]))["begun-in-the-middle"]
        assert found.text.startswith("the capture begins in the middle of fd4d:5243::1 > fd4d:5243::2 QP 0x2b0222")
        assert "begins in the middle" in terminal(pcap_of(whole.records[begin:]))


def test_what_came_first_as_a_retransmission_is_no_beginning_in_the_middle() -> None:
    crafted = Crafted(at="receiver")
    for psn in range(1, 6):
        crafted.data(us(psn), psn, A)
    crafted.data(us(200), 0, A, rtx=True)
    assert "begun-in-the-middle" not in found_in(crafted.pcap())


def test_rc_begins_in_the_middle_by_its_opcodes_or_by_an_answer() -> None:
    for first, answer, expected in ((6, 0, False), (7, 0, True), (10, -3, True), (10, 0, False)):
        crafted = CraftedRc()
        crafted.write(0, 0, first, ackreq=True)
        crafted.ack(us(10), answer)
        assert ("begun-in-the-middle" in found_in(crafted.pcap())) is expected, (first, answer)


def test_what_a_flow_carried() -> None:
    crafted = Crafted(payload=1000)
    for message, packets in enumerate((3, 3, 1)):
        for number in range(packets):
            last = number == packets - 1
            opcode = (LAST_IMM if message == 2 else LAST) if last else FIRST if number == 0 else MIDDLE
            crafted.data(us(10 * message + number), 3 * message + number, A, opcode=opcode, msn=message)
    operations = only_direction(crafted.pcap()).figures.operations
    assert [(each.kind, each.messages, each.bytes_max) for each in operations] == [
        ("write", 2, 3000),
        # The one packet that is there is the last of a longer message.
        ("write with immediate", 1, None),
    ]
    assert traffic_text(operations) == "2 writes of 2.9 KiB; 1 write with immediate"
    assert "carried: fd4d:5243::1 > fd4d:5243::2 QP 0x2b0222: 2 writes of 2.9 KiB" in terminal(crafted.pcap())


def test_what_rc_carried() -> None:
    crafted = CraftedRc()
    crafted.write(0, 0, 10, size=100)
    crafted.write(us(1), 1, 10, size=300)
    crafted.read(us(2), 2, 5000)
    crafted.response(us(9), 2, 13, 1024)
    operations = only_direction(crafted.pcap()).figures.operations
    assert traffic_text(operations) == "2 writes of 100 B to 300 B, half of them up to 100 B; 1 read of 4.9 KiB"
