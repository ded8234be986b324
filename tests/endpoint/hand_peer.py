# SPDX-License-Identifier: BSD-2-Clause
"""One real QP whose peer is the test: packets in as bytes built by hand, packets out read one by one.

The ICRC of what goes in is computed here, with zlib over a mask written from wire.md section 9.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import NO_CAPABILITIES, Capability, EndpointConfig, QpConfig
from mrc.endpoint.congestion import ControllerFactory
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.addressing import Path, PlanePair, srv6_paths
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.tracing import Tracer
from mrc.endpoint.work import WriteRequest
from mrc.wire.frames import DESTINATION
from mrc.wire.packet import decode_transport, encode_transport
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import UsidTemplate

PEER_QPN = 0x2B0222
PEER_FIRST_PSN = 1000
REGION_VA = 0x7F0000000000
MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000
FIRST, MIDDLE, LAST, LAST_IMMEDIATE, ONLY, ONLY_IMMEDIATE = 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB
ACK, SACK, NACK, PROBE = 0xD1, 0xDC, 0xDD, 0xDE
PSN_MASK = 0xFFFFFF
ECT0, CE = 0b10, 0b11


@cache
def local_address(plane: int) -> int:
    return int(ipaddress.IPv6Address(f"fd00:{plane:x}::1"))


@cache
def peer_address(plane: int) -> int:
    return int(ipaddress.IPv6Address(f"fd00:{plane:x}::2"))


def icrc(packet: bytes) -> bytes:
    masked = bytearray(packet)
    masked[0] |= 0x0F
    masked[1] = masked[2] = masked[3] = masked[7] = masked[46] = masked[47] = masked[52] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def in_ipv6(
    transport: bytes,
    *,
    plane: int = 0,
    ev: int = 0,
    traffic_class: int = 4 << 2 | ECT0,
    source: int | None = None,
    dport: int = 4791,
    chksum: int = 0,
) -> bytes:
    """A whole packet from the peer: IPv6, UDP, `transport` and the ICRC. The EV's low half is the source port."""
    length = 8 + len(transport) + 4
    head = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | ev >> 16, length, 17, 64)
    head += (peer_address(plane) if source is None else source).to_bytes(16, "big")
    head += local_address(plane).to_bytes(16, "big")
    packet = head + struct.pack(">HHHH", ev & 0xFFFF, dport, length, chksum) + transport
    return packet + icrc(packet)


def paths(planes: int = 2, spines: int = 4) -> list[Path]:
    return list(_paths(planes, spines))


