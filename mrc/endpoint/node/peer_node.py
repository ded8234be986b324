# SPDX-License-Identifier: BSD-2-Clause
"""A peer node as all QPs of an endpoint towards it see it: its addresses, the EVs that reach it, its port status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.congestion import CongestionController
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.node.node_evs import NodeEvs
from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.port_set import PortSet
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.paths.reverse import ReverseEvs
from mrc.wire.frames import Frames
from mrc.wire.ipv4 import address_text

PeerKey = frozenset[int]


def peer_key(sources: Mapping[int, int]) -> PeerKey:
    """Identifies a peer node: the set of a peer's inner addresses (128 bit each)."""
    return frozenset(sources.values())


class PeerNode:
    """One peer node. Its EVs are numbered as they become known (`paths[number]`), for all QPs alike.

    `sources` is its inner address by the local port its packets come in on; `qpns` our QPs towards it; `planes_down`
    the planes whose port it says is down; `controllers` the congestion controllers of this destination, by whatever
    tells them apart. `evs` is what code without the interpreter needs of this node. `name` is what people call it, ""
    where nobody said; `paths_of` gives the EVs of a profile towards it.
    """

    __slots__ = (
        "_config",
        "_learn",
        "_number_of_ev",
        "controllers",
        "doubted",
        "evs",
        "key",
        "name",
        "next_learning_at",
        "paths",
        "paths_of",
        "planes_down",
        "port",
        "port_of_plane",
        "qpns",
        "reverse",
        "rtt",
        "sources",
    )

    def __init__(
        self,
        sources: Mapping[int, int],
        config: PeerNodeConfig,
        draws: Draws,
        learn: Callable[[PeerNode], None],
        ports_down: PortSet,
    ) -> None:
        """`learn` is called when an EV probe should be sent to find EVs that work. `ports_down` are local ports."""
        self.key = peer_key(sources)
        self.sources = dict(sources)
        self.qpns: set[int] = set()
        self.controllers: dict[object, CongestionController] = {}
        self.planes_down: set[int] = set()
        # The planes of `planes_down` since when the peer says so, ns: a packet of its on one of them contradicts it.
        self.doubted: dict[int, int] = {}
        self.name = ""
        self.paths_of: Callable[[EvProfile], Sequence[Path]] | None = None
        self.reverse = ReverseEvs(config)
        self.evs = NodeEvs(self.reverse, ports_down, draws)
        self.rtt = RttEstimator()
        self.paths: list[Path] = []
        self.port_of_plane: dict[int, int] = {}
        self.port: list[int] = []
        # When the next EV probe may be sent to learn reverse EVs, ns; None until the first request.
        self.next_learning_at: int | None = None
        self._number_of_ev: dict[int, int] = {}
        self._config = config
        self._learn = learn

    def add_paths(self, paths: Sequence[Path]) -> list[int]:
        """The numbers of these EVs here; those not known yet get one."""
        known = len(self.paths)
        for path in paths:
            if path.ev not in self._number_of_ev:
                self._number_of_ev[path.ev] = len(self.paths)
                self.paths.append(path)
                self.port_of_plane[path.plane] = path.port
        if len(self.paths) > known:
            new = self.paths[known:]
            self.evs.frames.extend(
                [path.template for path in new], [path.port for path in new], [path.destination for path in new]
            )
            self.port = [path.port for path in self.paths]
            self.evs.renew(self.port_of_plane, self.port)
            self.reverse.grow(len(self.paths) - known)
        return [self._number_of_ev[path.ev] for path in paths]

    def frames_of(self, paths: Sequence[Path]) -> Frames | None:
        """The frames of all EVs known here, if these are the first of them."""
        first = self.paths[: len(paths)]
        same = len(first) == len(paths) and all(ours is theirs for ours, theirs in zip(first, paths, strict=True))
        return self.evs.frames if same else None

    @property
    def label(self) -> str:
        """Its name, or one of its addresses."""
        return self.name or address_text(self.sources[min(self.sources)])

    def set_port(self, plane: int, up: bool) -> None:
        """Its port on a plane went down or came back."""
        (self.planes_down.discard if up else self.planes_down.add)(plane)
        self.evs.set_peer_port(plane, up)

    @property
    def doubted_ports(self) -> int:
        """The local ports of the `doubted` planes, bit n for port n."""
        return sum(1 << self.port_of_plane[plane] for plane in self.doubted)

    # ------------------------------------------------------------------ reverse EVs

    def on_requests(self, now: int) -> None:
        """Requests of the peer's, or its probes, arrived. While no acknowledgement of our own data teaches us, an EV
        probe does: also where nothing but probes gets through, whose answers would else go on dying on a dead plane.

        One a round trip, and at most one per `reverse_probe_interval_ns`.
        """
        if self.next_learning_at is not None and now < self.next_learning_at:
            return
        interval = max(self._config.reverse_probe_interval_ns, self.rtt.srtt)
        if self.next_learning_at is None:
            # Data of our own may be about to teach us.
            self.next_learning_at = now + interval
            return
        taught_at = self.reverse.taught_at
        if taught_at >= 0 and now - taught_at < interval:
            self.next_learning_at = taught_at + interval
            return
        self.next_learning_at = now + interval
        self._learn(self)
