# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze` of transfers over an impaired lab, held to the endpoints' reports and the links' counters."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from live_run import MIB, Transfers
from patience import undisturbed
from test_live_analyze import analyzed, data_packets, record, stop

from mrc.lab import Lab
from mrc.lab.status import DirectionStatus

pytestmark = pytest.mark.root

LINK, TOWARD, EV = "p0l0-p0s1", "p0s1", 1
SIZE = 8 * MIB
# Busy machines slow an endpoint down, and the capture shows that. These findings are no claim about the fabric.
MEASURES = {"stall", "window-limited", "idle", "plane-imbalance", "copies", "path-retransmissions"}
MEASURES |= {"path-carried-less", "clock-unsure", "unanswered-endpoint-requests", "slow-path"}
LOSSES = {"lossy-path", "dead-path", "loss", "loss-before-capture", "path-out", "unanswered-probes"}
# What may be found where packets are late: some are sent again, and of a few the sender's side shows no first arrival.
LATE = {"spurious-retransmissions", "path-out", "unanswered-probes"}
UNSETTLED = {"loss", "lossy-path", "dead-path", "loss-behind-capture"}
# Where a capture of a fault may be taken, and what is found there.
SENDER, RECEIVER, BOTH = "sender", "receiver", "both"


@dataclass(frozen=True)
class Kind:
    """An impairment: what may be found of it, and what must be at each place if enough packets met it."""

    impairment: dict[str, Any]
    allowed: frozenset[str]
    expected: dict[str, str]
    met: str = ""
    late: bool = False


KINDS = {
    "nothing": Kind({}, frozenset(), {}),
    "loss": Kind(
        {"loss": 0.08},
        frozenset(LOSSES),
        {SENDER: "lossy-path", BOTH: "lossy-path", RECEIVER: "loss-before-capture"},
        "dropped_packets",
    ),
    "queue": Kind(
        {"rate_bps": 100_000_000, "queue_bytes": 65_536},
        frozenset(LOSSES),
        {SENDER: "lossy-path", BOTH: "lossy-path", RECEIVER: "loss-before-capture"},
        "queue_dropped_packets",
        late=True,
    ),
    "corrupt": Kind(
        {"corrupt": 0.08},
        frozenset(LOSSES | {"bad-icrc", "corrupting-path", "malformed"}),
        {SENDER: "lossy-path", BOTH: "lossy-path", RECEIVER: "corrupting-path"},
        "corrupted_packets",
    ),
    "delay": Kind({"delay_ns": 20_000_000}, frozenset(), {}, late=True),
    "jitter": Kind({"delay_ns": 1_000_000, "jitter_ns": 20_000_000}, frozenset(), {}, late=True),
}


def merged(files: list[Path], out: Path) -> Path:
    """The packets of several captures in one file, in order of time."""
    records = []
    for file in files:
        content, at = file.read_bytes(), 24
        while at < len(content):
            seconds, nanoseconds, kept, _ = struct.unpack_from("<IIII", content, at)
            records.append((seconds, nanoseconds, content[at : at + 16 + kept]))
            at += 16 + kept
    records.sort(key=lambda each: each[:2])
    out.write_bytes(files[0].read_bytes()[:24] + b"".join(each[2] for each in records))
    return out


