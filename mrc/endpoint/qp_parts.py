# SPDX-License-Identifier: BSD-2-Clause
"""What the two halves of a connected QP share."""

from __future__ import annotations

from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.tracing import QpTrace
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.records import record
from mrc.wire.profile import WireProfile


@record(frozen=True, slots=True)
class QpParts:
    """What a QP gives its requestor and its responder. `agreed` is what both ends can do."""

    qpn: int
    peer: QpPeer
    config: QpConfig
    agreed: Capability
    wire: WireProfile
    classes: TrafficClasses
    paths: PathSet
    counters: Counters
    trace: QpTrace | None
