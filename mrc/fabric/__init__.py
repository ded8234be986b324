# SPDX-License-Identifier: BSD-2-Clause
"""The shape of a network, written once: the lab builds it from namespaces, the simulator from events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.fabric.description import Description
    from mrc.fabric.host_view import Fabric, FabricPort, HostTemplate
    from mrc.fabric.impairment import Impairment
    from mrc.fabric.names import Link
    from mrc.fabric.shape import FORWARDING_MODES, Shape
    from mrc.fabric.shapes.clos import Clos

__all__ = [
    "FORWARDING_MODES",
    "Clos",
    "Description",
    "Fabric",
    "FabricPort",
    "HostTemplate",
    "Impairment",
    "Link",
    "Shape",
]

__getattr__ = lazy_names(
    __name__,
    {
        "description": ("Description",),
        "host_view": ("Fabric", "FabricPort", "HostTemplate"),
        "impairment": ("Impairment",),
        "names": ("Link",),
        "shape": ("FORWARDING_MODES", "Shape"),
        "shapes.clos": ("Clos",),
    },
)
