# SPDX-License-Identifier: BSD-2-Clause
"""What became of each packet: captures written by hand, every figure worked out by hand.

Two paths, A (plane 0, spine 0) and B (plane 1, spine 1); PSNs 0 to 9 leave every 4 us, even ones on A, odd ones on B.
"""

from __future__ import annotations

import pytest
from analyzing import analysis_of, changes, only_direction, path_of
from crafted_flows import (
    FIRST,
    LAST,
    MICROSECOND,
    MIDDLE,
    NO_RESOURCE,
    TRIMMED,
    Crafted,
    ev_of,
    pcap_of,
)

A, B = ev_of(0, 0), ev_of(1, 1)


def us(count: float) -> int:
    return int(count * MICROSECOND)


def ten_packets(crafted: Crafted, without: tuple[int, ...] = ()) -> None:
    for psn in range(10):
        if psn not in without:
            opcode = FIRST if psn == 0 else LAST if psn == 9 else MIDDLE
            crafted.data(us(4 * psn), psn, B if psn % 2 else A, opcode=opcode)


def one_lost() -> Crafted:
    """PSN 3 is lost on B; a SACK shows the hole, the retransmission goes on A."""
    crafted = Crafted()
    ten_packets(crafted)
    crafted.sack(us(120), 2, 7, B, received=(4, 5, 6, 7), held=4)
    crafted.data(us(121), 3, A, rtx=True)
    crafted.sack(us(221), 9, 3, A, rtx=True)
    return crafted


def test_a_hole_and_its_retransmission_are_one_loss_on_the_path_of_the_first() -> None:
    direction = only_direction(one_lost().pcap())
    figures = direction.figures
    assert (figures.packets, figures.lost, figures.retransmissions, figures.spurious_retransmissions) == (11, 1, 1, 0)
    assert figures.lost_found_by == {"hole": 1}
    assert figures.loss_share == 1 / 11
    assert (path_of(direction, A).packets, path_of(direction, A).lost, path_of(direction, A).resent) == (6, 0, 0)
    assert (path_of(direction, B).resent, path_of(direction, B).resent_in_vain) == (1, 0)
    assert (path_of(direction, B).packets, path_of(direction, B).lost, path_of(direction, B).loss_share) == (5, 1, 0.2)
    assert path_of(direction, B).first_lost_packet == 4
    # Holes: PSN 3 alone; 8 and 9 are above the highest bit and no news.
    assert (figures.hole_psns, figures.held_above_hole_max) == (1, 4)
    assert (figures.sacks, figures.acks, figures.unacknowledged, figures.not_captured) == (2, 0, 0, 0)


def test_bytes_goodput_and_times() -> None:
    direction = only_direction(one_lost().pcap())
    figures = direction.figures
    assert (figures.payload_bytes, figures.goodput_bytes) == (11 * 1024, 10 * 1024)
    # Ethernet 14, IPv6 twice 40, UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, ICRC 4.
    assert figures.bytes == 11 * (1024 + 142)
    # From the first packet to the acknowledgement of the last: 221 us.
    assert figures.goodput_gbps == 10 * 1024 * 8 / 221_000
    assert (figures.first_ns, figures.last_ns) == (0, 121_000)
    # PSN 7 left at 28 us; the retransmission took from 121 to 221.
    assert (figures.rtt.samples, figures.rtt.min_ns, figures.rtt.max_ns) == (2, 92_000, 100_000)
    assert (path_of(direction, B).rtt.p50_ns, path_of(direction, A).rtt.p50_ns) == (92_000, 100_000)
    assert (figures.messages, figures.messages_unfinished, figures.message_time.p50_ns) == (1, 0, 221_000)
    # Ten were out before the first answer; then 9 - 2.
    assert figures.in_flight_max == 10


