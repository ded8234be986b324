# SPDX-License-Identifier: BSD-2-Clause
"""`--trace` of real transfers: what the endpoints say they did is what a capture saw, at the time it saw it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import programs
import pytest
from live_run import MIB, Running, Transfers
from programs import MRC

from mrc.trace import Event, Header, is_trace_file, read_trace

pytestmark = pytest.mark.root

# A capture has microseconds, and the two clocks are tied within less than one.
SLACK_NS = 10_000


def whole_trace(path: Path) -> tuple[Header, list[Event]]:
    """A trace that was closed in order."""
    assert is_trace_file(path)
    with open(path, "rb") as stream:
        header, events = read_trace(stream)
        found = list(events)
    assert (events.ended, events.cut, events.skipped) == (True, False, 0)
    assert all(event.kind is not None for event in found)
    assert [event.time_ns for event in found] == sorted(event.time_ns for event in found)
    return header, found


def of(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if event.name == name]


def record(transfers: Transfers, file: Path, *interfaces: str) -> Running:
    recording = transfers.start("h0", [sys.executable, "-m", "mrc.capture.record", file, *interfaces])
    assert recording.process.stdout is not None
    assert recording.process.stdout.readline().strip() == "ready"
    return recording


def resent_packets(capture: Path) -> dict[tuple[int, int], list[int]]:
    """When each (PSN, EV) was seen as data with rtx, ns since 1970."""
    argv = [*MRC, "dissect", str(capture), "--jsonl", "--filter", "meth and bth.rtx == 1"]
    seen: dict[tuple[int, int], list[int]] = {}
    for line in filter(None, programs.run(argv, capture_output=True, text=True, check=True).stdout.split("\n")):
        packet = json.loads(line)
        layers: list[dict[str, Any]] = packet["layers"]
        inner = [each["fields"] for each in layers if each["layer"] == "ipv6"][-1]
        (udp,) = (each["fields"] for each in layers if each["layer"] == "udp")
        (bth,) = (each["fields"] for each in layers if each["layer"] == "bth")
        # wire.md section 10: the EV's high half is in the flow label, its low half in the source port.
        key = bth["psn"], (inner["fl"] & 0xFFFF) << 16 | udp["sport"]
        seen.setdefault(key, []).append(int(packet["time"].replace(".", "")))
    return seen


def test_a_transfer_with_losses(transfers: Transfers) -> None:
    """1 % loss on every uplink: every retransmission that was reported was captured where it left, and no other."""
    uplinks = [(f"p{plane}l0-p{plane}s{spine}", f"p{plane}s{spine}") for plane in range(2) for spine in range(4)]
    for link, toward in uplinks:
        transfers.lab.impair(link, 0.01, toward)
    file, capture = transfers.file("big", 16 * MIB), transfers.scratch / "h0.pcap"
    ours, theirs = transfers.scratch / "sender.trace", transfers.scratch / "receiver.trace"
    recording = record(transfers, capture, "p0", "p1")
    receiver = transfers.recv("--once", "--json", "--trace", theirs)
    sent = transfers.send(receiver, [file], "--json", "--trace", ours).end().succeeded().document
    receiver.end().succeeded()
    _, dropped = recording.stop().out.split()
    for link, toward in uplinks:
        transfers.lab.clear(link, toward)

    header, events = whole_trace(ours)
    assert (header.title, header.vantage_point, header.clock) == ("mrc send", "sender", "CLOCK_MONOTONIC")
    again, lost = of(events, "recovery:retransmission"), of(events, "recovery:packet_lost")
    assert len(again) == sent["retransmitted_packets"] > 0
    assert {event["trigger"] for event in lost} <= {"hole", "path_timer", "local_ack_timeout"}
    assert {event["psn"] for event in again} <= {event["psn"] for event in lost}
    totals = {event["ev"]: (event["packets"], event["lost"]) for event in of(events, "path:ev_totals")}
    assert totals == {path["ev"]: (path["packets"], path["lost"]) for path in sent["paths"]}
    by_ev = Counter(event["ev"] for event in lost)
    by_ev.subtract(Counter(event["ev"] for event in of(events, "recovery:spurious_loss") if event["ev"] is not None))
    assert by_ev == Counter({ev: count for ev, (_, count) in totals.items()})

    if dropped == "0":
        seen = resent_packets(capture)
        assert Counter((event["psn"], event["ev"]) for event in again) == Counter(
            {key: len(times) for key, times in seen.items()}
        )
        # Reported before it left: capture and trace are on one time line.
        for event in again:
            assert event.realtime_ns is not None
            assert event.realtime_ns <= max(seen[event["psn"], event["ev"]]) + SLACK_NS

    header, events = whole_trace(theirs)
    assert (header.title, header.vantage_point) == ("mrc recv", "receiver")
    answers = of(events, "transport:sacks_sent")
    assert sum(event["bytes_placed"] for event in answers) == 16 * MIB
    (ours_qp,) = {event.qpn for event in again}
    (started,) = of(events, "connectivity:responder_started")
    assert started["peer_qpn"] == ours_qp


def test_a_receiver_that_is_stopped_ends_its_trace(transfers: Transfers) -> None:
    trace = transfers.scratch / "receiver.trace"
    receiver = transfers.recv("--trace", trace)
    receiver.stop()
    _, events = whole_trace(trace)
    assert [event.name for event in events] == ["trace:end"]


def test_a_disk_that_is_full_fails_no_transfer(transfers: Transfers) -> None:
    """A trace is beside the point of a transfer: it ends early, and that is said."""
    file = transfers.file("file", 4 * MIB)
    small = transfers.scratch / "small"
    small.mkdir()
    trace = small / "sender.trace"
    receiver = transfers.recv("--once")
    # A file may not grow beyond 1 KiB there: what a full disk does, without one.
    shell = f'ulimit -f 1; trap "" XFSZ; exec {" ".join(MRC)} send {file} {receiver.ticket} --json --trace {trace}'
    sent = transfers.start("h0", ["bash", "-c", shell]).end()
    receiver.end().succeeded()
    assert sent.code == 0, sent.err
    assert sent.document["sums_agree"] is True
    assert f"{trace}: File too large: the trace ends early" in sent.err
    with open(trace, "rb") as stream:
        _, events = read_trace(stream)
        assert len(list(events)) > 0
    assert not events.ended


def test_a_demo_writes_both_ends(tmp_path: Path, need_program: Callable[[str], str]) -> None:
    need_program("unshare")
    name = tmp_path / "demo.trace"
    argv = [*MRC, "demo", "--size", "8MiB", "--loss", "0%", "--cut-after", "100%", "--json", "--trace", str(name)]
    done = programs.run(argv, capture_output=True, text=True, timeout=600, check=False)
    document = json.loads(done.stdout)
    assert document["sums_agree"] is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.trace.receiver", "demo.trace.sender"]
    _, sender = whole_trace(tmp_path / "demo.trace.sender")
    _, receiver = whole_trace(tmp_path / "demo.trace.receiver")
    packets = {event["ev"]: event["packets"] for event in of(sender, "path:ev_totals")}
    assert packets == {path["ev"]: path["packets"] for path in document["paths"]}
    assert sum(event["bytes_placed"] for event in of(receiver, "transport:sacks_sent")) == 8 * MIB
