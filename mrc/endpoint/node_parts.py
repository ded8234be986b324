# SPDX-License-Identifier: BSD-2-Clause
"""What all QPs of a node share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from mrc.endpoint.node.local_ports import LocalPorts
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.parts.flags import Away
from mrc.endpoint.paths.ev_events import EvEvents
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.responder.received import ReceiveBudget
from mrc.records import record
from mrc.wire.profile import WireProfile

Q = TypeVar("Q")  # its QPs


@record(frozen=True, slots=True)
class NodeParts(Generic[Q]):
    """What an endpoint gives each of its QPs.

    `budget` is what all peers together may have on their way, `away` whether Python may be away. A QP calls `join` on
    its way to RTR for the node of its peer, `on_ready` in RTS, and `on_error` in ERROR with the state it was in, the
    reason, and how long (ns) it had waited for its peer where that is the reason, else 0. `denied` names the EVs of a
    profile that are denied towards a node.
    """

    wire: WireProfile
    budget: ReceiveBudget
    ports: LocalPorts
    ev_events: EvEvents
    away: Away
    join: Callable[[Q, QpPeer], PeerNode]
    on_ready: Callable[[Q], None]
    on_error: Callable[[Q, QpState, str, int], None]
    denied: Callable[[int, PeerNode], Iterable[int]]
