# SPDX-License-Identifier: BSD-2-Clause
"""What traces say that a person should look at: in themselves, and where they and the packets disagree."""

from __future__ import annotations

from collections.abc import Iterator

from mrc.capture.analysis.advice import advised
from mrc.capture.analysis.causes import in_order
from mrc.capture.analysis.comparison import Comparison, apart
from mrc.capture.analysis.finding import (
    ERROR,
    INFO,
    WARNING,
    Finding,
    path_name,
)
from mrc.capture.analysis.path_findings import stands_out
from mrc.capture.analysis.reported import ASSUMED_BAD, ReportedPath, ReportedQp, Trace
from mrc.report.units import measured_s_text, percent_text, plural

# Where there is no capture beside them.
LOOKED_FOR_IN_TRACES = (
    "Looked for what the traces report: QPs that ended in an error, local ACK timeouts, ports that are down, lossy "
    "paths, paths out of use, spurious retransmissions, duplicates, traces that are cut. docs/analyze.md has every "
    "kind."
)


def trace_findings(traces: list[Trace], comparisons: list[Comparison] | None) -> list[Finding]:
    """By severity, then weight. `comparisons` are None without a capture: then what is reported stands for itself."""
    found: list[Finding] = []
    for trace in traces:
        found += _incomplete(trace)
        found += _ports(trace)
        for qp in trace.qps:
            found += _qp(trace, qp)
            if comparisons is None:
                found += _paths(trace, qp)
        if comparisons is not None:
            found += _unmatched(trace, comparisons)
    for each in comparisons or []:
        found += _differences(each)
    return in_order(advised(found))


def name_of(qp: ReportedQp) -> str:
    return f"QP 0x{qp.qpn:06x}"


def _named(path: ReportedPath) -> str:
    """The EV, and what the trace says of where it leads."""
    where = [
        f"{name} {number}" for name, number in (("plane", path.plane), ("spine", path.spine)) if number is not None
    ]
    return f"EV 0x{path.ev:08x}" + (f" ({', '.join(where)})" if where else "")


def _incomplete(trace: Trace) -> Iterator[Finding]:
    lacks = []
    if trace.cut or not trace.ended:
        lacks.append("its end is missing")
    if trace.dropped:
        lacks.append(f"{plural(trace.dropped, 'event')} could not be written")
    if trace.skipped + trace.not_believed:
        lacks.append(f"{plural(trace.skipped + trace.not_believed, 'record')} damaged")
    if lacks:
        text = f"{trace.file} is incomplete: {', '.join(lacks)}; reported figures are too low by as much"
        yield Finding(WARNING, "reported-incomplete", text, weight=trace.dropped)


def _ports(trace: Trace) -> Iterator[Finding]:
    for side, port in sorted({(side, port) for _, side, port, up in trace.ports if not up}):
        text = f"{trace.file}: the {'peer said that its' if side == 'peer' else 'local'} port {port} went down"
        yield Finding(WARNING, "reported-port-down", text, weight=1)


def _qp(trace: Trace, qp: ReportedQp) -> Iterator[Finding]:
    if qp.state == "ERROR" or qp.why:
        text = f"{trace.file}: {name_of(qp)} went to ERROR: {qp.why or 'no reason reported'}"
        yield Finding(ERROR, "reported-qp-error", text, name_of(qp), weight=1e9)
    timeouts = qp.counts["local_ack_timeouts"]
    if timeouts:
        text = f"{trace.file}: {name_of(qp)} ran into {plural(timeouts, 'local ACK timeout')}"
        yield Finding(WARNING, "reported-local-ack-timeouts", text, name_of(qp), weight=timeouts)


