# SPDX-License-Identifier: BSD-2-Clause
"""What is raised where a run contradicts itself: then the simulator is wrong, and nothing of the run is reported."""

from __future__ import annotations

from mrc.errors import MrcError


class SimulationFault(MrcError):
    """A run broke a law that every run obeys: time, rates, conservation. Its results would be wrong, so there are none.

    Its text says which law, where and when.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"the simulation is wrong: {what}. Its results are refused; please report this")
