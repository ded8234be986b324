# SPDX-License-Identifier: BSD-2-Clause
"""What a QP has done so far: counters, paths, round trips; and what they say of a peer that does not answer."""

from __future__ import annotations

from mrc.endpoint.congestion import CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp import QueuePair
from mrc.verbs.attributes import AHAttr
from mrc.verbs.device import Device

# Counters that rise with what a peer sends.
_FROM_THE_PEER = (
    "requests_received",
    "sacks_received",
    "acks_received",
    "nacks_received",
    "naks_received",
    "ack_for_unsent_psn",
    "ack_too_old",
    "ack_before_first_psn",
    "unknown_probe_answer",
    "bad_source",
    "misdirected",
)
# Counters of an endpoint for packets that cannot be read.
_UNREADABLE = (
    "too_short",
    "bad_length",
    "bad_udp_port",
    "bad_tver",
    "unknown_opcode",
    "bad_icrc",
    "trimmed_received",
    "bad_source",
    "misdirected",
    "bad_pkey",
    "refused_by_kernel",
)


class QPFigures:
    """The figures of a QP, each as it stands when it is read. They are read where the endpoint runs: inside
    `Device.call`, or from the thread that runs the loop. `QP.figures` makes one; it is good until the QP is reset.
    """

    __slots__ = ("_qp",)

    def __init__(self, qp: QueuePair) -> None:
        self._qp = qp

    @property
    def counters(self) -> Counters:
        """Packets, bytes and refusals since the QP was made (docs/operations.md)."""
        return self._qp.counters

    @property
    def paths(self) -> PathSet | None:
        """Its EVs in the order of its profile: state, packets, losses. None before RTR."""
        return self._qp.paths

    @property
    def controller(self) -> CongestionController | None:
        """What governs its window, shared with QPs to the same destination: `cwnd` and `inflight` in bytes. None before
        RTR."""
        return self._qp.controller

    @property
    def packets_acknowledged(self) -> int:
        """Requests that the peer has, before which none is missing. Raises CallerError before RTS."""
        return self._qp.requestor.sent.una - self._qp.first_psn

    @property
    def epsn(self) -> int | None:
        """The PSN it expects next, counted without end: before it nothing is missing. None before RTR."""
        return self._qp.epsn

    @property
    def srtt_ns(self) -> int:
        """The smoothed round trip, ns. Raises CallerError before RTS."""
        return self._qp.requestor.rtt.srtt

    @property
    def peer_ports_down(self) -> frozenset[int]:
        """Planes whose port the peer reported as down."""
        node = self._qp.peer_node
        return frozenset() if node is None else frozenset(node.planes_down)

    @property
    def asked_at_ns(self) -> int:
        """When the last request or probe of the peer arrived, on the device's clock. -1: never."""
        return self._qp.asked_at

    @property
    def heard(self) -> bool:
        """Whether the peer can be heard: something arrived that only it can have sent."""
        return any(getattr(self._qp.counters, name) for name in _FROM_THE_PEER)


def why_silent(qp: QueuePair, device: Device, peer: AHAttr | None) -> str:
    """What may be wrong with a peer that has not answered for too long, in words for people."""
    node = device.endpoint.counters
    # Something arrived that the peer may have sent, be it broken or too late.
    heard = QPFigures(qp).heard or any(getattr(node, name) for name in _UNREADABLE)
    if peer is not None and not heard:
        return f"no packet of the peer ever arrived: {device.firewall_hint(peer.node)}"
    return (
        "the peer may have ended, all paths to it be gone, or all that is sent be trimmed or refused"
        " (far slower links than congestion control thinks do that: --line-rate)"
    )
