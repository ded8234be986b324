"""The shape of a network, written once: the lab builds it from namespaces, the simulator from events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.fabric.clos import FORWARDING_MODES, Clos, Link
    from mrc.fabric.description import Description
    from mrc.fabric.host_view import Fabric, FabricPort
    from mrc.fabric.impairment import Impairment

__all__ = ["FORWARDING_MODES", "Clos", "Description", "Fabric", "FabricPort", "Impairment", "Link"]

__getattr__ = lazy_names(
    __name__,
    {
        "clos": ("FORWARDING_MODES", "Clos", "Link"),
        "description": ("Description",),
        "host_view": ("Fabric", "FabricPort"),
        "impairment": ("Impairment",),
    },
)
