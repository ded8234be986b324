# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations, node to node on DQP 2: EV probes and port status updates (wire.md section 8).

An EV probe measures one EV, for a controller or to learn reverse EVs. A port status update lists our ports that are up
for a peer node; it is repeated until answered. Requests of peer nodes are answered in the control class. Their EV
probes do not come here, unless from an address of our own: `OperationIntake` and `OperationAnswers` answer them
without the interpreter.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Set

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.node.operation_answers import OperationAnswers
from mrc.endpoint.node.operation_intake import OPERATION_BITS, Operation, OperationIntake, is_from_own_address
from mrc.endpoint.node.operation_rates import OperationRates
from mrc.endpoint.node.peer_node import PeerKey, PeerNode
from mrc.endpoint.node.peer_ports import PeerPorts
from mrc.endpoint.node.peer_table import PeerTable
from mrc.endpoint.parts.flags import Flag
from mrc.errors import CallerError
from mrc.records import record
from mrc.wire import octets
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import BTH_AT, EXTENSION_AT, PSN_FLAGS_AT, TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS, fields_at
from mrc.wire.transmit_batch import TransmitBatch

NEVER = -1
_REQUEST_IDS = 1 << 16
# An answer to one of so many requests of ours may still be on its way.
_REMEMBERED_IDS = 1 << 12
_MAX_OUTSTANDING = 4096
# Where in a packet (mrc.wire.fields.ENDPOINT_REQUEST, ENDPOINT_RESPONSE); the extension header begins with its word.
_PORT_STATUS_AT, _REQUEST_STAMP_AT = fields_at("erth", "port_status_mask tx_timestamp")
_ERTH_AT = EXTENSION_AT
(_RESPONSE_STAMP_AT,) = fields_at("eeth", "tx_timestamp")


@record(frozen=True, slots=True)
class EvProbeResult:
    """How an EV probe ended. `port` is the local port it left by, `response_port` the one its answer arrived on.

    `rtt_ns` and `response_port` are None when no answer came; `service_time_taken_off` is whether the time the peer
    held the probe was taken off.
    """

    req_id: int
    ev: int
    port: int
    rtt_ns: int | None
    service_time_taken_off: bool
    response_port: int | None = None


OnResult = Callable[[EvProbeResult], None]
# Called with the local port that the answer arrived on; None: no answer came.
OnAnswered = Callable[[int | None], None]


@record(slots=True)
class _Request:
    """A request of ours that waits to be sent or answered. `number` is its EV's at the node; a port status update
    without one draws one each time it is sent. One with `on_answered` is a controller's and sends `mask`; it ends at
    `ends_at`, as a probe of a controller's does."""

    node: PeerNode
    operation: Operation
    number: int = NEVER
    traffic_class: int = 0
    on_result: OnResult | None = None
    on_answered: OnAnswered | None = None
    mask: int | None = None
    ends_at: int = NEVER
    interval: int = 0
    superseded: bool = False
    sent_at: int = NEVER
    deadline: int = NEVER


