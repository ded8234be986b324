# SPDX-License-Identifier: BSD-2-Clause
"""Memory regions of nothing, at their own address, and the R_Keys they get (behaviour.md, Responder; api.md)."""

from __future__ import annotations

import numpy as np
import pytest
from hand_peer import ACK, REGION_VA, HandPeer, of

from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion, MemoryTable


def test_without_an_address_of_its_own_a_region_lies_where_its_buffer_does() -> None:
    """As in the verbs: the VA is the address of the first byte, and what is written there lands there."""
    hand = HandPeer(QpConfig(path_mtu=256))
    buffer = np.zeros(64, np.uint8)
    region = hand.endpoint.memory.register(buffer)
    assert region.va == region.address == buffer.ctypes.data
    assert hand.endpoint.memory.register(buffer[16:]).va == buffer.ctypes.data + 16
    (ack,) = of(hand.exchange(hand.request(0, b"here", va=buffer.ctypes.data + 60, rkey=region.rkey)), ACK)
    assert ack["aeth"]["syndrome"] == 0x1F
    assert buffer[60:].tobytes() == b"here"


@pytest.mark.parametrize("buffer", [bytearray(), np.zeros(0, np.uint8), np.zeros((0, 4), np.uint8)], ids=str)
def test_a_region_of_nothing_takes_nothing(buffer: bytearray) -> None:
    hand = HandPeer(QpConfig(path_mtu=256))
    region = hand.endpoint.memory.register(buffer, va=0x1000)
    assert (region.length, len(region.view)) == (0, 0)
    (nak,) = of(hand.exchange(hand.request(0, b"x", va=0x1000, rkey=region.rkey)), ACK)
    assert nak["aeth"]["syndrome"] == 0x62


def test_r_keys_are_drawn_until_one_is_free_and_not_0() -> None:
    draws = iter((0, 0, 7, 7, 0, 7, 1))
    table = MemoryTable(lambda: next(draws))
    first, second = table.register(bytearray(4)), table.register(bytearray(4))
    assert (first.rkey, second.rkey) == (7, 1)
    assert (table.find(7), table.find(1), table.find(0)) == (first, second, None)


def test_a_region_that_is_only_read_from_has_the_same_bytes() -> None:
    region = MemoryRegion(b"constant", 1, 0, remote_write=False)
    assert region.array.tobytes() == bytes(region.view) == b"constant"


@pytest.mark.parametrize(("first", "second"), [(256, 44), (256, 1), (64, 63), (44, 256)])
@pytest.mark.parametrize("at", [0, 256, 1024 - 300])
def test_packets_of_unequal_length_write_their_payload_and_nothing_behind_it(first: int, second: int, at: int) -> None:
    """Two in one batch, one behind the other in the region; every other byte of the region stays what it was."""
    hand = HandPeer(QpConfig(path_mtu=256), memory=1024 + 64)
    hand.buffer[:] = b"." * len(hand.buffer)
    one, two = b"1" * first, b"2" * second
    hand.exchange(hand.request(0, one, va=REGION_VA + at), hand.request(1, two, va=REGION_VA + at + first))
    assert bytes(hand.buffer) == b"." * at + one + two + b"." * (len(hand.buffer) - at - first - second)
