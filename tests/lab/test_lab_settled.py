# SPDX-License-Identifier: BSD-2-Clause
"""Before a lab is called up its ports carry packets and its addresses are local, which the kernel sees to later."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import PATIENCE_S, eventually

from mrc.errors import SystemRefused
from mrc.lab import namespace, settled
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.plan import Interface
from mrc.lab.settled import wait_until_settled
from mrc.threads import in_thread

pytestmark = pytest.mark.root

PORT = Interface("h0", "p0", number=0, upper=False, addresses=("fd00::1",))
LOOPBACK = "fd00::2"


class Host:
    """A namespace with the port, which is down, at the end of a cable."""

    def __init__(self) -> None:
        self.descriptor = in_thread(namespace.unshare_network)
        self.netlink = NetlinkSocket.inside(self.descriptor)
        self.ip("link set lo up")
        self.ip(f"link add p0 index {PORT.index} type veth peer name far")
        self.ip("link set p0 addrgenmode none")

    def ip(self, arguments: str) -> str:
        def run() -> str:
            return subprocess.run(["ip", *arguments.split()], check=True, capture_output=True, text=True).stdout

        return namespace.in_namespace(self.descriptor, run)

    def local(self) -> set[str]:
        return {each["dst"] for each in json.loads(self.ip("-j -6 route show table local"))}

    def settled(self) -> None:
        wait_until_settled(self.netlink, "h0", [PORT], [LOOPBACK])

    def close(self) -> None:
        self.netlink.close()
        os.close(self.descriptor)


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


STEPS = [
    "link set p0 up",
    "link set far up",
    f"addr add {PORT.link_local}/64 dev p0 nodad",
    f"addr add {PORT.addresses[0]}/128 dev p0 nodad",
    f"addr add {LOOPBACK}/128 dev lo nodad",
]


def test_it_takes_every_carrier_and_every_address(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps by hand, one after another: only after the last the wait is over."""
    looks = 0
    dump = host.netlink.dump

    def counted(what: str, data: bytes, take: Callable[[int, bytes], None]) -> None:
        nonlocal looks
        looks += 1
        dump(what, data, take)

    monkeypatch.setattr(NetlinkSocket, "dump", lambda _, *arguments: counted(*arguments))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(host.settled)
        for step in STEPS:
            # Some more looks, of which the last at least began after what had been done before.
            enough = looks + 3
            eventually(lambda enough=enough: looks >= enough)
            assert not waiting.done()
            host.ip(step)
        waiting.result(PATIENCE_S)
    assert host.local() >= {PORT.link_local, *PORT.addresses, LOOPBACK}


@pytest.mark.parametrize(
    ("done", "lacking"),
    [
        (STEPS[:1], "an interface of h0 did not come up"),
        (STEPS[:3] + STEPS[4:], "fd00::1 of h0 did not become local"),
        (STEPS[:4], "fd00::2 of h0 did not become local"),
    ],
)
def test_what_never_comes_is_named(host: Host, monkeypatch: pytest.MonkeyPatch, done: list[str], lacking: str) -> None:
    for step in done:
        host.ip(step)
    monkeypatch.setattr(settled, "_SETTLE_S", 0.0)

    def named() -> bool:
        """Only that, once the kernel has got as far as that."""
        with pytest.raises(SystemRefused, match="in 0 s: see `mrc lab status`") as refusal:
            host.settled()
        return str(refusal.value).startswith(lacking)

    eventually(named)
