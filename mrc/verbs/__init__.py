"""The application API, with the nouns of `mrc.h`: an object for each resource, context managers, errno in the errors.

A Context stands on a device: `mrc.net.device` opens one on real sockets, `mrc.sim.device` one in virtual time.
docs/verbs.md is the tutorial.
"""

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
