# SPDX-License-Identifier: BSD-2-Clause
"""Garbage, forgeries and copies thrown at both ends of a transfer: none of it counts but as a counter."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from functools import partial
from ipaddress import IPv6Address
from typing import Any, NamedTuple

import pytest
from live_run import MIB, Ended, Transfers, eventually, sha256
from patience import PATIENCE_S

from mrc.lab import Lab
from mrc.wire.icrc import icrc_bytes, icrc_ipv6
from mrc.wire.usid import UsidTemplate, address_text

pytestmark = pytest.mark.root

IPPROTO_IPV6 = 41
ETH_P_ALL = 3
IPV6, UDP = 40, 8
BTH = IPV6 + UDP
SACK, WRITE_OPCODES = 0xDC, range(0xC6, 0xCC)
MANY = 2000
DROPPED = (
    "too_short",
    "not_ipv6_udp",
    "bad_length",
    "bad_udp_port",
    "bad_tver",
    "unknown_opcode",
    "bad_icrc",
    "bad_pkey",
    "unknown_qp",
    "bad_source",
)


class Eavesdropper:
    """A packet socket on a host's port: inner packets of MRC, by opcode."""

    def __init__(self, lab: Lab, node: str, interface: str) -> None:
        def opened() -> socket.socket:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
            sock.bind((interface, ETH_P_ALL))
            return sock

        self._socket = lab.inside(node, opened)
        self._socket.settimeout(PATIENCE_S)

    def packets(self, count: int, opcodes: range | tuple[int, ...]) -> list[bytes]:
        """The next inner packets with one of these opcodes, ICRC included."""
        found: list[bytes] = []
        by = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < by, "no packets of that kind"
            frame = self._socket.recv(65536)
            if len(frame) > 40 + BTH and frame[6] == IPPROTO_IPV6 and frame[40 + BTH] in opcodes:
                found.append(frame[40:])
        return found

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def listening(lab: Lab, node: str, interface: str) -> Iterator[Eavesdropper]:
    made = Eavesdropper(lab, node, interface)
    try:
        yield made
    finally:
        made.close()


def with_icrc(packet: bytes) -> bytes:
    """The packet with its last four bytes made right."""
    return packet[:-4] + icrc_bytes(icrc_ipv6(packet[:-4]))


def with_bytes(packet: bytes, at: int, new: bytes) -> bytes:
    return packet[:at] + new + packet[at + len(new) :]


def with_lengths(packet: bytes) -> bytes:
    """The packet with IPv6 and UDP lengths that agree with it."""
    length = struct.pack("!H", len(packet) - IPV6)
    return with_bytes(with_bytes(packet, 4, length), IPV6 + 4, length)


def flipped(packet: bytes, rng: random.Random) -> bytes:
    """One bit flipped, anywhere the ICRC covers: past the version, traffic class and flow label, but for the hop limit,
    the UDP checksum and the BTH's masked byte (wire.md section 9)."""
    free = {0, 1, 2, 3, 7, IPV6 + 6, IPV6 + 7, BTH + 4}
    at = rng.choice([each for each in range(min(len(packet), 140)) if each not in free])
    return with_bytes(packet, at, bytes([packet[at] ^ 1 << rng.randrange(8)]))


def hostile(data: list[bytes], rng: random.Random) -> dict[str, list[bytes]]:
    """What is thrown, by kind; a fixed share of each."""
    share = MANY // 10
    thrown: dict[str, list[bytes]] = {
        "random bytes": [rng.randbytes(rng.randrange(1, 1400)) for _ in range(3 * share)],
        "truncated": [(p := rng.choice(data))[: rng.randrange(1, len(p))] for _ in range(share)],
        "truncated, lengths agree": [
            with_lengths((p := rng.choice(data))[: rng.randrange(BTH + 12, len(p))]) for _ in range(share)
        ],
        "bit flipped": [flipped(rng.choice(data), rng) for _ in range(2 * share)],
        "unknown QP": [
            with_icrc(with_bytes(rng.choice(data), BTH + 5, rng.randrange(16).to_bytes(3, "big"))) for _ in range(share)
        ],
        "wrong source": [
            with_icrc(
                with_bytes(rng.choice(data), 8, IPv6Address(f"fd4d:5243::{rng.randrange(0x100, 0x200):x}").packed)
            )
            for _ in range(share)
        ],
        "other version": [
            with_icrc(with_bytes(p := rng.choice(data), BTH + 1, bytes([p[BTH + 1] | 1]))) for _ in range(share)
        ],
    }
    assert sum(len(packets) for packets in thrown.values()) == MANY
    return thrown


def waiting_bytes(lab: Lab, host: str, ours: socket.socket) -> int:
    """The most that waits at any raw socket of a host but `ours`, which nobody reads."""

    def read() -> int:
        with open("/proc/thread-self/net/raw6") as sockets:
            lines = [line.split() for line in list(sockets)[1:]]
        # Bytes sent and received, in hexadecimal, and the inode.
        return max((int(line[4].partition(":")[2], 16) for line in lines if int(line[9]) != inode), default=0)

    inode = os.fstat(ours.fileno()).st_ino
    return lab.inside(host, read)


def room_at(lab: Lab, host: str, ours: socket.socket) -> bool:
    return waiting_bytes(lab, host, ours) < 1 << 17


def unsent(packet: bytes, psn_at: tuple[int, ...], ahead: int) -> bytes:
    """A SACK or ACK with its PSNs moved ahead, its ICRC right."""
    for at in psn_at:
        psn = int.from_bytes(packet[at : at + 3], "big") + ahead & 0xFFFFFF
        packet = with_bytes(packet, at, psn.to_bytes(3, "big"))
    return with_icrc(packet)


