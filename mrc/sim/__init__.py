"""Run the endpoints in virtual time: a fabric of events, seeded and exactly repeatable."""

from mrc.sim.fabric import SimFabric
from mrc.sim.link import Egress, LinkModel
from mrc.sim.recording import HostCapture, SimTrace
from mrc.sim.transfers import Stream, Transfer

__all__ = ["Egress", "HostCapture", "LinkModel", "SimFabric", "SimTrace", "Stream", "Transfer"]