def test_the_lost_path_is_assumed_bad_from_the_retransmission_on() -> None:
    direction = only_direction(one_lost().pcap())
    assert changes(path_of(direction, B)) == [(121, "ASSUMED_BAD", "lost", 12)]
    assert (path_of(direction, B).state, path_of(direction, B).outs) == ("ASSUMED_BAD", 1)
    assert path_of(direction, B).out_ns == 100_000
    assert (path_of(direction, A).state, changes(path_of(direction, A))) == ("GOOD", [])


def test_planes_and_routes() -> None:
    direction = only_direction(one_lost().pcap())
    assert (path_of(direction, A).route, path_of(direction, A).plane) == ("p0l0>p0s0>p0l1>p0h1", 0)
    assert (path_of(direction, B).route, path_of(direction, B).plane) == ("p1l0>p1s1>p1l1>p1h1", 1)
    zero, one = direction.figures.planes
    assert (zero.plane, zero.packets, zero.payload_bytes, zero.share, zero.lost) == (0, 6, 6144, 6 / 11, 0)
    assert (one.plane, one.packets, one.payload_bytes, one.share, one.lost) == (1, 5, 5120, 5 / 11, 1)
    # Four of five on B arrived, in 121 us from the first packet to the last.
    assert one.goodput_gbps is not None
    assert abs(one.goodput_gbps - 4 * 1024 * 8 / 121_000) < 1e-9


def test_acknowledged_too_soon_after_the_resend_was_the_first_that_arrived() -> None:
    """The SACK 9 us after the resend cannot be of it: the shortest round trip is 92 us."""
    crafted = Crafted()
    ten_packets(crafted)
    crafted.sack(us(120), 2, 7, B, received=(4, 5, 6, 7))
    crafted.data(us(121), 3, A, rtx=True)
    crafted.sack(us(130), 9, 9, B)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.spurious_retransmissions, figures.retransmissions) == (0, 1, 1)


def test_the_sack_of_the_first_transmission_proves_it_arrived_however_late() -> None:
    crafted = Crafted()
    ten_packets(crafted)
    crafted.sack(us(120), 2, 7, B, received=(4, 5, 6, 7))
    crafted.data(us(121), 3, A, rtx=True)
    crafted.sack(us(230), 9, 3, A, rtx=True)
    crafted.sack(us(300), 9, 3, B)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.spurious_retransmissions) == (0, 1)


def after_a_silence(*, trigger_at_us: float, rtx: bool) -> Crafted:
    """PSNs 0 to 2 are acknowledged after 92 us, then nothing comes until 2000 us, and 3 to 9 are sent again at 1000."""
    crafted = Crafted()
    ten_packets(crafted)
    crafted.sack(us(100), 2, 2, A)
    for psn in range(3, 10):
        crafted.data(us(1000 + psn), psn, A, rtx=True)
    crafted.data(us(trigger_at_us), 10, A)
    crafted.sack(us(2000), 10, 9 if rtx else 10, A, rtx=rtx)
    return crafted


def test_what_a_silent_responder_had_received_was_spurious_noticed() -> None:
    """PSN 10 was sent 103 us before the first of what was sent again; the shortest round trip is 92: its SACK tells of
    what came before it."""
    figures = only_direction(after_a_silence(trigger_at_us=900, rtx=False).pcap()).figures
    assert (figures.lost, figures.spurious_retransmissions, figures.retransmissions) == (0, 7, 7)


def test_a_responder_that_tells_of_what_came_after_the_trigger_settles_nothing() -> None:
    """PSN 11 was sent 600 us after PSN 10, whose SACK tells of it. What was sent again in between may be in it too."""
    crafted = after_a_silence(trigger_at_us=900, rtx=False)
    crafted.records.pop()
    crafted.data(us(1500), 11, A)
    crafted.sack(us(2000), 11, 10, A)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.lost_unsure, figures.spurious_retransmissions) == (0, 7, 0)


