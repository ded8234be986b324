# SPDX-License-Identifier: BSD-2-Clause
"""The endpoint: owns the QPs, checks every packet before one of them sees it, takes turns among them.

It does no I/O and owns no clock: every entry takes `now`, an int of nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from random import Random

from mrc.endpoint.completions import Completion
from mrc.endpoint.config import Capability, EndpointConfig, QpConfig
from mrc.endpoint.congestion import DEFAULT_ALGORITHM, ControllerFactory, factory_of
from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.datapath import Datapath, went_back
from mrc.endpoint.datapath.receive import PacketChecks
from mrc.endpoint.events import Event, local_port, peer_port, qp_error
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.node.local_ports import LocalPorts, PortLimit
from mrc.endpoint.node.operations import NEVER, EndpointOperations, OnAnswered, OnResult
from mrc.endpoint.node.peer_node import PeerKey, PeerNode, peer_key
from mrc.endpoint.node_parts import NodeParts
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.paths.ev_events import EvEvents
from mrc.endpoint.paths.online import OnlineProfiles
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.qpns import free_qpn
from mrc.endpoint.responder.received import ReceiveBudget
from mrc.endpoint.silence import Silence
from mrc.endpoint.tracing import EndpointTrace, Tracer
from mrc.endpoint.work_rings import WorkRings
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile
from mrc.wire.psn import PSN_MODULUS
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

_KEPT_EVENTS = 1024
_NODE_SEED = 0x6E6F6465  # sets a peer node's randomness apart from everything else drawn from the same seed


def _check_supported(wire: WireProfile) -> None:
    """Raises CallerError for a switch that only layers and captures know: ignoring it would be worse."""
    if wire.icrc_covers_outer:
        raise CallerError("icrc_covers_outer works for layers and captures only: an endpoint sees no outer header")
    if not wire.udp_checksum_zero:
        raise CallerError("udp_checksum_zero=false works for layers only: an endpoint sends checksum 0")


class Endpoint:
    """All QPs of one node. `receive`, `transmit`, `next_deadline`, `on_timer`; completions and events come out."""

    def __init__(
        self,
        config: EndpointConfig | None = None,
        draw_rkey: Callable[[], int] | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`draw_rkey` gives random 32-bit numbers for R_Keys; without it they come from the configured seed, which
        is for simulations: seeded R_Keys are predictable. `tracer` records what happens (docs/trace.md)."""
        self.config = config or EndpointConfig()
        _check_supported(self.config.wire)
        self.counters = Counters()
        self.completions: deque[Completion] = deque()
        self.events: deque[Event] = deque(maxlen=_KEPT_EVENTS)
        self._random = Random(self.config.seed)
        # What all peers together may have on their way to this node.
        self.receive_budget = ReceiveBudget(self.config.receiving)
        # Called with each event as it happens.
        self.listeners: list[Callable[[Event], None]] = []
        # Called when there is another QP, before its peer can know of it.
        self.new_qp_listeners: list[Callable[[], None]] = []
        # Whether other endpoints share its addresses, and so get each other's packets. The owner of the ports may know.
        self.shares_addresses: Callable[[], bool] = lambda: False
        self._draw_rkey = draw_rkey or (lambda: self._random.getrandbits(32))
        self.memory = self.create_memory()
        self._ports = LocalPorts()
        self.qps: dict[int, QueuePair] = {}
        # Moves whenever there is another QP or peer node, or one less.
        self.members = 0
        self.ev_events = EvEvents(self.config.ev_event_limit, lambda: self.datapath.now)
        # The profiles QPs may name, and the EVs that are denied in them.
        self.online = OnlineProfiles()
        # Nodes that QPs of ours are connected to, by the set of their inner addresses.
        self.peer_nodes: dict[PeerKey, PeerNode] = {}
        self._operations = EndpointOperations(
            config=self.config.peer_nodes,
            wire=self.config.wire,
            counters=self.counters,
            ports_down=self._ports.down,
            shares_addresses=lambda: self.shares_addresses(),
            on_peer_port=self._peer_port,
            on_doubt=self._doubts,
        )
        checks = PacketChecks(self.config.wire, self.counters)
        self.datapath = Datapath(checks, self._operations, self.counters, self.config.fair_share)
        self._parts = NodeParts(
            wire=self.config.wire,
            budget=self.receive_budget,
            ports=self._ports,
            ev_events=self.ev_events,
            away=self.datapath.away,
            join=self._join,
            on_ready=self._ready_to_send,
            on_error=self._qp_error,
            denied=lambda profile_id, node: self.online.denied(profile_id, node.key),
        )
        self._silence = Silence()
        # Whether the QPs of a peer that fell silent are on their way to ERROR.
        self._giving_up = False
        self._trace: EndpointTrace | None = None
        if tracer is not None:
            self._trace = EndpointTrace(tracer, self.config.trace, lambda: self.datapath.now)
            self.listeners.append(self._trace.on_event)

    # ------------------------------------------------------------------ resources

    def create_memory(self) -> MemoryTable:
        """A table of regions for QPs that are to share no memory with others."""
        return MemoryTable(self._draw_rkey)

    def create_qp(
        self,
        config: QpConfig | None = None,
        controller: str | ControllerFactory = DEFAULT_ALGORITHM,
        *,
        memory: MemoryTable | None = None,
        complete: Callable[[Completion], None] | None = None,
        qpn: int | None = None,
        rings: int | None = None,
    ) -> QueuePair:
        """A new QP in RESET, with a QPN, unless one is given, and a first PSN drawn at random.

        QPs to one destination that name the same `controller` share one. `memory` is what the peer may write to, the
        endpoint's own table without; `complete` gets its completions, without they are kept in `completions`.
        `rings`: the address of a program's queues (mrc.endpoint.work_rings), from which work comes and where it ends.
        Raises CallerError for an unknown controller and for a QPN that is taken.
        """
        config = config or QpConfig()
        qpn = free_qpn(qpn, self.qps, self._random)
        qp = QueuePair(
            self._parts,
            qpn=qpn,
            first_psn=self._random.randrange(PSN_MODULUS),
            config=config,
            memory=memory or self.memory,
            controller_factory=factory_of(controller),
            seed=self._random.getrandbits(63),
            complete=complete or self.completions.append,
            trace=self._trace.of_qp(qpn) if self._trace is not None else None,
            rings=self._rings_at(rings),
        )
        self.qps[qpn] = qp
        self.datapath.add(qp.datapath)
        self.members += 1
        for listener in self.new_qp_listeners:
            listener()
        return qp

    def _rings_at(self, address: int | None) -> WorkRings | None:
        if address is None:
            return None
        if self.datapath.doorbells is None:
            raise CallerError("this endpoint works for no program that has rings")
        return WorkRings(address, self.datapath.doorbells)

    def destroy_qp(self, qp: QueuePair) -> None:
        """Forget a QP; packets for it are dropped and counted. Raises CallerError if it is not one of ours.

        It may be called inside a completion callback or an event listener. Completions that have been collected for
        this QP by then are still handed over.
        """
        self._check_own(qp)
        del self.qps[qp.qpn]
        self.members += 1
        slot = qp.datapath.slot
        self.datapath.scheduler.rest(slot)
        qp.abandon()
        self.datapath.scheduler.window_moved(slot)
        self.datapath.remove(qp.datapath)
        self._part(qp)
        self._review_ports()
        self.counters.add(qp.counters)

    def _check_own(self, qp: QueuePair) -> None:
        """Raises CallerError for a QP that was destroyed, or is another endpoint's."""
        if self.qps.get(qp.qpn) is not qp:
            raise CallerError(f"QP {qp.qpn:#08x} is not one of this endpoint's")

    def _join(self, qp: QueuePair, peer: QpPeer) -> PeerNode:
        """The node a QP is about to be connected to."""
        self._check_own(qp)
        node = self.peer_nodes.get(key := peer_key(peer.sources))
        if node is None:
            random = Random(repr((self.config.seed, _NODE_SEED, *sorted(key))))
            draws = Draws(random.getrandbits(64))
            node = PeerNode(peer.sources, self.config.peer_nodes, draws, self._operations.learn, self._ports.closed)
            self.peer_nodes[key] = node
            self._operations.add(node)
        self.members += 1
        self.receive_budget.on_requests(qp.qpn, self.datapath.now)
        node.qpns.add(qp.qpn)
        node.add_paths(peer.paths)
        node.name = peer.name or node.name
        node.paths_of = peer.paths_of or node.paths_of
        node.evs.service_time |= Capability.SVC_TIME in qp.config.capabilities & peer.capabilities
        self._review_ports(qp)
        self._operations.on_qp_connected(node)
        return node

    def _ready_to_send(self, qp: QueuePair) -> None:
        self._check_own(qp)
        qp.ready_at = self.datapath.now
        if qp.controller is not None and qp.peer_node is not None:
            self.datapath.scheduler.govern(qp.datapath.slot, qp.controller)
            if qp.controller.wants_base_rtt:
                self._operations.measure_base_rtt(qp.peer_node)

    def _part(self, qp: QueuePair) -> None:
        """A QP is gone; its peer node too if it was the last one towards it."""
        node = qp.peer_node
        if node is not None:
            node.qpns.discard(qp.qpn)
            if not node.qpns:
                del self.peer_nodes[node.key]
                self._operations.forget(node)

    def probe_ev(
        self,
        node: PeerNode,
        number: int,
        *,
        dscp: int | None = None,
        on_result: OnResult | None = None,
        ends_at: int | None = None,
    ) -> int:
        """Measure one EV of a peer node (by its number there) with an EV probe. Returns the request id.

        The probe goes out at the next `transmit`, with the codepoint `dscp` (0..63; control class without).
        `on_result` is called once: with the RTT, or without one when no answer came until `ends_at` (ns; without one
        in `PeerNodeConfig.ev_probe_timeout_ns`). Raises CallerError for an unknown EV or codepoint, and when too many
        requests are out.
        """
        dscp = self.config.wire.dscp_control if dscp is None else _dscp(dscp)
        return self._operations.probe_ev(node, number, dscp << 2, on_result, ends_at)

    def tell_port_status(
        self,
        node: PeerNode,
        mask: int | None,
        ends_at: int,
        on_answered: OnAnswered,
        *,
        number: int | None = None,
        dscp: int | None = None,
    ) -> None:
        """Send a peer node a port status update with this mask (32 bit; None: the ports that are up), for a controller.

        It goes out at the next `transmit`, again and again until answered or until `ends_at` (ns), on EV `number` of
        the node with the codepoint `dscp` (None: one that is drawn; the control class). `on_answered` is called once,
        with the local port of the answer, None without one. Raises CallerError as `probe_ev`.
        """
        dscp = self.config.wire.dscp_control if dscp is None else _dscp(dscp)
        place = NEVER if number is None else number
        self._operations.tell_port_status(node, mask, ends_at, on_answered, number=place, traffic_class=dscp << 2)

    def wake(self, qp: QueuePair) -> None:
        """Work was posted on `qp`: give it its turn at the next `transmit`. One that was destroyed has none."""
        if self.qps.get(qp.qpn) is qp:
            self.datapath.scheduler.wake(qp.datapath.slot)

    def total_counters(self) -> Counters:
        """The endpoint's counters and those of all its QPs, added up."""
        total = Counters()
        for counters in (self.counters, *(qp.counters for qp in self.qps.values())):
            total.add(counters)
        return total

    def port_is_up(self, port: int) -> bool:
        return port not in self._ports.down

    def set_port_room(self, port: int, has_room: bool) -> None:
        """A local port's queue filled up or drained: its EVs carry no data meanwhile (behaviour.md, Paths)."""
        if has_room and port in self._ports.full:
            self._ports.full.discard(port)
            for qp in self.qps.values():
                if qp.has_work():
                    self.datapath.scheduler.on_event(qp.datapath.slot)
        elif not has_room:
            self._ports.full.add(port)

    def set_port(self, port: int, up: bool, now: int) -> None:
        """A local port's link went down or came back: its EVs leave or rejoin every QP's rotation at once.

        Nothing changes as long as the port is out of use for another reason.
        """
        self._go_to(now)
        (self._ports.without_link.discard if up else self._ports.without_link.add)(port)
        self._review_ports()

    def enable_port(self, port: int, enabled: bool, now: int) -> None:
        """The controller sets a local port down, or gives it back: the same for its EVs, whatever its link does.

        What still arrives on it is taken.
        """
        self._go_to(now)
        (self._ports.disabled.discard if enabled else self._ports.disabled.add)(port)
        self._review_ports()

    def why_no_port(self, ports: Collection[int], path_mtu: int) -> str:
        """What to say where none of `ports` takes full packets of `path_mtu` bytes of payload; else ""."""
        return self._ports.refuse_all(ports, path_mtu)

    def limit_port(self, port: int, limit: PortLimit | None, now: int) -> None:
        """A local port takes no longer packets than `limit` has it, or (None) all again.

        It is out of use while a QP has a larger path MTU, as if it had lost its link: the short packets that still pass
        there are no sign that data would.
        """
        self._go_to(now)
        self._ports.limit(port, limit)
        self._review_ports()

    def port_is_enabled(self, port: int) -> bool:
        """Whether the controller leaves a port in use."""
        return port not in self._ports.disabled

    def link_is_up(self, port: int) -> bool:
        """Whether a port has a link, whatever the controller says of it."""
        return port not in self._ports.without_link

    def _review_ports(self, joining: QueuePair | None = None) -> None:
        """Take ports out of use or back in, as their state and the QPs' path MTUs have it, `joining`'s among them."""
        path_mtu = 0
        if self._ports.limited:
            alive = (qp for qp in self.qps.values() if qp.knows_peer and qp.state != QpState.ERROR)
            path_mtu = max((qp.config.path_mtu for qp in (*alive, *filter(None, [joining]))), default=0)
        for port, up in self._ports.review(path_mtu).items():
            self._port_is(port, up)

    def _port_is(self, port: int, up: bool) -> None:
        for qp in self.qps.values():
            qp.on_port(port, up, self.datapath.now)
            self.wake(qp)
            self.datapath.schedule(qp.datapath.slot)
        for node in self.peer_nodes.values():
            if port in node.port_of_plane.values():
                self._operations.update_port_status(node)
        self._report(local_port(self.datapath.now, port, up, self._ports.why_down(port)))

    def _peer_port(self, node: PeerNode, plane: int, up: bool, now: int) -> None:
        """A peer said that its port on `plane` went down or came back: QPs towards it leave that plane or return."""
        for qpn in node.qpns:
            qp = self.qps[qpn]
            qp.on_peer_port(plane, up, now)
            self.wake(qp)
            self.datapath.schedule(qp.datapath.slot)
        self._report(peer_port(now, plane, up))

    def _qp_error(self, qp: QueuePair, old: QpState, why: str, waited_ns: int) -> None:
        if self.qps.get(qp.qpn) is qp:  # and was not destroyed as its work was completed
            self.datapath.scheduler.window_moved(qp.datapath.slot)
        now, gone = self.datapath.now, list[tuple[QueuePair, int]]()
        if waited_ns and qp.peer_node is not None and not self._giving_up:
            others = [self.qps[qpn] for qpn in sorted(qp.peer_node.qpns)]
            gone = [(other, qp.qpn) for other in self._silence.wait_in_vain(qp, others, waited_ns, now)]
        self._report(qp_error(now, qp.qpn, old, why))
        self._give_up(gone)

    def _give_up(self, gone: Sequence[tuple[QueuePair, int]]) -> None:
        """Each QP goes to ERROR, because the QP of the number beside it has."""
        if not gone:
            return
        self._giving_up = True
        try:
            for qp, with_qpn in gone:
                # One that was destroyed as the work of another completed is nobody's any more.
                if self.qps.get(qp.qpn) is qp and qp.peer_node is not None:
                    label = qp.peer_node.label
                    qp.give_up(f"given up with QP {with_qpn:#08x}: {label} has answered neither for so long")
        finally:
            self._giving_up = False

    def _doubts(self, node: PeerNode) -> None:
        for qpn in node.qpns:
            self.qps[qpn].datapath.doubted_ports = node.doubted_ports

    def _report(self, event: Event) -> None:
        self.events.append(event)
        for listener in self.listeners:
            listener(event)

    def _go_to(self, now: int) -> None:
        """It is `now`. Raises CallerError where it was later before."""
        if now < self.datapath.now:
            raise went_back(self.datapath.now, now)
        self.datapath.now = now

    # ------------------------------------------------------------------ packets in

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        """Take packets one by one, in order of arrival. Whatever they hold, nothing is raised: what is wrong is dropped
        and counted.

        Raises CallerError for an earlier `now` than before, as all entries do, and what went wrong in a controller.
        """
        self._go_to(now)
        self.datapath.receive(batch, now)
        self.hand_over()

    def look_after(self, now: int) -> None:
        """What wants Python where the datapath runs by itself: work that has ended, operations of this node.

        Raises as `receive` does.
        """
        self._go_to(now)
        self.datapath.intake.catch_up()
        self._on_timer_of_nodes(now)
        self.hand_over()

    def looks_at(self) -> int | None:
        """When `look_after` wants to be called at the latest, ns, or None."""
        of_operations, of_silence = self._operations.next_deadline(), self._silence.next_deadline()
        if of_operations is None or of_silence is None:
            return of_silence if of_operations is None else of_operations
        return min(of_operations, of_silence)

    def _on_timer_of_nodes(self, now: int) -> None:
        self._operations.on_timer(now)
        self._give_up(self._silence.due(self.qps, now))

    @property
    def work_has_ended(self) -> bool:
        return self.datapath.done > 0

    def hand_over(self) -> None:
        """Hand over the work that has ended. Raises what went wrong where nothing could be raised."""
        away = self.datapath.away
        if away.failed and away.failure is not None:
            raise away.failure
        while self.datapath.done:
            slot = self.datapath.take_done()
            if self.datapath.qps.holds(slot):
                self.datapath.qps.at[slot].completions.drain()

    # ------------------------------------------------------------------ packets out

    @property
    def data_before_answers(self) -> int:
        """How often a single packet of data was sent ahead of answers that were due."""
        return self.datapath.data_before_answers

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        """Fill `batch` with what may leave now, QP by QP in turn, and seal it. Returns the number of packets."""
        self._go_to(now)
        return self.datapath.transmit(batch, now)

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int | None:
        """When `on_timer` should be called next, ns, or None. It may come early: a call too soon does nothing."""
        of_qps, of_nodes = self.datapath.next_deadline(), self.looks_at()
        earliest = of_qps if of_nodes is None else min(of_qps, of_nodes)
        return None if earliest == FOREVER else earliest

    def on_timer(self, now: int) -> None:
        """Run the timers that are due."""
        self._go_to(now)
        self._on_timer_of_nodes(now)
        self.datapath.on_timer(now)
        self.hand_over()


def _dscp(given: int) -> int:
    """Raises CallerError for one out of range."""
    if not 0 <= given <= 63:
        raise CallerError(f"a DSCP is 0..63, got {given}")
    return given
