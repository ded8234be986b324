# SPDX-License-Identifier: BSD-2-Clause
"""Forged ICMP errors of every kind against a sender under way: the transfer goes on, with equal sums."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from forged_icmp import (
    IPV6_IN_IPV6,
    KINDS4,
    KINDS6,
    TOO_BIG,
    UDP,
    Forger,
    error,
    guesses,
    redirect6,
)
from live_run import MIB, Running, Transfers, missing, sha256, slowed, when_acked
from patience import PATIENCE_S
from test_live_udp import IPV4, IPV6, Hosts, bound, transferred

from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.namespace import in_namespace
from mrc.wire.usid import UsidTemplate, address_text

pytestmark = pytest.mark.root

# More where it was over before all errors were forged.
SIZES_MIB = (16, 64, 240, 960)
_ETH_P_ALL = 3
KINDS = {6: KINDS6, 4: KINDS4}


def overheard(interface: str, version: int, next_header: int) -> bytes:
    """A full packet that leaves or passes by an interface, from its outermost IP header on."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as ear:
        ear.bind((interface, _ETH_P_ALL))
        ear.settimeout(PATIENCE_S)
        while True:
            packet = ear.recv(65536)
            carried = packet[6] if version == 6 else packet[9]
            if packet[0] >> 4 == version and carried == next_header and len(packet) > 3000:
                return packet


def attack(forger: Forger, local: str, remotes: Iterable[str], on_path: bytes, somebody: str, running: Running) -> None:
    """Every kind of error at `local`, about packets to each of `remotes`, quoting guesses and a real packet."""
    version = on_path[0] >> 4
    # First of all what ended senders.
    for kind in (TOO_BIG[version], *KINDS[version]):
        for remote in remotes:
            for quote in (*guesses(local, remote).values(), on_path):
                forger.send(error(kind, somebody, local, quote))
    assert running.process.poll() is None, running.process.communicate()


def remembered(destination: str) -> bool:
    """Whether the kernel has a path MTU of its own for a destination: the forgeries work."""
    shown = subprocess.run(["ip", "route", "get", destination], check=True, capture_output=True, text=True).stdout
    return " mtu " in shown


@pytest.fixture(scope="module")
def lab(steady_lab: Lab) -> Lab:
    return steady_lab


@pytest.mark.parametrize("mode", ["srv6", "srv6-srh"])
def test_a_transfer_over_usids_goes_on(tmp_path: Any, mode: str) -> None:
    """At the outer headers' destinations, where packets of the fabric are on their way."""
    if os.geteuid() != 0:
        missing("root")
    with Lab.up(f"live-{os.getpid()}-icmp-{mode}", slowed(100_000_000, Clos(mode=mode))) as lab:
        transfers = Transfers(lab, tmp_path)
        try:
            transfers.in_time(partial(goes_on_over_usids, lab, transfers, mode), *SIZES_MIB)
        finally:
            transfers.close()