def test_what_a_later_packet_acknowledges_may_be_what_was_sent_again() -> None:
    """Sent less than a round trip before them, or itself sent again: the first transmissions may be lost."""
    for crafted in (after_a_silence(trigger_at_us=920, rtx=False), after_a_silence(trigger_at_us=900, rtx=True)):
        figures = only_direction(crafted.pcap()).figures
        assert (figures.lost, figures.lost_unsure, figures.spurious_retransmissions) == (0, 7, 0)


def test_what_was_asked_for_is_what_a_packet_it_overtook_acknowledges() -> None:
    """PSN 3 was shown as a hole, or trimmed; its retransmission overtook PSN 10, which was under way for 900 us."""
    for trimmed in (False, True):
        crafted = Crafted()
        ten_packets(crafted)
        crafted.data(us(40), 10, B)
        if trimmed:
            crafted.sack(us(128), 2, 9, B)
            crafted.nack(us(200), 3, B, TRIMMED)
        else:
            crafted.sack(us(128), 2, 9, B, received=(4, 5, 6, 7, 8, 9))
        crafted.data(us(201), 3, A, rtx=True)
        crafted.sack(us(940), 10, 10, B)
        figures = only_direction(crafted.pcap()).figures
        assert (figures.lost, figures.trimmed, figures.spurious_retransmissions) == (not trimmed, trimmed, 0)


def test_a_retransmission_lost_too() -> None:
    crafted = Crafted()
    ten_packets(crafted)
    crafted.sack(us(120), 2, 7, B, received=(4, 5, 6, 7))
    crafted.data(us(121), 3, A, rtx=True)
    crafted.data(us(400), 3, B, rtx=True)
    crafted.sack(us(500), 9, 3, B, rtx=True)
    direction = only_direction(crafted.pcap())
    assert (direction.figures.lost, direction.figures.retransmissions) == (2, 2)
    assert (path_of(direction, A).lost, path_of(direction, B).lost) == (1, 1)


def test_what_only_a_timer_sent_again_is_not_known_to_be_lost() -> None:
    """The last packet, and no later one that shows whether it had arrived."""
    crafted = Crafted()
    ten_packets(crafted)
    crafted.ack(us(120), 8)
    crafted.data(us(2000), 9, A, rtx=True)
    crafted.sack(us(2100), 9, 9, A, rtx=True)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.lost_unsure, figures.acks) == (0, 1, 1)


def test_a_loss_that_a_later_packet_shows_was_found_by_a_timer() -> None:
    """Packet 10 arrived, and its SACK does not cover packet 9."""
    crafted = Crafted()
    ten_packets(crafted)
    crafted.data(us(500), 10, A)
    crafted.sack(us(600), 8, 10, A)
    crafted.data(us(2000), 9, A, rtx=True)
    crafted.sack(us(2100), 10, 9, A, rtx=True)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.lost_unsure, figures.lost_found_by) == (1, 0, {"timer": 1})


def test_a_trimmed_packet_is_no_loss_and_makes_its_path_skip() -> None:
    crafted = Crafted()
    ten_packets(crafted)
    crafted.nack(us(100), 3, B, TRIMMED)
    crafted.data(us(101), 3, A, rtx=True)
    crafted.data(us(102), 10, B)
    crafted.sack(us(210), 10, 3, A, rtx=True)
    direction = only_direction(crafted.pcap())
    figures = direction.figures
    assert (figures.lost, figures.trimmed, figures.nacks) == (0, 1, {"TRIMMED": 1})
    assert (path_of(direction, B).trimmed, path_of(direction, B).nacks) == (1, {"TRIMMED": 1})
    assert changes(path_of(direction, B)) == [(100, "SKIP", "trimmed", 11), (102, "GOOD", "used again", 13)]


