# SPDX-License-Identifier: BSD-2-Clause
"""A port's link changes: the endpoint is told at once, and so is its peer, whichever end of the cable it was."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from live_run import eventually
from patience import PATIENCE_S

from mrc.endpoint.qp import QueuePair
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.negotiation import QpDescription
from mrc.net.node import Node
from mrc.net.tuning import transfer_config
from mrc.trace.vocabulary import PORT, EventType

pytestmark = pytest.mark.root

# A quiet machine takes about a millisecond; a busy one may hold a thread up for a while. Nothing asks in between.
AT_ONCE_NS = 60_000_000_000
ETH_P_IPV6 = 0x86DD
# wire.md: IPv6 in IPv6, UDP, BTH: the opcode; then the ERTH's second byte with op in its low bits, and its mask.
OPCODE_AT, OP_AT, MASK_AT = 88, 101, 104
ENDPOINT_REQUEST, PORT_STATUS_UPDATE = 0xD8, 0


@dataclass
class Host:
    """A node with its loop in a thread, and the changes of ports that it told of: (time_ns, side, port, up)."""

    node: Node
    told: list[tuple[int, str, int, bool]] = field(default_factory=list)
    qp: QueuePair | None = None

    def when(self, side: str, port: int, up: bool, since_ns: int) -> int:
        """When it told of this change."""

        def found() -> list[int]:
            return [at for at, *what in self.told if what == [side, port, up] and at >= since_ns]

        return int(eventually(found)[0])


class Ear:
    """A tracer that keeps changes of ports."""

    def __init__(self, told: list[tuple[int, str, int, bool]]) -> None:
        self._told = told

    def now(self) -> int:
        return time.monotonic_ns()

    def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...], /) -> None:
        if kind is PORT:
            side, port, up = values
            self._told.append((at_ns, str(side), int(str(port)), up is True))


@contextlib.contextmanager
def host(lab: Lab, name: str) -> Iterator[Host]:
    told: list[tuple[int, str, int, bool]] = []
    fabric = Fabric.load(lab.fabric_path(name))
    with lab.inside(name, lambda: Node(fabric, tracer=Ear(told))) as node:
        over = threading.Event()
        thread = threading.Thread(target=node.driver.run, args=(over.is_set,), daemon=True)
        thread.start()
        try:
            yield Host(node, told)
        finally:
            over.set()
            node.driver.wake()
            thread.join()


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Iterator[tuple[Host, Host]]:
    """h0 and h1 with a QP between them, and nothing to do."""
    with host(lab, "h0") as left, host(lab, "h1") as right:
        for each in (left, right):
            each.qp = each.node.driver.call(lambda node=each.node: node.create_qp(transfer_config(path_mtu=4096)))
        for each, other in ((left, right), (right, left)):
            ours, theirs = each.qp, other.qp
            assert ours is not None
            assert theirs is not None
            peer = QpDescription(theirs.qpn, theirs.first_psn)
            each.node.driver.call(
                lambda each=each, qp=ours, other=other, peer=peer: each.node.connect(qp, other.node.description, peer)
            )
        yield left, right


class Listener:
    """Hears what comes in at a host: (time_ns, mask) of each PORT_STATUS_UPDATE, read by hand."""

    def __init__(self, lab: Lab, node: str) -> None:
        self.updates: list[tuple[int, int]] = []
        self._over = threading.Event()
        self._socket = lab.inside(
            node, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IPV6))
        )
        self._socket.settimeout(0.02)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                data, (_, _, kind, *_) = self._socket.recvfrom(65536)
            except TimeoutError:
                continue
            if kind == socket.PACKET_OUTGOING or data[6] != 41 or data[OPCODE_AT] != ENDPOINT_REQUEST:
                continue
            if data[OP_AT] & 3 == PORT_STATUS_UPDATE:
                self.updates.append((time.monotonic_ns(), int.from_bytes(data[MASK_AT : MASK_AT + 4], "big")))

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()


def cut(lab: Lab, name: str, leaf: str) -> int:
    return lab.cut(f"{name}-{leaf}")


def set_down(lab: Lab, name: str, leaf: str) -> int:
    before = time.monotonic_ns()
    process = lab.popen(name, ["ip", "link", "set", "p0", "down"], stderr=subprocess.PIPE, text=True)
    assert process.wait(PATIENCE_S) == 0, process.communicate()
    return before


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("break_it", [cut, set_down], ids=["the far end of its cable", "its own end"])
def test_a_port_goes_down_and_comes_back(
    lab: Lab,
    hosts: tuple[Host, Host],
    which: int,
    break_it: Callable[[Lab, str, str], int],
    need_program: Callable[[str], str],
) -> None:
    """behaviour.md, Ports: "every peer gets a PORT_STATUS_UPDATE", over the plane that is left: bit 1 is that one."""
    need_program("ip")
    ours, peer = hosts[which], hosts[1 - which]
    name, leaf = f"h{which}", f"p0l{which}"
    lab.prepare(f"{name}-{leaf}")
    with Listener(lab, f"h{1 - which}") as listener:
        try:
            broken_at = break_it(lab, name, leaf)
            noticed_at = ours.when("local", 0, False, broken_at)
            told_at = peer.when("peer", 0, False, broken_at)
            down = eventually(lambda: [at for at, mask in listener.updates if at >= broken_at and mask == 0b10])
            assert noticed_at - broken_at < AT_ONCE_NS
            assert noticed_at <= told_at < noticed_at + AT_ONCE_NS
            assert noticed_at <= down[0] < noticed_at + AT_ONCE_NS
        finally:
            healed_at = lab.heal(f"{name}-{leaf}")
        back_at = ours.when("local", 0, True, noticed_at)
        told_at = peer.when("peer", 0, True, back_at)
        assert back_at - healed_at < AT_ONCE_NS
        assert told_at - back_at < AT_ONCE_NS
        assert eventually(lambda: [at for at, mask in listener.updates if at >= noticed_at and mask == 0b11])


def test_what_is_further_away_is_no_port(lab: Lab, hosts: tuple[Host, Host]) -> None:
    """A cable between switches: no host's port, so nobody is told."""
    before = [list(each.told) for each in hosts]
    lab.cut("p0l0-p0s1")
    time.sleep(0.05)
    lab.heal("p0l0-p0s1")
    time.sleep(0.05)
    assert [each.told for each in hosts] == before