def goes_on_over_usids(lab: Lab, transfers: Transfers, mode: str, mib: int) -> None:
    transfers.forget()
    file, stats = transfers.file("file", mib * MIB), transfers.scratch / f"stats of {mib} MiB"
    receiver = transfers.recv("--once", "--json")
    sender = transfers.send(receiver, [file], "--json", "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    carried = IPV6_IN_IPV6 if mode == "srv6" else 43
    with closing(lab.inside("h1", Forger)) as forger:
        for plane in range(2):
            on_path = lab.inside("h0", partial(overheard, f"p{plane}", 6, carried))
            local = lab.addresses("h0")[plane]
            ways = {address_text(UsidTemplate(0, 1, 1).address(plane, spine)) for spine in range(4)}
            ways.add(socket.inet_ntop(socket.AF_INET6, on_path[24:40]))
            attack(forger, local, ways, on_path, lab.addresses("h1")[plane], sender)
    sent, received = sender.end().succeeded().document, receiver.end().succeeded().document
    assert sent["sums_agree"] is received["sums_agree"] is True
    assert transfers.received() == {"file": sha256(file)}


def test_a_redirect_on_the_link_costs_its_plane(lab: Lab, transfers: Transfers) -> None:
    """RFC 4861 section 8.1: only from the first router's link-local address, with a hop limit of 255: from the link."""
    transfers.in_time(partial(a_redirect_on_the_link_costs_its_plane, lab, transfers), *SIZES_MIB)


def a_redirect_on_the_link_costs_its_plane(lab: Lab, transfers: Transfers, mib: int) -> None:
    transfers.forget()
    file, stats = transfers.file("file", mib * MIB), transfers.scratch / f"stats of {mib} MiB"
    receiver = transfers.recv("--once", "--json")
    sender = transfers.send(receiver, [file], "--json", "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    router, host = lab.inside("p0l0", partial(link_local, "h0")), lab.inside("h0", partial(link_local, "p0"))
    with closing(lab.inside("p0l0", Forger)) as forger:
        for spine in range(4):
            way = address_text(UsidTemplate(0, 1, 1).address(0, spine))
            redirect = redirect6("fe80::dead", way)
            forger.send(error(redirect, router, host, b"", hops=255), "h0")
    assert sender.process.poll() is None
    sent, received = sender.end().succeeded().document, receiver.end().succeeded().document
    assert sent["sums_agree"] is received["sums_agree"] is True
    assert transfers.received() == {"file": sha256(file)}


def link_local(interface: str) -> str:
    with open("/proc/thread-self/net/if_inet6") as addresses:
        for line in addresses:
            packed, *_, name = line.split()
            if name == interface and packed.startswith("fe80"):
                return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(packed))
    raise AssertionError(f"{interface} has no link-local address")


@pytest.fixture(scope="module")
def wide_hosts() -> Iterator[Hosts]:
    """Two hosts whose cables have room for a path MTU of 4096."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        missing("root and the program ip")
    hosts = Hosts(f"mrcicmp{os.getpid()}", mtu=9000)
    try:
        hosts.build()
        yield hosts
    finally:
        hosts.demolish()


@pytest.mark.parametrize(("version", "addresses"), [(4, IPV4), (6, IPV6)], ids=["IPv4", "IPv6"])
def test_a_transfer_in_udp_mode_goes_on(
    wide_hosts: Hosts, tmp_path: Any, version: int, addresses: dict[str, tuple[str, str]]
) -> None:
    wide_hosts.scratch = tmp_path
    try:
        wide_hosts.in_time(partial(goes_on_in_udp_mode, wide_hosts, version, addresses), *SIZES_MIB)
    finally:
        wide_hosts.close()


def goes_on_in_udp_mode(hosts: Hosts, version: int, addresses: dict[str, tuple[str, str]], mib: int) -> None:

    def at(host: str, act: Callable[[], Any]) -> Any:
        namespace = os.open(f"/run/netns/{hosts.names[host]}", os.O_RDONLY)
        try:
            return in_namespace(namespace, act)
        finally:
            os.close(namespace)

    hosts.forget()
    file, stats = hosts.file(mib * MIB), hosts.scratch / f"stats of {mib} MiB"
    receiver = hosts.recv("--once", "--json", *bound(addresses["b"]))
    sender = hosts.send(receiver, file, "--json", "--stats", stats, *bound(addresses["a"]))

    when_acked(stats, 0.001, sender)
    # Before the first error: a sender that believes it has nothing more to be overheard.
    on_paths = [at("a", partial(overheard, f"e{plane}", version, UDP)) for plane in range(2)]
    with closing(at("b", Forger)) as forger:
        for plane, on_path in enumerate(on_paths):
            local, remote = addresses["a"][plane], addresses["b"][plane]
            attack(forger, local, [remote], on_path, remote, sender)
            assert at("a", partial(remembered, remote))
    transferred(hosts, file, receiver, sender)