@pytest.mark.parametrize("first_is_known", [True, False], ids=["its SACK says so", "the NACK alone"])
def test_what_was_sent_again_in_vain_and_trimmed_is_trimmed(first_is_known: bool) -> None:
    """Packet 3 was late on B. A timer sent it again on A, where it was trimmed: a responder that stood still says so
    after it has acknowledged the first. What a NACK names did not arrive, so the first did."""
    crafted = Crafted()
    ten_packets(crafted)
    crafted.ack(us(120), 2)
    crafted.data(us(500), 3, A, rtx=True)
    if first_is_known:
        crafted.sack(us(640), 9, 3, B)
    else:
        crafted.ack(us(640), 9)
    crafted.nack(us(650), 3, A, TRIMMED, rtx=True)
    direction = only_direction(crafted.pcap())
    figures = direction.figures
    assert (figures.retransmissions, figures.lost, figures.trimmed, figures.spurious_retransmissions) == (1, 0, 1, 0)
    assert [(path_of(direction, ev).trimmed, path_of(direction, ev).nacks) for ev in (A, B)] == [
        (1, {"TRIMMED": 1}),
        (0, {}),
    ]


def test_a_packet_refused_for_want_of_a_resource_says_nothing_of_its_path() -> None:
    crafted = Crafted()
    ten_packets(crafted)
    crafted.nack(us(100), 3, B, NO_RESOURCE)
    crafted.data(us(300), 3, A, rtx=True)
    crafted.sack(us(400), 9, 3, A, rtx=True)
    direction = only_direction(crafted.pcap())
    assert (direction.figures.lost, direction.figures.refused) == (0, 1)
    assert changes(path_of(direction, B)) == []


def test_without_answers_a_retransmission_tells_that_one_may_be_lost() -> None:
    crafted = Crafted()
    ten_packets(crafted)
    crafted.data(us(121), 3, A, rtx=True)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.lost_unsure, figures.rtt.samples, figures.unacknowledged) == (0, 1, 0, 0)
    assert figures.goodput_bytes == 10 * 1024
    assert "no answer was captured" in figures.unknowable[0]


def test_at_the_receiver_what_came_has_arrived_and_what_came_twice_was_for_nothing() -> None:
    """PSN 3 never came but as a retransmission; 5 came, and its retransmission too; 7 came trimmed first."""
    crafted = Crafted(at="receiver")
    ten_packets(crafted, without=(3, 7))
    crafted.trimmed(us(40), 7, B)
    crafted.sack(us(50), 2, 9, B, received=(4, 5, 6, 8, 9))
    crafted.data(us(140), 3, A, rtx=True)
    crafted.data(us(141), 5, A, rtx=True)
    crafted.data(us(142), 7, A, rtx=True)
    crafted.sack(us(143), 9, 7, A, rtx=True)
    direction = only_direction(crafted.pcap())
    figures = direction.figures
    assert figures.capture_point == "receiver"
    assert (figures.missing_before_capture, figures.lost, figures.trimmed) == (1, None, 1)
    assert (figures.spurious_retransmissions, figures.retransmissions, figures.goodput_bytes) == (1, 3, 10 * 1024)
    assert (path_of(direction, A).resent_in_vain, path_of(direction, B).resent_in_vain) == (0, 1)
    assert path_of(direction, B).lost is None
    assert {(path.state, path.outs, path.out_ns) for path in figures.paths} == {(None, None, None)}
    assert any("on which path" in words for words in figures.unknowable)


def test_at_the_receiver_what_nothing_answered_before_it_came_again_may_be_lost_behind() -> None:
    crafted = Crafted(at="receiver")
    ten_packets(crafted)
    crafted.data(us(140), 9, A, rtx=True)
    crafted.sack(us(141), 9, 9, A, rtx=True)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost_behind_capture, figures.lost_unsure, figures.spurious_retransmissions) == (0, 1, 0)