class EndpointOperations:
    """All endpoint operations of one endpoint. `intake` takes packets first, `answers` are those that wait to be sent.

    `ports_down` are its local ports that are down; `shares_addresses` says whether other endpoints have its addresses.
    `on_peer_port(node, plane, up, now)` is called when a peer says that a port of its went down or came back,
    `on_doubt(node)` when a node has other `doubted` planes.
    """

    __slots__ = (
        "_config",
        "_counters",
        "_deadlines",
        "_drawn",
        "_last_updates",
        "_next_id",
        "_peers",
        "_ports_down",
        "_requests",
        "_shares_addresses",
        "_to_send",
        "_updates",
        "_wire",
        "answers",
        "intake",
        "peer_ports",
        "pending",
    )

    def __init__(
        self,
        *,
        config: PeerNodeConfig,
        wire: WireProfile,
        counters: Counters,
        ports_down: Set[int],
        shares_addresses: Callable[[], bool],
        on_peer_port: Callable[[PeerNode, int, bool, int], None],
        on_doubt: Callable[[PeerNode], None],
    ) -> None:
        self._config = config
        self._wire = wire
        self._counters = counters
        self._ports_down = ports_down
        self._shares_addresses = shares_addresses
        rates = OperationRates(counters)
        self._peers = PeerTable(rates)
        self.answers = OperationAnswers(wire, counters)
        self.intake = OperationIntake(self._peers, rates, self.answers, counters)
        self._next_id = config.first_request_id
        self._drawn = 0
        self._requests: dict[int, _Request] = {}
        # The port status update that each node has still to answer, by its request id.
        self._updates: dict[PeerKey, int] = {}
        # The last port status update to each node, answered or not.
        self._last_updates: dict[PeerKey, int] = {}
        self._to_send: list[int] = []
        # Up while `transmit` has something to do.
        self.pending = Flag()
        self.peer_ports = PeerPorts(config, wire, counters, on_peer_port, on_doubt)
        self._deadlines: list[tuple[int, int]] = []  # a heap of (when, ns; request id)

    # ------------------------------------------------------------------ peer nodes

    def add(self, node: PeerNode) -> None:
        """Talk to this node from now on."""
        self._peers.add(node)

    def on_qp_connected(self, node: PeerNode) -> None:
        """There are EVs towards this node: it must know of a port that is down already."""
        if node.key not in self._updates and self._ports_down & set(node.port):
            self.update_port_status(node)

    def forget(self, node: PeerNode) -> None:
        """A node is gone: what it was asked has failed."""
        self.answers.forget(self._peers.handle_of(node))
        self._peers.remove(node)
        self._updates.pop(node.key, None)
        self._last_updates.pop(node.key, None)
        for req_id in [req_id for req_id, request in self._requests.items() if request.node is node]:
            self._fail(req_id)

    # ------------------------------------------------------------------ requests of ours

    def probe_ev(
        self,
        node: PeerNode,
        number: int,
        traffic_class: int,
        on_result: OnResult | None = None,
        ends_at: int | None = None,
    ) -> int:
        """Probe one EV of a node. Returns the request id; `on_result` is called once, with the answer or without.

        It is given up at `ends_at` (ns), without one after `ev_probe_timeout_ns`. Raises CallerError for an EV the node
        does not have, or when too many requests are out.
        """
        if not 0 <= number < len(node.paths):
            raise CallerError(f"the node has EVs 0..{len(node.paths) - 1}, got {number}")
        self._check_room()
        end = NEVER if ends_at is None else ends_at
        return self._add(_Request(node, Operation.EV_PROBE, number, traffic_class, on_result, ends_at=end))

    def learn(self, node: PeerNode) -> None:
        """Probe a random EV of a node, so that control packets to it have one that is known to work."""
        number = node.evs.random_ev()
        if number >= 0 and len(self._requests) < _MAX_OUTSTANDING:
            self._add(_Request(node, Operation.EV_PROBE, number, self._wire.dscp_control << 2))

    def measure_base_rtt(self, node: PeerNode) -> None:
        """Probe some EVs of a node before there is data: their results go to the controllers of that destination.

        A node that is being probed already is left to it: a thousand QPs at once learn no more than one.
        """
        if any(each.node is node and each.operation == Operation.EV_PROBE for each in self._requests.values()):
            return
        for _ in range(self._config.base_rtt_probes):
            self.learn(node)

    def update_port_status(self, node: PeerNode) -> None:
        """Notify a node which of our ports are up, until it answers. An update it has not answered is superseded."""
        old = self._updates.pop(node.key, None)
        if old is not None and self._requests[old].sent_at == NEVER:
            del self._requests[old]
        elif old is not None:
            self._requests[old].superseded = True
        request = _Request(
            node,
            Operation.PORT_STATUS_UPDATE,
            traffic_class=self._wire.dscp_control << 2,
            interval=self._config.port_update_interval_ns,
        )
        self._updates[node.key] = self._add(request)

    def tell_port_status(
        self,
        node: PeerNode,
        mask: int | None,
        ends_at: int,
        on_answered: OnAnswered,
        *,
        number: int = NEVER,
        traffic_class: int | None = None,
    ) -> int:
        """Notify a node once, for a controller, that the ports in `mask` are up; None: those that are.

        It travels on EV `number` of the node, or on one that is drawn each time, in `traffic_class` or the control
        class. Repeated until answered, at most until `ends_at`; `on_answered` is called once. Raises CallerError when
        too many requests are out, and for an EV that the node does not have.
        """
        if number != NEVER and not 0 <= number < len(node.paths):
            raise CallerError(f"the node has EVs 0..{len(node.paths) - 1}, got {number}")
        self._check_room()
        return self._add(
            _Request(
                node,
                Operation.PORT_STATUS_UPDATE,
                number,
                traffic_class=self._wire.dscp_control << 2 if traffic_class is None else traffic_class,
                on_answered=on_answered,
                mask=mask,
                ends_at=ends_at,
                interval=self._config.port_update_interval_ns,
            )
        )

    def _check_room(self) -> None:
        if len(self._requests) >= _MAX_OUTSTANDING:
            raise CallerError(f"{_MAX_OUTSTANDING} endpoint requests are out: wait for answers")

    def _add(self, request: _Request) -> int:
        while self._next_id in self._requests:
            self._next_id = (self._next_id + 1) % _REQUEST_IDS
        req_id = self._next_id
        self._next_id = (req_id + 1) % _REQUEST_IDS
        self._drawn += 1
        self._requests[req_id] = request
        if request.operation == Operation.PORT_STATUS_UPDATE:
            self._last_updates[request.node.key] = req_id
        self._to_send.append(req_id)
        self.pending.up = True
        return req_id

    # ------------------------------------------------------------------ packets in

    def receive(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> None:
        """A packet that `intake` leaves to Python: port status, a response, a probe from an address of our own."""
        nodes = self._peers.senders(batch, row)
        if not nodes:
            # It was put aside, and they are gone.
            self._counters.unknown_peer += 1
        elif opcode == Op.ENDPOINT_RESPONSE:
            for node in nodes:
                self.peer_ports.heard_of(node, batch, row, now)
            self._on_response(nodes, batch, row, now)
        elif self._is_echo(batch, row):
            # It came back to the socket that sent it. Its receiver at the same address answers it.
            return
        elif self._operation(batch, row, _ERTH_AT) == Operation.EV_PROBE:
            self._counters.ev_probes_answered += 1
            self.answers.add(self._peers.handle_of(nodes[0]), Operation.EV_PROBE, batch, row, now)
        else:
            self._on_port_status(nodes, batch, row, now)

    def _is_echo(self, batch: ReceivedBatch, row: int) -> bool:
        """Whether a request is one of ours that is out, on its way back from an address we share with the peer."""
        request = self._requests.get(self._request_id(batch, row))
        return (
            request is not None
            and request.sent_at != NEVER
            and self._operation(batch, row, _ERTH_AT) == request.operation
            and is_from_own_address(batch, row)
        )

    @staticmethod
    def _request_id(batch: ReceivedBatch, row: int) -> int:
        return octets.u32(batch.flat, batch.row(row) + PSN_FLAGS_AT) & (_REQUEST_IDS - 1)

    @staticmethod
    def _operation(batch: ReceivedBatch, row: int, at: int, shift: int = 0) -> int:
        return octets.u16(batch.flat, batch.row(row) + at) >> shift & OPERATION_BITS

    def _on_port_status(self, nodes: list[PeerNode], batch: ReceivedBatch, row: int, now: int) -> None:
        self._counters.port_updates_received += 1
        # The first node's answers go with it, which may be while the application hears of a port.
        self.answers.add(self._peers.handle_of(nodes[0]), Operation.PORT_STATUS_UPDATE, batch, row, now)
        for node in nodes:
            self.peer_ports.update(node, octets.u32(batch.flat, batch.row(row) + _PORT_STATUS_AT), now)

    def _on_response(self, nodes: list[PeerNode], batch: ReceivedBatch, row: int, now: int) -> None:
        base = batch.row(row)
        req_id = self._request_id(batch, row)
        operation = self._operation(batch, row, EXTENSION_AT, self._wire.eeth_op_shift)
        request = self._requests.get(req_id)
        if (
            request is None
            or request.sent_at == NEVER
            or operation != request.operation
            or not any(node is request.node for node in nodes)
        ):
            ours = self._was_ours(req_id)
            # What another endpoint at our address is answered comes to us as well.
            is_for_another = is_from_own_address(batch, row) or (not ours and self._shares_addresses())
            self._counters.unexpected_endpoint_response += not is_for_another
            late = request is None and operation == Operation.PORT_STATUS_UPDATE and ours
            if late and nodes[0].key not in self._updates and req_id != self._last_updates.get(nodes[0].key):
                # An update of old came through after all: say once more what holds. The latest one may be answered
                # twice, by two endpoints that share the peer's address: it is what holds.
                self.update_port_status(nodes[0])
            return
        if operation == Operation.EV_PROBE and now >= request.deadline:
            # Whether the answer or the timer is looked at first is chance; and where this endpoint itself stood still,
            # the time until now is no round trip.
            self._probe_failed(req_id)
            return
        del self._requests[req_id]
        if operation == Operation.EV_PROBE:
            reflected = octets.u16(batch.flat, base + _RESPONSE_STAMP_AT)
            self._probe_answered(req_id, request, reflected, batch.ports[row], now)
        elif request.on_answered is not None:
            request.on_answered(batch.ports[row])
        elif self._updates.get(request.node.key) == req_id:
            del self._updates[request.node.key]
        else:
            # A superseded update came through, perhaps after its successor: say once more what holds.
            self.update_port_status(request.node)

    def _was_ours(self, req_id: int) -> bool:
        """Whether we may have sent a request with this id lately. An endpoint that shares our address draws others."""
        return (self._next_id - 1 - req_id) % _REQUEST_IDS < min(self._drawn, _REMEMBERED_IDS)

    def _probe_answered(self, req_id: int, request: _Request, reflected: int, arrived_on: int, now: int) -> None:
        node = request.node
        rtt, taken_off = now - request.sent_at, False
        held = (reflected - request.sent_at // TIMESTAMP_UNIT_NS) % (1 << 16) * TIMESTAMP_UNIT_NS
        # Timestamps wrap after 8.4 ms: what is not shorter than the whole round trip is no service time.
        if node.evs.service_time and reflected and held < max(rtt, 1):
            rtt, taken_off = rtt - held, True
        node.rtt.sample(rtt, now)
        node.reverse.confirm(request.number, now)
        for controller in node.controllers.values():
            controller.measured(now, rtt)
        if request.on_result is not None:
            path = node.paths[request.number]
            request.on_result(EvProbeResult(req_id, path.ev, path.port, rtt, taken_off, arrived_on))

    # ------------------------------------------------------------------ packets out

    def transmit(self, batch: TransmitBatch, now: int) -> None:
        """Append the requests that wait."""
        while self._to_send and batch.free:
            req_id = self._to_send.pop(0)
            request = self._requests.get(req_id)
            if request is None or request.superseded:
                continue
            if self._is_denied(request):
                self._fail(req_id)
            else:
                self._send_request(batch, req_id, request, now)
        self.pending.up = bool(self._to_send)

    @staticmethod
    def _is_denied(request: _Request) -> bool:
        """Whether it is a probe of our own on an EV that was denied since. A controller's goes wherever it says."""
        number = request.number
        of_controller = request.on_result is not None or request.on_answered is not None
        return number != NEVER and not of_controller and bool(request.node.reverse.denied[number])

    def _send_request(self, batch: TransmitBatch, req_id: int, request: _Request, now: int) -> None:
        node, number = request.node, request.number
        mask = 0
        if request.operation == Operation.PORT_STATUS_UPDATE:
            again_at = now + request.interval
            self._schedule(req_id, request, again_at if request.ends_at == NEVER else min(again_at, request.ends_at))
            request.interval = min(2 * request.interval, self._config.port_update_interval_max_ns)
            up = [plane for plane, port in node.port_of_plane.items() if port not in self._ports_down]
            mask = sum(1 << plane + self._wire.first_port_bit for plane in up) if request.mask is None else request.mask
            if number == NEVER:
                number = node.evs.control_ev()
            if number < 0:
                return
            self._counters.port_updates_sent += 1
        else:
            usual = now + self._config.ev_probe_timeout_ns
            self._schedule(req_id, request, usual if request.ends_at == NEVER else request.ends_at)
            self._counters.ev_probes_sent += 1
        request.sent_at = now
        at = node.evs.open(batch, number, request.traffic_class, HEADER_LENGTHS["erth"])
        batch.flat[at + BTH_AT] = Op.ENDPOINT_REQUEST
        octets.put32(batch.flat, at + PSN_FLAGS_AT, req_id)
        octets.put16(batch.flat, at + EXTENSION_AT, request.operation)
        octets.put32(batch.flat, at + _PORT_STATUS_AT, mask)
        octets.put16(batch.flat, at + _REQUEST_STAMP_AT, now // TIMESTAMP_UNIT_NS)
        octets.put16(batch.flat, at + _REQUEST_STAMP_AT + 2, TIMESTAMP_FTYPE)

    # ------------------------------------------------------------------ time

    def _schedule(self, req_id: int, request: _Request, at: int) -> None:
        request.deadline = at
        heapq.heappush(self._deadlines, (at, req_id))

    def next_deadline(self) -> int | None:
        """When `on_timer` wants to be called next, ns, or None."""
        while self._deadlines:
            at, req_id = self._deadlines[0]
            request = self._requests.get(req_id)
            if request is not None and request.deadline == at:
                return at
            heapq.heappop(self._deadlines)
        return None

    def on_timer(self, now: int) -> None:
        """Give up the probes and repeat the updates that have waited long enough."""
        while (at := self.next_deadline()) is not None and at <= now:
            _, req_id = heapq.heappop(self._deadlines)
            request = self._requests[req_id]
            if request.superseded:
                del self._requests[req_id]
            elif request.on_answered is not None and now >= request.ends_at:
                self._fail(req_id)
            elif request.operation == Operation.PORT_STATUS_UPDATE:
                self._to_send.append(req_id)
                self.pending.up = True
            else:
                self._probe_failed(req_id)

    def _probe_failed(self, req_id: int) -> None:
        """No answer came in time."""
        request = self._requests[req_id]
        self._counters.ev_probes_failed += 1
        if request.deadline - request.sent_at >= self._config.ev_probe_timeout_ns:  # else nothing is known of the EV
            request.node.reverse.lose(request.number)
        self._fail(req_id)

    def _fail(self, req_id: int) -> None:
        request = self._requests.pop(req_id)
        if request.on_answered is not None:
            request.on_answered(None)
        if request.on_result is not None:
            path = request.node.paths[request.number]
            request.on_result(EvProbeResult(req_id, path.ev, path.port, None, False))
