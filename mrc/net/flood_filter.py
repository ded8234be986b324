# SPDX-License-Identifier: BSD-2-Clause
"""What the kernel refuses for us while somebody floods a port: packets the endpoint would only drop and count.

To be given a packet costs as much as to refuse it. While many are refused, each port's socket gets a classic BPF filter
that lets through what may be for a QP: whole MRC packets to a QPN there is, from the address of a peer, requests with a
PSN near the one that is expected. A second socket with the opposite filter and no room counts what that keeps out, as
`refused_by_kernel`. After a while the filter goes, to see whether the flood has.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from operator import attrgetter

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.node_evs import ENDPOINT_QPN
from mrc.net.filters import Instruction, attach_filter
from mrc.net.flood_program import BEHIND, Lists, flood_program
from mrc.net.neighbours import NeighbourFilter
from mrc.net.ports import LOOPBACK, SRV6, UDP_IPV4, UDP_IPV6, Port, dropped_by

_MILLISECOND = 1_000_000
LOOK_NS = 100 * _MILLISECOND
# More than so many refused between two looks are too many; so many too many, all together, are a flood.
ORDINARY = 2_000
FLOOD = 25_000
HELD_NS = 10_000 * _MILLISECOND
# The filters follow a QP whose epsn has moved by so many.
_FOLLOWED = BEHIND // 2
# What a filter could have distinguished, of the endpoint and of a QP; some only if the PSN gives it away.
_REFUSED = (
    "too_short",
    "not_ipv6_udp",
    "bad_udp_port",
    "bad_tver",
    "unknown_opcode",
    "bad_pkey",
    "unknown_qp",
    "unknown_peer",
    "bad_icrc",
    "trimmed_received",
    "over_rate",  # of the endpoint: operations on DQP 2
)
_REFUSED_BY_QP = ("bad_source", "duplicates_old", "psn_out_of_range", "psn_out_of_window", "over_rate")
_of_endpoint, _of_qp = attrgetter(*_REFUSED), attrgetter(*_REFUSED_BY_QP)


class FloodFilter:
    """Watches one endpoint and its ports. `look` is asked now and then by the loop that drives them."""

    def __init__(self, endpoint: Endpoint, ports: Sequence[Port], udp_ports: Sequence[int]) -> None:
        self._endpoint = endpoint
        self._ports = [port for port in ports if port.framing in (SRV6, UDP_IPV4, UDP_IPV6)]
        self._udp_ports = tuple(udp_ports)
        self._neighbours = NeighbourFilter(endpoint, ports, udp_ports)
        self._counting: list[socket.socket] = []
        self._counted = 0
        self._members = -1
        self._until = 0
        self._next_look = 0
        self._epsns: dict[int, int] = {}
        self._refused = 0
        self._operations = 0
        self._probes = 0
        self._operations_too = False
        self._few_probes = False
        self._too_many = 0
        endpoint.new_qp_listeners.append(self._on_new_qp)

    @property
    def active(self) -> bool:
        return bool(self._counting)

    def look(self, now: int) -> None:
        """Begin or end to filter, by what was refused since the last look. `now` in ns."""
        if self._counting and (now >= self._until or self._endpoint.members != self._members):
            # The lists are others now: should the flood go on, it is filtered again.
            self.end()
        if not self._counting:
            self._neighbours.look(now)
        if now < self._next_look:
            return
        self._next_look = now + LOOK_NS
        if self._counting:
            self._count()
            self._follow()
            return
        refused = self._refused_so_far() - self._refused
        operations = self._endpoint.counters.over_rate - self._operations
        probes = self._probes_so_far() - self._probes
        self._too_many = max(0, self._too_many + refused - ORDINARY)
        # With a peer's address there is no telling which operations and which probes are the peer's. Operations
        # all stay out, probes but for some.
        self._operations_too = 2 * operations > refused
        self._few_probes = 2 * probes > refused
        self._start_over()
        if self._too_many >= FLOOD:
            self._begin(now)

    def _on_new_qp(self) -> None:
        self.end()
        self._neighbours.on_new_qp()

    def end(self) -> None:
        """Filter no more than a port always does."""
        if not self._counting:
            return
        self._count()
        for port in self._ports:
            self._neighbours.attach(port)
        for sock in self._counting:
            sock.close()
        self._counting, self._counted, self._too_many = [], 0, 0
        self._start_over()

    def _start_over(self) -> None:
        """What was refused until now has been looked at."""
        self._refused, self._probes = self._refused_so_far(), self._probes_so_far()
        self._operations = self._endpoint.counters.over_rate

    def _refused_so_far(self) -> int:
        of_qps: int = sum(sum(_of_qp(qp.counters)) for qp in self._endpoint.qps.values())
        of_endpoint: int = sum(_of_endpoint(self._endpoint.counters))
        return of_qps + of_endpoint

    def _probes_so_far(self) -> int:
        return sum(qp.probes_refused for qp in self._endpoint.qps.values())

    def _begin(self, now: int) -> None:
        self._members = self._endpoint.members
        self._epsns = self._epsns_now()
        try:
            for port in self._ports:
                lists = self._lists(port)
                self._counting.append(_counting_socket(port, flood_program(port.framing, lists, refused=True)))
                attach_filter(port.receiver, flood_program(port.framing, lists))
        except OSError:
            # Out of descriptors or memory: the endpoint refuses them itself, as before.
            for sock in self._counting:
                sock.close()
            self._counting = []
            return
        self._until = now + HELD_NS
        self._counted = 0

    def _lists(self, port: Port) -> Lists:
        sources = {node.sources.get(port.port) for node in self._endpoint.peer_nodes.values()}
        return Lists(
            self._udp_ports,
            (*(() if self._operations_too else (ENDPOINT_QPN,)), *self._endpoint.qps),
            tuple(each for each in sources if each is not None),
            self._epsns,
            self._few_probes,
        )

    def _epsns_now(self) -> dict[int, int]:
        return {qpn: qp.epsn for qpn, qp in self._endpoint.qps.items() if qp.epsn is not None}

    def _follow(self) -> None:
        """Move the ranges of PSNs along. An epsn moves by this loop alone: however late, no window has left its own."""
        epsns = self._epsns_now()
        if all(abs(epsn - self._epsns.get(qpn, -BEHIND)) < _FOLLOWED for qpn, epsn in epsns.items()):
            return
        self._epsns = epsns
        for port, sock in zip(self._ports, self._counting, strict=True):
            lists = self._lists(port)
            try:
                attach_filter(port.receiver, flood_program(port.framing, lists))
                attach_filter(sock, flood_program(port.framing, lists, refused=True))
            except OSError:
                self.end()
                return

    def _count(self) -> None:
        counted = sum(dropped_by(sock) for sock in self._counting)
        self._endpoint.counters.refused_by_kernel += counted - self._counted
        self._counted = counted


def _counting_socket(port: Port, program: Sequence[Instruction]) -> socket.socket:
    """A socket that is given what the port's is not, and has room for none of it: the kernel counts what it drops."""
    receiver = port.receiver
    sock = socket.socket(receiver.family, socket.SOCK_RAW, receiver.proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        attach_filter(sock, program)
        if port.interface != LOOPBACK:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, port.interface.encode())
        address = receiver.getsockname()[0]
        if not ipaddress.ip_address(address).is_unspecified:
            with contextlib.suppress(OSError):
                sock.bind((address, 0))
    except OSError:
        sock.close()
        raise
    return sock