def test_at_the_receiver_a_responder_that_takes_its_time_may_have_read_another_port_first() -> None:
    """It answers 3 before it has read 2, which came earlier: no hole that only the retransmission fills."""
    for answered, behind in ((30, 1), (90, 0)):
        crafted = Crafted(at="receiver")
        for psn, at in ((0, 0), (1, 4), (2, 8), (3, 20)):
            crafted.data(us(at), psn, (A, B)[psn % 2])
        crafted.sack(us(answered), 1, 3, B, received=(3,))
        crafted.data(us(140), 2, B, rtx=True)
        crafted.sack(us(141), 3, 2, B, rtx=True)
        figures = only_direction(crafted.pcap()).figures
        assert (figures.lost_behind_capture, figures.lost_unsure) == (behind, 1 - behind)


def test_out_of_order_depth_at_the_receiver() -> None:
    crafted = Crafted(at="receiver")
    for at, psn in enumerate((0, 1, 5, 6, 2, 3, 4, 7)):
        crafted.data(us(4 * at), psn, A)
    figures = only_direction(crafted.pcap()).figures
    # 2, 3 and 4 came after 6.
    assert (figures.reordered_packets, figures.reorder_depth_max) == (3, 4)


def test_ecn_marks_in_headers_and_in_sacks() -> None:
    crafted = Crafted(at="receiver")
    crafted.data(us(0), 0, A)
    crafted.data(us(4), 1, B, ce=True)
    crafted.sack(us(5), 1, 1, B, m=1)
    direction = only_direction(crafted.pcap())
    assert (direction.figures.marks, direction.figures.ce_packets) == (1, 1)
    assert (path_of(direction, B).marks, path_of(direction, B).ce_packets, path_of(direction, A).ce_packets) == (
        1,
        1,
        0,
    )


def test_the_network_doubles_a_packet() -> None:
    crafted = Crafted(at="receiver")
    ten_packets(crafted)
    crafted.records.insert(5, crafted.records[4])
    figures = only_direction(crafted.pcap()).figures
    assert (figures.packets, figures.duplicates, figures.spurious_retransmissions) == (10, 1, 0)


def test_a_packet_captured_at_two_places_counts_once() -> None:
    """Recorded at the source's link and at the spine: the uSIDs left differ, everything else is the same."""
    near, far = one_lost(), one_lost()
    far = Crafted(at="middle")
    ten_packets(far)
    near.records += [(when + us(10), frame) for when, frame in far.records]
    figures = only_direction(near.pcap()).figures
    assert (figures.packets, figures.copies_left_out, figures.retransmissions, figures.lost) == (11, 10, 1, 1)
    assert figures.capture_point == "sender"


def test_answers_that_a_host_held_up_between_two_places_count_once() -> None:
    """Most take 3 us from place to place; one of the SACKs, and one of two ACKs that are alike, 50 us."""
    places = {at: Crafted(at=at) for at in ("receiver", "sender")}
    for at, crafted in places.items():
        usual, held_up = (us(3), us(50)) if at == "sender" else (0, 0)
        for psn in range(20):
            crafted.data(us(10 * psn), psn, A)
            crafted.records[-1] = us(10 * psn) - usual, crafted.records[-1][1]
            crafted.sack(us(10 * psn + 5) + (held_up if psn == 7 else usual), psn, psn, A)
        crafted.ack(us(400) + usual, 19)
        crafted.ack(us(500) + held_up, 19)
    records = sorted(record for crafted in places.values() for record in crafted.records)
    figures = only_direction(pcap_of(records)).figures
    assert (figures.packets, figures.sacks, figures.acks, figures.copies_left_out) == (20, 20, 2, 42)


def test_a_wrong_icrc_is_put_aside() -> None:
    crafted = Crafted(at="receiver")
    ten_packets(crafted, without=(4,))
    crafted.data(us(90), 4, A, corrupt=True)
    analysis = analysis_of(crafted.pcap())
    assert (analysis.icrc_right, analysis.icrc_wrong.packets, analysis.icrc_wrong.first) == (9, 1, [10])
    (direction,) = analysis.directions
    assert (direction.figures.packets, direction.figures.bad_icrc_packets) == (9, 1)
    assert path_of(direction, A).bad_icrc_packets == 1


