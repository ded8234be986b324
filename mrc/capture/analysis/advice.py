# SPDX-License-Identifier: BSD-2-Clause
"""Of each finding: where it happened, as seen from the place of the capture, and what to look at next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fates import TRIMMED
from mrc.capture.analysis.finding import INFO, Finding
from mrc.report.units import plural

BEFORE, BEHIND = "before the place of capture", "behind the place of capture"
BETWEEN = "between the sender and the receiver"
IN_THE_FILE = "in the capture itself, not in the fabric"
AT_SENDER, AT_RECEIVER = "at the sender", "at the receiver"
# Where an endpoint's trace says so.
AT_ENDPOINT = "at the endpoint that wrote the trace"

# What is on the sender's way to the receiver, by the place of the capture.
_ON_THE_WAY = {
    "sender": BEHIND,
    "middle": BEHIND,
    "receiver": BEFORE,
    "both": BETWEEN,
    "unknown": f"{BEHIND}, if that is the sender",
}
# What is on the way there or on the way back.
_THERE_OR_BACK = {
    "sender": f"{BEHIND}, or on the way back to it",
    "middle": f"{BEHIND}, or on the way back to it",
    "receiver": f"{BEHIND}, in the receiver's host",
    "both": BETWEEN,
    "unknown": "behind the place of capture, or on the way back to it",
}
# What is on the way of the answers.
_ON_THE_WAY_BACK = {
    "sender": f"{BEHIND}, on the way back to it",
    "middle": f"{BEHIND}, on the way back to it",
    "both": "between the receiver and the sender, on the way back",
    "unknown": "behind the place of capture, on the way back to it",
}
_ON_THE_WAY_KINDS = (
    *("dead-path", "dead-plane", "dead-switch", "lossy-path", "lossy-plane", "lossy-switch", "loss"),
    *("slow-path", "slow-plane", "slow-switch", "out-of-order", "congestion-notifications"),
)
_PLACES = {
    **dict.fromkeys(("loss-before-capture", "duplicates", "bad-icrc", "corrupting-path"), BEFORE),
    **dict.fromkeys(("loss-behind-capture", "retries-exhausted"), BEHIND),
    **dict.fromkeys(("qp-error", "receiver-not-ready"), AT_RECEIVER),
    **dict.fromkeys(
        ("path-out", "path-retransmissions", "path-carried-less", "plane-imbalance", "spurious-retransmissions"),
        AT_SENDER,
    ),
    **dict.fromkeys(("stall", "window-limited", "idle"), AT_SENDER),
    **dict.fromkeys(
        ("icrcs-not-believed", "no-times", "nothing-to-analyze", "mirrored", "begun-in-the-middle", "clock-stepped"),
        IN_THE_FILE,
    ),
    **dict.fromkeys(
        ("coarse-times", "clocks-apart", "clocks-drift", "clock-unsure", "snaplen-too-short", "not-captured", "copies"),
        IN_THE_FILE,
    ),
    "malformed": f"{BEFORE}, or in the capture itself",
    "mirror-lost": "between the mirror port and the capture, not in the fabric",
    "port-down": "at the host that reports it",
    "unanswered-endpoint-requests": f"{BEHIND}, or on the way back to it",
    **dict.fromkeys(("reported-losses-differ", "reported-spurious-differ", "reported-states-differ"), AT_ENDPOINT),
    **dict.fromkeys(("reported-of-others", "reported-incomplete", "reported-qp-error"), AT_ENDPOINT),
    **dict.fromkeys(("reported-local-ack-timeouts", "reported-port-down", "reported-lossy-path"), AT_ENDPOINT),
    **dict.fromkeys(("reported-path-out", "reported-spurious", "reported-duplicates"), AT_ENDPOINT),
    "fabric-events-elsewhere": "in the event log",
}

_LINKS = "the drop and error counters of the switch ports on this path, and packets of this EV in Wireshark (mrc.ev)"
_MORE_CAPTURE = "a capture nearer to the sender, or one of both ends: it shows the path of each loss"
_TRACE = "what the endpoint's trace says beside it (--trace)"
_RECEIVER_HOST = "the receiving program and its host: the log, the processor's load, the drops of its network card"
_SNAPLEN = "a new capture with a larger snaplen (tcpdump -s 0)"
_CAPTURE_DROPS = "the drop count of the capturing program (tcpdump prints it at the end) and of the mirror port"
_QUEUES = "the queue of the switch before the slow link, the link's rate and the length of its cable"
_LOOK_NEXT = {
    **dict.fromkeys(("lossy-path", "dead-path", "corrupting-path"), _LINKS),
    **dict.fromkeys(
        ("lossy-plane", "lossy-switch", "dead-plane", "dead-switch"),
        "the switches and cables that all of these paths have in common: power, link state, drop counters",
    ),
    **dict.fromkeys(("slow-path", "slow-plane", "slow-switch"), _QUEUES),
    "slow-answers": f"{_QUEUES}, on the answers' way: SACKs that were sent on this EV, in Wireshark (mrc.ev)",
    "loss": "the drop counters of the receiver's host and of its own link, which all paths have in common",
    "loss-before-capture": _MORE_CAPTURE,
    "loss-behind-capture": _RECEIVER_HOST,
    "bad-icrc": "the error counters of links and network cards on the way of these packets (mrc.icrc_ok == 0)",
    "icrcs-not-believed": "what wrote the file: a tool that changes packets, or a snaplen",
    "malformed": "the bytes of these packets in Wireshark (mrc.malformed), and who sent them",
    "snaplen-too-short": _SNAPLEN,
    "no-times": "what wrote the file: a capture has times, an exported one may have lost them",
    "nothing-to-analyze": "the UDP port, and what the packets are in: `mrc dissect --summary` shows what is there",
    "clock-stepped": "the clock of the capturing host: NTP or PTP may have set it",
    "clocks-apart": "the clocks of the two capturing hosts: PTP brings them together",
    "not-captured": _CAPTURE_DROPS,
    "mirror-lost": "the load of the mirror session, and the collector's drop counters",
    "congestion": "the queues of the switches on these paths, and who else sends to this receiver",
    "path-out": "the losses on this path before it, and whether probes on it are answered",
    "plane-imbalance": "losses and marks on the plane that carries less: they take its paths out of their turns",
    "spurious-retransmissions": "why these packets or their SACKs came late: slow paths, a busy receiver, short timers",
    "stall": "what came just before the pause: a loss that only a timer notices, or a host that stood still",
    "qp-error": _RECEIVER_HOST,
    "retries-exhausted": "whether the receiver is up and its port is (`mrc lab status`, or the host)",
    "never-acknowledged": "whether the receiver still runs, and whether its answers come another way",
    "no-answers": "a capture that sees the way back too, of every plane",
    "unanswered-probes": "the path that the probes took: its links, or the way back of the answers",
    "unanswered-endpoint-requests": "whether the host that was asked is up",
    "port-down": "the cable and the switch port of that host",
    "receiver-not-ready": "the receiving program: it posts receives too late, or too few",
    "out-of-order": "the switches between the two: RC needs packets in order, so one way for all of a flow",
    "reported-losses-differ": "losses that were taken back, and SACKs that were lost on their way (docs/analyze.md)",
    "reported-spurious-differ": "the receiver's trace: it counts what came twice",
    "reported-of-others": "whether capture and trace are of the same run",
    "reported-incomplete": "the trace of a program that ended in order",
    "reported-qp-error": "the log of that endpoint's program",
    "reported-local-ack-timeouts": "a capture of the same time: losses, or a receiver that stood still",
    "reported-port-down": "the cable and the switch port of that host",
    "reported-lossy-path": _LINKS,
    "reported-path-out": "a capture of the same time (mrc.ev in Wireshark)",
    "reported-spurious": "why SACKs came late: slow paths, a busy receiver",
    "reported-duplicates": "why SACKs came late: slow paths, a busy receiver",
    "fabric-events-elsewhere": "whether the log is of the same run",
}  # fmt: skip


def advised(found: Iterable[Finding], directions: Iterable[Direction] = ()) -> list[Finding]:
    """Findings with the place where each happened and, of warnings and errors, what to look at next."""
    by_name = {each.figures.name: each for each in directions}
    both = bool(by_name) and all(each.figures.capture_point == "both" for each in by_name.values())
    return [
        replace(
            each,
            place=_place(each, by_name.get(each.qp or ""), both),
            look_next="" if each.severity == INFO else _LOOK_NEXT[each.kind],
        )
        for each in found
    ]


def _place(finding: Finding, direction: Direction | None, both: bool) -> str:
    """`both`: the whole file is of both ends."""
    if direction is None:
        place = _PLACES.get(finding.kind, "")
        return BETWEEN if both and place == BEFORE else place
    side = direction.figures.capture_point
    if finding.kind == "congestion":
        return _of_congestion(direction)
    if finding.kind in _ON_THE_WAY_KINDS:
        return _ON_THE_WAY[side]
    if side == "both" and _PLACES.get(finding.kind) == BEFORE:
        return BETWEEN
    if finding.kind == "slow-answers":
        return _ON_THE_WAY_BACK[side]
    if finding.kind in ("never-acknowledged", "no-answers", "unanswered-probes"):
        return _THERE_OR_BACK[side]
    return _PLACES[finding.kind]


def _of_congestion(direction: Direction) -> str:
    """Between the two: what came here with a mark, or trimmed, had met the queue before; what came without, and is
    answered as marked or refused as trimmed, met it behind."""
    figures, known = direction.figures, direction.fates
    if figures.capture_point in ("sender", "receiver", "both"):
        return _ON_THE_WAY[figures.capture_point]
    trips = known.round_trips
    marked = direction.answers["mark"][trips.answer] > 0
    trimmed_behind = int(known.are(TRIMMED).sum())
    behind = trimmed_behind + int((marked & ~known.requests["ce"][trips.transmission]).sum())
    here = figures.ce_packets + figures.trimmed - trimmed_behind
    if here and behind:
        came, went = plural(here, "packet"), plural(behind, "packet")
        return f"{BEFORE} and behind it: {came} came here marked or trimmed, {went} met a queue behind"
    return BEFORE if here else BEHIND
