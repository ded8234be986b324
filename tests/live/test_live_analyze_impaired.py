# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze` of transfers over an impaired lab, held to the endpoints' reports and the links' counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
from live_captures import (
    Passed,
    analyzed,
    check_receiver,
    check_sender,
    data_packets,
    heaviest,
    kinds_of,
    merged,
    record,
    second_half,
    stop,
)
from live_run import MIB, Transfers
from patience import undisturbed

from mrc.lab import Lab

pytestmark = pytest.mark.root

LINK, TOWARD, EV = "p0l0-p0s1", "p0s1", 1
SIZE = 8 * MIB
# Busy machines slow an endpoint down, and the capture shows that. These findings are no claim about the fabric.
MEASURES = {"stall", "window-limited", "idle", "plane-imbalance", "copies", "path-retransmissions"}
MEASURES |= {"path-carried-less", "clock-unsure", "unanswered-endpoint-requests", "slow-path", "slow-answers"}
LOSSES = {"lossy-path", "dead-path", "loss", "loss-before-capture", "path-out", "unanswered-probes"}
# What may be found where packets are late: some are sent again, and of a few the sender's side alone shows no first
# arrival.
LATE = {"spurious-retransmissions", "path-out", "unanswered-probes"}
UNSETTLED = {"loss", "lossy-path", "dead-path"}
# Where a capture of a fault may be taken, and what is found there.
SENDER, RECEIVER, BOTH = "sender", "receiver", "both"


def link_counts(counter: str) -> Callable[[Passed], int]:
    return lambda passed: int(getattr(passed.link, counter))


@dataclass(frozen=True)
class Kind:
    """An impairment: what may be found of it, and what must be at each place if enough packets met it."""

    impairment: dict[str, Any]
    allowed: frozenset[str]
    expected: dict[str, str]
    met: Callable[[Passed], int] = lambda passed: passed.lost_on[EV]
    late: bool = False


KINDS = {
    "nothing": Kind({}, frozenset(), {}),
    "loss": Kind(
        {"loss": 0.08},
        frozenset(LOSSES),
        {SENDER: "lossy-path", BOTH: "lossy-path", RECEIVER: "loss-before-capture"},
        link_counts("dropped_packets"),
    ),
    "queue": Kind(
        {"rate_bps": 100_000_000, "queue_bytes": 65_536},
        frozenset(LOSSES),
        {SENDER: "lossy-path", BOTH: "lossy-path", RECEIVER: "loss-before-capture"},
        link_counts("queue_dropped_packets"),
        late=True,
    ),
    "corrupt": Kind(
        {"corrupt": 0.08},
        frozenset(LOSSES | {"bad-icrc", "corrupting-path", "malformed"}),
        {SENDER: "lossy-path", BOTH: "lossy-path", RECEIVER: "corrupting-path"},
        link_counts("corrupted_packets"),
    ),
    "marks": Kind(
        {"rate_bps": 100_000_000, "queue_bytes": 400_000, "ecn_at_bytes": 20_000},
        frozenset({"congestion"}),
        {SENDER: "congestion", BOTH: "congestion", RECEIVER: "congestion"},
        link_counts("marked_packets"),
        late=True,
    ),
    "trims": Kind(
        {"rate_bps": 100_000_000, "queue_bytes": 400_000, "trim_at_bytes": 20_000},
        frozenset({"congestion"}),
        {SENDER: "congestion", BOTH: "congestion", RECEIVER: "congestion"},
        link_counts("trimmed_packets"),
        late=True,
    ),
    "duplicate": Kind(
        {"duplicate": 0.2},
        frozenset({"duplicates"}),
        {RECEIVER: "duplicates", BOTH: "duplicates"},
        attrgetter("doubled"),
    ),
    "mtu": Kind(
        {"mtu_bytes": 1500},
        frozenset(LOSSES),
        {SENDER: "lossy-path", BOTH: "lossy-path", RECEIVER: "loss-before-capture"},
    ),
    "reorder": Kind({"delay_ns": 200_000, "jitter_ns": 5_000_000, "reorder": 0.3}, frozenset(), {}, late=True),
    "delay": Kind({"delay_ns": 20_000_000}, frozenset(), {}, late=True),
    "jitter": Kind({"delay_ns": 1_000_000, "jitter_ns": 20_000_000}, frozenset(), {}, late=True),
}


def transfer(transfers: Transfers, lab: Lab, impairment: dict[str, Any]) -> Passed:
    transfers.forget()
    if impairment:
        lab.impair(LINK, toward=TOWARD, **impairment)
    try:
        recordings = [record(transfers, host) for host in ("h0", "h1")]
        receiver = transfers.recv("--once", "--json", "--overwrite")
        sender = transfers.send(receiver, [transfers.file("file", SIZE)], "--json")
        sent = sender.end().succeeded().document
        received = receiver.end().succeeded().document
        complete = [stop(running) for running, _ in recordings]
        link = next(link for link in lab.status().links if link.name == LINK).toward[TOWARD]
    finally:
        if impairment:
            lab.clear(LINK, TOWARD)
    return Passed([file for _, file in recordings], all(complete), sent, received, link, EV)


