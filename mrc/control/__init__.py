# SPDX-License-Identifier: BSD-2-Clause
"""The controller API, with the nouns of `mrc_ctl.h`: profiles, EV operations and events, probes, ports.

A Controller stands on a device, as the verbs' Context does; what one does, every other one of that device sees.
docs/control.md is the tutorial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.control.attributes import (
        CcProfileAttr,
        ControlCap,
        ControlDeviceAttr,
        EvEventMask,
        EvFormatAttr,
        EvProfileAttr,
        PortAdmin,
        PortControlAttr,
    )
    from mrc.control.controller import Controller
    from mrc.control.errors import ControlError
    from mrc.control.ev_operations import EvEntry, EvOp, EvOpKind, EvOpResult
    from mrc.control.events import EvEventQueue, EvStateChange, PortChange, QpFailed
    from mrc.control.operations import EvProbe, OperationResult, PortStatusUpdate
    from mrc.control.states import ProfileState
    from mrc.control.version import ApiVersion, ApiVersions, query_version

__all__ = [
    "ApiVersion",
    "ApiVersions",
    "CcProfileAttr",
    "ControlCap",
    "ControlDeviceAttr",
    "ControlError",
    "Controller",
    "EvEntry",
    "EvEventMask",
    "EvEventQueue",
    "EvFormatAttr",
    "EvOp",
    "EvOpKind",
    "EvOpResult",
    "EvProbe",
    "EvProfileAttr",
    "EvStateChange",
    "OperationResult",
    "PortAdmin",
    "PortChange",
    "PortControlAttr",
    "PortStatusUpdate",
    "ProfileState",
    "QpFailed",
    "query_version",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attributes": (
            "CcProfileAttr",
            "ControlCap",
            "ControlDeviceAttr",
            "EvEventMask",
            "EvFormatAttr",
            "EvProfileAttr",
            "PortAdmin",
            "PortControlAttr",
        ),
        "controller": ("Controller",),
        "errors": ("ControlError",),
        "ev_operations": ("EvEntry", "EvOp", "EvOpKind", "EvOpResult"),
        "events": ("EvEventQueue", "EvStateChange", "PortChange", "QpFailed"),
        "operations": ("EvProbe", "OperationResult", "PortStatusUpdate"),
        "states": ("ProfileState",),
        "version": ("ApiVersion", "ApiVersions", "query_version"),
    },
)
