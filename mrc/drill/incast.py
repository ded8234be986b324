# SPDX-License-Identifier: BSD-2-Clause
"""Seven to one: more comes to a host than its links carry, the last switch trims, and a neighbour is not to notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.drill.drill import PAYLOAD_SHARE, Drill, Figures
from mrc.drill.flow import FlowPlan
from mrc.drill.links import total
from mrc.drill.moments import mark_moments
from mrc.drill.phases import RECOVERY_NS, SETTLED_NS
from mrc.drill.plots import draw_goodput, draw_windows
from mrc.drill.recording import BEGIN, END, Recording
from mrc.drill.stage import Stage
from mrc.fabric import Clos
from mrc.report.expectations import at_least, exactly

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANES, SPINES, HOSTS_PER_LEAF = 2, 4, 5
HOST_RATE_BPS = 20_000_000
# A leaf has as much towards the spines as towards its hosts, and a little to spare.
FABRIC_RATE_BPS = 30_000_000
# Of each port's queue: 14 packets, where seven windows are 252.
TRIMMED_FROM_BYTES, QUEUE_BYTES = 60_000, 400_000
MARKED_FROM_BYTES = 30_000
VICTIM, VICTIM_ENDS = "victim", ("h0", "h8")
SENDERS, RECEIVER = ("h1", "h2", "h3", "h4", "h5", "h6", "h7"), "h9"
WINDOW_PACKETS, BASE_RTT_NS = 36, 30_000_000
_COMES_AT_S, _SECONDS = 1.5, 6.5


def _flow(name: str, source: str, target: str, seed: int) -> FlowPlan:
    return FlowPlan(
        name,
        source,
        target,
        seed,
        line_rate_bps=PLANES * HOST_RATE_BPS,
        base_rtt_ns=BASE_RTT_NS,
        trimming=True,
        max_cwnd_packets=WINDOW_PACKETS,
        depth=8,
        pause_ns=4_000_000,
    )


def _perform(stage: Stage) -> None:
    stage.limit_hosts(rate_bps=HOST_RATE_BPS, queue_bytes=QUEUE_BYTES)
    trimming = {"trim_at_bytes": TRIMMED_FROM_BYTES, "trim_to_bytes": stage.trim_to_bytes}
    for link in stage.lab.topology.host_links():
        # A switch trims, a NIC does not.
        stage.lab.impair(link.name, toward=link.lower, **trimming)
    stage.limit_fabric(
        rate_bps=FABRIC_RATE_BPS,
        ecn_at_bytes=MARKED_FROM_BYTES,
        **trimming,
        queue_bytes=QUEUE_BYTES,
    )
    stage.open([_flow(VICTIM, *VICTIM_ENDS, stage.seed)])
    stage.open([_flow(host, host, RECEIVER, stage.seed + number) for number, host in enumerate(SENDERS, 1)])
    stage.begin(VICTIM)
    stage.until(_COMES_AT_S)
    stage.begin(*SENDERS)
    stage.until(_SECONDS)
    stage.end()
    stage.drain()
    stage.extra["trimmed_packets"] = total(stage.lab, "trimmed_packets")
    stage.extra["dropped_packets"] = total(stage.lab, "queue_dropped_packets")


def _measure(recording: Recording) -> Figures:
    victim = recording.flows[VICTIM]
    begun, comes = recording.time(BEGIN, VICTIM) + SETTLED_NS, recording.time(BEGIN, SENDERS[0])
    settled, end = comes + SETTLED_NS, recording.time(END)
    alone = victim.placed.rate_bps(begun, comes)
    flows = list(recording.flows.values())
    rates = [recording.flows[host].placed.rate_bps(settled, end) for host in SENDERS]
    trimmed = recording.extra["trimmed_packets"]
    nacks_sent = sum(flow.target_count("nacks_sent") for flow in flows)
    heard = sum(flow.count("nacks_received") for flow in flows)
    # Probes are trimmed like data, unless they are small enough to pass uncut, but a probe is no request that could be
    # asked for again.
    probes = sum(flow.count("tail_probes_sent") + flow.count("path_probes_sent") for flow in flows)
    trimmed_probes = probes - sum(flow.target_count("probes_answered") for flow in flows)
    return {
        "victim_alone_mbps": alone / 1e6,
        "share_of_links_before": alone / (PLANES * HOST_RATE_BPS * PAYLOAD_SHARE),
        "victim_share_kept": victim.placed.rate_bps(comes + RECOVERY_NS, end) / alone,
        "receiver_share_of_links": sum(rates) / (PLANES * HOST_RATE_BPS),
        "least_sender_mbps": min(rates) / 1e6,
        "most_sender_mbps": max(rates) / 1e6,
        "trimmed_packets": trimmed,
        "trimmed_probes": trimmed_probes,
        "trims_without_nack": trimmed - trimmed_probes - nacks_sent,
        "nacks_that_did_not_arrive": nacks_sent - heard,
        "nacked_packets_not_resent": sum(
            max(0, flow.count("losses_by_nack") - flow.count("retransmitted_packets")) for flow in flows
        ),
        "dropped_packets": recording.extra["dropped_packets"],
        "losses_by_path_timer": sum(flow.count("losses_by_path_timer") for flow in flows),
        "local_ack_timeouts": sum(flow.count("local_ack_timeouts") for flow in flows),
    }


def _draw(recording: Recording, figure: Figure) -> None:
    goodput, windows = figure.subplots(2, 1, sharex=True)
    draw_goodput(recording, goodput, together={"the seven": SENDERS})
    goodput.set_xlabel("")
    draw_windows(windows, recording, SENDERS)
    mark_moments([goodput, windows], recording.happenings, recording.began_ns)


INCAST = Drill(
    name="incast",
    summary="seven hosts write to one, whose neighbour has a flow of its own",
    shape=Clos(planes=PLANES, spines=SPINES, hosts_per_leaf=HOSTS_PER_LEAF),
    seconds=_SECONDS,
    perform=_perform,
    measure=_measure,
    draw=_draw,
    needs_bpf=True,
    trims=True,
    expectations=(
        at_least("victim_share_kept", 0.95, "of the victim's goodput, from 100 ms after the seven came on"),
        at_least("receiver_share_of_links", 0.85, "of the rate of the receiver's links arrives as payload"),
        at_least("trimmed_packets", 100, "the queue is a fraction of the windows: switches must trim"),
        exactly("trims_without_nack", 0, "every trimmed packet of data is answered by a NACK"),
        exactly("nacks_that_did_not_arrive", 0, "every NACK arrives"),
        exactly("nacked_packets_not_resent", 0, "what a NACK names is sent again"),
        exactly("dropped_packets", 0, "trimming leaves nothing to drop"),
        exactly("local_ack_timeouts", 0, "nothing waited for a coarse timer"),
    ),
)
