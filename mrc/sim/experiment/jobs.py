# SPDX-License-Identifier: BSD-2-Clause
"""The workloads of a file as flows between hosts: each is placed, then made by its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mrc.errors import CallerError
from mrc.fabric.yaml_tree import KeyPath
from mrc.sim.cluster.circles import check_no_circle
from mrc.sim.cluster.setup import Flows, Ints, Topology
from mrc.sim.experiment import calls, values
from mrc.sim.experiment.placement import Placement
from mrc.sim.experiment.problems import Blame
from mrc.sim.experiment.workloads import collectives, patterns
from mrc.sim.experiment.workloads.flows import Job, JobFlows, joined, repeated
from mrc.sim.experiment.workloads.matrix import Matrix

# Randomness of one kind does not change with what another one draws.
_PLACEMENT, _JOBS = 1, 2


class Jobs:
    """All workloads. `flows` raises FileProblems; `names` are those of the jobs, by number."""

    def __init__(
        self, workloads: list[dict[str, Any]], topology: Topology, files: Mapping[str, str], seed: int, blame: Blame
    ) -> None:
        self._workloads = workloads
        self._topology = topology
        self._files = files
        self._seed = seed
        self._blame = blame
        self.names = tuple(said.get("name", f"{said['kind']}-{number}") for number, said in enumerate(workloads))
        for number, name in enumerate(self.names):
            if name in self.names[:number]:
                raise blame.problem(("workloads", number, "name"), f"workload {self.names.index(name)} has that name")

    def flows(self, policy: str) -> Flows:
        """`policy` is the placement of the jobs that name none."""
        made = []
        for number, (said, hosts) in enumerate(zip(self._workloads, self._placed(policy), strict=True)):
            random = np.random.default_rng((self._seed, _JOBS, number))
            job = Job(len(hosts), hosts, self._topology.hosts_per_leaf, random)
            with self._blame.at(("workloads", number)):
                flows = self._made(said, job)
                check_no_circle(len(flows), flows.waits, flows.waits_for)
            made.append((flows, hosts, values.time_ns(said.get("start", 0))))
        with self._blame.at(("workloads",)):
            return joined(made).checked(self._topology.hosts)

    def _placed(self, policy: str) -> list[Ints]:
        """The hosts of each job. Those that are named come first, so that no other job gets them."""
        placement = Placement(self._topology, np.random.default_rng((self._seed, _PLACEMENT)))
        found: dict[int, Ints] = {}
        order = sorted(range(len(self._workloads)), key=lambda number: "hosts" not in self._workloads[number])
        for number in order:
            found[number] = self._hosts(self._workloads[number], ("workloads", number), placement, policy)
        return [found[number] for number in range(len(found))]

    def _hosts(self, said: Mapping[str, Any], path: KeyPath, placement: Placement, policy: str) -> Ints:
        ranks = self._ranks(said, path)
        if "hosts" in said:
            if ranks is not None and len(said["hosts"]) != ranks:
                raise self._blame.problem((*path, "hosts"), f"{ranks} hosts are wanted, {len(said['hosts'])} are named")
            with self._blame.at((*path, "hosts")):
                return placement.take_these(np.array(said["hosts"], np.int64))
        if ranks is None:
            return np.arange(self._topology.hosts, dtype=np.int64)
        where = next((key for key in ("ranks", "senders", "file") if key in said), "kind")
        with self._blame.at((*path, where)):
            return placement.take(ranks, said.get("placement", policy))

    def _ranks(self, said: Mapping[str, Any], path: KeyPath) -> int | None:
        """How many hosts of its own a workload wants; None: all hosts there are, beside the others."""
        if said["kind"] == "incast":
            return int(said["senders"]) + 1
        if said["kind"] == "matrix":
            with self._blame.at((*path, "file")):
                return self._matrix(said).nodes
        return said.get("ranks")

    def _matrix(self, said: Mapping[str, Any]) -> Matrix:
        return Matrix(said["file"], self._files[said["file"]])

    def _made(self, said: Mapping[str, Any], job: Job) -> JobFlows:
        kind = said["kind"]
        if kind == "matrix":
            return self._matrix(said).flows()
        if kind == "python":
            return self._called(said, job)
        size = values.size_bytes(said["bytes"])
        if size < 1:
            raise CallerError("bytes must be at least 1")
        if kind == "permutation":
            return patterns.permutation(job, size, said.get("shift"))
        if kind == "incast":
            return patterns.incast(job, size)
        if kind == "all-to-all":
            return patterns.all_to_all(job, size, said.get("in_flight", 0))
        algorithm = said.get("algorithm", "ring")
        chunk = values.size_bytes(said.get("chunk", 0))
        if algorithm == "ring":
            flows = collectives.ring(job, size, chunk)
        elif chunk:
            raise CallerError(f"chunk is for a ring, not for {algorithm}")
        elif algorithm == "doubling":
            flows = collectives.doubling(job, size)
        else:
            flows = collectives.halving_doubling(job, size)
        return repeated(flows, said.get("repeat", 1))

    def _called(self, said: Mapping[str, Any], job: Job) -> JobFlows:
        name = said["call"]
        function = calls.load(name, self._files)
        made = calls.call(function, name, job, **said.get("arguments", {}))
        if not isinstance(made, JobFlows):
            raise CallerError(f"call: {name} must return JobFlows, got {type(made).__name__}")
        return _checked(made, job.ranks, name)


def _checked(flows: JobFlows, ranks: int, name: str) -> JobFlows:
    """What a function of the user's made, as columns of whole numbers. Raises CallerError."""
    columns = {}
    for each in ("source", "destination", "bytes", "start_ns", "waits", "waits_for"):
        column = np.asarray(getattr(flows, each))
        if column.ndim != 1 or (len(column) and not np.issubdtype(column.dtype, np.integer)):
            raise CallerError(f"call: {name}: {each} must be one column of whole numbers")
        columns[each] = column.astype(np.int64)
    count = len(columns["source"])
    for each in ("destination", "bytes", *(["start_ns"] if len(columns["start_ns"]) else [])):
        if len(columns[each]) != count:
            raise CallerError(f"call: {name}: {each} has {len(columns[each])} rows, source has {count}")
    if len(columns["waits"]) != len(columns["waits_for"]):
        raise CallerError(f"call: {name}: waits and waits_for must be of one length")
    for each, most in (("source", ranks), ("destination", ranks), ("waits", count), ("waits_for", count)):
        column = columns[each]
        if len(column) and (column.min() < 0 or column.max() >= most):
            raise CallerError(f"call: {name}: {each} must be 0..{most - 1}, got {column.min()}..{column.max()}")
    if count and (columns["source"] == columns["destination"]).any():
        raise CallerError(f"call: {name}: a write leads from a rank to itself")
    return JobFlows(**columns)
