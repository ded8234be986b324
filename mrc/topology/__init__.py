"""The shape of a fabric, said once: the lab builds it from namespaces, the simulator from events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.topology.clos import FORWARDING_MODES, Clos, Link
    from mrc.topology.description import Description
    from mrc.topology.fabric import Fabric, FabricPort
    from mrc.topology.impairment import Impairment

__all__ = ["FORWARDING_MODES", "Clos", "Description", "Fabric", "FabricPort", "Impairment", "Link"]

__getattr__ = lazy_names(
    __name__,
    {
        "clos": ("FORWARDING_MODES", "Clos", "Link"),
        "description": ("Description",),
        "fabric": ("Fabric", "FabricPort"),
        "impairment": ("Impairment",),
    },
)
