# SPDX-License-Identifier: BSD-2-Clause
"""What a fabric's shape means for each namespace: settings, interfaces, addresses, neighbours, routes, rules.

A pure function of `Shape`: no kernel, no netlink, nothing to clean up. The builder applies a plan once, and
healing a cut link applies the same pieces again, so what a link-down flushed comes back exactly as it was.
"""

from mrc.lab.plan.addresses import interface_name
from mrc.lab.plan.nodes import (
    LOOPBACK_INDEX,
    USID_DEVICE,
    USID_DEVICE_INDEX,
    Interface,
    Marking,
    NodePlan,
    Route,
    RouteKind,
    Rule,
)
from mrc.lab.plan.whole import host_fabric, plan

__all__ = [
    "LOOPBACK_INDEX",
    "USID_DEVICE",
    "USID_DEVICE_INDEX",
    "Interface",
    "Marking",
    "NodePlan",
    "Route",
    "RouteKind",
    "Rule",
    "host_fabric",
    "interface_name",
    "plan",
]
