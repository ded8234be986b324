# SPDX-License-Identifier: BSD-2-Clause
"""Run the endpoints in virtual time: a fabric of events, seeded and exactly repeatable.

>>> from mrc.fabric import Clos
>>> fabric = SimFabric(Clos(planes=1, spines=2), LinkModel(loss=0.01), seed=1)
>>> qp, _ = fabric.connect("h0", "h1")
>>> transfer = fabric.write(qp, 1 << 20)
>>> fabric.run(until=1_000_000_000, stop=lambda: transfer.done)
True
>>> qp.counters.retransmitted_packets > 0
True
"""

from mrc.sim.fabric import SimFabric
from mrc.sim.link import Egress, LinkModel
from mrc.sim.recording import HostCapture, SimTrace
from mrc.sim.transfers import Stream, Transfer

__all__ = ["Egress", "HostCapture", "LinkModel", "SimFabric", "SimTrace", "Stream", "Transfer"]
