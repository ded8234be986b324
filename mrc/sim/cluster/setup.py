# SPDX-License-Identifier: BSD-2-Clause
"""What a cluster is simulated from: its topology, links, flows, failures and policies.

Everything a person chooses is a frozen record, everything there are many of is a column of numpy. Validation raises
CallerError with the name of the field.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import ControllerFactory
from mrc.errors import CallerError
from mrc.records import record
from mrc.sim.cluster.circles import check_no_circle
from mrc.sim.cluster.ev_choice import EV_CHOICES, EvChoice

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_SHARDS = 4096
MOST_HOSTS = 1 << 20
MOST_PLANES = 16
MOST_UPLINKS = 1 << 16  # an EV has 16 bits for the uplink
FRAMING_BYTES = 38  # Ethernet: header and FCS 18, preamble, start delimiter and gap 20


def _in_range(name: str, value: int | float, least: int | float, most: int | float) -> None:
    if not least <= value <= most:
        raise CallerError(f"{name} must be {least}..{most}, got {value}")


@record(frozen=True, slots=True)
class Topology:
    """`planes` independent fabrics of two or three tiers under the same hosts; a host has one port in each plane.

    Two tiers: each plane has `leaves` of `hosts_per_leaf` hosts, and `spines`; every leaf has a link to every spine.
    Three tiers: each plane has pods of `leaves_per_pod` leaves and `spines` aggregation switches; every leaf of a pod
    has a link to each of them, and aggregation switch number s of every pod to each of the `cores_per_spine` core
    switches of group s.

    `uplinks` is how many ways there are from a leaf to another: the EV spells the plane and one of them, as in
    mrc.wire.usid: plane(8) zero(8) uplink(16). Three tiers: uplink = spine * cores_per_spine + core.

    >>> topology = Topology(hosts=16, planes=2, hosts_per_leaf=4, spines=4)
    >>> topology.switches, topology.cables
    (16, 64)
    """

    hosts: int
    planes: int = 1
    hosts_per_leaf: int = 16
    spines: int = 16
    tiers: int = 2
    leaves_per_pod: int = 0
    cores_per_spine: int = 0

    def __post_init__(self) -> None:
        _in_range("hosts", self.hosts, 2, MOST_HOSTS)
        _in_range("planes", self.planes, 1, MOST_PLANES)
        _in_range("hosts_per_leaf", self.hosts_per_leaf, 1, self.hosts)
        _in_range("spines", self.spines, 1, MOST_UPLINKS)
        _in_range("tiers", self.tiers, 2, 3)
        if self.hosts % self.hosts_per_leaf:
            raise CallerError(f"hosts must be a multiple of hosts_per_leaf, got {self.hosts} and {self.hosts_per_leaf}")
        if self.tiers == 3:
            _in_range("leaves_per_pod", self.leaves_per_pod, 1, self.leaves)
            _in_range("cores_per_spine", self.cores_per_spine, 1, MOST_UPLINKS)
            if self.leaves % self.leaves_per_pod:
                raise CallerError(
                    f"the {self.leaves} leaves must be a multiple of leaves_per_pod, {self.leaves_per_pod}"
                )
        elif self.leaves_per_pod or self.cores_per_spine:
            raise CallerError("leaves_per_pod and cores_per_spine are for tiers=3")
        _in_range("uplinks", self.uplinks, 1, MOST_UPLINKS)

    @property
    def leaves(self) -> int:
        """In each plane."""
        return self.hosts // self.hosts_per_leaf

    @property
    def pods(self) -> int:
        """In each plane; 1 in two tiers."""
        return self.leaves // self.leaves_per_pod if self.tiers == 3 else 1

    @property
    def uplinks(self) -> int:
        """Ways from a leaf to another that is as far away as can be."""
        return self.spines * self.cores_per_spine if self.tiers == 3 else self.spines

    # Cables are numbered without gaps, each with two directions: 2 * cable upwards, 2 * cable + 1 downwards. First
    # those of hosts, host by host, then those of leaves, then those of aggregation switches.

    @property
    def host_cables(self) -> int:
        """How many cables lead from hosts to leaves."""
        return self.planes * self.hosts

    @property
    def leaf_cables(self) -> int:
        """How many cables lead from leaves to spines."""
        return self.planes * self.leaves * self.spines

    @property
    def core_cables(self) -> int:
        """How many cables lead from spines to cores."""
        return self.planes * self.pods * self.spines * self.cores_per_spine if self.tiers == 3 else 0

    @property
    def cables(self) -> int:
        """How many cables there are: of hosts, between leaves and spines, between spines and cores."""
        return self.host_cables + self.leaf_cables + self.core_cables

    def host_cable(self, plane: int, host: int) -> int:
        """Return the number of the cable of a host in a plane."""
        return host * self.planes + plane

    def leaf_cable(self, plane: int, leaf: int, spine: int) -> int:
        """`spine` counts within the plane, in three tiers within the leaf's pod."""
        return self.host_cables + (plane * self.leaves + leaf) * self.spines + spine

    def core_cable(self, plane: int, pod: int, spine: int, core: int) -> int:
        """`core` counts within the group of `spine`."""
        group = (plane * self.pods + pod) * self.spines + spine
        return self.host_cables + self.leaf_cables + group * self.cores_per_spine + core

    # Switches are numbered without gaps: leaves of all planes, then spines (three tiers: aggregation switches, pod by
    # pod), then core switches.

    @property
    def leaf_switches(self) -> int:
        """How many leaves there are, in all planes."""
        return self.planes * self.leaves

    @property
    def spine_switches(self) -> int:
        """How many spines there are, in all planes."""
        return self.planes * self.pods * self.spines

    @property
    def core_switches(self) -> int:
        """How many core switches there are; none in two tiers."""
        return self.planes * self.spines * self.cores_per_spine if self.tiers == 3 else 0

    @property
    def switches(self) -> int:
        """How many switches there are."""
        return self.leaf_switches + self.spine_switches + self.core_switches

    def leaf_switch(self, plane: int, leaf: int) -> int:
        """Return the number of a leaf among the switches."""
        return plane * self.leaves + leaf

    def spine_switch(self, plane: int, spine: int, pod: int = 0) -> int:
        """Return the number of a spine among the switches."""
        return self.leaf_switches + (plane * self.pods + pod) * self.spines + spine

    def core_switch(self, plane: int, spine: int, core: int) -> int:
        """Return the number of a core among the switches."""
        first = self.leaf_switches + self.spine_switches
        return first + (plane * self.spines + spine) * self.cores_per_spine + core


