# SPDX-License-Identifier: BSD-2-Clause
"""A fast fabric: at each switch port an eBPF program (bpf/usid.c) does what seg6local does, with less on its way.

The program asks the kernel's routes for the next hop, so links that are down need nothing here. It does not see
impairments. When those change, this module sets which packets the program leaves to the kernel: packets that arrive
at a port where nftables drops some, and packets that leave by a port whose egress `bpf_redirect_peer` would bypass.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv6Network

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Link, Shape
from mrc.lab import impairment
from mrc.lab.bpf import EbpfRefused, Port, PortsProgram
from mrc.lab.impairment import traffic_control as tc
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.lab.plan import Interface, NodePlan, RouteKind

MODES = ("srv6", "srv6-srh")
ADVICE = "leave out --fast, and the kernel's seg6local carries the packets"
# From here on an interface counts what bpf_redirect_peer brings it.
_LEAST_LINUX = (6, 7)
_PROGRAM_NAME = "mrc-usid"
_OWN_BYTES = 6

Plans = Mapping[str, NodePlan]
Sockets = Callable[[str], NetlinkSocket]


def check(topology: Shape) -> None:
    """Raise CallerError for a fabric without uSIDs, SystemRefused where the kernel is too old."""
    if topology.mode not in MODES:
        raise CallerError(f"--fast is for the modes {' and '.join(MODES)}, and this fabric's is {topology.mode}")
    release = platform.release()
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None or (int(found[1]), int(found[2])) < _LEAST_LINUX:
        least = ".".join(map(str, _LEAST_LINUX))
        raise SystemRefused(f"--fast needs Linux {least} or newer, and this is {release}: {ADVICE}")


def install(plans: Plans, route: Sockets) -> None:
    """Put the program on every switch port of a fabric without impairments.

    `route` gives a node's route netlink socket. Raises EbpfRefused, SystemRefused.
    """
    ports = [(planned, end) for planned in plans.values() if planned.is_switch for end in planned.interfaces]
    try:
        program = PortsProgram.load(1 + max(end.index for _, end in ports))
    except SystemRefused as error:
        kind = EbpfRefused if isinstance(error, EbpfRefused) else SystemRefused
        raise kind(f"--fast: {error}: {ADVICE}") from None
    with program:
        for planned, end in ports:
            program.set(end.index, Port(_own(planned), arriving=True, leaving=True))
        for planned in plans.values():
            if planned.is_switch:
                route(planned.name).transact([each for end in planned.interfaces for each in _attached(end, program)])


def install_again(again: Sequence[Link], links: Sequence[Link], plans: Plans, route: Sockets) -> None:
    """Put the program on the switch ports of cables that were laid again: the one that all other links have.

    Does nothing where somebody has taken it off everywhere. Raises SystemRefused.
    """
    number = _program_number([link for link in links if link not in again], plans, route)
    if not number:
        return
    with PortsProgram.by_id(number) as program:
        for link in again:
            for end in (plans[node].interface(link) for node in link.ends if plans[node].is_switch):
                program.set(end.index, Port(_own(plans[end.node]), arriving=True, leaving=True))
                route(end.node).transact(list(_attached(end, program)))


def _attached(end: Interface, program: PortsProgram) -> Iterator[Request]:
    yield tc.hook(end.index)
    yield tc.program_filter(end.index, program.descriptor, _PROGRAM_NAME, egress=False)


def _own(planned: NodePlan) -> bytes:
    """The block and uSID of a switch."""
    prefix = next(each.prefix for each in planned.routes if each.kind is RouteKind.USID)
    return IPv6Network(prefix).network_address.packed[:_OWN_BYTES]


def is_installed(route: NetlinkSocket, end: Interface) -> bool:
    """Whether the program is on a port; `route` is a socket at its node. Raises SystemRefused."""
    return bool(impairment.program_of(route, end.index, egress=False))


def port(link: Link, node: str, plans: Plans, route: Sockets) -> Port:
    """How the program treats the end of `link` at the switch `node` now. Raises SystemRefused."""
    end = plans[node].interface(link)
    with PortsProgram.by_id(impairment.program_of(route(node), end.index, egress=False)) as program:
        return program.port(end.index)


def _program_number(links: Sequence[Link], plans: Plans, route: Sockets) -> int:
    """The program at the first port of these links that has it; 0 where somebody has taken it off everywhere."""
    ends = (plans[node].interface(link) for link in links for node in link.ends if plans[node].is_switch)
    numbers = (impairment.program_of(route(end.node), end.index, egress=False) for end in ends)
    return next(filter(None, numbers), 0)


@contextmanager
def forgetting(links: Sequence[Link], plans: Plans, route: Sockets) -> Iterator[None]:
    """When these links have been cut, no packet follows a route from before, not even for the rest of the tick.

    `route` gives a node's route netlink socket. Raises SystemRefused.
    """
    number = _program_number(links, plans, route)
    if not number:
        yield
        return
    with PortsProgram.by_id(number) as program:
        yield
        program.forget()


@contextmanager
def changing(links: Sequence[Link], plans: Plans, route: Sockets, filters: Sockets) -> Iterator[None]:
    """While the impairments of these links change, the kernel has their packets; afterwards the program gets those back
    that it may have.

    A process that is killed in between leaves the links to the kernel: slower, and right. `route` and `filters` give a
    node's route and netfilter netlink socket. Raises SystemRefused.
    """
    ends = [plans[node].interface(link) for link in links for node in link.ends if plans[node].is_switch]
    number = _program_number(links, plans, route)
    if not number:
        # The kernel has everything then.
        yield
        return
    with PortsProgram.by_id(number) as program:
        for end in ends:
            program.set(end.index, Port(_own(plans[end.node]), arriving=False, leaving=False))
        try:
            yield
        finally:
            for end in ends:
                free = impairment.leaves_freely(route(end.node), end.index)
                losing = {each.interface for each in impairment.found_losses(filters(end.node))}
                program.set(end.index, Port(_own(plans[end.node]), end.name not in losing, free))
