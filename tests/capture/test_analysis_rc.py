# SPDX-License-Identifier: BSD-2-Clause
"""Plain RoCEv2 RC: go-back-N, NAKs, READs, by hand; and Soft-RoCE's own packets."""

from __future__ import annotations

from pathlib import Path

from analyzing import analysis_of, found_in, only_direction
from crafted_flows import MICROSECOND, CraftedRc


def us(count: float) -> int:
    return int(count * MICROSECOND)


def gone_back(nak: bool) -> CraftedRc:
    """A message of six packets; PSN 2 is lost, and 2 to 5 are sent again."""
    crafted = CraftedRc()
    opcodes = (6, 7, 7, 7, 7, 8)
    for psn, opcode in enumerate(opcodes):
        crafted.write(us(10 * psn), psn, opcode, ackreq=psn == 5)
    if nak:
        crafted.ack(us(130), 2, 0x60)
    for psn in range(2, 6):
        crafted.write(us(200 + 10 * psn), psn, opcodes[psn], ackreq=psn == 5)
    crafted.ack(us(350), 5)
    return crafted


def test_going_back_is_one_loss_and_the_rest_is_sent_once_more() -> None:
    figures = only_direction(gone_back(nak=True).pcap()).figures
    assert (figures.transport, figures.packets, figures.retransmissions) == ("rc", 10, 4)
    assert (figures.lost, figures.go_backs, figures.spurious_retransmissions) == (1, 1, 0)
    assert (figures.lost_found_by, figures.naks) == ({"NACK": 1}, {"NAK PSN sequence error": 1})
    assert (figures.goodput_bytes, figures.acks) == (6 * 1024, 1)
    assert (figures.messages, figures.messages_unfinished, figures.message_time.p50_us) == (1, 0, 350.0)
    assert (figures.responder_qpn, figures.requestor_qpn) == (0x11, 0x22)


def test_without_a_nak_a_timer_sent_it_again() -> None:
    figures = only_direction(gone_back(nak=False).pcap()).figures
    assert (figures.lost, figures.lost_found_by) == (1, {"timer": 1})


def test_sent_again_after_its_acknowledgement_is_for_nothing() -> None:
    crafted = CraftedRc()
    crafted.write(us(0), 0, 10, ackreq=True)
    crafted.ack(us(90), 0)
    crafted.write(us(5000), 0, 10, ackreq=True)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.lost, figures.retransmissions, figures.spurious_retransmissions) == (0, 1, 1)


def test_bytes_of_a_read_are_those_of_its_responses() -> None:
    crafted = CraftedRc()
    crafted.read(us(0), 0, 3000)
    for number, (opcode, size) in enumerate(((13, 1024), (14, 1024), (15, 952))):
        crafted.response(us(80 + number), number, opcode, size)
    crafted.write(us(200), 3, 10, ackreq=True)
    crafted.ack(us(290), 3)
    figures = only_direction(crafted.pcap()).figures
    assert (figures.read_requests, figures.read_bytes, figures.goodput_bytes) == (1, 3000, 4024)
    assert (figures.lost, figures.not_captured, figures.retransmissions) == (0, 0, 0)
    assert (figures.rtt.samples, figures.rtt.min_us, figures.rtt.max_us) == (2, 80.0, 90.0)


def test_findings_of_rc() -> None:
    crafted = gone_back(nak=True)
    crafted.ack(us(400), 6, 0x2C)
    crafted.cnp(us(410))
    found = found_in(crafted.pcap())
    assert "1 RNR NAK" in found["receiver-not-ready"][0].text
    assert "1 congestion notification" in found["congestion-notifications"][0].text
    crafted.ack(us(420), 6, 0x62)
    assert "NAK remote access error for PSN 106" in found_in(crafted.pcap())["qp-error"][0].text


def test_soft_roce_lost_nothing(softroce_capture: Path) -> None:
    """pcaps/README.md: twelve runs; WRITEs of 1, 1001 and 5003 bytes, five or six of each over IPv4 and over IPv6."""
    analysis = analysis_of(softroce_capture.read_bytes())
    assert len(analysis.qps) == 12
    assert all(len(qp.directions) == 1 for qp in analysis.qps)
    figures = [qp.directions[0] for qp in analysis.qps]
    assert all((each.lost, each.retransmissions, each.naks, each.unacknowledged) == (0, 0, {}, 0) for each in figures)
    assert sum(each.packets + each.acks for each in figures) == analysis.packets == 212
    delivered = sorted(each.goodput_bytes for each in figures)
    # FETCH-ADD moves nothing; READs are of 3000 bytes, SENDs of 2500.
    assert delivered == sorted(2 * [0, 5, 5 * 1001, 6 * 5003, 5 * 3000, 5 * 2500])
    assert analysis.icrc_right == 212
