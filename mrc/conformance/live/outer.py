# SPDX-License-Identifier: BSD-2-Clause
"""The outer IPv6 header of the tester's packets in SRv6 mode: from its port, along a uSID list to the target."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from mrc.conformance.setup import Plane
from mrc.conformance.target import Frame
from mrc.fabric.host_view import Fabric
from mrc.fabric.shapes import shape_class
from mrc.net.negotiation import NodeDescription
from mrc.wire.usid import ev_of_path

_SOURCE, _DESTINATION = slice(8, 24), slice(24, 40)


class OuterAddresses:
    """(source, destination) by EV, for the planes of a case."""

    def __init__(self, fabric: Fabric | None, target: NodeDescription, planes: Sequence[Plane]) -> None:
        """`fabric` is the tester's; None: packets have no outer header."""
        self._of: dict[int, tuple[int, int]] = {}
        self._of_plane: dict[int, tuple[int, int]] = {}
        theirs = {port.plane: port for port in target.ports}
        used = {plane.number: plane for plane in planes}
        for port in fabric.ports if fabric is not None else ():
            if fabric is None or port.plane not in used or port.plane not in theirs:
                continue
            usids = shape_class(fabric.shape).template(
                fabric.place(port), theirs[port.plane].leaf, target.host, fabric.block
            )
            source = int(ipaddress.ip_address(port.address))
            for uplink in range(max(port.uplinks, 1)):
                self._of[ev_of_path(port.plane, uplink)] = source, usids.address(port.plane, uplink)
            self._of_plane[port.plane] = source, usids.address(port.plane, 0)

    def of(self, ev: int) -> tuple[int, int]:
        """By an EV; an EV that leads nowhere goes as the first one of its plane does, or of the first plane."""
        first = next(iter(self._of_plane.values()))
        return self._of.get(ev) or self._of_plane.get(ev >> 24, first)

    def for_plane(self, frame: Frame) -> bytes:
        """A frame with outer addresses that lead to the target in the plane it leaves by, whatever its EV says."""
        if not self._of_plane:
            return frame.data
        source, destination = self._of_plane[frame.plane]
        if frame.data[_SOURCE] == source.to_bytes(16, "big"):
            return frame.data
        return frame.data[:8] + source.to_bytes(16, "big") + destination.to_bytes(16, "big") + frame.data[40:]
