# SPDX-License-Identifier: BSD-2-Clause
"""What an adversary may do to two nodes and the network between them, and what must hold once it relents.

`World` has one method for each thing the adversary may do. After each the endpoints send what they have to send, and
what must always hold is checked (adversary_nodes.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from adversary_network import NODES
from adversary_nodes import End, Nodes
from adversary_setting import SECOND
from adversary_shadow import hold

from mrc.endpoint.config import Capability
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.wire.usid import ev_of_path

RUN_UP_BURST = 32
# What only a peer that breaks the rules, or bits no checksum covers, could move.
NEVER_COUNTED = (
    "bad_source",
    "misdirected",
    "bad_pkey",
    "unknown_endpoint_operation",
    "psn_out_of_window",
    "psn_out_of_range",
    "bad_request_length",
    "ack_for_unsent_psn",
    "unknown_ev",
    "not_sent_by_system",
)


class World(Nodes):
    """The nodes, and one method for each thing the adversary may do to them."""

    # ------------------------------------------------------------------ what the application may do

    def post(
        self,
        node: int,
        pair: int,
        length: int,
        *,
        immediate: bool = False,
        solicited: bool = False,
        again: int | None = None,
        receive: bool = True,
    ) -> None:
        """Post a write; one with immediate finds a receive at the peer, unless it is not to."""
        end = self._end(node, pair)
        if end.gone:
            return
        number = 0xA0000000 + len(end.work.immediates) if immediate else None
        solicited &= immediate and self.setting.solicits
        request = end.work.write(length, number, again, solicited=solicited)
        if request is None:
            return
        self._did("write posted" if number is None else "write with immediate posted", node, pair, length, again)
        self.events["solicited write with immediate posted"] += solicited
        peer = end.peer
        if immediate and receive and not peer.gone and peer.work.receives_posted < len(end.work.immediates):
            self._post_receive(peer)
        if peer.work.receives_posted < len(end.work.immediates) and not self._pair_of(end).doomed:
            self.events["immediate without a receive"] += 1
            self._doom(end)
        self._post(end, request)

    def _post_receive(self, end: End) -> None:
        end.work.receives_posted += 1
        end.qp.post_receive(end.work.receives_posted - 1)
        # A write that waited for it is acknowledged now.
        self.endpoints[end.node].wake(end.qp)

    def _post(self, end: End, request: WriteRequest) -> None:
        end.qp.post_write(request)
        self.endpoints[end.node].wake(end.qp)
        self._settle()

    def run_up(self, node: int, pair: int, count: int) -> None:
        """That many empty writes with immediate, over a network that behaves: MSN and RQMSN come near their wrap."""
        self._did("run-up", node, pair, count)
        end = self._end(node, pair)
        for done in range(0, count, RUN_UP_BURST):
            for number in range(done, min(done + RUN_UP_BURST, count)):
                self._post_receive(end.peer)
                request = end.work.write(0, number)
                assert request is not None
                end.qp.post_write(request)
            self.endpoints[node].wake(end.qp)
            self._settle()
            self._until(self._quiet)

    def post_receives(self, node: int, pair: int, count: int) -> None:
        end = self._end(node, pair)
        if end.gone:
            return
        self._did("receives posted", node, pair, count)
        for _ in range(count):
            self._post_receive(end)
        self._settle()

    def post_bad(self, node: int, pair: int, beyond: bool) -> None:
        """A write the peer has to refuse: the pair is over."""
        end = self._end(node, pair)
        if end.alive:
            self._did("bad write posted", node, pair, beyond)
            self._doom(end)
            self._post(end, end.work.bad_write(beyond=beyond))

    def error(self, node: int, pair: int) -> None:
        end = self._end(node, pair)
        if end.alive:
            self._did("QP given up", node, pair)
            self._doom(end)
            end.qp.to_error("given up")
            self._settle()

    def destroy(self, node: int, pair: int) -> None:
        end = self._end(node, pair)
        if not end.gone:
            self._did("QP destroyed", node, pair)
            self._doom(end)
            self._destroy(end)
            self._settle()

    def replace(self, pair: int) -> None:
        """Destroy what is left of a pair that is doomed, and connect a new one in its place."""
        pair %= len(self.pairs)
        if self.pairs[pair].doomed or any(not end.alive for end in self.pairs[pair].ends):
            self._did("pair replaced", pair)
            for end in self.pairs[pair].ends:
                if not end.gone:
                    self._destroy(end)
            self.pairs[pair] = self._connect()
            self._settle()

    def set_window(self, node: int, pair: int, units: int) -> None:
        end = self._end(node, pair)
        if not end.gone and Capability.DYNAMIC_MPR in end.qp.agreed:
            self._did("window changed", node, pair, units)
            end.qp.set_mpr(units)

    def set_penalty(self, node: int, pair: int, penalty: int, restore: bool) -> None:
        end = self._end(node, pair)
        if not end.gone:
            self._did("receiver penalty", node, pair, penalty, restore)
            end.qp.set_receiver_penalty(penalty, restore)

    def deny(self, node: int, pair: int, index: int, denied: bool) -> None:
        end = self._end(node, pair)
        if end.gone or end.qp.paths is None:
            return
        path = end.qp.paths.paths[index % len(end.qp.paths.paths)]
        self._did("EV denied" if denied else "EV allowed", node, pair, hex(path.ev))
        (end.qp.paths.deny if denied else end.qp.paths.allow)(path.ev)
        self.endpoints[node].wake(end.qp)
        self._settle()

    def probe_ev(self, node: int, index: int) -> None:
        for peer in self.endpoints[node].peer_nodes.values():
            self._did("EV probed", node, index)
            self.endpoints[node].probe_ev(peer, index % len(peer.paths))
        self._settle()

    def set_port(self, node: int, plane: int, up: bool) -> None:
        plane %= self.setting.planes
        if self.endpoints[node].port_is_up(plane) != up:
            self._did("port up" if up else "port down", node, plane)
            self.network.set_port(node, plane, up)
            self.endpoints[node].set_port(plane, up, self.now)
            self._settle()

    def set_room(self, node: int, plane: int, has_room: bool) -> None:
        """Whether the queue of a port has room for data."""
        plane %= self.setting.planes
        if (plane in self.full_ports[node]) == has_room:
            self._did("port has room" if has_room else "port full", node, plane)
            (self.full_ports[node].discard if has_room else self.full_ports[node].add)(plane)
            self.endpoints[node].set_port_room(plane, has_room)
            self._settle()

    def hold_back(self, node: int, held: bool) -> None:
        """Whether this node is not asked for packets for a while, as when its NIC has no room."""
        if (node in self._held) != held:
            self._did("sending held back" if held else "sending goes on", node)
            (self._held.add if held else self._held.discard)(node)
            self._settle()

    # ------------------------------------------------------------------ what the network may do

    def cut(self, to: int, plane: int, spine: int) -> None:
        self.network.cut(to, ev_of_path(plane % self.setting.planes, spine % self.setting.spines))

    def deliver(self, to: int, picks: Iterable[int]) -> None:
        """These packets arrive in one batch, in this order."""
        self._arrive(to, self.network.take(to, picks))

    def deliver_run(self, to: int, start: int, count: int, *, backwards: bool = False) -> None:
        taken = self.network.take_run(to, start, count)
        self._arrive(to, taken[::-1] if backwards else taken)

    def drop(self, to: int, start: int, count: int) -> None:
        self.events["packets dropped"] += len(self.network.take_run(to, start, count))

    def change_reasons(self, to: int, start: int, count: int, reason: int) -> None:
        """NACKs say a reason that nobody knows. Where that is fatal the pair is over."""
        for packet in self.network.change_reasons(to, start, count, reason):
            end = self._ends[to].get(int.from_bytes(packet.data[53:56], "big"))
            if end is not None and not end.gone and self.setting.unknown_reasons_are_fatal:
                self._doom(end)

    def pause(self, duration: int, *, late: bool = False) -> None:
        """Time passes, and timers run when they are due; with `late` only afterwards, as in a process that was
        stopped."""
        self._did("process stopped" if late else "pause", f"{duration / 1000:.0f} us")
        until = self.now + duration
        while not late and (due := self._next_deadline()) is not None and due <= until:
            self._run_timers(max(due, self.now))
        self.now = until
        self._run_timers(until)

    def calm(self, rounds: int) -> None:
        """The network behaves for a few round trips: all that is in flight arrives, in order, 10 us later."""
        self._did("calm", rounds)
        for _ in range(rounds):
            self._round()

    # ------------------------------------------------------------------ the end

    def relent(self) -> None:
        """Heal everything, wait until all is quiet, see that work has ended as it must, and that QPs live on."""
        self._did("adversary relents")
        self.check_memory()
        self._heal()
        self._until(self._all_work_ended)
        # One that lives and has nothing to send does not learn on the wire that its peer has given up.
        for pair in self.pairs:
            for end in pair.ends:
                if end.alive and end.peer.qp.state == QpState.ERROR:
                    end.qp.to_error("the peer has given up")
        self._settle()
        self._until(self._quiet)
        self._check_quiet()
        for pair in range(len(self.pairs)):
            for node in NODES:
                if all(end.alive for end in self.pairs[pair].ends):
                    self.post(node, pair, 700, immediate=self.setting.config.max_wimm > 0)
        self._until(self._quiet)
        self._check_quiet()
        self._check_counters()

    def _heal(self) -> None:
        self.network.heal()
        for node in NODES:
            self.network.let_go(node)
            self.hold_back(node, False)
            for plane in range(self.setting.planes):
                self.set_port(node, plane, True)
                self.set_room(node, plane, True)
        for pair in self.pairs:
            for end in pair.ends:
                if not end.gone and end.qp.paths is not None:
                    for path in end.qp.paths.paths:
                        end.qp.paths.allow(path.ev)
                    end.qp.set_receiver_penalty(0)
                    self.endpoints[end.node].wake(end.qp)
                # An application whose peer has gone learns of it some other way.
                if end.peer.gone and not end.gone:
                    end.qp.to_error("the peer is gone")
                    end.work.check_all_ended()
                    self._destroy(end)
        self._settle()

    def _all_work_ended(self) -> bool:
        return not any(
            end.alive and (end.qp.has_work() or end.qp.outstanding) for pair in self.pairs for end in pair.ends
        )

    def _check_quiet(self) -> None:
        self.check_memory()
        for pair in self.pairs:
            for end in pair.ends:
                if end.alive:
                    hold(end.qp.outstanding == 0 and not end.qp.has_work(), "quiet, but a QP has something to send")
                    end.work.check_all_succeeded()
        for node, endpoint in enumerate(self.endpoints):
            for peer in endpoint.peer_nodes.values():
                hold(not peer.planes_down or self._overtaken[node], "planes", peer.planes_down, "still count as down")
                for controller in peer.controllers.values():
                    hold(controller.inflight == 0, "quiet, and inflight is", controller.inflight)
        self.pause(3600 * SECOND)
        hold(not any(self.network.flying), "an idle QP sends something")

    def _check_counters(self) -> None:
        if self.network.harm:
            return
        counted = self.total_counters().as_dict()
        for name in NEVER_COUNTED:
            hold(not counted.get(name), "counter", name, "is", counted.get(name))
        unknown, delivered = counted.get("unknown_nack_reason", 0), self.events["NACKs of an unknown reason delivered"]
        hold(unknown <= delivered, unknown, "unknown reasons counted where", delivered, "were delivered")
