# SPDX-License-Identifier: BSD-2-Clause
"""Captures of a lab's hosts: recorded while something runs there, cut and merged, analysed, and read without the
analysis."""

from __future__ import annotations

import json
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import programs
from live_run import Running, Transfers
from programs import MRC

from mrc.lab.status import DirectionStatus


def record(transfers: Transfers, host: str) -> tuple[Running, Path]:
    """mrc's own recorder on both ports of a host, once it listens."""
    file = transfers.scratch / f"{host}.pcap"
    running = transfers.start(host, [sys.executable, "-m", "mrc.capture.record", file, "p0", "p1"])
    assert running.process.stdout is not None
    assert running.process.stdout.readline().strip() == "ready"
    return running, file


def stop(running: Running) -> bool:
    """Whether it has all: a recording that missed something would prove nothing."""
    _, dropped = running.stop().succeeded().out.split()
    return dropped == "0"


def analyzed(file: Path, *options: str | Path) -> dict[str, Any]:
    done = programs.run([*MRC, "analyze", file, "--json", *options], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def data_packets(file: Path) -> list[tuple[int, tuple[int, int]]]:
    """Of each data packet in a capture the EV in its headers (wire.md section 10) and its QP and PSN, read without the
    analysis."""
    argv = [*MRC, "dissect", file, "--jsonl", "--filter", "reth"]
    found = []
    for line in programs.run(argv, capture_output=True, text=True, check=True).stdout.splitlines():
        layers = [(layer["layer"], layer.get("fields", {})) for layer in json.loads(line)["layers"]]
        label = [fields["fl"] for name, fields in layers if name == "ipv6"][-1]
        ev = (label & 0xFFFF) << 16 | next(fields["sport"] for name, fields in layers if name == "udp")
        bth = next(fields for name, fields in layers if name == "bth")
        found.append((ev, (bth["dqp"], bth["psn"])))
    return found


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


def heaviest(found: dict[str, Any], count: int = 1) -> list[dict[str, Any]]:
    """The directions with the most packets."""
    directions = [each for qp in found["qps"] for each in qp["directions"]]
    return sorted(directions, key=lambda each: -(each["packets"] or 0))[:count]


def kinds_of(found: dict[str, Any]) -> set[str]:
    return {each["kind"] for each in found["findings"]}


class Passed:
    """A transfer as captures at the sender and at the receiver, and both endpoints, report it. `link` is an impaired
    one's way, and `ev` the path through it."""

    def __init__(
        self,
        files: list[Path],
        complete: bool,
        sent: dict[str, Any],
        received: dict[str, Any],
        link: DirectionStatus | None = None,
        ev: int | None = None,
    ) -> None:
        self.files, self.complete, self.sent, self.received, self.link = files, complete, sent, received, link
        at_sender, at_receiver = (data_packets(file) for file in files)
        # Of what came to the receiver, that of other senders left elsewhere.
        qpns = {qpn for _, (qpn, _) in at_sender}
        self.left = Counter(at_sender)
        self.came = Counter(packet for packet in at_receiver if packet[1][0] in qpns)
        # What the network doubles came once.
        times: Counter[tuple[int, int]] = Counter()
        for (_, psn), count in (self.came & self.left).items():
            times[psn] += count
        # Packets that may have been taken for lost although they arrived: their PSN came more than once.
        self.twice = Counter(ev for ev, psn in self.left.elements() if times[psn] > 1)
        gone = self.left - self.came
        self.lost_on = Counter(ev for ev, _ in gone.elements())
        # Of these what was not sent again: another had come, so that it was in vain (analyze.md, How losses are found).
        last = {packet: ev for ev, packet in at_sender}
        self.lost_in_vain = Counter(ev for packet, ev in last.items() if gone[ev, packet])
        # One whose EV, QP or PSN was damaged is none of those that left.
        self.doubled = sum(count for packet, count in (self.came - self.left).items() if packet in self.left)
        # Damaged packets came, and no endpoint takes them.
        self.damaged = Counter({ev: link.corrupted_packets}) if link is not None else Counter()

    @property
    def disturbed(self) -> bool:
        return not self.complete

    @property
    def disturbed_or_late(self) -> bool:
        return not self.complete or self.sent["retransmitted_packets"] > sum(self.lost_on.values())


def check_sender(direction: dict[str, Any], passed: Passed, place: str = "sender") -> None:
    """At the sender, or at both ends: alone or merged with the receiver's."""
    sent = passed.sent
    assert direction["capture_point"] == place
    assert direction["packets"] == sent["counters"]["data_packets_sent"]
    assert direction["retransmissions"] == sent["retransmitted_packets"]
    assert direction["goodput_bytes"] == sent["bytes"]
    assert direction["not_captured"] == 0
    assert {path["ev"]: path["packets"] for path in direction["paths"]} == {
        path["ev"]: path["packets"] for path in sent["paths"]
    }
    # Each retransmission followed a loss, a trim, a refusal, or nothing.
    unsure = direction["lost_unsure"]
    gone = direction["lost"] + direction["trimmed"] + direction["refused"]
    followed = gone + direction["spurious_retransmissions"]
    assert followed <= direction["retransmissions"] <= followed + unsure
    for path in direction["paths"]:
        ev = path["ev"]
        lost, at_most = passed.lost_on[ev], passed.lost_on[ev] + passed.twice[ev] + passed.damaged[ev]
        sent_again = lost - passed.lost_in_vain[ev]
        least = 0.75 * sent_again - 3 - unsure
        if place == "both":
            # The receiver's sightings settle it. What the host itself lost behind them came all the same.
            least, at_most = sent_again - unsure, lost + passed.damaged[ev]
        # At the sender alone an answer sooner than any before looks as if the packet had arrived at first.
        counted = path["lost"] + path["trimmed"] + path["refused"]
        assert least <= counted <= at_most, (path, lost, unsure, passed.twice[ev])
    assert direction["trimmed"] <= sent["counters"].get("nacks_received", 0)


def check_receiver(direction: dict[str, Any], passed: Passed) -> None:
    counters = passed.received["counters"]
    assert direction["capture_point"] == "receiver"
    assert direction["lost"] is None
    assert direction["goodput_bytes"] == passed.sent["bytes"]
    assert direction["not_captured"] == 0
    assert direction["retransmissions"] <= passed.sent["retransmitted_packets"]
    assert {path["ev"] for path in direction["paths"]} <= {path["ev"] for path in passed.sent["paths"]}
    # What came late may not be in the receiver's report any more.
    assert direction["packets"] + direction["duplicates"] >= counters["requests_received"]
    lost = passed.sent["counters"]["data_packets_sent"] - direction["packets"]
    # All that the sender resent because it had not come, and nothing that had come.
    assert (direction["missing_before_capture"] or 0) <= lost <= passed.sent["retransmitted_packets"]
    assert (direction["lost_behind_capture"] or 0) <= sum(passed.twice.values())
