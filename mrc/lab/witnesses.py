# SPDX-License-Identifier: BSD-2-Clause
"""Whether a removed lab's cables are really gone: the kernel destroys namespaces, and what ends in them, later.

Every cable ends at a leaf, those of the hosts' IPv4 network at the first. A socket into a leaf keeps its namespace
alive, so a cable disappears only when its other end is destroyed. Once no leaf has a cable left, all other namespaces
are gone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from mrc.lab import messages, namespace, state
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.plan import plan
from mrc.lab.plan.out_of_band import NAME, out_of_band

_POLL_S = 0.005


class Witnesses:
    """Sockets into the leaves of a lab that is being removed. `close` lets go of the leaves."""

    def __init__(self) -> None:
        self._sockets: dict[str, NetlinkSocket] = {}
        # By leaf, the cables to wait for: interface index to name.
        self._cables: dict[str, dict[int, str]] = {}

    def watch(self, found: state.LabState, descriptors: Mapping[str, int]) -> None:
        """Look at the leaves among `descriptors` (by node). Raises SystemRefused.

        Cables to a node in which a program runs stay as long as that does: nobody waits for them.
        """
        clos = found.topology
        busy = {node for _, node in namespace.processes_in({where: node for node, where in found.namespaces.items()})}
        plans = plan(clos)
        for link in clos.links:
            for leaf, other in ((link.lower, link.upper), (link.upper, link.lower)):
                if leaf in clos.leaf_switches and leaf in descriptors and other in descriptors and other not in busy:
                    index = plans[leaf].interface(link).index
                    self._cables.setdefault(leaf, {})[index] = link.name
        network = out_of_band(clos)
        if network.switch in descriptors:
            cables = self._cables.setdefault(network.switch, {})
            for cable in network.cables:
                if cable.host.node in descriptors and cable.host.node not in busy:
                    cables[cable.port.index] = f"{cable.host.node}-{NAME}"
        for leaf in self._cables:
            self._sockets[leaf] = NetlinkSocket.inside(descriptors[leaf])

    def wait(self, seconds: float) -> tuple[str, ...]:
        """Return when all cables are gone, or after so many seconds; those that are left. Raises SystemRefused."""
        deadline = time.monotonic() + seconds
        while True:
            left = [name for leaf, cables in self._cables.items() for name in self._left(leaf, cables)]
            if not left or time.monotonic() > deadline:
                return tuple(left)
            time.sleep(_POLL_S)

    def _left(self, leaf: str, cables: Mapping[int, str]) -> list[str]:
        there: set[int] = set()
        self._sockets[leaf].dump(
            f"read the interfaces of {leaf}",
            messages.dump_links(),
            lambda _, data: there.add(messages.parse_index(data)),
        )
        return [name for index, name in cables.items() if index in there]

    def close(self) -> None:
        while self._sockets:
            self._sockets.popitem()[1].close()
