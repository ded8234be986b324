# SPDX-License-Identifier: BSD-2-Clause
"""What may be posted, to the last byte of each range, and what part of the local region a write takes."""

from __future__ import annotations

import ctypes

import pytest
from hand_peer import HandPeer, data

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import VA_LIMIT, MemoryRegion
from mrc.endpoint.work import MAX_MESSAGE, WriteRequest
from mrc.errors import CallerError

CONFIG = QpConfig(path_mtu=256)
LOCAL = bytes(at * 7 & 0xFF for at in range(2000))


def _region(content: bytes = LOCAL) -> MemoryRegion:
    return MemoryRegion(content, 0, 0, remote_write=False)


def _large(length: int) -> MemoryRegion:
    """A region that says it is as long as wanted: 2 GiB need not be there to be refused or taken."""
    region = MemoryRegion(b"", 0, 0, remote_write=False)
    region.length = length
    return region


@pytest.mark.parametrize("offset", [0, 1, 255, 256, 700])
@pytest.mark.parametrize("length", [0, 1, 256, 600, 1024])
def test_a_write_takes_the_bytes_from_its_offset_in_the_local_region(offset: int, length: int) -> None:
    """WriteRequest: "`length` bytes from `offset` in the local region". The remote address does not depend on it."""
    hand = HandPeer(CONFIG)
    hand.qp.post_write(WriteRequest(4, _region(), offset, length, 0x5000, 0xCAFE))
    hand.endpoint.wake(hand.qp)
    sent = data(hand.transmitted())
    assert b"".join(packet.payload for packet in sent) == LOCAL[offset : offset + length]
    assert [packet["reth"]["va"] for packet in sent] == [0x5000 + 256 * at for at in range(max(1, -(-length // 256)))]
    hand.receive(hand.ack(len(sent) - 1))
    assert hand.completed() == [(4, WorkStatus.SUCCESS)]


@pytest.mark.parametrize("offset", [0, 300])
def test_a_batch_names_the_payloads_address_in_the_callers_own_memory(offset: int) -> None:
    """TransmitBatch: "payload as a memoryview of the application's own memory and its address"; nothing is copied."""
    hand = HandPeer(CONFIG)
    hand.qp.post_write(WriteRequest(0, _region(), offset, 900, 0x5000, 0xCAFE))
    hand.qp.post_write(WriteRequest(1, _region(), 1, 100, 0x5000, 0xCAFE))
    hand.endpoint.wake(hand.qp)
    assert hand.endpoint.transmit(hand.batch, hand.now) == 5
    addresses, lengths = hand.batch.payload_address[:5].tolist(), (256, 256, 256, 132, 100)
    found = [ctypes.string_at(address, length) for address, length in zip(addresses, lengths, strict=True)]
    assert b"".join(found[:4]) == LOCAL[offset : offset + 900]
    assert found[4] == LOCAL[1:101]


@pytest.mark.parametrize("offset", [0, 300])
def test_what_is_sent_again_is_the_same_bytes(offset: int) -> None:
    """wire.md 4: a packet's VA and payload do not depend on when it is sent."""
    hand = HandPeer(CONFIG)
    hand.qp.post_write(WriteRequest(0, _region(), offset, 900, 0x5000, 0xCAFE))
    hand.endpoint.wake(hand.qp)
    first = data(hand.transmitted())
    again = data(hand.exchange(*(hand.nack(at, 0x01, ev=first[at].ev) for at in (1, 3))))
    assert [packet.payload for packet in again] == [first[1].payload, first[3].payload]
    assert [packet["reth"] for packet in again] == [first[1]["reth"], first[3]["reth"]]


def test_the_last_values_of_each_range_are_taken() -> None:
    """WriteRequest: "`length` 0..2^31-1 bytes ... `immediate`, a 32-bit number"; remote_va 62 bits, rkey 32."""
    assert MAX_MESSAGE == 2**31 - 1
    assert VA_LIMIT == 2**62
    WriteRequest(0, _large(2**31 - 1), 0, 2**31 - 1, 0, 0)
    WriteRequest(0, _region(), 2000, 0, 2**62 - 1, 2**32 - 1, 2**32 - 1)
    WriteRequest(0, _region(), 0, 2000, 0, 0, 0)
    WriteRequest(0, _region(), 1999, 1, 0, 0)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"source": _large(2**31), "length": 2**31}, "2147483647"),
        ({"length": -1}, "got -1"),
        ({"offset": -1, "length": 1}, "-1..0 leave the local region of 2000"),
        ({"offset": 2000, "length": 1}, "2000..2001 leave the local region of 2000"),
        ({"offset": 2001}, "leave the local region"),
        ({"remote_va": -1}, "62 bits"),
        ({"remote_va": 2**62}, "62 bits"),
        ({"rkey": -1}, "rkey 32"),
        ({"rkey": 2**32}, "rkey 32"),
        ({"immediate": -1}, "got -1"),
        ({"immediate": 2**32}, "got 4294967296"),
    ],
)
def test_one_beyond_them_is_refused(wrong: dict[str, object], why: str) -> None:
    right: dict[str, object] = {"source": _region(), "offset": 0, "length": 0, "remote_va": 0, "rkey": 0}
    with pytest.raises(CallerError, match=why):
        WriteRequest(wr_id=0, **{**right, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("first_psn", [0, 1, 2**24 - 1])
def test_work_completes_whatever_the_first_psn(first_psn: int) -> None:
    """behaviour.md, QP life: "first PSN" is a parameter, any 24-bit number. One packet, then three."""
    hand = HandPeer(CONFIG, first_psn=first_psn)
    hand.post(10)
    hand.transmitted()
    hand.receive(hand.ack(0))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]
    hand.post(600)
    hand.transmitted()
    hand.receive(hand.sack(1), hand.sack(1, above=[3]))
    hand.receive(hand.sack(3))
    assert hand.completed() == [(1, WorkStatus.SUCCESS)]


@pytest.mark.parametrize("timestamps", [True, False])
def test_psns_and_flags_with_and_without_timestamps(timestamps: bool) -> None:
    """wire.md section 3: PSN bits 23:0, `ts` says whether a TSETH follows; no other bit is set but AckReq."""
    hand = HandPeer(QpConfig(path_mtu=256, timestamps=timestamps), first_psn=(1 << 24) - 3)
    hand.post(256 * 6)
    words = [int.from_bytes(packet.whole[56:60], "big") for packet in data(hand.transmitted())]
    ts = 1 << 28 if timestamps else 0
    psns = [0xFFFFFD, 0xFFFFFE, 0xFFFFFF, 0, 1, 2]
    assert words == [psn | ts | (1 << 31 if psn == 2 else 0) for psn in psns]
