# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that do not learn which EVs work, or keep to themselves what became of their ports."""

from __future__ import annotations

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.operation_intake import Operation
from mrc.endpoint.node.operations import EndpointOperations, _Request
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.node.peer_ports import PeerPorts
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp import QueuePair
from mutants.mutant import mutant


@mutant("MRC-PATH-29", "MRC-PATH-30")
class DataTeachesNothing(PathSet):
    """SACKs for data do not tell which EVs control packets may take."""

    def on_ev_answered(self, index: int, now: int) -> None:
        return


@mutant("MRC-PATH-31")
def receivers_do_not_learn(endpoint: Endpoint, qp: QueuePair) -> None:
    """A node that only receives probes no EV."""
    for node in endpoint.peer_nodes.values():
        node.__class__ = _Incurious


class _Incurious(PeerNode):
    __slots__ = ()

    def on_requests(self, now: int) -> None:
        return


@mutant("MRC-PATH-31")
def receivers_probe_all_the_time(endpoint: Endpoint, qp: QueuePair) -> None:
    """A node that only receives sends an EV probe for each request."""
    for node in endpoint.peer_nodes.values():
        node.__class__ = _Eager


class _Eager(PeerNode):
    __slots__ = ()

    def on_requests(self, now: int) -> None:
        self._learn(self)


@mutant("MRC-PORT-01")
class LinksThatAreDownAreUsed(PathSet):
    """EVs of a port that is down stay in the rotation."""

    def set_port(self, port: int, up: bool) -> None:
        return


@mutant("MRC-PORT-04")
class LinksThatAreBackAreNotUsed(PathSet):
    """EVs of a port that was down once stay out of the rotation."""

    def set_port(self, port: int, up: bool) -> None:
        if not up:
            super().set_port(port, up)


@mutant("MRC-PORT-02", "MRC-PORT-05")
class PeersAreNotTold(EndpointOperations):
    """No peer is notified of a port that goes down or comes back."""

    __slots__ = ()

    def update_port_status(self, node: PeerNode) -> None:
        return


@mutant("MRC-PORT-05")
class PeersAreNotToldOfWhatIsBack(EndpointOperations):
    """Peers are notified only of a port that goes down."""

    __slots__ = ()

    def update_port_status(self, node: PeerNode) -> None:
        if self._ports_down:
            super().update_port_status(node)


@mutant("MRC-PORT-03")
class PeersPortsAreNotMinded(PeerPorts):
    """A PORT_STATUS_UPDATE is answered and has no effect."""

    __slots__ = ()

    def update(self, node: PeerNode, mask: int, now: int) -> None:
        return


@mutant("MRC-PORT-03")
class PeersPortsStayDown(PathSet):
    """A PORT_STATUS_UPDATE that says a port is back has no effect."""

    def set_peer_port(self, plane: int, up: bool) -> None:
        if not up:
            super().set_peer_port(plane, up)


@mutant("MRC-PORT-02")
class PeersAreToldOnce(EndpointOperations):
    """A PORT_STATUS_UPDATE that is not answered is not repeated."""

    __slots__ = ()

    def _schedule(self, req_id: int, request: _Request, at: int) -> None:
        if request.operation != Operation.PORT_STATUS_UPDATE:
            super()._schedule(req_id, request, at)
