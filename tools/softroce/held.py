# SPDX-License-Identifier: BSD-2-Clause
"""Soft-RoCE held to the conformance suite of plain RC: an adapter between the tester and the emulated machine."""

from __future__ import annotations

import json
import select
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence

from network import INTERFACE, OURS, PEERS, Network
from peer import Peer

from mrc.conformance.setup import Plane, Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import Frame, Session, Target, TargetCompletion, TargetQp, Unsupported
from mrc.lab.namespace import in_namespace
from mrc.wire.profile import WireProfile

_PORT = 4791
_SPORT = 0xC111
_REGION, _REGION_AT, _OUTBOX_AT = 64 << 10, 1 << 20, 8 << 20  # bytes; where in the peer's memory
_PATH_MTU = 1024
_SLACK_NS = 100_000_000
_SETTLE_S = 0.03  # what was sent has arrived
_STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR")
_STATUSES = {
    0: "SUCCESS",
    5: "FLUSHED",
    9: "REMOTE_INVALID_REQUEST",
    10: "REMOTE_ACCESS_ERROR",
    11: "REMOTE_OPERATION_ERROR",
    12: "RETRY_EXCEEDED",
    13: "RNR_RETRY_EXCEEDED",
}
# Cases that Soft-RoCE is known to fail (docs/softroce.md has the reasons).
OTHERWISE = frozenset(
    {"RC-IMM-04", "RC-REQ-05", "RC-REQ-07", "RC-LOSS-05/seven", "RC-LOSS-06", "RC-LOSS-12", "RC-ERR-05"}
)
_ETHERTYPE = {4: 0x0800, 6: 0x86DD}
_OPTIONS = {"timeout": 14, "retry_count": 7, "rnr_retry": 7, "min_rnr_timer": 12}
_BUFFER = 8 << 20  # bytes; the kernel may grant less


class SoftRoce(Target):
    """The peer that `orders` goes to, across `network`."""

    def __init__(self, release: str, network: Network, peer: Peer) -> None:
        self.name = f"Soft-RoCE of Linux {release}"
        self._peer = peer
        links = in_namespace(network.router, _links)
        self._router = bytes.fromhex(
            next(each["address"] for each in links if each["ifname"] == "ours").replace(":", "")
        )
        # So that this kernel does not tell the peer that nobody is here.
        self._taken: list[socket.socket] = []
        for version, family in ((4, socket.AF_INET), (6, socket.AF_INET6)):
            taken = socket.socket(family, socket.SOCK_DGRAM)
            taken.bind((OURS[version], _PORT))
            self._taken.append(taken)

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        if setup.mode not in (None, "udp") or (setup.planes or 1) > 1:
            raise Unsupported("plain RC has one path")
        return SoftRoceSession(self._peer, self._router, setup.ip or 6)


def _links() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(subprocess.check_output(["ip", "-j", "link"]))
    return found


class SoftRoceSession(Session):
    """Frames pass an interface of ours as they are; `router` is the MAC address behind it."""

    mode = "udp"
    slack_ns = _SLACK_NS

    def __init__(self, peer: Peer, router: bytes, version: int) -> None:
        self._peer = peer
        self._version = version
        self.planes = (Plane(0, OURS[version], PEERS[version], (_SPORT,), (_SPORT,)),)
        self._to = (INTERFACE, _ETHERTYPE[version], 0, 0, router)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETHERTYPE[version]))
        self._socket.bind((INTERFACE, _ETHERTYPE[version]))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.setblocking(False)

    @property
    def now(self) -> int:
        return time.monotonic_ns()

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        options = {**_OPTIONS, **{name: int(value) for name, value in setup.options.items()}}
        if unknown := options.keys() - _OPTIONS.keys():
            raise Unsupported(f"no setting {', '.join(sorted(unknown))}")
        mtu = setup.path_mtu or _PATH_MTU
        opened = self._peer.open(PEERS[self._version], OURS[self._version], mtu, options["min_rnr_timer"])
        rkey = self._peer.register(_REGION_AT, _REGION)
        self._peer.connect(
            tester.qpn, tester.first_psn, options["timeout"], options["retry_count"], options["rnr_retry"]
        )
        terms = TargetQpTerms(
            opened.qpn, opened.psn, mtu, opened.va + _REGION_AT, _REGION, rkey, mpr=0, max_wimm=0, agreed=frozenset()
        )
        return SoftRoceQp(self._peer, terms)

    def put(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if frame.data:
                self._socket.sendto(frame.data, self._to)

    def get(self, until: int) -> Sequence[Frame]:
        while True:
            select.select([self._socket], [], [], max(0, until - self.now) / 1e9)
            found: list[Frame] = []
            while True:
                try:
                    data, (_, _, kind, *_) = self._socket.recvfrom(1 << 16)
                except BlockingIOError:
                    break
                if kind != socket.PACKET_OUTGOING and self._is_roce(data):
                    found.append(Frame(0, data))
            if found or self.now >= until:
                return found

    def _is_roce(self, data: bytes) -> bool:
        """Whether it is a UDP packet to RoCEv2's port."""
        at, protocol = (20, 9) if self._version == 4 else (40, 6)
        return len(data) > at + 8 and data[protocol] == 17 and struct.unpack_from(">H", data, at + 2)[0] == _PORT

    def close(self) -> None:
        self._socket.close()
        self._peer.close()


class SoftRoceQp(TargetQp):
    """One QP of the peer's. Completions of writes come in the order of the writes, those of receives likewise."""

    def __init__(self, peer: Peer, terms: TargetQpTerms) -> None:
        self.terms = terms
        self._peer = peer
        self._posted: Mapping[int, list[tuple[int, int]]] = {0: [], 1: []}  # by `Done.receive`: id and length

    def memory(self, offset: int, length: int) -> bytes:
        time.sleep(_SETTLE_S)
        return self._peer.get(_REGION_AT + offset, length)

    def state(self) -> str:
        return _STATES[self._peer.state()]

    def completions(self) -> Sequence[TargetCompletion]:
        found = []
        for done in self._peer.poll(100, round(_SETTLE_S * 1e3)):
            wr_id, length = self._posted[done.receive].pop(0)
            status = _STATUSES.get(done.status, str(done.status))
            if done.receive and done.status == 0:
                found.append(TargetCompletion(wr_id, "RECEIVE", status, done.length, done.immediate))
            else:
                found.append(TargetCompletion(wr_id, "RECEIVE" if done.receive else "WRITE", status, length))
        return found

    def post_receive(self, wr_id: int) -> None:
        self._posted[1].append((wr_id, 0))
        self._peer.receive(1)

    def post_write(self, wr_id: int, data: bytes, remote_va: int, rkey: int, immediate: int | None) -> None:
        at = _OUTBOX_AT + (wr_id << 16)
        if data:
            self._peer.put(at, data)
        self._posted[0].append((wr_id, len(data)))
        self._peer.write(at, len(data), remote_va, rkey, immediate)
