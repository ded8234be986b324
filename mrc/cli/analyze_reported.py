# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze` with traces on the terminal: reported beside inferred, or what is reported alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mrc.capture.texts import seconds_text
from mrc.cli.analyze_tables import left_out, print_findings, print_table
from mrc.report.units import count_text, microseconds_text, number_text, size_text

if TYPE_CHECKING:
    from rich.console import Console

    from mrc.capture.analysis.fabric_events import FabricEvents
    from mrc.capture.analysis.figures import DirectionFigures
    from mrc.capture.analysis.finding import Finding
    from mrc.capture.analysis.reported import Trace

_PATHS_SHOWN, _CHANGES_SHOWN, _POINTS_SHOWN = 64, 40, 12


def print_comparison(console: Console, directions: list[DirectionFigures]) -> None:
    """Two tables: directions, then paths; "inferred" is from packets, "reported" from the endpoints' traces."""
    rows: list[tuple[str, ...]] = []
    paths: list[tuple[str, ...]] = []
    for each in directions:
        reported = each.reported
        if reported is None:
            continue
        rows.append(
            (
                each.name,
                number_text(each.lost),
                number_text(reported.lost),
                number_text(reported.lost_in_both),
                " ".join(f"{name} {count:,}" for name, count in (reported.losses_by_trigger or {}).items()) or "-",
                number_text(each.retransmissions),
                number_text(reported.retransmissions),
                number_text(each.spurious_retransmissions),
                number_text(reported.spurious_retransmissions),
                number_text(reported.duplicates_received),
            )
        )
        for path in each.paths:
            says = path.reported
            if says is None:
                continue
            paths.append(
                (
                    "" if each.responder_qpn is None else f"0x{each.responder_qpn:06x}",
                    f"0x{path.ev:08x}",
                    number_text(path.lost),
                    number_text(says.lost),
                    number_text(says.lost_in_both),
                    f"{path.trimmed:,}",
                    f"{says.trimmed:,}",
                    number_text(path.outs),
                    f"{says.outs}",
                    path.state or "-",
                    says.state,
                )
            )
    if rows:
        summary: tuple[str, ...] = (
            "inferred from packets, reported by the endpoints",
            "lost inferred",
            "reported",
            "both",
            "triggers",
        )
        summary += ("resent inferred", "reported", "spurious inferred", "reported", "came twice")
        print_table(console, summary, rows, left=1)
        console.print()
    if paths:
        headings: tuple[str, ...] = ("QP", "EV", "lost inferred", "reported", "both", "trims inferred", "reported")
        headings += ("out inferred", "reported", "state inferred", "state reported")
        print_table(console, headings, paths[:_PATHS_SHOWN], left=2)
        left_out(console, len(paths), _PATHS_SHOWN)


def print_traces(
    console: Console, traces: list[Trace], found: list[Finding], events: FabricEvents | None = None
) -> None:
    from mrc.capture.analysis.reported_document import reported_document
    from mrc.capture.analysis.trace_findings import LOOKED_FOR_IN_TRACES

    documents = [reported_document(each) for each in traces]
    for each in documents:
        end = "" if each["ended"] else ", its end is missing"
        text = (
            f"{each['file']}: {each['events']:,} events in {seconds_text(each['duration_ns'])} s, {each['title']}{end}"
        )
        console.print(text, soft_wrap=True, markup=False)
    print_findings(console, found, LOOKED_FOR_IN_TRACES)
    if events is not None:
        from mrc.cli.analyze_events import print_fabric_events

        print_fabric_events(console, events)
    for each in documents:
        for qp in each["qps"]:
            _print_qp(console, qp)


def _print_qp(console: Console, qp: dict[str, Any]) -> None:
    peer = "?" if qp["peer_qpn"] is None else f"0x{qp['peer_qpn']:06x}"
    console.print(
        f"QP 0x{qp['qpn']:06x} with {peer}, {qp['state'] or 'state not reported'}", style="bold", markup=False
    )
    sent = qp["data_packets"] or qp["losses_by_trigger"]
    if sent:
        words = f"sent {qp['data_packets']:,} packets, {size_text(qp['data_bytes'])}; {qp['retransmissions']:,} again, "
        words += f"{qp['spurious_retransmissions']:,} of them noticed as spurious"
        _line(console, words)
        by_trigger = ", ".join(f"{name} {count:,}" for name, count in qp["losses_by_trigger"].items())
        back = f"; {qp['losses_taken_back']:,} taken back" if qp["losses_taken_back"] else ""
        _line(console, f"taken for lost: {by_trigger or 'none'}{back}; {qp['local_ack_timeouts']:,} local ACK timeouts")
    if qp["requests_received"]:
        words = f"received {qp['requests_received']:,} requests, {size_text(qp['bytes_placed'])} placed; "
        words += f"{qp['duplicates_received']:,} came twice, {qp['ecn_marked']:,} ECN-marked; "
        words += f"{qp['sacks_sent']:,} SACKs, {sum(qp['nacks_sent'].values()):,} NACKs sent"
        _line(console, words)
    console.print()
    if sent:
        _print_paths(console, qp["paths"])
        _print_changes(console, qp["paths"])
        _print_metrics(console, qp)


def _print_paths(console: Console, paths: list[dict[str, Any]]) -> None:
    rows = [
        (
            f"0x{path['ev']:08x}",
            number_text(path["packets"]),
            count_text(path["lost"] or 0, path["loss_share"]),
            f"{path['trimmed']:,}",
            f"{path['refused']:,}",
            number_text(path["marked"]),
            f"{path['outs']}",
            f"{path['out_ns'] / 1e6:,.1f}",
            path["state"],
        )
        for path in paths
    ]
    headings = ("EV", "packets", "lost", "trims", "refused", "marks", "out", "out ms", "state")
    print_table(console, headings, rows[:_PATHS_SHOWN], left=1)
    left_out(console, len(rows), _PATHS_SHOWN)


def _print_changes(console: Console, paths: list[dict[str, Any]]) -> None:
    changes = [(change["time_ns"], path["ev"], change) for path in paths for change in path["state_changes"]]
    changes.sort(key=lambda each: each[:2])
    rows = [
        (seconds_text(time), f"0x{ev:08x}", change["old"], change["state"], change["trigger"])
        for time, ev, change in changes
    ]
    if rows:
        print_table(console, ("time s", "EV", "from", "to", "cause"), rows[:_CHANGES_SHOWN], left=5)
        left_out(console, len(rows), _CHANGES_SHOWN)


def _print_metrics(console: Console, qp: dict[str, Any]) -> None:
    points = qp["metrics"]
    if len(points) > _POINTS_SHOWN:
        # Evenly over the trace, the last one always: --json has them all.
        points = [points[index * (len(points) - 1) // (_POINTS_SHOWN - 1)] for index in range(_POINTS_SHOWN)]
    rows = [
        (
            seconds_text(each["time_ns"]),
            size_text(each["cwnd_bytes"]),
            size_text(each["inflight_bytes"]),
            f"{each['outstanding']:,}",
            microseconds_text(each["srtt_ns"]),
            microseconds_text(each["min_rtt_ns"]),
        )
        for each in points
    ]
    if rows:
        print_table(console, ("time s", "cwnd", "in flight", "outstanding", "SRTT us", "min RTT us"), rows, left=1)
        console.print()


def _line(console: Console, text: str) -> None:
    console.print(f"  {text}", soft_wrap=True, markup=False)
