# SPDX-License-Identifier: BSD-2-Clause
"""What peer nodes say of their ports: port status updates, and when not to believe them."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.node.peer_node import PeerNode
from mrc.wire import octets
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import fields_at

(_SOURCE_AT,) = fields_at("ipv6", "src")


class PeerPorts:
    """`on_peer_port(node, plane, up, now)` is called when a peer's port went down or came back, `on_doubt(node)` when a
    node has other `doubted` planes."""

    __slots__ = ("_config", "_counters", "_on_doubt", "_on_peer_port", "_wire")

    def __init__(
        self,
        config: PeerNodeConfig,
        wire: WireProfile,
        counters: Counters,
        on_peer_port: Callable[[PeerNode, int, bool, int], None],
        on_doubt: Callable[[PeerNode], None],
    ) -> None:
        self._config = config
        self._wire = wire
        self._counters = counters
        self._on_peer_port = on_peer_port
        self._on_doubt = on_doubt

    def update(self, node: PeerNode, mask: int, now: int) -> None:
        """The peer's port on plane p is number p + 1."""
        for plane in sorted(node.port_of_plane):
            up = bool(mask >> (plane + self._wire.first_port_bit) & 1)
            if up == (plane in node.planes_down):
                node.set_port(plane, up)
                self._on_peer_port(node, plane, up, now)
            if up:
                node.doubted.pop(plane, None)
            else:
                node.doubted.setdefault(plane, now)
        self._on_doubt(node)

    def heard_of(self, node: PeerNode, batch: ReceivedBatch, row: int, now: int) -> None:
        """Take a packet on a `doubted` plane, which may be from `node`, as evidence that its port there is up.

        A node sends nothing from a port that is down. What was on its way when it sent the status has arrived, and a
        status that was wrong has been corrected, after the longest interval between two of them. Without this a
        forged status would take planes out for as long as the QPs live.
        """
        source = octets.u64(batch.flat, batch.row(row) + _SOURCE_AT) << 64 | octets.u64(
            batch.flat, batch.row(row) + _SOURCE_AT + 8
        )
        for plane, since in list(node.doubted.items()):
            port = node.port_of_plane[plane]
            if now - since < self._config.port_update_interval_max_ns:
                continue
            if batch.ports[row] != port or node.sources.get(port) != source:
                continue
            del node.doubted[plane]
            node.set_port(plane, True)
            self._counters.port_status_overruled += 1
            self._on_peer_port(node, plane, True, now)
            self._on_doubt(node)