@record(frozen=True, slots=True)
class ClusterLink:
    """One direction of a cable and the egress queue before it; as mrc.sim.LinkModel, for a whole tier at once.

    `rate_bps` in bit/s. `delay_ns` is propagation. Queue sizes count whole IP packets that wait (not the one being
    sent), the arriving one included, in bytes: above `trim_at_bytes` it is trimmed to `trim_to_bytes` and waits in the
    priority queue, or is dropped where its codepoint forbids that; above `queue_bytes` it is dropped; the priority
    queue has room for `queue_bytes` of its own. It is marked with a chance that rises from 0 at `ecn_low_bytes` to 1 at
    `ecn_high_bytes`; equal: always above. None: never. `loss` is the chance that a packet vanishes on the cable.
    """

    rate_bps: int = 100_000_000_000
    delay_ns: int = 500
    queue_bytes: int | None = None
    ecn_low_bytes: int | None = None
    ecn_high_bytes: int | None = None
    trim_at_bytes: int | None = None
    trim_to_bytes: int | None = None
    loss: float = 0.0
    framing_bytes: int = FRAMING_BYTES

    def __post_init__(self) -> None:
        _in_range("rate_bps", self.rate_bps, 1_000, 10**13)
        _in_range("delay_ns", self.delay_ns, 0, 10**9)
        _in_range("framing_bytes", self.framing_bytes, 0, 1_000)
        _in_range("loss", self.loss, 0.0, 1.0)
        for name in ("queue_bytes", "ecn_low_bytes", "ecn_high_bytes", "trim_at_bytes"):
            value = getattr(self, name)
            if value is not None:
                _in_range(name, value, 0, (1 << 31) - 1)
        if self.trim_to_bytes is not None:
            _in_range("trim_to_bytes", self.trim_to_bytes, 100, 65_535)
        if (self.ecn_low_bytes is None) != (self.ecn_high_bytes is None):
            raise CallerError("ecn_low_bytes and ecn_high_bytes come together")
        if (
            self.ecn_low_bytes is not None
            and self.ecn_high_bytes is not None
            and self.ecn_low_bytes > self.ecn_high_bytes
        ):
            raise CallerError(f"ecn_low_bytes must be at most ecn_high_bytes, got {self.ecn_low_bytes}")


