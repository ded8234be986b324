# SPDX-License-Identifier: BSD-2-Clause
# compiled into its callers (docs/contributing/compiled.md)
"""Endpoints by number, for code that has no interpreter: as mrc.endpoint.node.by_handle, for a whole endpoint.

Interpreted these functions run; into compiled modules they are copied, where a handle is the address. A handle keeps
nothing alive: who has them keeps the endpoints.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from mrc.endpoint.datapath.datapath import Datapath
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

_endpoints: WeakValueDictionary[int, Datapath] = WeakValueDictionary()


def of(datapath: Datapath) -> int:
    """The handle of an endpoint's datapath, while that is kept."""
    _endpoints[id(datapath)] = datapath
    return id(datapath)


def receive(handle: int, batch: ReceivedBatch, now: int) -> None:
    _endpoints[handle].receive(batch, now)


def transmit(handle: int, batch: TransmitBatch, now: int) -> int:
    return _endpoints[handle].transmit(batch, now)


def next_deadline(handle: int) -> int:
    return _endpoints[handle].next_deadline()


def first_timer(handle: int) -> int:
    """No timer of a QP is due before this: `next_deadline` may be later."""
    return _endpoints[handle].first_timer()


def on_timer(handle: int, now: int) -> None:
    _endpoints[handle].on_timer(now)


def has_done(handle: int) -> bool:
    """Whether work has ended, or something went wrong that Python has to raise."""
    return _endpoints[handle].done > 0 or _endpoints[handle].away.failed


def operations_wait(handle: int) -> bool:
    """Whether endpoint operations, which are Python's, are to be sent."""
    return _endpoints[handle].operations_wait.up


def touched(handle: int) -> int:
    """For how many QPs something came in the last batch."""
    return _endpoints[handle].intake.touched


def touched_slot(handle: int, place: int) -> int:
    return _endpoints[handle].intake.slots[place]


def epsn(handle: int, slot: int) -> int:
    """The PSN that the QP in a slot expects; -1 where it cannot receive."""
    return _endpoints[handle].qps.at[slot].epsn()


def bytes_placed(handle: int, slot: int) -> int:
    return _endpoints[handle].qps.at[slot].counters.bytes_placed