def test_icrcs_that_are_all_wrong_are_the_captures_fault() -> None:
    crafted = Crafted()
    for psn in range(4):
        crafted.data(us(psn), psn, A, corrupt=True)
    analysis = analysis_of(crafted.pcap())
    assert not analysis.icrcs_believed
    assert analysis.directions[0].figures.packets == 4


def test_what_was_acknowledged_but_never_seen() -> None:
    crafted = Crafted()
    ten_packets(crafted, without=(2, 6))
    crafted.sack(us(120), 9, 9, B)
    assert only_direction(crafted.pcap()).figures.not_captured == 2


def test_packets_out_of_order_in_the_file_are_sorted_by_time() -> None:
    crafted = one_lost()
    crafted.records.reverse()
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.rtt.samples, figures.messages) == (1, 2, 1)


def test_both_directions_of_a_connection_are_one_qp_pair() -> None:
    there = one_lost()
    back = Crafted(at="receiver", hosts=(1, 0), requestor=there.responder, responder=there.requestor)
    back.data(us(10), 0, A)
    back.sack(us(11), 0, 0, A)
    there.records += back.records
    analysis = analysis_of(there.pcap())
    (qp,) = analysis.qps
    first, second = qp.directions
    assert (first.packets, first.source) == (11, ["fd4d:5243::1", "fd4d:5243:1::1"])
    assert (second.packets, second.source, second.capture_point) == (1, ["fd4d:5243::2"], "receiver")
    assert (first.responder_qpn, first.requestor_qpn) == (second.requestor_qpn, second.responder_qpn)


def test_two_qps_of_the_same_hosts_are_kept_apart() -> None:
    one = one_lost()
    other = Crafted(requestor=0x1A0777, responder=0x2B0888)
    other.data(us(5), 300, A)
    other.sack(us(105), 300, 300, A)
    one.records += other.records
    analysis = analysis_of(one.pcap())
    assert [qp.directions[0].responder_qpn for qp in analysis.qps] == [one.responder, 0x2B0888]
    assert [qp.directions[0].packets for qp in analysis.qps] == [11, 1]
    assert [qp.directions[0].sacks for qp in analysis.qps] == [2, 1]


@pytest.mark.parametrize("of_data", [False, True])
def test_answers_go_to_their_qp_whichever_way_round_the_dcids_are(of_data: bool) -> None:
    """wire.md section 6: "mrc analyze takes them either way". The low half of one's requestor is that of the other's
    responder."""
    one = Crafted(requestor=0x1A0888, responder=0x2B0222, dcids_of_data=of_data)
    other = Crafted(requestor=0x1A0777, responder=0x2B0888, dcids_of_data=of_data)
    for at, each in enumerate((one, other)):
        each.data(us(1 + at), 0, A)
    one.sack(us(100), 0, 0, A)
    one.nack(us(101), 0, A, NO_RESOURCE)
    one.records += other.records
    qps = {qp.directions[0].responder_qpn: qp.directions[0] for qp in analysis_of(one.pcap()).qps}
    assert (qps[0x2B0222].sacks, qps[0x2B0888].sacks) == (1, 0)
    assert (qps[0x2B0222].requestor_qpn, qps[0x2B0888].requestor_qpn) == (0x1A0888, None)


def test_a_capture_of_answers_alone() -> None:
    crafted = Crafted()
    crafted.sack(us(120), 2, 7, B, received=(4, 5, 6, 7), m=1)
    crafted.ack(us(130), 9)
    direction = only_direction(crafted.pcap())
    figures = direction.figures
    assert (figures.packets, figures.sacks, figures.acks, figures.marks, figures.hole_psns) == (0, 1, 1, 1, 1)
    assert any("no request was captured" in words for words in figures.unknowable)
    assert path_of(direction, B).marks == 1