def _column(name: str, values: Any, count: int | None = None) -> Ints:
    found = np.ascontiguousarray(values, np.int64)
    if found.ndim != 1 or (count is not None and len(found) != count):
        raise CallerError(f"{name} must be one column{'' if count is None else f' of {count} rows'}, got {found.shape}")
    return found


@record(frozen=True, slots=True, eq=False)
class Flows:
    """One write each, by column; row numbers are the flows' names.

    `source` and `destination` are hosts, `bytes` 1 or more. A flow starts at `start_ns`, or when the last of the flows
    it depends on has arrived in whole at its destination, whichever is later. Those of flow f are
    `after[after_first[f]:after_first[f + 1]]`; both empty where nothing depends on anything. A pair of hosts has one QP
    at each end for all its flows, in both directions; they begin in the order of their rows. `job` groups flows for
    reports, 0 without.
    """

    source: Ints
    destination: Ints
    bytes: Ints
    start_ns: Ints
    after_first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    after: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    job: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.source)

    def checked(self, hosts: int) -> Flows:
        """The same, contiguous columns of 64 bits. Raises CallerError, for flows that wait for each other too."""
        count = len(self.source)
        source, destination = _column("source", self.source), _column("destination", self.destination, count)
        size, start = _column("bytes", self.bytes, count), _column("start_ns", self.start_ns, count)
        for name, column in (("source", source), ("destination", destination)):
            if count and (column.min() < 0 or column.max() >= hosts):
                raise CallerError(f"{name}: hosts are 0..{hosts - 1}, got {column.min()}..{column.max()}")
        if count and (source == destination).any():
            raise CallerError(f"flow {int((source == destination).argmax())} leads from a host to itself")
        if count and (size.min() < 1 or size.max() > 1 << 40):
            raise CallerError(f"bytes must be 1..2^40, got {size.min()}..{size.max()}")
        if count and start.min() < 0:
            raise CallerError(f"start_ns cannot be negative, got {start.min()}")
        first, after = _column("after_first", self.after_first), _column("after", self.after)
        if len(first):
            if len(first) != count + 1 or first[0] != 0 or first[-1] != len(after) or (np.diff(first) < 0).any():
                raise CallerError("after_first must rise from 0 to the length of after, in one row more than flows")
            if len(after) and (after.min() < 0 or after.max() >= count):
                raise CallerError(f"after: flows are 0..{count - 1}, got {after.min()}..{after.max()}")
            check_no_circle(count, np.repeat(np.arange(count), np.diff(first)), after)
        elif len(after):
            raise CallerError("after needs after_first")
        job = _column("job", self.job, count) if len(self.job) else np.zeros(count, np.int64)
        return Flows(source, destination, size, start, first, after, job)


class Target(IntEnum):
    """What a failure hits. `which` is a cable's, a switch's or a plane's number in the Topology."""

    CABLE = 0  # both directions
    UPWARD = 1  # a cable, the direction away from the hosts
    DOWNWARD = 2
    SWITCH = 3  # all its cables
    PLANE = 4


class Action(IntEnum):
    """What happens to a target."""

    DOWN = 0  # what waits and what is on the cable is lost; a host sees its own port go
    UP = 1
    LOSS = 2  # from now on packets vanish with chance `value`


