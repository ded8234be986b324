# SPDX-License-Identifier: BSD-2-Clause
"""Findings about a capture as a whole: what it lacks, how right its times are, what endpoints report outside of QPs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mrc.capture.analysis.analysis import CUT_SHORT, Analysis
from mrc.capture.analysis.capture_point import MIDDLE
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.finding import INFO, WARNING, Finding, share_of
from mrc.capture.analysis.records import ACK, RESPONSE, SACK
from mrc.capture.analysis.sending import STARTS
from mrc.report.units import measured_s_text, plural


def of_capture(analysis: Analysis) -> Iterator[Finding]:
    if not analysis.roce_packets:
        yield Finding(WARNING, "nothing-to-analyze", f"none of {plural(analysis.packets, 'packet')} is RoCEv2 or MRC")
    wrong, checked = analysis.icrc_wrong, analysis.icrc_right + analysis.icrc_wrong.packets
    if wrong.packets and analysis.icrcs_believed:
        text = f"{share_of(wrong.packets, checked)} have a wrong ICRC: no endpoint takes them"
        yield Finding(WARNING, "bad-icrc", text, packet=wrong.first[0], weight=wrong.packets)
    elif wrong.packets:
        text = (
            f"{share_of(wrong.packets, checked)} have a wrong ICRC: taken for right, the capture seems to be at fault"
        )
        yield Finding(WARNING, "icrcs-not-believed", text, packet=wrong.first[0], weight=wrong.packets)
    for reason, some in analysis.malformed.items():
        if reason == CUT_SHORT:
            text = (
                f"{share_of(some.packets, analysis.packets)} were cut by the capture before their headers end and are "
                f"left out: it kept {analysis.cut_to} bytes, a snaplen of {_enough(analysis.cut_to)} would do"
            )
            yield Finding(WARNING, "snaplen-too-short", text, packet=some.first[0], weight=some.packets)
            continue
        text = f"{plural(some.packets, 'packet')} malformed: {reason}"
        yield Finding(WARNING, "malformed", text, packet=some.first[0], weight=some.packets)
    yield from _mirrors(analysis)
    yield from _begun_in_the_middle(analysis)
    if analysis.without_time:
        text = f"{plural(analysis.without_time, 'packet')} without a time: figures with times mean little"
        first = analysis.first_without_time
        yield Finding(WARNING, "no-times", text, packet=first, weight=analysis.without_time)
    for step in analysis.clock_steps:
        by, way = measured_s_text(abs(step.ns) / 1e9), "back" if step.ns > 0 else "forward"
        text = f"the clock was set {way} by {by}: times from there on are taken as if it had not been"
        yield Finding(WARNING, "clock-stepped", text, packet=step.number, weight=abs(step.ns))
    for pause in analysis.clock_unsure:
        text = (
            f"nothing was captured for {measured_s_text(pause.ns / 1e9)} and all went on behind it: the clock was set "
            "forward, or everything stood still; times across it are not known"
        )
        yield Finding(INFO, "clock-unsure", text, packet=pause.number, time_ns=pause.end)
    if analysis.has_coarse_times:
        text = "times are whole milliseconds: round trips, and pauses of a few milliseconds, are not known"
        yield Finding(INFO, "coarse-times", text)
    down = [
        each for each in analysis.operations if each.op == "PORT_STATUS_UPDATE" and each.port_status_mask is not None
    ]
    ever = 0
    for each in down:
        ever |= each.port_status_mask or 0
    for each in down:
        missing = ever & ~(each.port_status_mask or 0)
        if missing:
            ports = ", ".join(str(bit + 1) for bit in range(32) if missing >> bit & 1)
            text = f"{each.source} reported to {each.destination} that its port {ports} is down"
            yield Finding(WARNING, "port-down", text, packet=each.packet, time_ns=each.time_ns, weight=1)
    silent = [each for each in analysis.operations if each.answered is False]
    if silent:
        text = f"{plural(len(silent), 'endpoint request')} of {len(analysis.operations)} got no response"
        yield Finding(WARNING, "unanswered-endpoint-requests", text, packet=silent[0].packet, time_ns=silent[0].time_ns)


def _mirrors(analysis: Analysis) -> Iterator[Finding]:
    for each in analysis.mirrors:
        session = "" if each.session is None else f", session {each.session}"
        text = f"{plural(each.packets, 'packet')} came through a mirror: {each.kind} from {each.source}{session}"
        yield Finding(INFO, "mirrored", text)
        if each.lost:
            text = (
                f"the mirror lost {share_of(each.lost, each.packets + each.lost)} ({each.kind} from {each.source}"
                f"{session}): its sequence numbers have gaps. The fabric did not lose these"
            )
            yield Finding(WARNING, "mirror-lost", text, packet=each.first_gap_packet, weight=each.lost)


def _begun_in_the_middle(analysis: Analysis) -> Iterator[Finding]:
    """Connections that had been going on when the capture began."""
    begun = [each for each in analysis.directions if _had_begun(each)]
    if not begun:
        return
    text = "the capture begins in the middle of "
    if len(begun) == 1:
        text += begun[0].figures.name
    else:
        text += f"{len(begun)} of {plural(len(analysis.directions), 'direction')}"
    first = min((each.requests[0] for each in begun), key=lambda row: int(row["number"]))
    between = all(each.figures.capture_point == MIDDLE for each in begun)
    text += ", or its first packets took another way" if between else ", or lacks the first packets"
    text += ": what was before is not known"
    yield Finding(INFO, "begun-in-the-middle", text, packet=int(first["number"]), time_ns=int(first["time"]))


def _had_begun(direction: Direction) -> bool:
    """Whether the packet with the lowest PSN here is not the first of a message, or not of the first message, or an
    answer is about an earlier one."""
    requests, answers = direction.requests, direction.answers
    if not len(requests):
        return False
    mrc = direction.figures.transport == "mrc"
    first = requests[requests["seq"].argmin()]
    about = answers["trigger"][np.isin(answers["kind"], (SACK,) if mrc else (ACK, RESPONSE))]
    return not STARTS[first["opcode"]] or (mrc and first["msn"] > 0) or bool((about < first["seq"]).any())


def _enough(kept: int) -> int:
    """A snaplen that keeps all headers, also of what is carried in a tunnel, when this one did not."""
    return next(size for size in (256, 512, 1 << 18) if size > kept)
