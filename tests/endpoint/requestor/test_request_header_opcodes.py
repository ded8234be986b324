# SPDX-License-Identifier: BSD-2-Clause
"""Headers of messages of every shape, as they are written into the rows of a batch."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import numpy as np
import pytest
from hand_peer import FIRST, LAST, LAST_IMMEDIATE, MIDDLE, ONLY, ONLY_IMMEDIATE, paths

from mrc.core import PACKAGE
from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.requestor.send import RequestHeaders
from mrc.endpoint.requestor.send_queue import SendQueue
from mrc.endpoint.work import WriteRequest
from mrc.wire.frames import Frames
from mrc.wire.transmit_batch import TransmitBatch

SOURCE = MemoryRegion(bytes(4 * 256), 0, 0, remote_write=False)
BTH_AT = 48


def _message(packets: int, immediate: int | None) -> WriteRequest:
    return WriteRequest(0, SOURCE, 0, 256 * packets, 0, 0, immediate)


def _written(
    request: WriteRequest, position: int, psn: int = 0, *, timestamps: bool = True, msn: int = 0, rqmsn: int = 0
) -> bytes:
    """What a packet has from the BTH to its payload, without the pad count and lengths."""
    (path,) = paths(1, 1)
    queue = SendQueue(QpConfig(path_mtu=256), CompletionRing(0, [].append))
    queue.post(request)
    queue.rqmsn[0] = rqmsn
    frames, batch = Frames(), TransmitBatch(2)
    frames.add(path.template, path.port, path.destination)
    headers = RequestHeaders(queue, peer_qpn=0x123456, path_mtu=256, timestamps=timestamps, se=0x80)
    length = headers.length(0, position)
    batch.open_row(frames, 0, 0, length)
    row = batch.open_row(frames, 0, 0, length)
    headers.write(batch, row, 0, msn, position, psn, 0x1234 * 128)
    assert not batch.headers[row, length:].any()
    return bytes(batch.headers[row, BTH_AT:length])


@pytest.mark.parametrize("timestamps", [True, False])
def test_opcodes_and_header_lengths_of_messages(timestamps: bool) -> None:
    """wire.md section 2: First, Middle, Last or Only, with Immediate where the message ends. METH 4, TSETH 4, RETH 16
    and ImmDt 4 follow the BTH of 12. One, two and four packets, plain and with immediate 0."""
    shapes = [(1, None), (1, 0), (2, None), (2, 0), (4, None), (4, 0)]
    written = [
        _written(_message(packets, immediate), position, timestamps=timestamps)
        for packets, immediate in shapes
        for position in range(packets)
    ]
    assert [headers[0] for headers in written] == [
        *(ONLY, ONLY_IMMEDIATE),
        *(FIRST, LAST, FIRST, LAST_IMMEDIATE),
        *(FIRST, MIDDLE, MIDDLE, LAST),
        *(FIRST, MIDDLE, MIDDLE, LAST_IMMEDIATE),
    ]
    plain = 12 + 4 + 16 + (4 if timestamps else 0)
    assert [len(headers) for headers in written] == [
        plain + 4 if headers[0] in (ONLY_IMMEDIATE, LAST_IMMEDIATE) else plain for headers in written
    ]


@pytest.mark.parametrize(
    ("number", "immediate", "psn", "expected"),
    [
        (
            *(0, 0xFFFFFF00, 0xFFFFFF),
            "cb00ffff 00123456 10ffffff fffffffe 12340001 00007f00 00000000 abcd0000 00000000 ffffff00",
        ),
        (*(1, None, 0x1000000), "ca00ffff 00123456 10000000 0000ffff 12340001 00007f00 00000001 abcd0001 00000001"),
    ],
)
def test_the_bytes_of_small_messages(number: int, immediate: int | None, psn: int, expected: str) -> None:
    """wire.md sections 3 and 4, by hand: BTH, METH, TSETH, RETH, ImmDt. MSN, RQMSN and PSN pass their widths."""
    va, rkey = 0x7F0000000000 + number, 0xABCD0000 + number
    request = WriteRequest(number, SOURCE, number, number, va, rkey, immediate)
    msn, rqmsn = 0xFFFE + number, 0xFFFF + number
    assert _written(request, 0, psn, msn=msn, rqmsn=rqmsn).hex(" ", 4) == expected


@pytest.mark.parametrize("position", range(3))
def test_each_packet_of_a_message_has_its_own_va_and_the_messages_length(position: int) -> None:
    """wire.md section 4. The last address a region can have is below 2^62."""
    va = (1 << 62) - 1024
    reth = _written(WriteRequest(0, SOURCE, 0, 600, va, 7), position, msn=5)[20:]
    assert reth == np.array([va + 256 * position], ">u8").tobytes() + bytes((0, 0, 0, 7, 0, 0, 2, 88))


def test_the_opcode_of_a_packet_by_its_place_in_the_message() -> None:
    """In a copy of the module imported afresh. [begins | ends | immediate], which counts only where a message ends."""
    source = PACKAGE / "endpoint" / "requestor" / "send.py"
    fresh = SourceFileLoader("afresh_send", str(source))
    module = module_from_spec(spec_from_loader(fresh.name, fresh))  # type: ignore[arg-type]
    fresh.exec_module(module)
    assert list(module._OPCODES) == [MIDDLE, FIRST, LAST, ONLY, MIDDLE, FIRST, LAST_IMMEDIATE, ONLY_IMMEDIATE]
