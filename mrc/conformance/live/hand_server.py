# SPDX-License-Identifier: BSD-2-Clause
"""This project's endpoint as a target whose QPs are agreed on by hand: it reads what the tester asks for and says what
it has, as the operator of a NIC would."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from mrc.conformance.live.endpoint_session import EndpointSession
from mrc.conformance.live.qp_file import HandPlane, QpFile
from mrc.conformance.setup import Plane, Setup
from mrc.conformance.target import Unsupported
from mrc.errors import CallerError
from mrc.fabric.host_view import USID_MODES, Fabric
from mrc.fabric.place import Place
from mrc.fabric.shapes import shape_class
from mrc.net.negotiation import NodeDescription, PortDescription
from mrc.wire.profile import WireProfile


def serve_qps(file: QpFile, fabric: Fabric, wire: WireProfile) -> tuple[EndpointSession, QpFile]:
    """A node with all the QPs that `file` asks for, and the file with its own values filled in. Its `run` serves them.

    Raises CallerError for what cannot be set up here.
    """
    ports = tuple(PortDescription(each.plane.number, each.plane.tester, each.tester_leaf) for each in file.planes)
    tester = NodeDescription(file.tester_host, ports, file.mode)
    setup = Setup(mode=file.mode, planes=len(ports), path_mtu=file.path_mtu)
    try:
        session = EndpointSession(fabric, tester, setup, wire, 0)
    except Unsupported as reason:
        raise CallerError(f"{file.name}: {reason}") from None
    try:
        qps = []
        for number, qp in enumerate(file.qps):
            try:
                _, terms = session.add_qp(
                    replace(
                        setup,
                        agreed=qp.tester.capabilities,
                        options=qp.options,
                        target_first_psn=qp.target_first_psn,
                    ),
                    qp.tester,
                )
            except Unsupported as reason:
                raise CallerError(f"{file.name}: qps[{number}]: {reason}") from None
            qps.append(replace(qp, target=terms))
    except BaseException:
        session.node.driver.close()
        raise
    planes = tuple(_filled(each, session, fabric, file.tester_host) for each in file.planes)
    return session, replace(file, planes=planes, qps=tuple(qps))


def _filled(each: HandPlane, session: EndpointSession, fabric: Fabric, tester_host: int) -> HandPlane:
    plane: Plane = next(plane for plane in session.planes if plane.number == each.plane.number)
    if session.mode not in USID_MODES:
        return replace(each, plane=plane)
    port = next(port for port in fabric.ports if port.plane == plane.number)
    theirs = Place(plane.number, each.tester_leaf, fabric.leaves, port.uplinks, fabric.shape)
    usids = shape_class(theirs.shape).template(theirs, port.leaf, fabric.host, fabric.block)
    destinations = tuple(usids.address(plane.number, ev & 0xFFFF) for ev in plane.evs)
    return replace(each, plane=plane, destinations=tuple(int(ipaddress.IPv6Address(each)) for each in destinations))