@cache
def _paths(planes: int, spines: int) -> list[Path]:
    pairs = [
        PlanePair(
            plane,
            plane,
            str(ipaddress.IPv6Address(local_address(plane))),
            str(ipaddress.IPv6Address(peer_address(plane))),
            spines,
        )
        for plane in range(planes)
    ]
    return srv6_paths(pairs, UsidTemplate(source_leaf=0, destination_leaf=1, destination_host=1))


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet the endpoint sent: its fields by layer, and what carried it."""

    at: int
    whole: bytes
    layers: dict[str, dict[str, int]]
    payload: bytes
    port: int
    traffic_class: int
    destination: bytes

    def __getitem__(self, layer: str) -> dict[str, int]:
        return self.layers[layer]

    @property
    def opcode(self) -> int:
        return self.layers["bth"]["opcode"]

    @property
    def psn(self) -> int:
        return self.layers["bth"]["psn"]

    @property
    def ev(self) -> int:
        return (int.from_bytes(self.whole[:4], "big") & 0xFFFF) << 16 | int.from_bytes(self.whole[40:42], "big")

    @property
    def is_data(self) -> bool:
        return "meth" in self.layers


class HandPeer:
    """A QP in RTS, `planes` x `spines` EVs, a region of `memory` bytes at REGION_VA, and a clock that stands still."""

    # Batches of up to so many packets are taken one by one (conftest.py).

    def __init__(
        self,
        config: QpConfig | None = None,
        *,
        planes: int = 2,
        spines: int = 4,
        memory: int = 1 << 20,
        peer_first_psn: int = PEER_FIRST_PSN,
        seed: int = 1,
        to_rts: bool = True,
        endpoint: EndpointConfig | None = None,
        controller: str | ControllerFactory = "fixed",
        capabilities: Capability = NO_CAPABILITIES,
        first_psn: int | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`capabilities` are the peer's, `first_psn` is ours."""
        self.now = 1 * MILLISECOND
        self.endpoint = Endpoint(endpoint or EndpointConfig(seed=seed), tracer=tracer)
        self.config = config or QpConfig()
        self.profile = paths(planes, spines)
        self.buffer = bytearray(memory)
        self.region = self.endpoint.memory.register(self.buffer, va=REGION_VA)
        self.peer_first_psn = peer_first_psn
        self.planes = planes
        self.controller = controller
        self.capabilities = capabilities
        self.qp = self.connect(self.config, to_rts=to_rts, first_psn=first_psn)
        self.batch = TransmitBatch(128)
        self.posted = 0

    def connect(
        self,
        config: QpConfig,
        *,
        qpn: int = PEER_QPN,
        to_rts: bool = True,
        first_psn: int | None = None,
        sources: Mapping[int, int] | None = None,
    ) -> QueuePair:
        qp = self.endpoint.create_qp(config, self.controller)
        if first_psn is not None:
            qp.first_psn = first_psn
        qp.to_init()
        if sources is None:
            sources = {plane: peer_address(plane) for plane in range(self.planes)}
        qp.to_rtr(QpPeer(qpn, self.peer_first_psn, self.profile, sources, self.capabilities))
        if to_rts:
            qp.to_rts()
        return qp

    # ------------------------------------------------------------------ the endpoint's side

    @property
    def counters(self) -> dict[str, int]:
        """Every counter that is not 0, the endpoint's and its QPs'."""
        return self.endpoint.total_counters().as_dict()

    def receive(self, *packets: bytes, port: int = 0, traffic_class: Sequence[int] = ()) -> None:
        self.endpoint.receive(ReceivedBatch.from_packets(packets, port, traffic_class), self.now)

    def transmitted(self) -> list[Sent]:
        """Everything the endpoint sends now."""
        sent, batch = [], self.batch
        while self.endpoint.transmit(batch, self.now):
            for row in range(batch.count):
                whole, destination = batch.packet(row), row * DESTINATION
                assert whole[-4:] == icrc(whole[:-4])
                decoded = decode_transport(whole[48:])
                assert decoded.malformed is None, decoded.malformed
                sent.append(
                    Sent(
                        self.now,
                        whole,
                        dict(decoded.layers),
                        decoded.payload,
                        batch.ports[row],
                        batch.classes[row],
                        bytes(batch.flat_destinations[destination + 8 : destination + 24]),
                    )
                )
            batch.clear()
        return sent

    def exchange(self, *packets: bytes, port: int = 0, traffic_class: Sequence[int] = ()) -> list[Sent]:
        """Receive these in one batch, answer."""
        self.receive(*packets, port=port, traffic_class=traffic_class)
        return self.transmitted()

    def run(self, until: int, stop_at_first: bool = False) -> list[Sent]:
        """Let timers run up to virtual time `until`, and collect what they make the endpoint send."""
        sent = self.transmitted()
        while (deadline := self.endpoint.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.endpoint.on_timer(self.now)
            sent += self.transmitted()
            if sent and stop_at_first:
                return sent
        self.now = max(self.now, until)
        return sent

    # ------------------------------------------------------------------ packets of the peer's requestor

    def request(
        self,
        number: int,
        payload: bytes = b"",
        *,
        op: int = ONLY,
        va: int = REGION_VA,
        rkey: int | None = None,
        dmalen: int | None = None,
        msn: int = 0,
        rqmsn: int = 0,
        timestamp: int | None = None,
        tsr: int = 0,
        immediate: int = 0,
        bth: dict[str, int] | None = None,
        **carried: Any,
    ) -> bytes:
        """A write request whose PSN is the peer's first one plus `number`."""
        psn = (self.peer_first_psn + number) & PSN_MASK
        layers: list[tuple[str, dict[str, int]]] = [
            (
                "bth",
                {
                    "opcode": op,
                    "pkey": 0xFFFF,
                    "dqp": self.qp.qpn,
                    "psn": psn,
                    "ts": timestamp is not None,
                    **(bth or {}),
                },
            ),
            ("meth", {"rqmsn": rqmsn, "msn": msn}),
        ]
        if timestamp is not None:
            layers.append(("tseth", {"tx_timestamp": timestamp, "tsr": tsr, "ftype": 1}))
        layers.append(
            (
                "reth",
                {
                    "va": va,
                    "rkey": self.region.rkey if rkey is None else rkey,
                    "dmalen": len(payload) if dmalen is None else dmalen,
                },
            )
        )
        if op in (LAST_IMMEDIATE, ONLY_IMMEDIATE):
            layers.append(("immdt", {"data": immediate}))
        return in_ipv6(encode_transport(layers, payload), **carried)

    def probe(self, probe_id: int = 7, *, timestamp: int = 0, ftype: int = 1, **carried: Any) -> bytes:
        peth = {"probe_id": probe_id, "spdcid": PEER_QPN & 0xFFFF, "dpdcid": self.qp.qpn & 0xFFFF, "ftype": ftype}
        bth = {"opcode": PROBE, "pkey": 0xFFFF, "dqp": self.qp.qpn}
        return in_ipv6(encode_transport([("bth", bth), ("peth", {**peth, "tx_timestamp": timestamp})]), **carried)

    # ------------------------------------------------------------------ packets of the peer's responder

    def psn(self, number: int) -> int:
        """The PSN of our `number`th packet."""
        return (self.qp.first_psn + number) & PSN_MASK

    def sack(
        self,
        cack: int,
        above: Iterable[int] = (),
        *,
        trigger: int | None = None,
        ev: int = 0,
        m: int = 0,
        rtx: int = 0,
        probe_id: int | None = None,
        offset: int = 1,
        timestamp: int = 0,
        mpr: int = 0,
        penalty: int = 0,
        restore: int = 0,
        cc_type: int = 0,
        **carried: Any,
    ) -> bytes:
        """A SACK; PSNs count from our first one: `cack` -1 says nothing has arrived, `above` what has beyond it."""
        bitmap = sum(1 << number - cack - offset for number in set(above))
        seth = {"m": m, "entropy": ev, "cack_psn": self.psn(cack), "sack_offset": offset, "bitmap": bitmap, "mpr": mpr}
        seth["cc_type"] = cc_type
        if probe_id is None:
            seth["ack_psn_offset"] = (cack if trigger is None else trigger) - cack
        else:
            seth |= {"pr": 1, "probe_id": probe_id}
        bth = {"opcode": SACK, "pkey": 0xFFFF, "dqp": self.qp.qpn, "psn": self.psn(cack), "rtx": rtx}
        cc_state = {"tx_timestamp": timestamp, "rcv_cwnd_pen": penalty, "restore_cwnd": restore}
        layers = [("bth", bth), ("seth", seth), ("cc_state", cc_state)]
        return in_ipv6(encode_transport(layers), **carried)

    def ack(self, cack: int, syndrome: int = 0x1F, msn: int = 0, **carried: Any) -> bytes:
        """A transport ACK, or with another syndrome a NAK of our packet number `cack`."""
        bth = {"opcode": ACK, "pkey": 0xFFFF, "dqp": self.qp.qpn, "psn": self.psn(cack)}
        return in_ipv6(encode_transport([("bth", bth), ("aeth", {"syndrome": syndrome, "msn": msn})]), **carried)

    def nack(self, number: int, reason: int, *, ev: int = 0, rtx: int = 0, **carried: Any) -> bytes:
        """A NACK of our packet `number` as it came in on `ev`."""
        bth = {"opcode": NACK, "pkey": 0xFFFF, "dqp": self.qp.qpn, "psn": self.psn(number), "rtx": rtx}
        neth = {"reason": reason, "entropy": ev, "nack_psn": self.psn(number), "cc_type": 2}
        return in_ipv6(encode_transport([("bth", bth), ("neth", neth)]), **carried)

    # ------------------------------------------------------------------ work

    def post(
        self,
        length: int,
        *,
        remote_va: int = 0x1000,
        rkey: int = 0xCAFE0001,
        fill: int | None = None,
        immediate: int | None = None,
        solicited: bool = False,
    ) -> bytes:
        """Post a write of `length` bytes. Returns what it writes; its wr_id is its number."""
        data = (
            bytes((fill,)) * length if fill is not None else bytes(at * 31 + self.posted & 0xFF for at in range(length))
        )
        source = MemoryRegion(data, 0, 0, remote_write=False)
        self.qp.post_write(WriteRequest(self.posted, source, 0, length, remote_va, rkey, immediate, solicited))
        self.endpoint.wake(self.qp)
        self.posted += 1
        return data

    def completed(self) -> list[tuple[int, WorkStatus]]:
        """(wr_id, status) of what has completed since the last call, in that order."""
        done = [(completion.wr_id, completion.status) for completion in self.endpoint.completions]
        self.endpoint.completions.clear()
        return done


def chosen_evs(paths: PathSet, count: int, now: int = 0) -> list[int]:
    """The EVs of the next packets, by index; fewer where none is usable."""
    picks = [paths.select(now) for _ in range(count)]
    return [index for index in picks if index >= 0]


def control_evs(paths: PathSet, count: int, now: int) -> list[int]:
    """The EVs of the next control packets, by index; none where nothing may leave."""
    picks = [paths.control.take_one(now) for _ in range(count)]
    return [index for index in picks if index >= 0]


def data(sent: Iterable[Sent]) -> list[Sent]:
    return [packet for packet in sent if packet.is_data]


def numbers(hand: HandPeer, sent: Iterable[Sent]) -> list[int]:
    """Data packets by their place after our first PSN."""
    return [(packet.psn - hand.qp.first_psn) & PSN_MASK for packet in sent if packet.is_data]


def of(sent: Iterable[Sent], opcode: int) -> list[Sent]:
    return [packet for packet in sent if packet.opcode == opcode]
