# SPDX-License-Identifier: BSD-2-Clause
"""Two RC endpoints and a network between them that loses, doubles, damages and delays, in virtual time."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rc_hand import ADDRESSES

from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.paths.addressing import PlanePair, udp_paths
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.rc import RcConfig, RcEndpoint, RcEndpointConfig, RcPeer, RcQueuePair
from mrc.wire.ipv4 import address_number
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

DELAY_NS = 5_000
PACKET_NS = 100
MEMORY = 1 << 18
FOREVER_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of packets: lost, doubled, damaged, held back for a while."""

    lost: float = 0.0
    doubled: float = 0.0
    damaged: float = 0.0
    late: float = 0.0


@dataclass
class End:
    """One endpoint with one QP."""

    endpoint: RcEndpoint
    memory: bytearray
    rkey: int
    qp: RcQueuePair
    content: bytes = b""


class World:
    """A pair of QPs. What one sends arrives in order at the other but for the faults drawn from `seed`."""

    def __init__(self, seed: int, faults: Faults, config: RcConfig, version: int = 6) -> None:
        self._random = random.Random(seed)
        self._faults = faults
        self.now = 0
        self._under_way: list[tuple[int, int, int, bytes]] = []
        self._number = 0
        self._free_at = [0, 0]  # when the link towards each end is
        self.ends = [self._end(number, config) for number in (0, 1)]
        for number, end in enumerate(self.ends):
            other = self.ends[1 - number]
            local, peer = ADDRESSES[version][number], ADDRESSES[version][1 - number]
            (path,) = udp_paths(PlanePair(0, 0, local, peer, 0), [0xC000])
            end.qp.to_rtr(RcPeer(other.qp.qpn, other.qp.first_psn, path, address_number(peer)))
            end.qp.to_rts()

    def _end(self, number: int, config: RcConfig) -> End:
        endpoint = RcEndpoint(RcEndpointConfig(seed=number, transmit_batch=32, fair_share=8))
        memory = bytearray(MEMORY)
        region = endpoint.memory.register(memory, va=0)
        qp = endpoint.create_qp(config, first_psn=0xFFFFF0)
        qp.to_init()
        return End(endpoint, memory, region.rkey, qp)

    def post(self, number: int, lengths: list[tuple[int, int | None]]) -> None:
        """One message after the other, to the same place in the other's memory, each with an immediate or without."""
        end, other = self.ends[number], self.ends[1 - number]
        end.content = self._random.randbytes(sum(length for length, _ in lengths))
        source = end.endpoint.memory.register(bytearray(end.content), va=1 << 40, remote_write=False)
        offset = 0
        for wr_id, (length, immediate) in enumerate(lengths):
            end.qp.post_write(WriteRequest(wr_id, source, offset, length, offset, other.rkey, immediate))
            offset += length
        end.endpoint.wake(end.qp)

    def run(self) -> None:
        """Until nothing is under way, nothing wants to leave and no timer is set."""
        batch = TransmitBatch(32)
        while self.now < FOREVER_NS:
            for number, end in enumerate(self.ends):
                while end.endpoint.transmit(batch, self.now):
                    for row in range(batch.count):
                        self._carry(1 - number, batch.packet(row))
                    batch.clear()
            times = [end.qp.next_deadline() for end in self.ends]
            times += [self._under_way[0][0]] if self._under_way else []
            due = [time for time in times if time is not None]
            if not due:
                return
            self.now = max(self.now, min(due))
            while self._under_way and self._under_way[0][0] <= self.now:
                _, _, target, packet = heapq.heappop(self._under_way)
                self.ends[target].endpoint.receive(ReceivedBatch.from_packets([packet]), self.now)
            for end in self.ends:
                end.endpoint.on_timer(self.now)
        raise AssertionError("it does not come to an end")

    def _carry(self, target: int, packet: bytes) -> None:
        draw, faults = self._random.random, self._faults
        if draw() < faults.lost:
            return
        if draw() < faults.damaged:
            at = self._random.randrange(28 if packet[0] >> 4 == 4 else 48, len(packet))
            packet = packet[:at] + bytes((packet[at] ^ 1 << self._random.randrange(8),)) + packet[at + 1 :]
        for _ in range(2 if draw() < faults.doubled else 1):
            self._number += 1
            late = self._random.randrange(20) * DELAY_NS if draw() < faults.late else 0
            self._free_at[target] = max(self.now, self._free_at[target]) + PACKET_NS
            heapq.heappush(self._under_way, (self._free_at[target] + DELAY_NS + late, self._number, target, packet))