class Attacked(NamedTuple):
    """What was thrown while a transfer went on, and what its two ends said at the end."""

    thrown: dict[str, list[bytes]]
    sent: Ended
    received: Ended


def attacked(transfers: Transfers, lab: Lab, many_files: int) -> Attacked:
    """Throw everything at both ends of a transfer. Fails where the transfer was over before the attack."""
    rng = random.Random(4791)
    file = transfers.file("file-0", 64 * MIB)
    files = [file, *(file.with_name(f"file-{number}") for number in range(1, many_files))]
    for each in files[1:]:
        each.unlink(missing_ok=True)
        each.hardlink_to(file)
    transfers.forget()
    receiver = transfers.recv("--once", "--json", "-v", "--overwrite", "--idle-timeout", "600s")
    raw = {
        host: lab.inside(host, lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, IPPROTO_IPV6))
        for host in ("h0", "h1")
    }
    towards = {
        "h1": [address_text(UsidTemplate(0, 1, 1).address(0, spine)) for spine in range(4)],
        "h0": [address_text(UsidTemplate(1, 0, 0).address(0, spine)) for spine in range(4)],
    }
    with contextlib.ExitStack() as at_the_end:
        for sock in raw.values():
            at_the_end.callback(sock.close)
        ear = at_the_end.enter_context(listening(lab, "h0", "p0"))
        sender = transfers.send(receiver, files, "--json", "-v", "--mtu", "512")
        data = ear.packets(64, WRITE_OPCODES)
        sacks = ear.packets(8, (SACK,))
        # At the host's port all are whole, so that what is changed below is what is wrong with them.
        assert all(with_icrc(packet) == packet for packet in (*data, *sacks))
        thrown = hostile(data, rng)
        packets = [packet for kind in thrown.values() for packet in kind]
        rng.shuffle(packets)
        for number, packet in enumerate(packets):
            raw["h0"].sendto(packet, (towards["h1"][number % 4], 0))
            if number % 50 == 0:
                # What a port has no room for is lost, and nobody counts it.
                for host, sock in raw.items():
                    eventually(partial(room_at, lab, host, sock))
            if number % 10 == 0:
                # SACKs for what was never sent, to the sender from its peer's address.
                forged = unsent(rng.choice(sacks), (BTH + 9, BTH + 12 + 13), 1 << 22)
                raw["h1"].sendto(forged, (towards["h0"][number % 4], 0))
        assert sender.process.poll() is None, "the transfer was over before the attack: nothing was shown"
    return Attacked(thrown, sender.end().succeeded(), receiver.end().succeeded())


def test_a_transfer_is_unharmed_by_two_thousand_hostile_packets(transfers: Transfers, lab: Lab) -> None:
    thrown, sent, received = transfers.in_time(partial(attacked, transfers, lab), 1, 4, 16, 48)
    assert sent.document["sums_agree"] is received.document["sums_agree"] is True
    arrived = transfers.received()
    assert len(arrived) in (1, 4, 16, 48)
    assert set(arrived.values()) == {sha256(transfers.scratch / "file-0")}

    ours = received.document["counters"]
    # Each of them is dropped for exactly one reason.
    assert 0.98 * MANY < sum(ours.get(counter, 0) for counter in DROPPED) <= MANY, ours
    at_least = {
        "too_short": 0.01 * MANY,
        "not_ipv6_udp": 0.8 * len(thrown["random bytes"]),
        "bad_length": 0.5 * len(thrown["truncated"]),
        "bad_icrc": 0.5 * len(thrown["bit flipped"]),
        "bad_tver": 0.9 * len(thrown["other version"]),
        "unknown_qp": 0.9 * len(thrown["unknown QP"]),
        "bad_source": 0.9 * len(thrown["wrong source"]),
    }
    assert {counter for counter, least in at_least.items() if ours.get(counter, 0) < least} == set(), ours
    assert sent.document["counters"]["ack_for_unsent_psn"] > 100
    assert f"counters: {ours}" in received.err


def test_copies_with_another_way_back_are_duplicates(transfers: Transfers, lab: Lab) -> None:
    """Flow label and ECN are not covered by the ICRC: such a copy is good, old, marked CE, of no known EV."""
    sent, received = transfers.in_time(partial(with_copies, transfers, lab), 16, 96)
    assert sent["sums_agree"] is received["sums_agree"] is True
    assert transfers.received() == {"file": sha256(transfers.scratch / "file")}
    counters = received["counters"]
    # A counter that is 0 is left out.
    assert counters.get("duplicates_old", 0) + counters.get("duplicates_above_epsn", 0) >= 300
    assert sent["counters"]["unknown_ev"] > 0


def with_copies(transfers: Transfers, lab: Lab, mib: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Copy 400 packets of a transfer. What its two ends report."""
    transfers.forget()
    file = transfers.file("file", mib * MIB)
    receiver = transfers.recv("--once", "--json", "--idle-timeout", "60s")
    raw = lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, IPPROTO_IPV6))
    towards = address_text(UsidTemplate(0, 1, 1).address(0, 0))
    with listening(lab, "h0", "p0") as ear:
        sender = transfers.send(receiver, [file], "--json", "--mtu", "512")
        for _ in range(20):
            for packet in ear.packets(20, WRITE_OPCODES):
                raw.sendto(with_bytes(packet, 1, b"\x30\xde\xad"), (towards, 0))
    raw.close()
    return sender.end().succeeded().document, receiver.end().succeeded().document
