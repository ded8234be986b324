# SPDX-License-Identifier: BSD-2-Clause
"""Fewer paths than there are, so that what spraying costs can be seen."""

from __future__ import annotations

from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.errors import CallerError
from mrc.fabric.host_view import Fabric
from mrc.wire.entropy import EvMode
from mrc.wire.usid import ev_of_path


def first_paths(fabric: Fabric, count: int) -> EvProfile:
    """A profile of the first `count` paths of a fabric in srv6 or srv6-srh mode, spine by spine over all planes.

    Raises CallerError when there are not so many, or another mode.
    """
    if not fabric.uses_usids:
        raise CallerError(f"--paths chooses among the paths of srv6 mode, not of {fabric.mode} mode")
    found = [
        ev_of_path(port.plane, uplink)
        for uplink in range(max(port.uplinks for port in fabric.ports))
        for port in fabric.ports
        if uplink < port.uplinks
    ]
    if not 1 <= count <= len(found):
        raise CallerError(f"the fabric has {len(found)} paths, {count} are asked for")
    return EvProfile(EvProfileMode.EXPLICIT, EvFormat(EvMode.SRV6), evs=tuple(found[:count]))
