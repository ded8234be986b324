"""The shape of a fabric, said once: the lab builds it from namespaces, the simulator from events."""

from mrc.topology.clos import FORWARDING_MODES, Clos, Link
from mrc.topology.description import Description
from mrc.topology.fabric import Fabric, FabricPort
from mrc.topology.impairment import Impairment

__all__ = ["FORWARDING_MODES", "Clos", "Description", "Fabric", "FabricPort", "Impairment", "Link"]
