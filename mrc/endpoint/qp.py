"""A queue pair: one requestor and one responder, and the states that let them work."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.config import NO_CAPABILITIES, Capability, PathConfig, QpConfig
from mrc.endpoint.congestion import CongestionController, ControllerFactory, PacketSizes
from mrc.endpoint.counters import Counters
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.paths import Path, PathSet
from mrc.endpoint.paths.ev_events import EvEvents
from mrc.endpoint.paths.online import DEFAULT_PROFILE
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.peer_node import PeerNode
from mrc.endpoint.qp_states import MAY_RECEIVE, MAY_SEND, QpState, check_transition
from mrc.endpoint.receives import Receives
from mrc.endpoint.request_checks import ACK_SYNDROME, NAK_STATUS
from mrc.endpoint.requestor import Requestor
from mrc.endpoint.requests import full_packet_bytes
from mrc.endpoint.responder import Responder
from mrc.endpoint.sack_reading import SACK_BYTES
from mrc.endpoint.tracing import QpTrace
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.wire.batch import ReceivedBatch, TransmitBatch
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.profile import WireProfile
from mrc.wire.rows import ACK, COMMON, NACK, PSN_BITS_MASK

I64 = npt.NDArray[np.int64]

MAX_PORTS = 16
_AETH = struct.Struct(">II")  # psn_word, aeth_word
_AETH_AT = (56, 64)
_REQUESTS = -1
_SOURCE = (8, 24)  # where in a packet the source address is
# Plain numbers: an array compares with a member of an enum several times as slowly.
_PROBE, _SACK, _ACK, _NACK = int(Op.PROBE), int(Op.SACK), int(Op.ACKNOWLEDGE), int(Op.NACK)
_FOR_REQUESTORS = frozenset({_SACK, _ACK, _NACK})
_ENDPOINT_OPERATIONS = frozenset({int(Op.ENDPOINT_REQUEST), int(Op.ENDPOINT_RESPONSE)})
_IS_REQUEST = np.array([value in REQUEST_OPCODES for value in range(256)], np.bool_)


@dataclass(frozen=True, slots=True)
class QpPeer:
    """What a QP must know of its peer before it can receive (behaviour.md, QP life).

    `first_psn` is the peer's first PSN (24 bit); `sources` its inner address (128 bit) by the local port its packets
    come in on; `paths` the EVs towards it; `capabilities` what it can do. `name` is what people call its node;
    `paths_of` gives the EVs of another profile towards it.
    """

    qpn: int
    first_psn: int
    paths: Sequence[Path]
    sources: Mapping[int, int]
    capabilities: Capability = NO_CAPABILITIES
    name: str = ""
    paths_of: Callable[[EvProfile], Sequence[Path]] | None = None


class QueuePair:
    """One QP. Created in RESET by `Endpoint.create_qp`; `to_init`, `to_rtr` and `to_rts` bring it up."""

    __slots__ = (
        "_classes",
        "_complete",
        "_controller_factory",
        "_denied",
        "_ev_events",
        "_full_ports",
        "_has_source",
        "_join",
        "_memory",
        "_on_error",
        "_on_ready",
        "_peer",
        "_ports_down",
        "_random",
        "_receives",
        "_requestor",
        "_responder",
        "_source_high",
        "_source_low",
        "_sources",
        "_trace",
        "_wire",
        "agreed",
        "answers_wait",
        "cc_profile_id",
        "config",
        "controller",
        "counters",
        "error",
        "ev_profile_id",
        "first_psn",
        "paths",
        "peer_node",
        "qpn",
        "state",
        "timer_at",
    )

    def __init__(
        self,
        *,
        qpn: int,
        first_psn: int,
        config: QpConfig,
        wire: WireProfile,
        memory: MemoryTable,
        controller_factory: ControllerFactory,
        random: np.random.Generator,
        complete: Callable[[Completion], None],
        on_error: Callable[[QueuePair, str], None],
        ports_down: Set[int],
        full_ports: Set[int],
        join: Callable[[QueuePair, QpPeer], PeerNode],
        on_ready: Callable[[QueuePair], None],
        ev_events: EvEvents,
        denied: Callable[[int, PeerNode], Iterable[int]] = lambda profile_id, node: (),
        trace: QpTrace | None = None,
    ) -> None:
        self.qpn = qpn
        self.first_psn = first_psn
        self.config = config
        self.counters = Counters()
        self.state = QpState.RESET
        self.error: str | None = None
        # When the endpoint has this QP's timers scheduled, ns, or None.
        self.timer_at: int | None = None
        # Whether the last packet sent went ahead of answers that are due: it is to leave before they are made.
        self.answers_wait = False
        self._wire = wire
        self._memory = memory
        self._controller_factory = controller_factory
        # The controller of the destination, which other QPs may share; None before RTR.
        self.controller: CongestionController | None = None
        self._random = random
        self._trace = trace
        self._complete = complete = complete if trace is None else trace.completing(complete)
        self._on_error = on_error
        self._ports_down = ports_down
        self._full_ports = full_ports
        self._join = join
        self._on_ready = on_ready
        self._ev_events = ev_events
        self._denied = denied
        # The profiles its owner chose, by their numbers in the endpoint's table.
        self.ev_profile_id = self.cc_profile_id = DEFAULT_PROFILE
        self._classes = TrafficClasses.of(wire, peer_answers_trims=False)
        # What both ends can do, from RTR on.
        self.agreed = NO_CAPABILITIES
        # The peer's inner address by local port, high and low half.
        self._source_high = np.zeros(MAX_PORTS, np.uint64)
        self._source_low = np.zeros(MAX_PORTS, np.uint64)
        self._has_source = np.zeros(MAX_PORTS, np.bool_)
        self._sources: dict[int, bytes] = {}
        # The node of the peer, from RTR on.
        self.peer_node: PeerNode | None = None
        self.paths: PathSet | None = None
        self._receives = Receives(qpn, complete)
        self._peer: QpPeer | None = None
        self._requestor: Requestor | None = None
        self._responder: Responder | None = None

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

    def to_init(self) -> None:
        check_transition(self.state, QpState.INIT)
        self._enter(QpState.INIT)

    def to_rtr(self, peer: QpPeer) -> None:
        """Ready to receive from `peer`. Raises CallerError in the wrong state or for an empty profile."""
        check_transition(self.state, QpState.RTR)
        for port, address in peer.sources.items():
            if not 0 <= port < MAX_PORTS:
                raise CallerError(f"ports are numbered 0..{MAX_PORTS - 1}, got {port}")
            self._source_high[port], self._source_low[port] = address >> 64, address & (1 << 64) - 1
            self._has_source[port] = True
            self._sources[port] = address.to_bytes(16, "big")
        node = self.peer_node = self._join(self, peer)
        self.paths = PathSet(
            peer.paths,
            self.config.paths,
            self._random,
            reverse=node.reverse,
            numbers=node.add_paths(peer.paths),
            events=self._ev_events,
            qpn=self.qpn,
            profile_id=self.ev_profile_id,
            full_ports=self._full_ports,
            trace=self._trace,
        )
        self._close_ports(self.paths, node)
        for ev in self._denied(self.ev_profile_id, node):
            if self.paths.holds(ev):
                self.paths.deny(ev)
        self.agreed = self.config.capabilities & peer.capabilities
        if self._trace is not None:
            self._trace.responder_started(peer, self.config, self.agreed)
        self._classes = TrafficClasses.of(self._wire, peer_answers_trims=Capability.TRIM_NACK in self.agreed)
        self._responder = Responder(
            qpn=self.qpn,
            peer_qpn=peer.qpn,
            first_psn=peer.first_psn,
            config=self.config,
            wire=self._wire,
            memory=self._memory,
            paths=self.paths,
            counters=self.counters,
            classes=self._classes,
            receives=self._receives,
            fail=self._refused,
            agreed=self.agreed,
            trace=self._trace,
        )
        self.controller = self._controller_of(self.peer_node)
        self._peer = peer
        self._enter(QpState.RTR)

    def _close_ports(self, paths: PathSet, node: PeerNode) -> None:
        """No packets on planes whose port is down, at either end."""
        for port in self._ports_down:
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
        for ev in self._denied(profile_id, node):
            if self.paths.holds(ev):
                self.paths.deny(ev)

    def _controller_of(self, node: PeerNode) -> CongestionController:
        """A controller belongs to a destination: QPs towards it that name the same one share it."""
        factory = self._controller_factory
        if factory not in node.controllers:
            node.controllers[factory] = factory(PacketSizes(full_packet_bytes(self.config), self.config.path_mtu))
        return node.controllers[factory]

    def to_rts(self) -> None:
        """Ready to send as well."""
        check_transition(self.state, QpState.RTS)
        if self._peer is None or self.paths is None or self.controller is None:
            raise CallerError(f"QP {self.qpn:#08x} knows no peer")
        self._requestor = Requestor(
            qpn=self.qpn,
            peer_qpn=self._peer.qpn,
            first_psn=self.first_psn,
            config=self.config,
            paths=self.paths,
            controller=self.controller,
            counters=self.counters,
            classes=self._classes,
            complete=self._complete,
            fail=self._failed,
            agreed=self.agreed,
            trace=self._trace,
        )
        self._enter(QpState.RTS)
        if self._trace is not None:
            self._trace.requestor_started(self.first_psn, self.config)
        self._on_ready(self)

    def on_port(self, port: int, up: bool, now: int) -> None:
        """A local port's link changed. EVs that went bad while it was down are probed anew once it is back."""
        if self.paths is None:
            return
        self.paths.set_port(port, up)
        if self.state in MAY_SEND:
            self.requestor.take_up_bad_evs(now)

    def on_peer_port(self, plane: int, up: bool, now: int) -> None:
        """The peer said that its port on this plane is down or back."""
        if self.paths is None:
            return
        self.paths.set_peer_port(plane, up)
        if self.state in MAY_SEND:
            self.requestor.take_up_bad_evs(now)

    def to_error(self, why: str) -> None:
        """Give up: everything posted completes with errors."""
        self._fail(WorkStatus.FLUSHED, why, None)

    def _refused(self, status: WorkStatus, why: str) -> None:
        self._fail(WorkStatus.FLUSHED, why, None)

    def _failed(self, status: WorkStatus, why: str, psn: int) -> None:
        self._fail(status, why, psn)

    def _fail(self, status: WorkStatus, why: str, psn: int | None) -> None:
        if self.state == QpState.ERROR:
            return
        check_transition(self.state, QpState.ERROR)
        self._enter(QpState.ERROR, why)
        self.error = why
        if self._requestor is not None:
            self._requestor.flush(status, psn)
        self._receives.flush()
        self._on_error(self, why)

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
    def epsn(self) -> int | None:
        """The PSN its responder expects, counted without end; None before RTR."""
        return None if self._responder is None else self._responder.received.epsn

    @property
    def probes_refused(self) -> int:
        """Reliability probes that were not answered, because too many came."""
        return 0 if self._responder is None else self._responder.probes_rate.refused

    def post_write(self, request: WriteRequest) -> None:
        """Post an RDMA write. In ERROR it completes at once, flushed. Raises CallerError in any other state but RTS."""
        if self.state == QpState.ERROR:
            self._complete(Completion(request.wr_id, self.qpn, WorkStatus.FLUSHED, 0))
            return
        if self.state not in MAY_SEND:
            raise CallerError(f"QP {self.qpn:#08x} is in {self.state.name}: writes are posted in RTS")
        self.requestor.post(request)

    def post_receive(self, wr_id: int) -> None:
        """Post a receive, which one write with immediate will consume. In ERROR it completes at once, flushed.

        Raises CallerError in RESET.
        """
        if self.state == QpState.RESET:
            raise CallerError(f"QP {self.qpn:#08x} is in RESET: receives are posted from INIT on")
        self._receives.post(wr_id)
        if self.state == QpState.ERROR:
            self._receives.flush()

    def set_mpr(self, units: int) -> None:
        """Let the peer send `units` x 128 PSNs (1..255) beyond cack_psn from now on: every SACK tells it.

        What was granted before is honoured. Raises CallerError before RTR and where DYNAMIC_MPR is not agreed.
        """
        self.responder.set_mpr(units)

    def set_receiver_penalty(self, penalty: int, restore: bool = False) -> None:
        """Have every SACK ask the peer to shrink its window by `penalty`/128 (0..127) of what is acknowledged.

        With `restore` it is to go back to its old window once the penalty is 0 again. Raises CallerError before RTR.
        """
        self.responder.sacks.set_penalty(penalty, restore)

    # ------------------------------------------------------------------ packets

    def receive(self, batch: ReceivedBatch, rows: I64, opcodes: npt.NDArray[np.uint8], now: int) -> None:
        """Packets for this QP that passed the endpoint's checks; `opcodes` are those of `rows`."""
        if self.state not in MAY_RECEIVE:
            self.counters.wrong_qp_state += len(rows)
            self._receive_in_error(batch, rows[_IS_REQUEST[opcodes]], now)
            return
        trusted = self._from_peer(batch, rows)
        if not trusted.all():
            self.counters.bad_source += int((~trusted).sum())
            rows, opcodes = rows[trusted], opcodes[trusted]
            if not len(rows):
                return
        requests = _IS_REQUEST[opcodes]
        probes = opcodes == _PROBE
        if self.peer_node is not None and (requests | probes).any():
            self.peer_node.on_requests(now)
        if requests.all():
            self.responder.on_requests(batch, rows, now)
            return
        if requests.any():
            self.responder.on_requests(batch, rows[requests], now)
        if probes.any() and self.state in MAY_RECEIVE:
            self.responder.on_probes(batch, rows[probes].tolist(), now)
        self._receive_acknowledgements(batch, rows, opcodes, now)

    def receive_few(self, batch: ReceivedBatch, packets: list[tuple[int, int]], now: int) -> bool:
        """`receive` for a few packets over IPv6, (row, opcode) each, in plain numbers.

        False, and nothing has happened, unless all are the peer's write requests, probes, SACKs and transport ACKs.
        """
        if self.state != QpState.RTS or self.peer_node is None:
            return False
        of_kind: dict[int, list[int]] = {_REQUESTS: [], _PROBE: [], _SACK: [], _ACK: []}
        for row, opcode in packets:
            rows = of_kind.get(_REQUESTS if _IS_REQUEST[opcode] else opcode)
            if rows is None or bytes(batch.view(row, *_SOURCE)) != self._sources.get(int(batch.port[row])):
                return False
            rows.append(row)
        requests, probes, sacks, acks = of_kind.values()
        if requests or probes:
            self.peer_node.on_requests(now)
        if requests:
            self.responder.on_few_requests(batch, requests, now)
        if probes and self.state in MAY_RECEIVE:
            self.responder.on_probes(batch, probes, now)
        if sacks and self.state in MAY_SEND:
            # One row is a slice, which takes a tenth of the time.
            chosen = sacks if len(sacks) > 1 else slice(sacks[0], sacks[0] + 1)
            self.requestor.on_sacks(batch.data[chosen, SACK_BYTES], now)
        if acks:
            self._on_aeth([_AETH.unpack(batch.view(row, *_AETH_AT)) for row in acks], now)
        return True

    def _from_peer(self, batch: ReceivedBatch, rows: I64) -> npt.NDArray[np.bool_]:
        """Which of these packets have the peer's address on the port they came in on as their source."""
        fields = batch.fields(COMMON)
        ports = batch.port[rows]
        trusted = self._has_source[ports] & (fields["src_high"][rows] == self._source_high[ports])
        return np.asarray(trusted & (fields["src_low"][rows] == self._source_low[ports]))

    def _receive_in_error(self, batch: ReceivedBatch, requests: I64, now: int) -> None:
        """Requests of a peer that has not understood yet that this QP is over. Nothing else is answered in ERROR, so
        two QPs in ERROR leave each other alone."""
        if self.state != QpState.ERROR or self._responder is None or not len(requests):
            return
        requests = requests[self._from_peer(batch, requests)]
        if len(requests):
            self._responder.on_requests_in_error(batch, requests, now)

    def receive_trimmed(self, batch: ReceivedBatch, rows: I64, lasthop: npt.NDArray[np.bool_], now: int) -> None:
        """Packets for this QP that a switch trimmed, on the last hop or before it. They have no ICRC."""
        if self.state not in MAY_RECEIVE:
            self.counters.wrong_qp_state += len(rows)
            return
        trusted = self._from_peer(batch, rows)
        self.counters.bad_source += int((~trusted).sum())
        answered = trusted & _IS_REQUEST[batch.fields(COMMON)["opcode"][rows]]
        if answered.any():
            self.responder.on_trimmed(batch, rows[answered], lasthop[answered], now)

    def _receive_acknowledgements(
        self, batch: ReceivedBatch, rows: I64, opcodes: npt.NDArray[np.uint8], now: int
    ) -> None:
        kinds = set(opcodes.tolist())
        self.counters.misdirected += sum(int((opcodes == kind).sum()) for kind in kinds & _ENDPOINT_OPERATIONS)
        if self.state not in MAY_SEND:
            self.counters.wrong_qp_state += sum(int((opcodes == kind).sum()) for kind in kinds & _FOR_REQUESTORS)
            return
        if _SACK in kinds:
            chosen = rows if len(kinds) == 1 else rows[opcodes == _SACK]
            self.requestor.on_sacks(batch.data[chosen, SACK_BYTES], now)
        if _ACK in kinds:
            fields = batch.fields(ACK)[rows[opcodes == _ACK]]
            self._on_aeth(zip(fields["psn_word"].tolist(), fields["aeth_word"].tolist(), strict=True), now)
        if _NACK in kinds and self.state in MAY_SEND:
            self.requestor.on_nacks(batch.fields(NACK)[rows[opcodes == _NACK]], now)

    def _on_aeth(self, words: Iterable[tuple[int, int]], now: int) -> None:
        """Transport ACKs, the (psn_word, aeth_word) of each; a syndrome beyond them is a NAK."""
        for psn_word, aeth_word in words:
            if self.state not in MAY_SEND:
                return
            psn, syndrome = psn_word & PSN_BITS_MASK, aeth_word >> 24
            if syndrome <= ACK_SYNDROME:
                self.requestor.on_ack(psn, now)
            elif syndrome in NAK_STATUS:
                status = NAK_STATUS[syndrome]
                self.requestor.on_nak(psn, status, f"the peer refused PSN {psn}: {status.name.lower()}")
            else:
                self.counters.invalid_request += 1

    def pending(self) -> bool:
        """Whether `transmit` would send something now."""
        if self._responder is None:
            return False
        requestor = self._requestor
        return self._responder.pending or (requestor is not None and self.state in MAY_SEND and requestor.ready())

    def has_work(self) -> bool:
        """Whether there is something to send, now or once a window opens."""
        if self._responder is None:
            return False
        return self._responder.pending or (self.state in MAY_SEND and self.requestor.has_work())

    def has_control(self) -> bool:
        """Whether there is something to send that no congestion window holds back: answers or probes."""
        if self._responder is None:
            return False
        return self._responder.pending or (self.state in MAY_SEND and self.requestor.has_probes())

    @property
    def outstanding(self) -> int:
        """Packets of ours in the network."""
        return 0 if self._requestor is None else self._requestor.sent.outstanding

    def abandon(self) -> None:
        """The QP is being destroyed: give its share of the window back."""
        if self._trace is not None:
            self._tell_totals(self._trace)
        if self._requestor is not None:
            self._requestor.abandon()
        if self.paths is not None:
            self.paths.release()

    def _tell_totals(self, trace: QpTrace) -> None:
        if self._requestor is not None and self.controller is not None:
            trace.flush_feedback(self.counters, self._requestor.sent, self._requestor.rtt, self.controller)
        if self._responder is not None:
            trace.flush_answers(self.counters, self._responder.received)
        trace.destroyed(self.counters, self.paths)

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool = False) -> int:
        """Append up to `limit` packets, answers first. Returns how many. `others_wait` as in the requestor.

        A single packet of data goes ahead of the answers, once: whoever answers a write with a write of his own is
        waited for, his acknowledgement is not. It goes alone: see `answers_wait`.
        """
        responder = self._responder
        if responder is None or self.paths is None:
            return 0
        requestor = self._requestor if self.state in MAY_SEND else None
        if self.paths.silent:
            # Only timers go on.
            return 0 if requestor is None else requestor.transmit(batch, 0, now, others_wait)
        if requestor is not None and not self.answers_wait and responder.pending and requestor.one_packet_waits:
            sent = requestor.transmit(batch, min(limit, 1), now, others_wait)
            if sent:
                self.answers_wait = True
                return sent
        self.answers_wait = False
        sent = responder.transmit(batch, limit, now)
        if requestor is not None and requestor.has_work():
            sent += requestor.transmit(batch, limit - sent, now, others_wait)
        return sent

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int | None:
        of_responder = None if self._responder is None else self._responder.next_deadline()
        requestor = self._requestor if self.state in MAY_SEND else None
        of_requestor = None if requestor is None else requestor.next_deadline()
        if of_requestor is None or of_responder is None:
            return of_responder if of_requestor is None else of_requestor
        return min(of_requestor, of_responder)

    def on_timer(self, now: int) -> None:
        if self._responder is not None:
            self._responder.on_timer(now)
        if self.state in MAY_SEND:
            self.requestor.on_timer(now)
