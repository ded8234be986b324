"""The shape of a fabric, said once: the lab builds it from namespaces, the simulator from events."""

from mrc.topology.clos import Clos, Link
from mrc.topology.fabric import Fabric, FabricPort

__all__ = ["Clos", "Fabric", "FabricPort", "Link"]
