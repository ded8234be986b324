# SPDX-License-Identifier: BSD-2-Clause
"""Cells on a Ray cluster (extra `ray`). Ray runs a cell again whose process or node has gone.

docs/experiments.md says how to start a cluster that only its owner can use.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mrc import __version__
from mrc.errors import CallerError, SystemRefused
from mrc.sim.sweep.directory import Task
from mrc.sim.sweep.pool import ATTEMPTS, Finished
from mrc.sim.sweep.worker import simulate
from mrc.untrusted import own_json

# Beyond as many cells as there are processors, so many wait at the nodes: results are fetched as they come.
_AHEAD = 4


def run_on_ray(tasks: Sequence[Task], address: str) -> Iterator[Finished]:
    """Simulate cells on the cluster at `address` ("auto": the one of this host); yields each as it is done.

    Closing the iterator cancels what is under way. Raises CallerError without Ray, SystemRefused without a cluster.
    """
    try:
        import ray
    except ImportError:
        raise CallerError("--ray needs Ray: pip install 'softmrc[ray]'") from None
    # Ray says on stdout what happens to its nodes, where nothing but results belong.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise SystemRefused(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
        try:
            yield from _cells(ray, tasks)
        finally:
            ray.shutdown()


def _cells(ray: Any, tasks: Sequence[Task]) -> Iterator[Finished]:
    remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_simulated)
    waiting = list(reversed(tasks))
    under_way: dict[Any, Task] = {}
    while waiting or under_way:
        most = int(ray.cluster_resources().get("CPU", 1)) + _AHEAD
        while waiting and len(under_way) < most:
            task = waiting.pop()
            under_way[remote.remote(json.dumps(task.cell.file.to_json()), __version__)] = task
        ready, _ = ray.wait(list(under_way), timeout=1.0)
        for reference in ready:
            yield _finished(ray, reference, under_way.pop(reference))


def _finished(ray: Any, reference: Any, task: Task) -> Finished:
    try:
        files, problem = ray.get(reference)
    except ray.exceptions.RayError as error:
        return Finished(task, {}, f"Ray gave it up: {str(error).strip().splitlines()[0]}", died=ATTEMPTS)
    return Finished(task, files, problem)


def _simulated(said: str, version: str) -> tuple[dict[str, bytes], str]:
    """Runs on a node of the cluster."""
    if version != __version__:
        return {}, f"a node of the cluster has mrc {__version__}, this host has {version}: install the same on both"
    return simulate(own_json(said))
