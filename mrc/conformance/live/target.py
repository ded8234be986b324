# SPDX-License-Identifier: BSD-2-Clause
"""A live endpoint across a real network, which a ticket of `mrc conformance serve` leads to."""

from __future__ import annotations

from mrc.conformance.live.messages import FEATURE
from mrc.conformance.live.outer import OuterAddresses
from mrc.conformance.live.session import DEFAULT_SLACK_NS, ControlLine, LiveSession
from mrc.conformance.live.tester_port import open_ports
from mrc.conformance.live.wire_clock import WireClock
from mrc.conformance.setup import Setup
from mrc.conformance.target import Session, Target, TargetLost
from mrc.errors import PeerError
from mrc.fabric.host_view import USID_MODES, Fabric
from mrc.net.exchange import ExchangeClient
from mrc.net.negotiation import NodeDescription
from mrc.net.ticket import Ticket
from mrc.wire.profile import WireProfile


class LiveTarget(Target):
    """The target, seen from `fabric`, this host's. `slack_ns` is added to every time limit. Close it in the end."""

    def __init__(self, ticket: Ticket, fabric: Fabric, *, slack_ns: int = DEFAULT_SLACK_NS) -> None:
        self.name = f"live target at {', '.join(ticket.addresses)}"
        self._fabric = fabric
        self._slack_ns = slack_ns
        self._client = ExchangeClient(ticket, features=(FEATURE,), on_lost=self._wake)
        self._line = ControlLine(self._client)
        # By whether packets have an outer header: the ports, opened when a case needs them.
        self._clocks: dict[bool, WireClock] = {}

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        node = NodeDescription.of(self._fabric, wire).to_json()
        try:
            opened = self._line.call("open", setup=setup, wire=wire, seed=seed, node=node)
        except TargetLost:
            if self._client.address and FEATURE not in self._client.peer_features:
                raise TargetLost(
                    "this ticket is of no conformance target: take the one that mrc conformance serve prints"
                ) from None
            raise
        try:
            target = NodeDescription.from_json(opened["node"])
        except PeerError as error:
            raise TargetLost(str(error)) from None
        uses_usids = opened["mode"] in USID_MODES
        outer = OuterAddresses(self._fabric if uses_usids else None, target, opened["planes"])
        return LiveSession(self._line, self._clock(uses_usids, wire), outer, self._slack_ns, opened)

    def _clock(self, uses_usids: bool, wire: WireProfile) -> WireClock:
        if uses_usids not in self._clocks:
            ports = open_ports(self._fabric.ports, uses_usids=uses_usids, udp_ports=wire.accepted_udp_ports)
            self._clocks[uses_usids] = WireClock(ports, self._line.check)
        return self._clocks[uses_usids]

    def _wake(self) -> None:
        """The target has ended: a case that waits for packets waits in vain."""
        for clock in list(self._clocks.values()):
            clock.wake()

    def close(self) -> None:
        self._client.close()
        for clock in self._clocks.values():
            clock.close()
