# SPDX-License-Identifier: BSD-2-Clause
"""A queue pair: one requestor and one responder, and the states that let them work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.config import NO_CAPABILITIES, Capability, PathConfig, QpConfig
from mrc.endpoint.congestion import CongestionController, ControllerFactory, PacketSizes
from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.qp_datapath import Arrivals, QpDatapath
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.node_parts import NodeParts
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.ev_events import EvObservers
from mrc.endpoint.paths.online import DEFAULT_PROFILE
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import MAY_SEND, QpState, check_takes_receives, check_transition, no_writes_yet
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.requestor.send import full_packet_bytes
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.responder import Responder
from mrc.endpoint.tracing import QpTrace
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.endpoint.work import WriteRequest
from mrc.endpoint.work_rings import WorkRings
from mrc.errors import CallerError
from mrc.wire.rows import PSN_BITS_MASK
from mrc.wire.transmit_batch import TransmitBatch

_ERROR = QpState.ERROR


class QueuePair:
    """One QP. Created in RESET by `Endpoint.create_qp`; `to_init`, `to_rtr` and `to_rts` bring it up."""

    __slots__ = (
        "_complete",
        "_controller_factory",
        "_memory",
        "_node",
        "_parts",
        "_receives",
        "_requestor",
        "_responder",
        "_seed",
        "_trace",
        "agreed",
        "arrivals",
        "cc_profile_id",
        "config",
        "controller",
        "counters",
        "datapath",
        "error",
        "ev_profile_id",
        "first_psn",
        "paths",
        "peer_node",
        "qpn",
        "ready_at",
        "state",
    )

    def __init__(
        self,
        node: NodeParts[QueuePair],
        *,
        qpn: int,
        first_psn: int,
        config: QpConfig,
        memory: MemoryTable,
        controller_factory: ControllerFactory,
        seed: int,
        complete: Callable[[Completion], None],
        trace: QpTrace | None = None,
        rings: WorkRings | None = None,
    ) -> None:
        self._node = node
        self.qpn = qpn
        self.first_psn = first_psn
        self.config = config
        self.counters = Counters()
        self.state = QpState.RESET
        self.error: str | None = None
        # When this QP entered RTS, in ns.
        self.ready_at = 0
        self._memory = memory
        self._controller_factory = controller_factory
        # The controller of the destination, which other QPs may share; None before RTR.
        self.controller: CongestionController | None = None
        self._seed = seed
        self._trace = trace
        self._complete = complete = complete if trace is None else trace.completing(complete)
        completions = CompletionRing(qpn, complete, rings)
        # The profiles its owner chose, by their numbers in the endpoint's table.
        self.ev_profile_id = self.cc_profile_id = DEFAULT_PROFILE
        # What both ends can do, from RTR on.
        self.agreed = NO_CAPABILITIES
        # The peer's node, and what both halves share, from RTR on.
        self.peer_node: PeerNode | None = None
        self._parts: QpParts | None = None
        self.paths: PathSet | None = None
        self._receives = Receives(completions)
        self._requestor: Requestor | None = None
        self._responder: Responder | None = None
        self.arrivals = Arrivals(self.counters, node.away)
        self.datapath = QpDatapath(qpn, self.counters, self.arrivals, completions)
        if rings is not None:
            rings.begin(qpn)
            self._receives.reserve(rings.receives)
            self.datapath.receives = self._receives
            rings.enter(self.state)

    # ------------------------------------------------------------------ life

    def configure(
        self, config: QpConfig, *, controller: ControllerFactory | None = None, first_psn: int | None = None
    ) -> None:
        """Other parameters than those it was created with: before RTR all of them, in RTR those of the requestor.

        Raises CallerError in any other state.
        """
        if self.state not in (QpState.RESET, QpState.INIT, QpState.RTR):
            raise CallerError(f"QP {self.qpn:#08x} is in {self.state.name}: its parameters are fixed")
        self.config = config
        self._controller_factory = controller or self._controller_factory
        self.first_psn = self.first_psn if first_psn is None else first_psn

    def _enter(self, state: QpState, why: str | None = None) -> None:
        if self._trace is not None:
            self._trace.state(self.state, state, why)
        self.state = state
        self.datapath.may_send = state in MAY_SEND
        self.datapath.is_over = state is _ERROR
        feedback = None if self._requestor is None else self._requestor.feedback
        self.arrivals.enter(state, self.peer_node, self._responder, feedback)
        if (rings := self.datapath.completions.rings) is not None:
            rings.enter(state)

    def to_init(self) -> None:
        check_transition(self.state, QpState.INIT)
        self._enter(QpState.INIT)

    def to_rtr(self, peer: QpPeer) -> None:
        """Ready to receive from `peer`. Raises CallerError in the wrong state, for an empty profile, and for a traffic
        class that trimmed packets have."""
        check_transition(self.state, QpState.RTR)
        agreed = self.config.capabilities & peer.capabilities
        classes = TrafficClasses.of(
            self._node.wire,
            peer_answers_trims=Capability.TRIM_NACK in agreed,
            traffic_class=self.config.traffic_class,
        )
        for port, address in peer.sources.items():
            self.arrivals.sources.add(port, address)
        node = self.peer_node = self.datapath.peer_node = self._node.join(self, peer)
        self.datapath.doubted_ports = node.doubted_ports
        numbers = node.add_paths(peer.paths)
        self.paths = PathSet(
            peer.paths,
            self.config.paths,
            Random(self._seed),
            reverse=node.reverse,
            numbers=numbers,
            frames=node.frames_of(peer.paths),
            full_ports=self._node.ports.full,
            observers=EvObservers(self.qpn, self.ev_profile_id, self._node.ev_events, self._trace),
        )
        self.datapath.paths = self.paths
        self._close_ports(self.paths, node)
        for ev in self._node.denied(self.ev_profile_id, node):
            if self.paths.holds(ev):
                self.paths.deny(ev)
        self.agreed = agreed
        if self._trace is not None:
            self._trace.responder_started(peer, self.config, self.agreed)
        self._parts = QpParts(
            qpn=self.qpn,
            peer=peer,
            config=self.config,
            agreed=self.agreed,
            wire=self._node.wire,
            classes=classes,
            paths=self.paths,
            counters=self.counters,
            trace=self._trace,
        )
        self._responder = Responder(
            self._parts,
            memory=self._memory,
            budget=self._node.budget,
            receives=self._receives,
            fail=self._refused,
        )
        self.datapath.responder = self._responder
        self.controller = self.datapath.controller = self._controller_of(self.peer_node)
        self._enter(QpState.RTR)

    def _close_ports(self, paths: PathSet, node: PeerNode) -> None:
        """No packets on planes whose port is down, at either end."""
        for port in self._node.ports.down:
            paths.set_port(port, up=False)
        for plane in node.planes_down:
            paths.set_peer_port(plane, up=False)

    def use_paths(self, paths: Sequence[Path], profile_id: int, config: PathConfig) -> None:
        """Have these EVs from now on, those of the profile of this number; `config` says how many are active.

        Packets in flight are accounted for as before. Raises CallerError before RTR and for an ambiguous profile.
        """
        node = self.peer_node
        if self.paths is None or node is None:
            raise CallerError(f"QP {self.qpn:#08x} is in {self.state.name}: it has no EVs yet")
        self.paths.replace(paths, node.add_paths(paths), config)
        self.ev_profile_id = self.paths.profile_id = profile_id
        self.config = replace(self.config, paths=config)
        self._close_ports(self.paths, node)
        for ev in self._node.denied(profile_id, node):
            if self.paths.holds(ev):
                self.paths.deny(ev)

    def _controller_of(self, node: PeerNode) -> CongestionController:
        """A controller belongs to a destination: QPs towards it that name the same one share it."""
        factory = self._controller_factory
        if factory not in node.controllers:
            controller = factory(PacketSizes(full_packet_bytes(self.config), self.config.path_mtu))
            if not isinstance(controller, CongestionController):
                raise CallerError(f"{factory!r} makes {controller!r}, which is no CongestionController")
            controller.away = self._node.away
            node.controllers[factory] = controller
        return node.controllers[factory]

    def to_rts(self) -> None:
        """Ready to send as well."""
        check_transition(self.state, QpState.RTS)
        if self._parts is None or self.controller is None:
            raise CallerError(f"QP {self.qpn:#08x} knows no peer")
        # What the requestor goes by may have been configured since.
        self._parts = replace(self._parts, config=self.config)
        self._requestor = Requestor(
            self._parts,
            first_psn=self.first_psn,
            controller=self.controller,
            completions=self.datapath.completions,
            fail=self._failed,
        )
        if (rings := self.datapath.completions.rings) is not None:
            self._requestor.prepare(rings.sends)
        self.datapath.requestor = self._requestor
        self._enter(QpState.RTS)
        if self._trace is not None:
            self._trace.requestor_started(self.first_psn, self.config)
        self._node.on_ready(self)

    def on_port(self, port: int, up: bool, now: int) -> None:
        """A local port's link changed. EVs that went bad while it was down are probed anew once it is back."""
        if self.paths is None:
            return
        self.paths.set_port(port, up)
        if self.state in MAY_SEND:
            self.requestor.feedback.take_up_bad_evs(now)

    def on_peer_port(self, plane: int, up: bool, now: int) -> None:
        """The peer said that its port on this plane is down or back."""
        if self.paths is None:
            return
        self.paths.set_peer_port(plane, up)
        if self.state in MAY_SEND:
            self.requestor.feedback.take_up_bad_evs(now)

    def to_error(self, why: str) -> None:
        """Give up: everything posted completes with errors."""
        self._fail(WorkStatus.FLUSHED, why, None)

    def give_up(self, why: str) -> None:
        """Nothing comes from the peer, as another QP has found."""
        self._fail(WorkStatus.RETRY_EXCEEDED, why, None)

    def _refused(self, status: WorkStatus, why: str) -> None:
        self._fail(WorkStatus.FLUSHED, why, None)

    def _failed(self, status: WorkStatus, why: str, psn: int) -> None:
        if status == WorkStatus.RETRY_EXCEEDED and self.paths is not None:
            cause = self._node.ports.refuse_all(self.paths.ports, self.config.path_mtu)
            if not cause and self.hears_of_other_psns:
                cause = (
                    "the peer acknowledges PSNs that this QP never sent: perhaps its rq_psn is not this QP's first PSN"
                    f" (sq_psn), {self.first_psn & PSN_BITS_MASK}"
                )
            why = f"{cause} ({why})" if cause else why
        self._fail(status, why, psn)

    def _fail(self, status: WorkStatus, why: str, psn: int | None) -> None:
        if self.state == QpState.ERROR:
            return
        old = self.state
        check_transition(old, QpState.ERROR)
        self._enter(QpState.ERROR, why)
        self.error = why
        waited_ns = 0
        if self._requestor is not None:
            waited_ns = self._requestor.waited_ns if status == WorkStatus.RETRY_EXCEEDED else 0
            self._requestor.flush(status, psn)
        self._receives.flush()
        self.datapath.take_posted()
        self.datapath.completions.drain()
        self._node.on_error(self, old, why, waited_ns)

    # ------------------------------------------------------------------ work

    @property
    def requestor(self) -> Requestor:
        """The sending half. Raises CallerError before RTS."""
        if self._requestor is None:
            raise CallerError(f"QP {self.qpn:#08x} is in {self.state.name}: bring it to RTS first")
        return self._requestor

    @property
    def responder(self) -> Responder:
        """The receiving half. Raises CallerError before RTR."""
        if self._responder is None:
            raise CallerError(f"QP {self.qpn:#08x} is in {self.state.name}: bring it to RTR first")
        return self._responder

    @property
    def hears_of_other_psns(self) -> bool:
        """Whether all that was acknowledged are PSNs that it never sent."""
        return self._requestor is not None and self._requestor.hears_of_other_psns

    @property
    def knows_peer(self) -> bool:
        """Whether it has been in RTR."""
        return self._responder is not None

    @property
    def epsn(self) -> int | None:
        """The PSN its responder expects, counted without end; None before RTR."""
        return None if self._responder is None else self._responder.received.epsn

    @property
    def rtt_ns(self) -> int:
        """The smoothed round trip, ns; 0 before one was measured."""
        return 0 if self._requestor is None else self._requestor.rtt.srtt

    @property
    def probes_refused(self) -> int:
        """Reliability probes that were not answered, because too many came."""
        return 0 if self._responder is None else self._responder.probes_rate.refused

    def owes(self) -> bool:
        """Whether an answer to the peer has not been sent, or a message of the peer has arrived in part."""
        return self._responder is not None and self._responder.owes()

    @property
    def asked_at(self) -> int:
        """When the last request or probe of the peer arrived, ns; -1: never."""
        return self.arrivals.asked_at

    @property
    def heard_at(self) -> int:
        """When an answer, a request or a probe of the peer last arrived, ns; negative: never."""
        return self.asked_at if self._requestor is None else max(self.asked_at, self._requestor.loss.last_heard())

    @property
    def asks_again_ns(self) -> int:
        """The longest time between two probes of a peer whose answers are lost, ns, if its timeouts are as ours."""
        timeout = self.config.local_ack_timeout_ns
        return timeout if self._requestor is None else self._requestor.rtt.coarse_timer(timeout)

    def post_write(self, request: WriteRequest) -> None:
        """Post an RDMA write. In ERROR it completes at once, flushed. Raises CallerError in any other state but RTS."""
        if self.state is _ERROR:
            self._complete(Completion(request.wr_id, self.qpn, WorkStatus.FLUSHED, 0))
            return
        if self.state not in MAY_SEND:
            raise no_writes_yet(self.qpn, self.state)
        self.requestor.post(request)

    def post_receive(self, wr_id: int) -> None:
        """Post a receive, which one write with immediate will consume. In ERROR it completes at once, flushed.

        A write that waited for it can be acknowledged then: `Endpoint.wake` gives the QP its turn. Raises CallerError
        in RESET.
        """
        check_takes_receives(self.qpn, self.state)
        self._receives.post(wr_id)
        if self._responder is not None and self._responder.on_receive_posted():
            self.datapath.completions.drain()
        if self.state == QpState.ERROR:
            self._receives.flush()
            self.datapath.completions.drain()

    def set_mpr(self, units: int) -> None:
        """Let the peer send `units` x 128 PSNs (1..255) beyond cack_psn from now on: every SACK advertises it.

        What was granted before is honoured. Raises CallerError before RTR and where DYNAMIC_MPR is not agreed.
        """
        self.responder.set_mpr(units)

    def set_receiver_penalty(self, penalty: int, restore: bool = False) -> None:
        """Have every SACK ask the peer to shrink its window by `penalty`/128 (0..127) of what is acknowledged.

        With `restore` it is to go back to its old window once the penalty is 0 again. Raises CallerError before RTR.
        """
        self.responder.sacks.set_penalty(penalty, restore)

    # ------------------------------------------------------------------ packets

    def pending(self) -> bool:
        """Whether `transmit` would send something now."""
        return self.datapath.pending()

    def has_work(self) -> bool:
        """Whether there is something to send, now or once a window opens."""
        return self.datapath.has_work()

    def has_control(self) -> bool:
        """Whether there is something to send that no congestion window holds back: answers or probes."""
        return self.datapath.has_control()

    @property
    def outstanding(self) -> int:
        """Packets of ours in the network."""
        return self.datapath.outstanding()

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` packets, answers first. Returns how many."""
        return self.datapath.transmit(batch, limit, now, False)

    def abandon(self) -> None:
        """The QP is being destroyed: give its share of the window back, and consume no more receives."""
        self._receives.forget()
        if self._trace is not None:
            self._trace_totals(self._trace)
        if self._requestor is not None:
            self._requestor.abandon()
        self._node.budget.forget(self.qpn)
        if self.paths is not None:
            self.paths.release()

    def _trace_totals(self, trace: QpTrace) -> None:
        if self._requestor is not None and self.controller is not None:
            trace.flush_feedback(self.counters, self._requestor.sent, self._requestor.rtt, self.controller)
        if self._responder is not None:
            trace.flush_answers(self.counters, self._responder.received)
        trace.destroyed(self.counters, self.paths)
