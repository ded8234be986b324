# SPDX-License-Identifier: BSD-2-Clause
"""Transfers over links that are too slow for their window, or that damage what they carry."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_run import MIB, Transfers, sha256

from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = pytest.mark.root

# Seven packets may wait before one is trimmed, so that the first packets of a window overrun a link even where sender
# and receiver hardly come to run. A sender that is told that the links are fast goes on overrunning it.
TOO_FAST = ("--line-rate", "5gbit")
SLOW = {"rate_bps": 100_000_000, "queue_bytes": 400_000, "ecn_at_bytes": 15_000, "trim_at_bytes": 30_000}


@pytest.fixture
def transfers_in(tmp_path: Path, need_root: None) -> Iterator[Callable[[str], Transfers]]:
    """Starts programs in a fabric of this mode, one plane of two spines, which is gone after the test."""
    made: list[Transfers] = []

    def build(mode: str) -> Transfers:
        lab = Lab.up(f"live-{os.getpid()}-trims-{mode}", Clos(planes=1, leaves=2, spines=2, mode=mode))
        made.append(Transfers(lab, tmp_path))
        return made[-1]

    yield build
    for each in made:
        each.close()
        each.lab.down()


def transfer(
    transfers: Transfers, size: int, *options: str, sender: tuple[str, ...] = ()
) -> tuple[dict[str, int], dict[str, int]]:
    """The counters of the sender and of the receiver of a file that has arrived whole."""
    file = transfers.file("file", size)
    receiver = transfers.recv("--once", "--json", *options)
    sent = transfers.send(receiver, [file], "--json", *options, *sender).end().succeeded()
    received = receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    return sent.document["counters"], received.document["counters"]


def total(lab: Lab, counter: str) -> int:
    return sum(getattr(way, counter) for link in lab.status().links for way in link.toward.values())


def check_trims(lab: Lab, of_sender: dict[str, int], of_receiver: dict[str, int]) -> None:
    trimmed = total(lab, "trimmed_packets")
    assert trimmed > 0
    # Probes are trimmed as well and not answered; what was resent spuriously may still be under way at the end.
    probes = sum(of_sender.get(name, 0) for name in ("tail_probes_sent", "path_probes_sent", "ev_probes_sent"))
    assert 0 <= trimmed - of_receiver["trimmed_received"] <= of_sender.get("spurious_retransmissions", 0)
    # A receiver that stood still finds more of them at once than it answers.
    over_rate = of_receiver.get("over_rate", 0)
    assert 0 <= of_receiver["trimmed_received"] - of_receiver["nacks_sent"] <= probes + over_rate
    assert 0 < of_sender["nacks_received"] <= of_receiver["nacks_sent"]
    assert of_sender["losses_by_nack"] > 0
    assert total(lab, "queue_dropped_packets") == total(lab, "dropped_packets") == 0


@pytest.mark.parametrize("mode", ["srv6", "srv6-srh", "ecmp"])
def test_every_trim_is_answered_by_a_nack(transfers_in: Callable[[str], Transfers], mode: str) -> None:
    transfers = transfers_in(mode)
    for link in transfers.lab.topology.fabric_links():
        transfers.lab.impair(link.name, **SLOW)  # type: ignore[arg-type]
    of_sender, of_receiver = transfer(transfers, 6 * MIB, sender=TOO_FAST)
    check_trims(transfers.lab, of_sender, of_receiver)
    # A packet whose mark the receiver does not count arrived twice.
    assert 0 < of_receiver["ecn_marked_received"] <= total(transfers.lab, "marked_packets")


@pytest.mark.parametrize(("mode", "kept"), [("srv6", 128), ("srv6", 256), ("ecmp", 256)])
def test_so_is_every_trim_of_switches_that_keep_more_under_a_codepoint_of_their_own(
    transfers_in: Callable[[str], Transfers], mode: str, kept: int
) -> None:
    """MRC-TRIM-08, MRC-TRIM-10."""
    transfers = transfers_in(mode)
    for link in transfers.lab.topology.fabric_links():
        transfers.lab.impair(link.name, **SLOW, trim_to_bytes=kept, trim_dscp=48, trim_dscp_lasthop=50)  # type: ignore[arg-type]
    for link in transfers.lab.topology.host_links():
        # What was trimmed goes ahead here too, where nothing has to wait.
        transfers.lab.impair(link.name, toward=link.lower, rate_bps=10**10, trim_dscp=48, trim_dscp_lasthop=50)
    codepoints = ("--wire-profile", "dscp_trimmed=48", "--wire-profile", "dscp_trimmed_lasthop=50")
    of_sender, of_receiver = transfer(transfers, 6 * MIB, *codepoints, sender=TOO_FAST)
    check_trims(transfers.lab, of_sender, of_receiver)
    assert not {"bad_length", "bad_icrc", "too_short"} & of_receiver.keys()


def test_so_is_every_trim_of_the_last_hop_which_marks_nothing(transfers_in: Callable[[str], Transfers]) -> None:
    transfers = transfers_in("srv6")
    transfers.lab.impair("h1-p0l1", toward="h1", **SLOW)  # type: ignore[arg-type]
    of_sender, of_receiver = transfer(transfers, 6 * MIB, sender=TOO_FAST)
    check_trims(transfers.lab, of_sender, of_receiver)
    assert total(transfers.lab, "marked_packets") == of_receiver.get("ecn_marked_received", 0) == 0


def test_a_file_arrives_whole_over_links_that_corrupt_and_duplicate(
    transfers_in: Callable[[str], Transfers],
) -> None:
    transfers = transfers_in("srv6")
    lab = transfers.lab
    for link in lab.topology.fabric_links():
        # First the one, then the other: a copy of a corrupted packet would be noticed twice.
        lab.impair(link.name, toward=link.upper, duplicate=0.01)
        lab.impair(link.name, toward=link.lower, corrupt=0.01)
    ends = transfer(transfers, 6 * MIB)
    corrupted, duplicated = total(lab, "corrupted_packets"), total(lab, "duplicated_packets")
    assert corrupted > 0
    assert duplicated > 0
    noticed = ("bad_icrc", "bad_tver", "unknown_opcode", "bad_length", "unknown_qp", "too_short", "bad_source")
    # One in four thousand turned-over bits is in the byte of the BTH that the ICRC does not cover.
    seen = sum(counters.get(name, 0) for counters in ends for name in noticed)
    assert 0.8 * corrupted <= seen <= corrupted
