# SPDX-License-Identifier: BSD-2-Clause
# compiled into its callers (docs/contributing/compiled.md)
"""Peer nodes by number, for code that has no interpreter: a handle is what it can keep of one.

Interpreted these functions run; into compiled modules they are copied, where a handle is the address. A handle keeps
nothing alive: `PeerTable` keeps a node for as long as its handle may be in use.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from mrc.endpoint.node.node_evs import NodeEvs
from mrc.wire.transmit_batch import TransmitBatch

_nodes: WeakValueDictionary[int, NodeEvs] = WeakValueDictionary()


def of_node(evs: NodeEvs) -> int:
    """The handle of a peer node, until `end_node`."""
    _nodes[id(evs)] = evs
    return id(evs)


def end_node(handle: int) -> None:
    """Nobody uses this handle any more."""
    _nodes.pop(handle, None)


def control_ev(handle: int) -> int:
    return _nodes[handle].control_ev()


def open_operation(handle: int, batch: TransmitBatch, number: int, traffic_class: int, length: int) -> int:
    return _nodes[handle].open(batch, number, traffic_class, length)


def service_time(handle: int) -> bool:
    return _nodes[handle].service_time
