# SPDX-License-Identifier: BSD-2-Clause
"""Two real endpoints and several QP pairs between them, over an adversary's network, in virtual time.

Packets go from the endpoints to the network and back past an onlooker (adversary_shadow.py); what must hold at any
time is checked whenever the endpoints have had their turn.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from adversary_network import (
    ACK,
    ENDPOINT_REQUEST,
    ENDPOINT_RESPONSE,
    NACK,
    NODES,
    PROBE,
    REASON_AT,
    SACK,
    Network,
    Packet,
    as_batch,
    brief,
    icrc,
)
from adversary_setting import MICROSECOND, MILLISECOND, SECOND, Setting
from adversary_shadow import Shadow, hold, is_request
from adversary_work import REGION_BYTES, UNTOUCHED, Work

from mrc.endpoint.completions import Completion
from mrc.endpoint.config import Capability, EndpointConfig, ResponderConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.addressing import PlanePair, srv6_paths
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import MAY_RECEIVE, QpState
from mrc.wire.packet import decode_transport
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import UsidTemplate

ENDPOINT_QPN = 2
ECT0 = 0b10
REASONS = frozenset({0x01, 0x02, 0x06, 0x07, 0x0A, 0x0B, 0x19})  # wire.md section 7
_EXCEEDED = "retry counter exceeded"
PORT_STATUS_UPDATE = 0
CALM_DELAY_NS = 10 * MICROSECOND
MOST_PACKETS_AT_ONE_INSTANT = 4096
MOST_TIMERS_AT_ONE_INSTANT = 64
MOST_ROUNDS = 20_000
DECODED_EVERY = 7  # the full decoder takes its time: control packets and every so many requests


class End:
    """One QP at one node, what it posted, and what the wire shows of its requests."""

    def __init__(self, node: int, qp: QueuePair, shadow: Shadow, work: Work, traffic_class: int | None) -> None:
        self.node = node
        self.traffic_class = traffic_class
        self.qp = qp
        self.shadow = shadow
        self.work = work
        self.peer = self
        self.gone = False

    @property
    def alive(self) -> bool:
        return not self.gone and self.qp.state == QpState.RTS


@dataclass(slots=True)
class Pair:
    """Two connected ends. `doomed`: the adversary did what a QP may not survive."""

    ends: tuple[End, End]
    doomed: bool = False


def address(node: int, plane: int) -> str:
    return f"fd00:{plane:x}::{node + 1:x}"


def number_of(text: str) -> int:
    return int(ipaddress.IPv6Address(text))


class Nodes:
    """`now` in ns. `log` gets a line for everything that happens, if it is wanted."""

    def __init__(self, setting: Setting, log: Callable[[str], None] | None = None) -> None:
        self.setting = setting
        self.now = 1 * MILLISECOND
        self.network = Network()
        self.events: Counter[str] = self.network.events
        self.endpoints = tuple(
            Endpoint(
                EndpointConfig(
                    seed=setting.seed * 2 + node,
                    fair_share=setting.fair_share,
                    transmit_batch=setting.transmit_batch,
                )
            )
            for node in NODES
        )
        self._batch = TransmitBatch(setting.transmit_batch)
        self._held: set[int] = set()
        self.full_ports: tuple[set[int], set[int]] = (set(), set())
        self._ends: tuple[dict[int, End], dict[int, End]] = ({}, {})
        self._decoded = 0
        # By the node it came to: the last PORT_STATUS_UPDATE, and those that came too late and were not answered.
        self._last_update = [-1, -1]
        self._overtaken: tuple[set[int], set[int]] = (set(), set())
        self._log = log
        # The QPs whose own retries have run out, those of pairs that were replaced among them.
        self._exceeded: set[int] = set()
        self.pairs = [self._connect() for _ in range(setting.pairs)]
        self._settle()

    # ------------------------------------------------------------------ set-up

    def _connect(self) -> Pair:
        setting, config = self.setting, self.setting.config
        qps = []
        classes = [
            setting.traffic_classes[(len(ends) + node) % len(setting.traffic_classes)]
            for node, ends in enumerate(self._ends)
        ]
        for node in NODES:
            own = config if classes[node] is None else replace(config, traffic_class=classes[node])
            qp = self.endpoints[node].create_qp(own, setting.controller, complete=self._completed(node))
            qp.first_psn = (1 << 24) - setting.before_wrap
            qps.append(qp)
        ends = []
        for node, (qp, other) in enumerate(zip(qps, reversed(qps), strict=True)):
            pairs = [
                PlanePair(p, p, address(node, p), address(1 - node, p), setting.spines) for p in range(setting.planes)
            ]
            paths = srv6_paths(pairs, UsidTemplate(node, 1 - node, 1 - node))
            sources = {plane: number_of(address(1 - node, plane)) for plane in range(setting.planes)}
            qp.to_init()
            qp.to_rtr(QpPeer(other.qpn, other.first_psn, paths, sources, config.capabilities))
            shadow = Shadow(
                first_psn=qp.first_psn,
                window=config.send_window,
                dynamic_mpr=Capability.DYNAMIC_MPR in config.capabilities,
                exact=config.responder == ResponderConfig(),
            )
            region = self.endpoints[1 - node].memory.register(bytearray([UNTOUCHED]) * REGION_BYTES, va=1 << 40)
            ends.append(End(node, qp, shadow, Work(region, shadow.may_complete), classes[node]))
        for end, other_end in zip(ends, reversed(ends), strict=True):
            end.qp.to_rts()
            end.peer, end.work.peer = other_end, other_end.work
            end.shadow.receives_posted = partial(getattr, other_end.work, "receives_posted")
            end.shadow.solicited = end.work.solicited
            self._ends[end.node][end.qp.qpn] = end
        return Pair((ends[0], ends[1]))

    def _completed(self, node: int) -> Callable[[Completion], None]:
        def completed(done: Completion) -> None:
            end = self._ends[node].get(done.qpn)
            hold(end is not None, "a completion of a QP that does not exist:", done)
            assert end is not None
            self.events[f"{done.kind.name} {done.status.name}".lower()] += 1
            end.work.on_completion(done)

        return completed

    def _did(self, what: str, *details: object) -> None:
        self.events[what] += 1
        if self._log is not None:
            self._log(f"{self.now / 1000:.0f} us: {what} {' '.join(map(str, details))}")

    def _end(self, node: int, pair: int) -> End:
        return self.pairs[pair % len(self.pairs)].ends[node]

    def _pair_of(self, end: End) -> Pair:
        return next(pair for pair in self.pairs if end in pair.ends)

    def _doom(self, end: End) -> None:
        self._pair_of(end).doomed = True

    def _destroy(self, end: End) -> None:
        end.gone = end.work.gone = True
        self.endpoints[end.node].destroy_qp(end.qp)

    # ------------------------------------------------------------------ packets in

    def _arrive(self, to: int, packets: list[Packet]) -> None:
        if not packets:
            return
        self.events["packets delivered"] += len(packets)
        if self._log is not None:
            self._log(f"{self.now / 1000:.0f} us: {len(packets)} packets to node {to}: {' '.join(map(brief, packets))}")
        self.now += MICROSECOND
        for packet in packets:
            self._seen_arriving(to, packet)
        self.endpoints[to].receive(as_batch(packets), self.now)
        self._settle()

    def _seen_arriving(self, to: int, packet: Packet) -> None:
        if not packet.intact:
            return
        end = self._ends[to].get(int.from_bytes(packet.data[53:56], "big"))
        if packet.data[48] in (ENDPOINT_REQUEST, ENDPOINT_RESPONSE):
            self._seen_port_status(to, packet.data)
        if end is None or end.gone or end.qp.state not in MAY_RECEIVE:
            return
        if is_request(packet.data):
            end.peer.shadow.on_request_arrived(packet.data)
        elif packet.data[48] in (ACK, SACK):
            end.shadow.on_answer_arrived(packet.data)
        elif packet.data[48] == NACK and packet.data[REASON_AT] not in REASONS:
            self.events["NACKs of an unknown reason delivered"] += 1

    def _seen_port_status(self, to: int, data: bytes) -> None:
        """An update that arrives after a later one says what no longer holds. Its sender learns so from the answer,
        and says again what holds; if the answer is lost nobody knows."""
        req_id = int.from_bytes(data[58:60], "big")
        if data[48] == ENDPOINT_RESPONSE:
            self._overtaken[1 - to].discard(req_id)
        elif data[61] & 3 == PORT_STATUS_UPDATE:
            if req_id < self._last_update[to]:
                self._overtaken[to].add(req_id)
            else:
                self._last_update[to] = req_id
                self._overtaken[to].clear()

    # ------------------------------------------------------------------ time

    def _next_deadline(self) -> int | None:
        deadlines = [endpoint.next_deadline() for endpoint in self.endpoints]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _run_timers(self, now: int) -> None:
        self.now = now
        for _ in range(MOST_TIMERS_AT_ONE_INSTANT):
            for endpoint in self.endpoints:
                endpoint.on_timer(now)
            self._settle()
            due = self._next_deadline()
            if due is None or due > now:
                return
        hold(False, "timers run for ever at one instant")

    def _round(self) -> None:
        until = self.now + CALM_DELAY_NS
        while (due := self._next_deadline()) is not None and due <= until:
            self._run_timers(max(due, self.now))
        self.now = until
        for to in NODES:
            self.deliver_run(to, 0, len(self.network.flying[to]))

    # ------------------------------------------------------------------ packets out

    def _settle(self) -> None:
        """Both endpoints send what they have to send, and what must always hold is looked at."""
        for node in NODES:
            if node not in self._held:
                self._transmit(node)
        self._check()

    def _transmit(self, node: int) -> None:
        batch, sent = self._batch, 0
        while count := self.endpoints[node].transmit(batch, self.now):
            hold(count == batch.count, "transmit told of", count, "packets and made", batch.count)
            classes, planes = batch.traffic_class[:count].tolist(), batch.port[:count].tolist()
            for row in range(count):
                self._seen_leaving(node, batch.packet(row), planes[row], classes[row])
            batch.clear()
            sent += count
            hold(sent <= MOST_PACKETS_AT_ONE_INSTANT, "node", node, "never stops sending at one instant")
        for pair in self.pairs:
            end = pair.ends[node]
            if not end.gone:
                hold(not end.qp.pending(), f"QP {end.qp.qpn:#x} could send, but is never asked")
                if end.qp.outstanding and not end.shadow.last_asks:
                    # Where QPs share a window another may use it up after this one's turn.
                    shared = len(self.pairs) > 1 and not self._window_open(end)
                    hold(shared, f"QP {end.qp.qpn:#x} stopped after a packet that asks for no SACK")
                    end.shadow.last_asks = True

    @staticmethod
    def _window_open(end: End) -> bool:
        return end.qp.controller is not None and end.qp.controller.may_send

    def _seen_leaving(self, node: int, data: bytes, plane: int, traffic_class: int) -> None:
        hold(icrc(data[:-4]) == data[-4:], "a packet with a wrong ICRC was sent")
        opcode, dqp = data[48], int.from_bytes(data[53:56], "big")
        requests = is_request(data)
        self._decoded += 1
        if not requests or not self._decoded % DECODED_EVERY:
            malformed = decode_transport(data[48:]).malformed
            hold(malformed is None, "a malformed packet was sent:", malformed)
        if dqp != ENDPOINT_QPN:
            peer = self._ends[1 - node].get(dqp)
            hold(peer is not None, f"a packet to QP {dqp:#x}, which does not exist")
            assert peer is not None
            self._check_traffic_class(peer.peer, traffic_class, data=requests or opcode == PROBE)
            if requests:
                hold(self.endpoints[node].port_is_up(plane), "data was sent on port", plane, "which is down")
                hold(plane not in self.full_ports[node], "data was sent on port", plane, "which has no room")
                peer.peer.shadow.on_request_sent(data)
            elif opcode != PROBE and (peer.peer.gone or peer.peer.qp.state in MAY_RECEIVE):
                # What a QP in ERROR still answers is older than the request that ended it, which the shadow has seen.
                peer.shadow.on_answer_sent(data)
        ev = int.from_bytes(data[2:4], "big") << 16 | int.from_bytes(data[40:42], "big")
        self.network.launch(1 - node, Packet(data, plane, ev, traffic_class))

    @staticmethod
    def _check_traffic_class(sender: End, traffic_class: int, *, data: bool) -> None:
        """wire.md section 12: a QP's own DSCP is that of its data and probes, which are ECT(0); control is neither."""
        if sender.traffic_class is not None and data:
            due = sender.traffic_class & ~3 | ECT0
            hold(traffic_class == due, "traffic class", traffic_class, "of a QP that sends data with", due)
        hold(data or not traffic_class & 3, "a control packet of traffic class", traffic_class)

    # ------------------------------------------------------------------ checks

    def _check(self) -> None:
        """What holds at any time."""
        ended = [end.qp for pair in self.pairs for end in pair.ends if not end.gone and end.qp.error]
        self._exceeded |= {qp.qpn for qp in ended if qp.error.startswith(_EXCEEDED)}
        for node in NODES:
            endpoint = self.endpoints[node]
            inflight: dict[object, int] = {}
            busy = False
            for end in (pair.ends[node] for pair in self.pairs):
                if end.gone:
                    continue
                if end.qp.state == QpState.RTS:
                    bytes_out = end.qp.requestor.sent.bytes_outstanding()
                    inflight[end.qp.controller] = inflight.get(end.qp.controller, 0) + bytes_out
                    busy |= end.qp.outstanding > 0
                elif end.qp.state == QpState.ERROR:
                    end.work.check_all_ended()
                    self._check_error_allowed(end)
            for peer in endpoint.peer_nodes.values():
                for controller in peer.controllers.values():
                    due = inflight.get(controller, 0)
                    hold(controller.inflight == due, "inflight", controller.inflight, "where", due, "is outstanding")
            hold(not busy or endpoint.next_deadline() is not None, "packets are outstanding and no timer runs")

    def _check_error_allowed(self, end: End) -> None:
        pair = self._pair_of(end)
        if pair.doomed:
            return
        gave_up = [each.qp.error or "" for each in pair.ends if each.qp.state == QpState.ERROR]
        # A QP whose retries have run out takes along those that wait for the same silent peer.
        reasons = (_EXCEEDED, *(f"given up with QP {qpn:#08x}: " for qpn in self._exceeded))
        hold(
            not self.setting.for_ever and any(why.startswith(reasons) for why in gave_up),
            f"QP {end.qp.qpn:#x} is in ERROR without a reason: {end.qp.error}",
        )

    def check_memory(self) -> None:
        for pair in self.pairs:
            for end in pair.ends:
                end.work.check_memory()

    def _quiet(self) -> bool:
        return not any(self.network.flying) and self._next_deadline() is None

    def _until(self, done: Callable[[], bool]) -> None:
        """Silence may have made a requestor wait as long again for its next retry."""
        limit = self.now * 2 + 30 * SECOND
        for _ in range(MOST_ROUNDS):
            if any(self.network.flying):
                self._round()
            elif done():
                return
            else:
                due = self._next_deadline()
                hold(due is not None, "work has not ended, nothing is in flight, and no timer runs")
                assert due is not None
                hold(due <= limit, "still busy", (limit - self.now) / SECOND, "s after the adversary relented")
                self._run_timers(max(due, self.now))
        hold(False, "the endpoints talk for ever: now", self.now, "in flight", [len(f) for f in self.network.flying])

    def total_counters(self) -> Counters:
        """Of both endpoints and all QPs there ever were."""
        total = Counters()
        for endpoint in self.endpoints:
            total.add(endpoint.total_counters())
        return total
