# SPDX-License-Identifier: BSD-2-Clause
"""Messages of many sizes both ways, over every IP version, path MTU and share of loss."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from network import TOWARDS_PEER, TOWARDS_US, Network
from pair import MEMORY_BYTES, Pair, Write
from peer import Peer

from mrc.rc.node import RcNode

VERSIONS, PATH_MTUS = (4, 6), (1024, 4096)
# Padding of 0 to 3 bytes, one packet, an exact path MTU, one byte more, many packets.
SIZES = (0, 1, 2, 3, 63, 64, 1000, 1024, 1025, 4096, 4097, 65_537)
LARGE = 2_000_003
_BURST = 24  # messages at once
_MORE = 4  # large messages, at most, until one loses something
_FIRST_OFFSET = 13  # nothing is aligned
DIRECTIONS = TO_PEER, FROM_PEER, BOTH = "to Soft-RoCE", "from Soft-RoCE", "both at once"


@dataclass(frozen=True, slots=True)
class Row:
    """What happened in one direction: `lost` packets by the kernel's count, `naks` of sequence errors that got through,
    `wrong` what was not as it must be."""

    version: int
    path_mtu: int
    loss: float
    direction: str
    messages: int
    bytes: int
    lost: int
    naks: int
    seconds: float
    wrong: list[str]


def rows(network: Network, node: RcNode, peer: Peer, loss: float) -> Iterator[Row]:
    """Every row, as soon as it is done."""
    for version, path_mtu, share in itertools.product(VERSIONS, PATH_MTUS, (0.0, loss)):
        for direction in DIRECTIONS:
            with Pair(node, peer, version, path_mtu) as pair:
                network.lose(share)
                try:
                    yield _row(network, pair, version, path_mtu, share, direction)
                finally:
                    network.lose(0.0)


def _row(network: Network, pair: Pair, version: int, path_mtu: int, share: float, direction: str) -> Row:
    to_peer, to_us = direction != FROM_PEER, direction != TO_PEER
    large = [Write(_FIRST_OFFSET, LARGE, 0xFFFFFFFF)]
    groups = [_burst(), large]
    if not (to_peer and to_us):
        groups += _one_by_one()
    messages = octets = 0
    wrong: list[str] = []
    data = TOWARDS_PEER if to_peer else TOWARDS_US
    began = time.monotonic()
    for number, group in enumerate(groups + [large] * _MORE):
        if number >= len(groups) and (not share or network.lost().get(data)):
            break
        ours = group if to_peer else []
        # Where both write at once, each in its own half of the memory.
        half = MEMORY_BYTES // 2 if to_peer else 0
        theirs = [replace(write, offset=write.offset + half) for write in group] if to_us else []
        wrong += pair.exchange(ours, theirs)
        messages += len(ours) + len(theirs)
        octets += sum(write.length for write in (*ours, *theirs))
    seconds = time.monotonic() - began
    lost = network.lost() if share else {}
    # What the sums say is worth something under loss only if data was lost.
    if share and not lost.get(data):
        wrong.append(f"not one packet was lost at a loss of {share:.1%}: this shows nothing, run it again")
    naks = pair.count("sequence_naks_received") + pair.count("sequence_naks_sent")
    return Row(version, path_mtu, share, direction, messages, octets, sum(lost.values()), naks, seconds, wrong)


def _one_by_one() -> list[list[Write]]:
    immediates = itertools.count(0x1000)
    return [[Write(_FIRST_OFFSET, size, immediate)] for size in SIZES for immediate in (None, next(immediates))]


def _burst() -> list[Write]:
    """Messages of all sizes, one behind the other in memory, every third with an immediate."""
    writes, offset = [], _FIRST_OFFSET
    for number, size in zip(range(_BURST), itertools.cycle(SIZES)):
        writes.append(Write(offset, size, number if number % 3 == 0 else None))
        offset += size + 3
    return writes