lengths = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, 255, 256, 257, 1024, 3001]), st.none() | st.integers(0, 0xFFFFFFFF)),
    min_size=1,
    max_size=6,
)
shares = st.sampled_from([0.0, 0.01, 0.05])


@given(
    seed=st.integers(0, 1 << 32),
    faults=st.builds(Faults, lost=shares, doubled=shares, damaged=shares, late=shares),
    there=lengths,
    back=lengths,
    window=st.sampled_from([1, 3, 128]),
    version=st.sampled_from([4, 6]),
)
def test_everything_arrives_once_and_in_order(
    seed: int,
    faults: Faults,
    there: list[tuple[int, int | None]],
    back: list[tuple[int, int | None]],
    window: int,
    version: int,
) -> None:
    config = RcConfig(path_mtu=256, timeout=8, window_packets=window, ack_every_packets=4)
    world = World(seed, faults, config, version)
    messages = [there, back]
    for number, end in enumerate(world.ends):
        for wr_id, (_, immediate) in enumerate(messages[1 - number]):
            if immediate is not None:
                end.qp.post_receive(wr_id)
        world.post(number, messages[number])
    world.run()
    for number, end in enumerate(world.ends):
        sent, other = messages[number], world.ends[1 - number]
        if end.qp.state == QpState.ERROR:
            # Seven retries without progress: one in ten thousand runs where most is lost.
            assert faults.lost + faults.damaged > 0.05
            return
        mine = [(done.wr_id, done.status, done.byte_len) for done in end.endpoint.completions if done.kind == 1]
        assert mine == [(wr_id, WorkStatus.SUCCESS, length) for wr_id, (length, _) in enumerate(sent)]
        taken = [
            (done.wr_id, done.byte_len, done.immediate)
            for done in other.endpoint.completions
            if done.kind == WorkKind.RECV_RDMA_WITH_IMM
        ]
        assert taken == [(wr_id, *message) for wr_id, message in enumerate(sent) if message[1] is not None]
        assert other.memory[: len(end.content)] == end.content
        assert not any(other.memory[len(end.content) :])
        counters = end.endpoint.total_counters()
        if faults == Faults():
            assert counters.retransmitted_packets == counters.sequence_naks_sent == counters.local_ack_timeouts == 0


def test_loss_costs_what_it_must() -> None:
    """Go-back-N: one loss in the middle of a full window is one NAK and one window again, no timer."""
    world = World(0, Faults(), RcConfig(path_mtu=256, window_packets=16))
    world.post(0, [(256 * 64, None)])
    carry, dropped = world._carry, []

    def lose_the_twentieth(target: int, packet: bytes) -> None:
        if target == 1 and len(packet) > 200 and not dropped and world.ends[0].qp.counters.data_packets_sent >= 20:
            dropped.append(packet)
            return
        carry(target, packet)

    world._carry = lose_the_twentieth  # type: ignore[method-assign]
    world.run()
    counters, peers = world.ends[0].qp.counters, world.ends[1].qp.counters
    assert world.ends[1].memory[: 256 * 64] == world.ends[0].content
    assert (len(dropped), peers.sequence_naks_sent, counters.local_ack_timeouts) == (1, 1, 0)
    assert 1 <= counters.retransmitted_packets <= 16
    assert counters.retransmitted_packets == peers.out_of_sequence + 1


@pytest.mark.parametrize("late", [1, 3])
def test_a_receive_that_is_posted_late(late: int) -> None:
    world = World(0, Faults(), RcConfig(path_mtu=256, min_rnr_timer=1))
    world.post(0, [(1000, 7), (500, None)])
    receiver = world.ends[1].qp
    carry, naks = world._carry, []

    def watch(target: int, packet: bytes) -> None:
        if target == 0 and packet[48] == 0x11 and packet[60] == 0x21:
            naks.append(world.now)
            if len(naks) == late:
                receiver.post_receive(1)
        carry(target, packet)

    world._carry = watch  # type: ignore[method-assign]
    world.run()
    assert len(naks) == late
    assert all(after - before >= 10_000 for before, after in itertools.pairwise(naks))
    assert [done.immediate for done in world.ends[1].endpoint.completions] == [7]
    assert [done.status for done in world.ends[0].endpoint.completions] == [WorkStatus.SUCCESS] * 2
    assert world.ends[1].memory[:1500] == world.ends[0].content
