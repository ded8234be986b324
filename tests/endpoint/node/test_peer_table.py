# SPDX-License-Identifier: BSD-2-Clause
"""Who sent a packet for DQP 2: nodes that come and go, share addresses, or have addresses that hash alike."""

from __future__ import annotations

from hand_operations import EV_PROBE, request
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.node.operation_rates import OperationRates
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.node.peer_table import PeerTable
from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.paths.port_set import PortSet
from mrc.wire.received_batch import ReceivedBatch

PREFIX = 0xFD00 << 112
# The two halves of a low half say the same in either order; the last two differ in the high half alone.
ADDRESSES = [PREFIX | 1 << 32 | 2, PREFIX | 2 << 32 | 1, PREFIX | 3, PREFIX | 3 << 32, PREFIX | 1 << 64 | 3]
SOURCES = st.dictionaries(st.integers(0, 2), st.sampled_from(ADDRESSES), min_size=1)


def node_of(sources: dict[int, int]) -> PeerNode:
    return PeerNode(sources, PeerNodeConfig(), Draws(1), lambda node: None, PortSet())


def packet_of(address: int, port: int) -> ReceivedBatch:
    return ReceivedBatch.from_packets([request(1, EV_PROBE, source=address)], port)


@given(st.lists(SOURCES | st.integers(0, 40), max_size=60))
def test_the_senders_of_a_packet_are_the_nodes_with_its_address_and_port_in_order(
    steps: list[dict[int, int] | int],
) -> None:
    """A step adds a node with these sources, or removes one of those there are."""
    table, nodes = PeerTable(OperationRates(Counters())), list[PeerNode]()
    for step in steps:
        if isinstance(step, dict):
            nodes.append(node_of(step))
            table.add(nodes[-1])
        elif nodes:
            table.remove(nodes.pop(step % len(nodes)))
    for address in ADDRESSES:
        for port in range(3):
            batch = packet_of(address, port)
            expected = [node for node in nodes if node.sources.get(port) == address]
            assert table.senders(batch, 0) == expected
            known = any((each ^ address) & (1 << 64) - 1 == 0 for node in nodes for each in node.key)
            assert (table.find(batch, 0) >= 0) == known


def test_many_nodes_are_each_found() -> None:
    table = PeerTable(OperationRates(Counters()))
    nodes = [node_of({0: PREFIX | number << 20 | number}) for number in range(100)]
    for node in nodes:
        table.add(node)
    for node in nodes:
        batch = packet_of(node.sources[0], 0)
        assert table.senders(batch, 0) == [node]
        assert table.senders(packet_of(node.sources[0], 1), 0) == []
    assert len({table.handle(table.find(packet_of(node.sources[0], 0), 0)) for node in nodes}) == 100
    assert len({table.rate_slot(table.find(packet_of(node.sources[0], 0), 0)) for node in nodes}) == 100


def test_a_rate_is_shared_by_a_low_half_and_goes_with_the_last_node_that_has_it() -> None:
    counters = Counters()
    rates = OperationRates(counters)
    table, first, second = PeerTable(rates), node_of({0: ADDRESSES[2]}), node_of({0: ADDRESSES[4]})
    table.add(first)
    table.add(second)

    def welcome(address: int) -> int:
        place = table.find(packet_of(address, 0), 0)
        return sum(rates.is_welcome(table.rate_slot(place), 2, 0) for _ in range(100))

    assert welcome(ADDRESSES[2]) == 64
    assert welcome(ADDRESSES[4]) == 0
    assert counters.over_rate == 136
    table.remove(first)
    assert welcome(ADDRESSES[4]) == 0
    table.remove(second)
    table.add(first)
    assert welcome(ADDRESSES[2]) == 64
