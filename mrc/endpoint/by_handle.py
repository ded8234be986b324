# SPDX-License-Identifier: BSD-2-Clause
# compiled into its callers (docs/contributing/compiled.md)
"""QPs and peer nodes by number, for code that has no interpreter: a handle is what it can keep of one.

Interpreted these functions run; into compiled modules they are copied, where a handle is the address. A handle keeps
nothing alive: `QpTable` keeps a QP for as long as its handle may be in use, `PeerTable` a node.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from mrc.endpoint.datapath.qp_datapath import QpDatapath
from mrc.endpoint.node.node_evs import NodeEvs
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

_qps: WeakValueDictionary[int, QpDatapath] = WeakValueDictionary()
_nodes: WeakValueDictionary[int, NodeEvs] = WeakValueDictionary()


def of(qp: QpDatapath) -> int:
    """The handle of a QP, until `end`."""
    _qps[id(qp)] = qp
    return id(qp)


def end(handle: int) -> None:
    """Nobody uses this handle any more."""
    _qps.pop(handle, None)


def receive(handle: int, batch: ReceivedBatch, row: int, opcode: int, now: int) -> None:
    _qps[handle].receive(batch, row, opcode, now)


def receive_trimmed(handle: int, batch: ReceivedBatch, row: int, lasthop: bool, now: int) -> None:
    _qps[handle].receive_trimmed(batch, row, lasthop, now)


def doubts(handle: int, port: int) -> bool:
    return _qps[handle].doubts(port)


def has_completions(handle: int) -> bool:
    return _qps[handle].completions.count > 0


def take_posted(handle: int) -> None:
    _qps[handle].take_posted()


def pending(handle: int) -> bool:
    return _qps[handle].pending()


def has_work(handle: int) -> bool:
    return _qps[handle].has_work()


def has_control(handle: int) -> bool:
    return _qps[handle].has_control()


def window_is_open(handle: int) -> bool:
    return _qps[handle].window_is_open()


def answers_wait(handle: int) -> bool:
    return _qps[handle].answers_wait


def data_packets_sent(handle: int) -> int:
    return _qps[handle].counters.data_packets_sent


def transmit(handle: int, batch: TransmitBatch, limit: int, now: int, others_wait: bool) -> int:
    return _qps[handle].transmit(batch, limit, now, others_wait)


def qpn(handle: int) -> int:
    return _qps[handle].qpn


def timer_at(handle: int) -> int:
    return _qps[handle].timer_at


def epsn(handle: int) -> int:
    return _qps[handle].epsn()


def bytes_placed(handle: int) -> int:
    return _qps[handle].counters.bytes_placed


def set_timer_at(handle: int, at: int) -> None:
    _qps[handle].timer_at = at


def next_deadline(handle: int) -> int:
    return _qps[handle].next_deadline()


def on_timer(handle: int, now: int) -> None:
    _qps[handle].on_timer(now)


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