def check_findings(found: dict[str, Any], place: str, passed: Passed, kind: Kind) -> None:
    late = kind.late or passed.disturbed_or_late
    allowed = MEASURES | kind.allowed | (LATE if late else set()) | (UNSETTLED if late and place == SENDER else set())
    if passed.link is not None and passed.link.queue_dropped_packets:
        allowed |= LOSSES
    assert kinds_of(found) <= allowed, [each["text"] for each in found["findings"]]
    # One link is impaired, and its path is the one that is named.
    of_one = {"lossy-path", "dead-path", "corrupting-path", "congestion"}
    named = {each["ev"] for each in found["findings"] if each["kind"] in of_one}
    assert named <= {EV}, [each["text"] for each in found["findings"]]
    if place in kind.expected and kind.met(passed) >= 8:
        assert kind.expected[place] in kinds_of(found), (found["findings"], passed.link)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_said_of_an_impaired_link_is_what_it_and_the_endpoints_count(
    transfers: Transfers, lab: Lab, name: str
) -> None:
    kind = KINDS[name]
    disturbed = attrgetter("disturbed" if kind.late else "disturbed_or_late")
    passed = undisturbed(lambda: transfer(transfers, lab, kind.impairment), disturbed, 3)
    assert passed.complete
    at_sender, at_receiver = (analyzed(file) for file in passed.files)
    at_both = analyzed(merged(passed.files, transfers.scratch / "merged.pcap"))
    for place, found in ((SENDER, at_sender), (BOTH, at_both)):
        check_sender(heaviest(found)[0], passed, place)
    there = heaviest(at_receiver)[0]
    check_receiver(there, passed)
    for place, found in ((SENDER, at_sender), (RECEIVER, at_receiver), (BOTH, at_both)):
        check_findings(found, place, passed, kind)
    (one,), (both,) = heaviest(at_sender), heaviest(at_both)
    assert one["probes"] == both["probes"]
    # Answers take a way back on which nothing is wrong.
    for figure in ("sacks", "acks", "nacks", "marks"):
        assert one[figure] == there[figure] == both[figure], (figure, one[figure], there[figure], both[figure])
    check_counts(one, there, both, passed)


def check_counts(one: dict[str, Any], there: dict[str, Any], both: dict[str, Any], passed: Passed) -> None:
    """What the link did to packets and the receiver counted, at the sender, at the receiver, and of both together."""
    link, counters = passed.link, passed.received["counters"]
    assert link is not None
    for figure, places in (
        ("bad_icrc_packets", (there,)),
        ("marks", (one, there, both)),
        ("ce_packets", (there,)),
        ("trimmed", (one, there, both)),
    ):
        for place in places:
            assert {path["ev"] for path in place["paths"] if path.get(figure)} <= {EV}, figure
    assert there["bad_icrc_packets"] <= link.corrupted_packets
    # Of several marked packets one SACK may tell; probes may be marked, trimmed and doubled as well.
    assert there["marks"] <= there["ce_packets"] == counters.get("ecn_marked_received", 0) <= link.marked_packets
    trimmed = counters.get("trimmed_received", 0)
    assert one["trimmed"] == there["trimmed"] == both["trimmed"] <= trimmed <= link.trimmed_packets
    assert trimmed - one["trimmed"] <= there["probes"]
    assert one["duplicates"] == 0
    assert there["duplicates"] == both["duplicates"] == passed.doubled <= link.duplicated_packets


def test_a_capture_begun_in_the_middle_claims_nothing_of_what_came_before(transfers: Transfers, lab: Lab) -> None:
    passed = undisturbed(lambda: transfer(transfers, lab, KINDS["loss"].impairment), attrgetter("disturbed_or_late"), 3)
    assert passed.complete
    for place, whole in zip((SENDER, RECEIVER), passed.files, strict=True):
        file = second_half(whole, transfers.scratch / f"{place}-half.pcap")
        found = analyzed(file)
        direction = heaviest(found)[0]
        assert "begun-in-the-middle" in kinds_of(found)
        packets = Counter(ev for ev, _ in data_packets(file))
        assert direction["packets"] == packets.total() < SIZE // 4096
        assert {path["ev"]: path["packets"] for path in direction["paths"] if path["packets"]} == packets
        assert direction["retransmissions"] <= passed.sent["retransmitted_packets"]
        named = {each["ev"] for each in found["findings"] if each["kind"] in ("lossy-path", "dead-path")}
        assert named <= {EV}, found["findings"]
        for path in direction["paths"] if place == SENDER else ():
            assert path["lost"] <= passed.lost_on[path["ev"]] + passed.twice[path["ev"]]
        assert direction["trimmed"] == direction["refused"] == direction["bad_icrc_packets"] == 0
