# SPDX-License-Identifier: BSD-2-Clause
"""This project's RC endpoint in virtual time."""

from __future__ import annotations

from mrc.conformance.setup import Plane, Setup, TesterQp
from mrc.conformance.target import Session, Target, TargetQp, Unsupported
from mrc.conformance.targets.endpoint_session import DEFAULT_MTU, EndpointQp, EndpointSession, caller_error_as
from mrc.endpoint.paths.addressing import PlanePair, udp_paths
from mrc.fabric.address import address
from mrc.rc import RcConfig, RcEndpoint, RcEndpointConfig, RcPeer, RcQueuePair
from mrc.rc.conformance.case import RC_OPTIONS
from mrc.wire.ipv4 import address_number
from mrc.wire.profile import WireProfile

_SOURCE_PORT = 0xC111
# By IP version: the tester's address and the target's.
_ADDRESSES = {4: ("10.0.0.1", "10.0.0.2"), 6: (address("h0", 0), address("h1", 0))}


class RcInProcess(Target):
    """`mrc conformance run --transport rc`. Each packet is taken by itself: this endpoint has no other way."""

    def __init__(self, name: str = "self") -> None:
        self.name = name

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        if setup.mode not in (None, "udp") or (setup.planes or 1) > 1:
            raise Unsupported("plain RC has one path")
        return RcSession(RcEndpoint(RcEndpointConfig(wire=wire, seed=seed)), setup.ip or 6)


class RcSession(EndpointSession[RcEndpoint]):
    """One endpoint at one address."""

    mode = "udp"

    def __init__(self, endpoint: RcEndpoint, version: int) -> None:
        super().__init__(endpoint)
        tester, target = _ADDRESSES[version]
        self._pair = PlanePair(0, 0, target, tester, 0)
        self.planes = (Plane(0, tester, target, (_SOURCE_PORT,), (_SOURCE_PORT,)),)

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        unknown = setup.options.keys() - RC_OPTIONS.keys()
        if unknown:
            raise Unsupported(f"no setting {', '.join(sorted(unknown))}")
        options = {name: int(value) for name, value in setup.options.items()}
        with caller_error_as(Unsupported):
            config = RcConfig(path_mtu=setup.path_mtu or DEFAULT_MTU, **options)
        qp = self.endpoint.create_qp(config, first_psn=setup.target_first_psn)
        (path,) = udp_paths(self._pair, [_SOURCE_PORT], self.endpoint.config.wire)
        qp.to_init()
        qp.to_rtr(RcPeer(tester.qpn, tester.first_psn, path, address_number(self._pair.peer_address)))
        qp.to_rts()
        return EndpointQp[RcEndpoint, RcQueuePair](self, qp, qp.config.path_mtu)


def target() -> Target:
    """This project's RC endpoint."""
    return RcInProcess()
