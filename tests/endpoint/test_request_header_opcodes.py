"""Opcodes of messages of every shape, from a copy of the module imported afresh: their table is made on import."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

import numpy as np
import pytest
from hand_peer import FIRST, LAST, LAST_IMMEDIATE, MIDDLE, ONLY, ONLY_IMMEDIATE

from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.work import Message, WriteRequest

SOURCE = MemoryRegion(bytes(4 * 256), 0, 0, remote_write=False)


def _afresh() -> ModuleType:
    """A second copy of the module; the one everybody else has imported stays what it is."""
    spec = importlib.import_module("mrc.endpoint.request_headers").__spec__
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _message(packets: int, immediate: int | None) -> Message:
    return Message(WriteRequest(0, SOURCE, 0, 256 * packets, 0, 0, immediate), 0, 256)


@pytest.mark.parametrize("timestamps", [True, False])
def test_opcodes_and_header_lengths_of_messages_cut_together(timestamps: bool) -> None:
    """wire.md section 2: First, Middle, Last or Only, with Immediate where the message ends. METH 4, TSETH 4, RETH 16
    and ImmDt 4 follow IPv6, UDP and BTH. One, two and four packets, plain and with immediate 0."""
    shapes = [(1, None), (1, 0), (2, None), (2, 0), (4, None), (4, 0)]
    pieces = [(_message(packets, immediate), 0, packets) for packets, immediate in shapes]
    count = sum(packets for packets, _ in shapes)
    headers = _afresh().RequestHeaders(16, peer_qpn=1, path_mtu=256, timestamps=timestamps)
    headers.cut(pieces, np.arange(count), slice(0, count))
    assert headers.image[:count, 0].tolist() == [
        *(ONLY, ONLY_IMMEDIATE),
        *(FIRST, LAST, FIRST, LAST_IMMEDIATE),
        *(FIRST, MIDDLE, MIDDLE, LAST),
        *(FIRST, MIDDLE, MIDDLE, LAST_IMMEDIATE),
    ]
    plain = 40 + 8 + 12 + 4 + 16 + (4 if timestamps else 0)
    assert headers.header_length[:count].tolist() == [
        plain + 4 if opcode in (ONLY_IMMEDIATE, LAST_IMMEDIATE) else plain for opcode in headers.image[:count, 0]
    ]


def test_a_message_cut_in_pieces_is_the_same_as_in_one() -> None:
    """Windows and turns cut messages anywhere."""
    whole, parts = (_afresh().RequestHeaders(8, peer_qpn=1, path_mtu=256, timestamps=True) for _ in range(2))
    message = _message(4, 7)
    psns = np.arange(4)
    whole.cut([(message, 0, 4)], psns, slice(0, 4))
    for first, count in ((0, 1), (1, 2), (3, 1)):
        parts.cut([(message, first, count)], psns[first : first + count], slice(first, first + count))
    for name in ("image", "header_length", "length", "offset", "message"):
        assert np.array_equal(getattr(whole, name)[:4], getattr(parts, name)[:4]), name
