# SPDX-License-Identifier: BSD-2-Clause
"""Small captures whose truth is known, each once explained wrongly."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from analyzing import analysis_of, found_in, only_direction, path_of

from mrc.capture.analysis.direction import Direction

CASES = Path(__file__).parent / "cases"


def capture(name: str) -> bytes:
    return gzip.decompress((CASES / f"{name}.pcap.gz").read_bytes())


def direction_of(name: str) -> Direction:
    return only_direction(capture(name))


def test_a_bond_captured_with_any_has_each_packet_twice_and_lost_nothing() -> None:
    figures = direction_of("rc_any_bond").figures
    assert (figures.packets, figures.lost, figures.retransmissions, figures.copies_left_out) == (320, 0, 0, 340)
    assert set(found_in(capture("rc_any_bond"))) == {"copies"}


def test_at_the_receiver_of_rc_three_were_lost_and_the_rest_of_each_go_back_resent() -> None:
    figures = direction_of("rc_loss_recv").figures
    assert (figures.capture_point, figures.missing_before_capture, figures.lost) == ("receiver", 3, None)
    assert (figures.spurious_retransmissions, figures.retransmissions) == (0, 63)
    assert figures.naks == {"NAK PSN sequence error": 3}
    assert set(found_in(capture("rc_loss_recv"))) == {"loss-before-capture"}


def test_packets_dropped_behind_a_tap_are_lost_and_their_resends_not_spurious() -> None:
    figures = direction_of("s_tapdrop").figures
    assert (figures.lost_behind_capture, figures.missing_before_capture) == (5, 0)
    assert (figures.retransmissions, figures.spurious_retransmissions) == (5, 0)
    (found,) = found_in(capture("s_tapdrop"))["loss-behind-capture"]
    assert found.text.startswith("5 packets passed this point and did not arrive, all on path EV 0x01000003")


def test_originals_that_come_after_their_retransmissions_are_no_retransmissions() -> None:
    figures = direction_of("s_late").figures
    assert (figures.retransmissions, figures.spurious_retransmissions) == (10, 10)
    (found,) = found_in(capture("s_late"))["spurious-retransmissions"]
    assert found.text.startswith("10 of 10 retransmissions")


def test_probes_captured_twice_are_answered_once_each() -> None:
    figures = direction_of("s_probes").figures
    assert (figures.probes, figures.probes_answered) == (3, 3)
    assert set(found_in(capture("s_probes"))) == {"copies", "begun-in-the-middle"}


def test_both_ends_of_a_link_merged() -> None:
    direction = direction_of("l2_both")
    figures = direction.figures
    assert (figures.lost, figures.retransmissions, figures.spurious_retransmissions) == (10, 10, 0)
    assert (figures.packets, figures.duplicates) == (210, 0)
    assert (path_of(direction, 0xC001).lost, path_of(direction, 0xC002).lost) == (10, 0)
    found = found_in(capture("l2_both"))
    assert "all on path EV 0x0000c001" in found["loss"][0].text
    assert "spurious-retransmissions" not in found
    assert "duplicates" not in found


def test_psns_of_rc_that_the_file_lacks_are_named() -> None:
    figures = direction_of("rc_clean_d20").figures
    assert (figures.not_captured, figures.lost, figures.retransmissions) == (65, 0, 0)
    (found,) = found_in(capture("rc_clean_d20"))["not-captured"]
    assert found.text.startswith("65 PSNs acknowledged that the capture never saw")


def test_a_packet_that_found_no_receive_is_not_lost() -> None:
    figures = direction_of("rc_rnr").figures
    assert (figures.lost, figures.refused, figures.retransmissions) == (0, 1, 1)
    assert set(found_in(capture("rc_rnr"))) == {"receiver-not-ready", "stall"}


def test_two_timeouts_of_16_ms_are_what_the_time_went_into() -> None:
    figures = direction_of("rc_to16").figures
    assert (figures.lost, figures.lost_found_by) == (2, {"timer": 2})
    found = found_in(capture("rc_to16"))
    assert found["stall"][0].text == (
        "nothing was sent for 16 ms although packets were unacknowledged; 2 such pauses took 32 ms: 99.0 % of the time"
    )
    assert "2 by a timer" in found["loss"][0].text


def test_a_sack_with_a_wrong_icrc_makes_no_row() -> None:
    analysis = analysis_of(capture("s_ghost"))
    assert [direction.figures.responder_qpn for direction in analysis.directions] == [0x12]
    assert (analysis.icrc_wrong.packets, analysis.left_out) == (1, 1)
    assert set(found_in(capture("s_ghost"))) == {"bad-icrc", "begun-in-the-middle"}


@pytest.mark.parametrize("name", [path.name.split(".")[0] for path in sorted(CASES.iterdir())])
def test_each_case_is_one_connection(name: str) -> None:
    assert len(analysis_of(capture(name)).directions) == 1