def second_half(file: Path, out: Path) -> Path:
    """The capture as if it had begun when half of its packets had passed."""
    content, starts = file.read_bytes(), [24]
    while starts[-1] < len(content):
        starts.append(starts[-1] + 16 + struct.unpack_from("<I", content, starts[-1] + 8)[0])
    out.write_bytes(content[:24] + content[starts[len(starts) // 2] :])
    return out


class Passed:
    """A transfer from h0 to h1, as captures at both ends, both endpoints and the link's counters report it."""

    def __init__(
        self, files: list[Path], complete: bool, sent: dict[str, Any], received: dict[str, Any], link: DirectionStatus
    ) -> None:
        self.files, self.complete, self.sent, self.received, self.link = files, complete, sent, received, link
        self.left, self.came = (Counter(data_packets(file)) for file in files)
        times: Counter[tuple[int, int]] = Counter()
        for (_, psn), count in self.came.items():
            times[psn] += count
        # Packets that may have been taken for lost although they arrived: their PSN came more than once.
        self.twice = Counter(ev for ev, psn in self.left.elements() if times[psn] > 1)
        self.lost_on = Counter(ev for ev, _ in (self.left - self.came).elements())

    @property
    def disturbed(self) -> bool:
        return not self.complete

    @property
    def disturbed_or_late(self) -> bool:
        return not self.complete or self.sent["retransmitted_packets"] > sum(self.lost_on.values())


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
    return Passed([file for _, file in recordings], all(complete), sent, received, link)


def main_direction(found: dict[str, Any]) -> dict[str, Any]:
    directions = [each for qp in found["qps"] for each in qp["directions"]]
    direction: dict[str, Any] = max(directions, key=lambda each: each["packets"] or 0)
    return direction


def kinds_of(found: dict[str, Any]) -> set[str]:
    return {each["kind"] for each in found["findings"]}


def check_sender(direction: dict[str, Any], passed: Passed) -> None:
    """At the sender, alone or merged with the receiver's."""
    sent = passed.sent
    assert direction["capture_point"] == "sender"
    assert direction["packets"] == sent["counters"]["data_packets_sent"]
    assert direction["retransmissions"] == sent["retransmitted_packets"]
    assert direction["goodput_bytes"] == sent["bytes"] == SIZE
    assert direction["not_captured"] == 0
    assert {path["ev"]: path["packets"] for path in direction["paths"]} == {
        path["ev"]: path["packets"] for path in sent["paths"]
    }
    # Each retransmission followed a loss, a trim, a refusal, or nothing.
    unsure = direction["lost_unsure"]
    gone = direction["lost"] + direction["trimmed"] + direction["refused"]
    followed = gone + direction["spurious_retransmissions"]
    assert followed <= direction["retransmissions"] <= followed + unsure
    # Damaged packets came, and no endpoint takes them.
    damaged = passed.link.corrupted_packets
    for path in direction["paths"]:
        ev = path["ev"]
        lost, at_most = passed.lost_on[ev], passed.lost_on[ev] + passed.twice[ev] + (damaged if ev == EV else 0)
        # An answer sooner than any before looks as if the packet had arrived at first.
        assert 0.75 * lost - 3 - unsure <= path["lost"] + path["trimmed"] + path["refused"] <= at_most, (
            path,
            lost,
            unsure,
            passed.twice[ev],
        )
        assert not path["trimmed"] or ev == EV
    assert direction["trimmed"] <= sent["counters"].get("nacks_received", 0)


def check_receiver(direction: dict[str, Any], passed: Passed) -> None:
    counters = passed.received["counters"]
    assert direction["capture_point"] == "receiver"
    assert direction["lost"] is None
    assert direction["goodput_bytes"] == passed.sent["bytes"] == SIZE
    assert direction["not_captured"] == 0
    assert direction["retransmissions"] <= passed.sent["retransmitted_packets"]
    assert {path["ev"] for path in direction["paths"]} <= {path["ev"] for path in passed.sent["paths"]}
    # What came late may not be in the receiver's report any more.
    assert direction["packets"] + direction["duplicates"] >= counters["requests_received"]
    lost = passed.sent["counters"]["data_packets_sent"] - direction["packets"]
    # All that the sender resent because it had not come, and nothing that had come.
    assert (direction["missing_before_capture"] or 0) <= lost <= passed.sent["retransmitted_packets"]
    assert (direction["lost_behind_capture"] or 0) <= sum(passed.twice.values())


def check_findings(found: dict[str, Any], place: str, passed: Passed, kind: Kind) -> None:
    late = kind.late or passed.disturbed_or_late
    allowed = MEASURES | kind.allowed | (LATE | UNSETTLED if late else set())
    assert kinds_of(found) <= allowed, [each["text"] for each in found["findings"]]
    # One link is impaired, and its path is the one that is named.
    of_one = {"lossy-path", "dead-path", "corrupting-path", "congestion"}
    named = {each["ev"] for each in found["findings"] if each["kind"] in of_one}
    assert named <= {EV}, [each["text"] for each in found["findings"]]
    if place in kind.expected and getattr(passed.link, kind.met) >= 8:
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
    for found in (at_sender, at_both):
        check_sender(main_direction(found), passed)
    there = main_direction(at_receiver)
    check_receiver(there, passed)
    for place, found in ((SENDER, at_sender), (RECEIVER, at_receiver), (BOTH, at_both)):
        check_findings(found, place, passed, kind)
    one, both = main_direction(at_sender), main_direction(at_both)
    # One that a busy machine held up longer than any data packet counts twice.
    assert one["probes"] <= both["probes"] <= one["probes"] + 2

    link = passed.link
    if name == "corrupt":
        bad = {path["ev"]: path["bad_icrc_packets"] for path in there["paths"] if path["bad_icrc_packets"]}
        assert bad.keys() <= {EV}
        assert sum(bad.values()) <= link.corrupted_packets


def test_a_capture_begun_in_the_middle_claims_nothing_of_what_came_before(transfers: Transfers, lab: Lab) -> None:
    passed = undisturbed(lambda: transfer(transfers, lab, KINDS["loss"].impairment), attrgetter("disturbed_or_late"), 3)
    assert passed.complete
    for place, whole in zip((SENDER, RECEIVER), passed.files, strict=True):
        file = second_half(whole, transfers.scratch / f"{place}-half.pcap")
        found = analyzed(file)
        direction = main_direction(found)
        packets = Counter(ev for ev, _ in data_packets(file))
        assert direction["packets"] == packets.total() < SIZE // 4096
        assert {path["ev"]: path["packets"] for path in direction["paths"] if path["packets"]} == packets
        assert direction["retransmissions"] <= passed.sent["retransmitted_packets"]
        named = {each["ev"] for each in found["findings"] if each["kind"] in ("lossy-path", "dead-path")}
        assert named <= {EV}, found["findings"]
        for path in direction["paths"] if place == SENDER else ():
            assert path["lost"] <= passed.lost_on[path["ev"]] + passed.twice[path["ev"]]
        assert direction["trimmed"] == direction["refused"] == direction["bad_icrc_packets"] == 0