@record(frozen=True, slots=True, eq=False)
class Failures:
    """What happens to the fabric, by column: at `time_ns`, to `which` of the kind `target`, the `action`."""

    time_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    target: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    which: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    action: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    value: Floats = field(default_factory=lambda: np.zeros(0, np.float64))

    def __len__(self) -> int:
        return len(self.time_ns)

    def checked(self, topology: Topology) -> Failures:
        """In order of time. Raises CallerError."""
        count = len(self.time_ns)
        time, target = _column("time_ns", self.time_ns), _column("target", self.target, count)
        which, action = _column("which", self.which, count), _column("action", self.action, count)
        value = np.ascontiguousarray(self.value if len(self.value) else np.zeros(count), np.float64)
        if len(value) != count:
            raise CallerError(f"value must be one column of {count} rows, got {len(value)}")
        cables = topology.cables
        limits = {Target.SWITCH: topology.switches, Target.PLANE: topology.planes}
        for row in range(count):
            if time[row] < 0:
                raise CallerError(f"time_ns cannot be negative, got {time[row]}")
            try:
                kind = Target(int(target[row]))
                Action(int(action[row]))
            except ValueError as error:
                raise CallerError(f"failure {row}: {error}") from None
            if not 0 <= which[row] < limits.get(kind, cables):
                raise CallerError(f"failure {row}: {kind.name.lower()} {which[row]}: 0..{limits.get(kind, cables) - 1}")
            if not 0.0 <= value[row] <= 1.0:
                raise CallerError(f"failure {row}: a chance is 0..1, got {value[row]}")
        order = np.argsort(time, kind="stable")
        return Failures(time[order], target[order], which[order], action[order], value[order])


@record(frozen=True, slots=True)
class Policies:
    """How the endpoints behave. `qp` has what every QP is configured with: MTU, windows, SACKs, loss detection (the
    reorder guard), path health.

    `evs`: how many EVs each QP gets, out of planes * uplinks (hosts on one leaf: out of planes); None: all of them.
    `ev_choice`: how they are chosen, one of EV_CHOICES or a function of one's own (EvChoice). "spread" takes them
    evenly over planes and uplinks, starting at random; "random" draws without putting back; "first" takes the lowest.
    `controller` is a name of the registry (mrc.endpoint.congestion) or a factory of one's own; `controller_settings`
    changes fields of its configuration.
    """

    qp: QpConfig = field(default_factory=QpConfig)
    evs: int | None = 128
    ev_choice: str | EvChoice = "spread"
    controller: str | ControllerFactory = "uet-1.0-nscc"
    controller_settings: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.evs is not None:
            _in_range("evs", self.evs, 1, MOST_UPLINKS)
        if isinstance(self.ev_choice, type):
            name = self.ev_choice.__name__
            raise CallerError(f"ev_choice must be an object of a class, not the class: ev_choice={name}()")
        known = self.ev_choice in EV_CHOICES if isinstance(self.ev_choice, str) else callable(self.ev_choice)
        if not known:
            raise CallerError(
                f"ev_choice must be one of {', '.join(EV_CHOICES)}, or a function of yours, got {self.ev_choice!r}"
            )


@record(frozen=True, slots=True, eq=False)
class Setup:
    """A simulation, whole: the same setup gives the same outcome.

    `host_link` is that of both directions between hosts and leaves. A host's own end never trims or marks: the endpoint
    is asked for a packet when there is room. It ends when all flows have, or at `end_ns`. `sample_ns`: one row of the
    time series this often, 0: none.

    `threads` compute, and change nothing of what comes of it. Each computes one shard at a time, of `shards` that the
    hosts are divided into; None: one for each 64 hosts, 1024 at most, and one in all below 512 hosts. Their number
    decides which of two events of one nanosecond comes first. There are no more than leaves, in three tiers than pods.
    A controller of one's own is called by all threads, each for its own QPs.
    """

    topology: Topology
    flows: Flows
    fabric_link: ClusterLink = field(default_factory=ClusterLink)
    host_link: ClusterLink = field(default_factory=ClusterLink)
    failures: Failures = field(default_factory=Failures)
    policies: Policies = field(default_factory=Policies)
    seed: int = 0
    end_ns: int = 1_000_000_000
    sample_ns: int = 0
    threads: int = 1
    shards: int | None = None

    def __post_init__(self) -> None:
        _in_range("seed", self.seed, 0, (1 << 32) - 1)
        _in_range("end_ns", self.end_ns, 1, 1 << 60)
        _in_range("sample_ns", self.sample_ns, 0, 1 << 60)
        _in_range("threads", self.threads, 1, 64)
        if self.shards is not None:
            _in_range("shards", self.shards, 1, MOST_SHARDS)
