"""The one entry: a setup in, an outcome out."""

from __future__ import annotations

from collections.abc import Callable

from mrc.sim.cluster.outcome import Outcome, Progress
from mrc.sim.cluster.setup import Setup


def run(setup: Setup, progress: Callable[[Progress], None] | None = None) -> Outcome:
    """Simulate. `progress` is called about once a second of real time, and at the end; what it raises ends the run.

    Raises CallerError for a setup that cannot be simulated.
    """
    raise NotImplementedError
