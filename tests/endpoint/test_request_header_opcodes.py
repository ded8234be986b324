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


def _small(count: int) -> list[Message]:
    """Messages of one packet each: of 0 to 256 bytes, every third with immediate, beyond 2^16 of each number."""
    sizes = [0, 1, 61, 64, 255, 256]
    return [
        Message(
            WriteRequest(
                number,
                SOURCE,
                number,
                sizes[number % len(sizes)],
                0x7F0000000000 + number,
                0xABCD0000 + number,
                None if number % 3 else 0xFFFFFF00 + number,
            ),
            0xFFFE + number,
            256,
            0xFFFF + number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("timestamps", [True, False])
@pytest.mark.parametrize("slots", [slice(3, 15), np.arange(10, 22) & 15], ids=["in a row", "around the end"])
def test_small_messages_cut_together_are_the_same_as_one_by_one(
    timestamps: bool, slots: slice | np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    """And as what they are beside a longer one. PSNs pass 2^24."""
    module = _afresh()
    together, single, beside = (
        module.RequestHeaders(16, peer_qpn=0x123456, path_mtu=256, timestamps=timestamps) for _ in range(3)
    )
    messages = _small(12)
    psns = np.arange((1 << 24) - 5, (1 << 24) + 7)
    rows = np.arange(16)[slots].tolist()
    together.cut([(message, 0, 1) for message in messages], psns, slots)
    for message, psn, slot in zip(messages, psns.tolist(), rows, strict=True):
        single.cut_one(message, 0, psn, slot)
    # Only the first packet of the last one leaves, so that all of them go by columns.
    longer = [*messages[:-1], _message(2, None)]
    beside.cut([(message, 0, 1) for message in longer], psns, slots)
    for name in ("image", "header_length", "length", "address", "offset", "message"):
        ours, others, columns = (getattr(each, name)[rows] for each in (together, single, beside))
        assert np.array_equal(ours, others), name
        assert np.array_equal(ours[:-1], columns[:-1]), name


def test_the_bytes_of_small_messages() -> None:
    """wire.md sections 3 and 4, by hand: BTH, METH, TSETH, RETH, ImmDt."""
    headers = _afresh().RequestHeaders(16, peer_qpn=0x123456, path_mtu=256, timestamps=True)
    headers.cut([(message, 0, 1) for message in _small(2)], np.array([0xFFFFFF, 0x1000000]), slice(0, 2))
    image = [bytes(row).hex(" ", 4) for row in headers.image[:2]]
    assert image[0].startswith(
        "cb00ffff 00123456 10ffffff fffffffe 00000001 00007f00 00000000 abcd0000 00000000 ffffff00"
    )
    assert image[1].startswith(
        "ca30ffff 00123456 10000000 0000ffff 00000001 00007f00 00000001 abcd0001 00000001 00000000"
    )
