# SPDX-License-Identifier: BSD-2-Clause
"""What the kernel keeps from a process for whose neighbours it is: packets to the QPs of other processes on this host.

Each raw socket of a host is given a copy of all MRC packets that arrive there. Of 32 senders each would wake up for
the SACKs of all. So a process looks whether others share its ports, when it opens them and when it is given many
packets for QPs it does not have. If so it has each port's socket filter by DQP: its own QPs and DQP 2. Whose the other
packets are nobody can tell, so they are not counted while it filters. A process that is alone on its ports counts each
of them, as `unknown_qp`. The filter lets endpoint operations through: answers to requests of others are not counted as
`unexpected_endpoint_response` while others share the ports.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.node_evs import ENDPOINT_QPN
from mrc.net.filters import Instruction, accept_ports, accept_srh, attach_filter, detach_filter, only_qpns
from mrc.net.ports import SRV6, SRV6_SRH, UDP_IPV4, Port

# A process alone is given few packets for QPs it does not have: of one that has just gone, or a stranger's.
MANY_NS, MANY = 20_000_000, 20
HELD_NS = 10_000_000_000
# Two instructions each, of 4,096. A process with more QPs takes everything.
MOST_QPS = 1_000
_SINCE_THE_START = -1
_LOCAL, _INODE = 1, 9  # columns of /proc/net/raw and raw6


class NeighbourFilter:
    """Watches one endpoint and its ports. `look` is asked now and then by the loop that drives them."""

    def __init__(self, endpoint: Endpoint, ports: Sequence[Port], udp_ports: Sequence[int]) -> None:
        self._endpoint = endpoint
        self._ports = ports
        self._udp_ports = udp_ports
        self._unknown = 0
        self._next_look = 0
        self._until = _SINCE_THE_START
        self._members = 0
        self._is_shared = False
        self._known_until = 0
        endpoint.shares_addresses = self.is_shared
        self.active = shared(ports)
        if self.active:
            self._renew()

    def is_shared(self) -> bool:
        """Whether another endpoint shares these ports. A no may be 20 ms old, a yes 10 s."""
        if self.active:
            return True
        now = time.monotonic_ns()
        if now >= self._known_until:
            self._is_shared = shared(self._ports)
            self._known_until = now + (HELD_NS if self._is_shared else MANY_NS)
        return self._is_shared

    def look(self, now: int) -> None:
        """Begin or end to filter, by what came for others since the last look. `now` in ns."""
        if self._until == _SINCE_THE_START:
            self._until = now + HELD_NS
        if self.active and now >= self._until:
            self._end()
        if self.active and self._endpoint.members != self._members:
            self._renew()
        if now < self._next_look:
            return
        self._next_look = now + MANY_NS
        unknown, self._unknown = self._unknown, self._endpoint.counters.unknown_qp
        if not self.active and self._unknown - unknown > MANY and shared(self._ports):
            self._until = now + HELD_NS
            self.active = True
            self._renew()

    def on_new_qp(self) -> None:
        """Its peer may send as soon as it knows of it: let its packets in at once."""
        if self.active:
            self._renew()

    def attach(self, port: Port) -> None:
        """Give a port's socket the filter it is to have now."""
        program = base_filter(port, self._udp_ports)
        if self.active:
            program = only_qpns(program, port.framing, self._udp_ports, (ENDPOINT_QPN, *self._endpoint.qps))
        if program:
            attach_filter(port.receiver, program)
        else:
            detach_filter(port.receiver)

    def _renew(self) -> None:
        self._members = self._endpoint.members
        if len(self._endpoint.qps) > MOST_QPS:
            self._end()
            return
        try:
            for port in self._ports:
                self.attach(port)
        except OSError:
            # No memory for it: the endpoint drops them itself, as before.
            self._end()

    def _end(self) -> None:
        self.active = False
        for port in self._ports:
            with contextlib.suppress(OSError):
                self.attach(port)


def base_filter(port: Port, udp_ports: Sequence[int]) -> list[Instruction]:
    """The filter a port's socket always has; none where that is empty."""
    if port.framing is SRV6:
        return []
    return accept_srh() if port.framing is SRV6_SRH else accept_ports(udp_ports, ipv4=port.framing is UDP_IPV4)


def shared(ports: Iterable[Port]) -> bool:
    """Whether another endpoint sends from an address of these ports, and so receives there too, according to /proc."""
    ours = {str(os.fstat(port.sender.fileno()).st_ino) for port in ports}
    raw = [*_raw_sockets("raw"), *_raw_sockets("raw6")]
    places = {place for place, inode in raw if inode in ours}
    return any(place in places and inode not in ours for place, inode in raw)


def _raw_sockets(table: str) -> Iterator[tuple[str, str]]:
    """Local address and protocol of each raw socket of this network namespace, and its inode; none without /proc."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/thread-self/net", table).read_text().splitlines()[1:]:
            columns = line.split()
            yield columns[_LOCAL], columns[_INODE]