def _paths(trace: Trace, qp: ReportedQp) -> Iterator[Finding]:
    counts = qp.lost()
    packets = {ev: path.packets for ev, path in qp.paths.items() if path.packets}
    lost = {ev: counts[ev, "lost"] for ev in packets}
    whole, all_lost = sum(packets.values()), sum(lost.values())
    for ev, sent in packets.items():
        if stands_out(lost[ev], sent, all_lost - lost[ev], whole - sent, len(packets)):
            text = (
                f"path {_named(qp.path(ev))} loses {percent_text(lost[ev] / sent)}: the endpoint took {lost[ev]:,} of "
            )
            text += f"{plural(sent, 'data packet')} for lost, {all_lost - lost[ev]:,} of {whole - sent:,} on the others"
            yield Finding(ERROR, "reported-lossy-path", text, name_of(qp), ev, weight=1e6 * lost[ev] / sent)
    for path in qp.paths.values():
        if path.outs:
            yield _out(trace, qp, path)
    again, resent = qp.spurious_noticed, qp.counts["retransmissions"]
    if again >= 5 and again > 0.1 * resent:
        text = f"{again:,} of {plural(resent, 'retransmission')} were spurious, as the endpoint itself noticed"
        yield Finding(WARNING, "reported-spurious", text, name_of(qp), weight=again)
    duplicates, requests = qp.counts["duplicates"], qp.counts["requests"]
    if duplicates >= 5 and duplicates > 0.01 * requests:
        text = f"{duplicates:,} of {plural(requests, 'request')} had come before: spurious retransmissions"
        yield Finding(WARNING, "reported-duplicates", text, name_of(qp), weight=duplicates)


def _out(trace: Trace, qp: ReportedQp, path: ReportedPath) -> Finding:
    stayed = path.state == ASSUMED_BAD
    text = f"path {_named(path)} was taken out of use {plural(path.outs, 'time')}, for "
    text += f"{measured_s_text(path.out_ns(trace.last_ns) / 1e9)} in all; it {'stayed out' if stayed else 'is back'}"
    severity = WARNING if stayed else INFO
    return Finding(severity, "reported-path-out", text, name_of(qp), path.ev, weight=path.outs)


# ------------------------------------------------------------------ beside a capture


def _unmatched(trace: Trace, comparisons: list[Comparison]) -> Iterator[Finding]:
    matched = [qp for each in comparisons for qp in (each.requestor, each.responder)]
    strangers = [qp for qp in trace.qps if qp.weight and not any(qp is one for one in matched)]
    if not strangers:
        return
    names = ", ".join(name_of(qp) for qp in strangers[:4]) + (", ..." if len(strangers) > 4 else "")
    text = f"{trace.file} reports on {plural(len(strangers), 'QP')} that the capture does not have: {names}"
    yield Finding(WARNING, "reported-of-others", text, weight=len(strangers))


def _differences(one: Comparison) -> Iterator[Finding]:
    figures = one.direction.figures
    reported = figures.reported
    if reported is None:
        return
    for path in figures.paths:
        says = path.reported
        if says is None:
            continue
        if path.lost is not None and apart(path.lost, says.lost):
            text = f"path {path_name(path)}: the packets show {path.lost:,} lost, the endpoint took {says.lost:,} for "
            text += f"lost; {says.lost_in_both:,} are the same transmissions"
            weight = abs(path.lost - says.lost)
            yield Finding(
                WARNING, "reported-losses-differ", text, figures.name, path.ev, path.first_lost_packet, None, weight
            )
        if path.outs is None:  # the place of capture does not show it
            continue
        if apart(path.outs, says.outs) or path.state != says.state:
            text = (
                f"path {path_name(path)}: the packets show it out of use {plural(path.outs, 'time')} and {path.state} "
            )
            text += f"at the end, the endpoint says {plural(says.outs, 'time')} and {says.state}"
            yield Finding(INFO, "reported-states-differ", text, figures.name, path.ev)
    yield from _spurious(one)


def _spurious(one: Comparison) -> Iterator[Finding]:
    """The responder knows what came twice, the requestor only what it noticed."""
    figures, reported = one.direction.figures, one.direction.figures.reported
    if reported is None:
        return
    own, duplicates = reported.spurious_retransmissions, reported.duplicates_received
    reported_count = own if duplicates is None else duplicates
    inferred = figures.spurious_retransmissions
    if inferred is None:
        return
    if reported_count is None or not apart(inferred, reported_count):
        return
    says = [] if own is None else [f"the requestor noticed {own:,}"]
    says += [] if duplicates is None else [f"the responder got {duplicates:,} twice"]
    text = f"the packets show {plural(inferred, 'spurious retransmission')}, {', '.join(says)}"
    weight = abs(inferred - reported_count)
    yield Finding(WARNING, "reported-spurious-differ", text, figures.name, weight=weight)
