# SPDX-License-Identifier: BSD-2-Clause
"""The application API, with the nouns of `mrc.h`: an object for each resource, context managers, errno in the errors.

A Context stands on a device: `mrc.net.device` opens one on real sockets, `mrc.sim.device` one in virtual time.
docs/verbs.md is the tutorial.

A write from one host of a simulated fabric to another:

>>> from mrc.fabric import Clos
>>> from mrc.sim import SimFabric
>>> from mrc.sim.device import SimDevice
>>> from mrc.verbs import QP, AccessFlag, Context, SendWR, WROpcode, connect, describe
>>> fabric, ends = SimFabric(Clos(planes=2), seed=1), []
>>> for host in ("h0", "h1"):
...     pd = Context(SimDevice(fabric, host)).pd()
...     cq = pd.context.cq()
...     ends.append((pd, cq, QP(pd, send_cq=cq, recv_cq=cq, sq_sig_all=True)))
>>> (pd, cq, qp), (peer_pd, _, peer_qp) = ends
>>> ours, theirs = describe(qp), describe(peer_qp)
>>> connect(peer_qp, theirs, ours)
>>> connect(qp, ours, theirs)
>>> memory = bytearray(5)
>>> target = peer_pd.mr(memory).remote
>>> qp.post_send(SendWR(1, WROpcode.RDMA_WRITE, pd.mr(b"hello", AccessFlag(0)).sge(), target.addr, target.rkey))
>>> while not (done := cq.poll()):
...     pass
>>> done[0].status.name, bytes(memory)
('SUCCESS', b'hello')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.verbs.attributes import AHAttr, DeviceAttr, PortAttr, QPAttr, QPCap, QpHint
    from mrc.verbs.connection import ConnectionParameters, connect, describe
    from mrc.verbs.context import AsyncEvent, Context
    from mrc.verbs.cq import CQ, CompChannel
    from mrc.verbs.device import Device, DevicePort
    from mrc.verbs.enums import (
        AccessFlag,
        AsyncEventType,
        DeviceCap,
        PortState,
        ProtocolVersion,
        QPAttrMask,
        QPState,
        SendFlag,
        WCOpcode,
        WCStatus,
        WROpcode,
    )
    from mrc.verbs.errors import VerbsError
    from mrc.verbs.figures import QPFigures
    from mrc.verbs.memory import MR, PD
    from mrc.verbs.qp import QP
    from mrc.verbs.remote import RemoteMemory
    from mrc.verbs.retries import FOR_JOBS, Retries
    from mrc.verbs.work import SGE, WC, RecvWR, SendWR

__all__ = [
    "CQ",
    "FOR_JOBS",
    "MR",
    "PD",
    "QP",
    "SGE",
    "WC",
    "AHAttr",
    "AccessFlag",
    "AsyncEvent",
    "AsyncEventType",
    "CompChannel",
    "ConnectionParameters",
    "Context",
    "Device",
    "DeviceAttr",
    "DeviceCap",
    "DevicePort",
    "PortAttr",
    "PortState",
    "ProtocolVersion",
    "QPAttr",
    "QPAttrMask",
    "QPCap",
    "QPFigures",
    "QPState",
    "QpHint",
    "RecvWR",
    "RemoteMemory",
    "Retries",
    "SendFlag",
    "SendWR",
    "VerbsError",
    "WCOpcode",
    "WCStatus",
    "WROpcode",
    "connect",
    "describe",
]

# A command that asks an endpoint of another process has a use for a few of these, and none for an endpoint.
__getattr__ = lazy_names(
    __name__,
    {
        "attributes": ("AHAttr", "DeviceAttr", "PortAttr", "QPAttr", "QPCap", "QpHint"),
        "connection": ("ConnectionParameters", "connect", "describe"),
        "context": ("AsyncEvent", "Context"),
        "cq": ("CQ", "CompChannel"),
        "device": ("Device", "DevicePort"),
        "enums": (
            "AccessFlag",
            "AsyncEventType",
            "DeviceCap",
            "PortState",
            "ProtocolVersion",
            "QPAttrMask",
            "QPState",
            "SendFlag",
            "WCOpcode",
            "WCStatus",
            "WROpcode",
        ),
        "errors": ("VerbsError",),
        "figures": ("QPFigures",),
        "memory": ("MR", "PD"),
        "qp": ("QP",),
        "remote": ("RemoteMemory",),
        "retries": ("FOR_JOBS", "Retries"),
        "work": ("SGE", "WC", "RecvWR", "SendWR"),
    },
)
