# SPDX-License-Identifier: BSD-2-Clause
"""A live target's EVs: its own ports on a real fabric, towards a tester somewhere else on it."""

from __future__ import annotations

from dataclasses import replace

from mrc.conformance.setup import MODES, Setup
from mrc.conformance.target import Unsupported
from mrc.conformance.targets.in_process_paths import (
    DEFAULT_EVS_PER_PLANE,
    DEFAULT_PLANES,
    InProcessPaths,
)
from mrc.endpoint.paths.addressing import Path, PlanePair, srv6_path, srv6_uplinks
from mrc.fabric.host_view import USID_MODES, Fabric
from mrc.net.negotiation import NodeDescription
from mrc.wire.profile import WireProfile

_PLACES = ("target_leaf", "tester_leaf", "tester_host")


class LivePaths(InProcessPaths):
    """The paths of one case between two places of a fabric. `fabric` is what the node is to run on, in the mode of the
    case. Raises Unsupported for what this fabric does not have."""

    def __init__(self, setup: Setup, wire: WireProfile, seed: int, fabric: Fabric, tester: NodeDescription) -> None:
        options = setup.options
        elsewhere = [name for name in _PLACES if name in options]
        if elsewhere:
            raise Unsupported(f"the fabric is a real one: {', '.join(elsewhere)} cannot be chosen")
        if options.get("srh"):
            raise Unsupported("a live tester sends no segment routing headers")
        count = int(options.get("evs_per_plane", DEFAULT_EVS_PER_PLANE))
        pairs = _pairs(fabric, tester)[: setup.planes or DEFAULT_PLANES]
        mode = setup.mode or _mode_with(pairs, fabric, count, "ev_fields" in options)
        if mode not in MODES or (mode in USID_MODES and fabric.mode != mode):
            raise Unsupported(f"the fabric of this target knows no mode {mode}")
        self.mode = mode
        self.fabric = fabric if mode == fabric.mode else replace(fabric, mode=mode)
        self._version = 4 if pairs and pairs[0].over_ipv4 else 6
        self._wire = wire
        self._seed = seed
        self._srh = False
        self._evs_per_plane = count
        self.pairs = pairs
        if mode in USID_MODES and any(_uplinks(pair) < count for pair in pairs):
            raise Unsupported(f"the case needs {count} paths in each plane, this fabric has {_uplinks(pairs[0])}")
        if mode in USID_MODES and "ev_fields" in options:
            raise Unsupported("generated EVs lead nowhere in a real fabric of uSIDs")
        self.paths = self._generated(setup) if "ev_fields" in options else list(map(self._plain, pairs))

    def _plain(self, pair: PlanePair) -> list[Path]:
        if self.mode in USID_MODES and pair.usids is not None:
            return [srv6_path(pair, pair.usids, uplink, self._wire) for uplink in range(self._evs_per_plane)]
        return super()._plain(pair)


def _pairs(fabric: Fabric, tester: NodeDescription) -> list[PlanePair]:
    theirs = {port.plane: port for port in tester.ports}
    pairs = []
    for number, port in enumerate(fabric.ports):
        their = theirs.get(port.plane)
        if their is not None:
            usids = fabric.template(port, their.leaf, tester.host)
            pairs.append(PlanePair(number, port.plane, port.address, their.address, port.uplinks, usids))
    if not pairs:
        raise Unsupported("tester and target have no plane in common: are both on the same fabric?")
    return pairs


def _uplinks(pair: PlanePair) -> int:
    return srv6_uplinks(pair, pair.usids) if pair.usids is not None else 0


def _mode_with(pairs: list[PlanePair], fabric: Fabric, count: int, generated: bool) -> str:
    """The mode for a case that leaves it open: the fabric's, unless that has too few paths for it."""
    if fabric.uses_usids and (generated or any(_uplinks(pair) < count for pair in pairs)):
        return "udp"
    return fabric.mode
