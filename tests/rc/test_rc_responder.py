# SPDX-License-Identifier: BSD-2-Clause
"""The responder of RC against packets written by hand (IBTA 9.7.4, 9.7.5, 9.9.3)."""

from __future__ import annotations

import pytest
from rc_hand import (
    ACK,
    FIRST,
    INVALID_REQUEST,
    LAST,
    LAST_IMMEDIATE,
    MIDDLE,
    ONLY,
    ONLY_IMMEDIATE,
    PEER_PSN,
    REGION_VA,
    REMOTE_ACCESS,
    RKEY,
    SEQUENCE_ERROR,
    HandPeer,
    answer,
    bth,
    write,
)

from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.qp_states import QpState

P = PEER_PSN
MTU = 256
RNR_12 = 0x20 | 12


def pattern(length: int, start: int = 1) -> bytes:
    return bytes((start + at) % 251 for at in range(length))


def three_packets(psn: int = P, length: int = 2 * MTU + 5, **others: int) -> list[bytes]:
    """A message of three packets: only the first names address, key and length, only the last asks for an answer."""
    data = pattern(length)
    return [
        write(FIRST, psn, data[:MTU], dmalen=length, **others),
        write(MIDDLE, psn + 1, data[MTU : 2 * MTU]),
        write(LAST, psn + 2, data[2 * MTU :], ackreq=True),
    ]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 63, MTU])
def test_one_packet(version: int, length: int) -> None:
    peer = HandPeer(version=version)
    data = pattern(length)
    assert peer.answers(write(ONLY, P, data, va=REGION_VA + 7, ackreq=True)) == [(P, ACK, 1)]
    assert peer.memory == bytes(7) + data + bytes(len(peer.memory) - 7 - length)


@pytest.mark.parametrize("last", [1, 4, 255, MTU])
def test_a_message_of_three_packets(last: int) -> None:
    peer = HandPeer()
    length = 2 * MTU + last
    assert peer.answers(*three_packets(length=length, va=REGION_VA + 100)) == [(P + 2, ACK, 1)]
    assert peer.memory[100 : 100 + length] == pattern(length)
    assert not any(peer.memory[100 + length :])


def test_psns_wrap() -> None:
    peer = HandPeer(peer_psn=0xFFFFFF)
    assert peer.answers(*three_packets(0xFFFFFF)) == [(1, ACK, 1)]


def test_what_is_counted() -> None:
    peer = HandPeer(min_rnr_timer=12)
    peer.answers(*three_packets(), write(ONLY, P + 3, b"abc", ackreq=True), write(ONLY, P + 3, b"abc"))
    peer.answers(write(ONLY, P + 5, b"abcd"), write(ONLY_IMMEDIATE, P + 4, b"abcd"), write(LAST, P + 4, b"abcd"))
    assert peer.endpoint.total_counters().as_dict() == {
        "requests_received": 8,
        "bytes_placed": 2 * MTU + 5 + 3,
        "messages_received": 2,
        "duplicates_old": 1,
        "out_of_sequence": 1,
        "acks_sent": 3,
        "sequence_naks_sent": 1,
        "rnr_naks_sent": 1,
        "naks_sent": 1,
        "invalid_request": 1,
    }


def test_an_answer_leaves_before_data_and_takes_its_place() -> None:
    peer = HandPeer()
    peer.receive(write(ONLY, P, b"abcd", ackreq=True))
    peer.post(3 * MTU)
    assert [each.opcode for each in peer.sent(room=1)] == [0x11]
    # Nothing is out yet that a timer could be for.
    assert peer.qp.next_deadline() is None
    peer.receive(write(ONLY, P + 1, b"abcd", ackreq=True))
    assert [each.opcode for each in peer.sent(room=3)] == [0x11, FIRST, MIDDLE]
    assert [each.opcode for each in peer.sent(room=3)] == [LAST]


def test_no_answer_unless_asked() -> None:
    peer = HandPeer()
    assert peer.answers(write(ONLY, P, b"abcd")) == []
    assert peer.answers(write(ONLY, P + 1, b"abcd", ackreq=True)) == [(P + 1, ACK, 2)]


def test_one_answer_for_what_came_at_once() -> None:
    peer = HandPeer()
    peer.receive(*(write(ONLY, P + at, b"abcd", ackreq=True) for at in range(5)))
    assert [(each.psn, *each.aeth) for each in peer.sent()] == [(P + 4, ACK, 5)]
    assert peer.sent() == []


def test_what_came_before_is_acknowledged_again_and_not_written_again() -> None:
    peer = HandPeer()
    peer.answers(write(ONLY, P, b"abcd", ackreq=True), write(ONLY, P + 1, b"efgh", ackreq=True))
    assert peer.memory[:4] == b"efgh"
    assert peer.answers(write(ONLY, P, b"abcd", ackreq=True)) == [(P + 1, ACK, 2)]
    # Without being asked, too: the requestor may have missed the answer.
    assert peer.answers(write(ONLY, P + 1, b"abcd")) == [(P + 1, ACK, 2)]
    assert peer.memory[:4] == b"efgh"
    assert peer.count("duplicates_old") == 2


@pytest.mark.parametrize(("behind", "answered"), [(1, ACK), ((1 << 23), ACK), ((1 << 23) + 1, SEQUENCE_ERROR)])
def test_half_the_circle_is_behind(behind: int, answered: int) -> None:
    peer = HandPeer()
    ((psn, syndrome, _),) = peer.answers(write(ONLY, P - behind, b"abcd"))
    assert (psn, syndrome) == (P - 1 if answered == ACK else P, answered)


def test_one_nak_until_what_is_missing_comes() -> None:
    peer = HandPeer()
    first, second, third = three_packets()
    assert peer.answers(first) == []
    assert peer.answers(third) == [(P + 1, SEQUENCE_ERROR, 0)]
    assert peer.answers(third, write(ONLY, P + 3, b"abcd", ackreq=True)) == []
    # A duplicate is answered all the same, and changes nothing.
    assert peer.answers(first) == [(P, ACK, 0)]
    assert peer.answers(third) == []
    assert peer.answers(second, third) == [(P + 2, ACK, 1)]
    # And then the next gap has its own.
    assert peer.answers(write(ONLY, P + 5, b"abcd", ackreq=True)) == [(P + 3, SEQUENCE_ERROR, 1)]
    assert (peer.count("out_of_sequence"), peer.count("sequence_naks_sent")) == (5, 2)


def test_a_nak_is_not_lost_behind_a_duplicate_of_the_same_batch() -> None:
    peer = HandPeer()
    peer.answers(write(ONLY, P, b"abcd"))
    peer.receive(write(ONLY, P + 2, b"abcd", ackreq=True), write(ONLY, P, b"abcd", ackreq=True))
    assert [(each.psn, *each.aeth) for each in peer.sent()] == [(P + 1, SEQUENCE_ERROR, 1)]


def test_no_nak_for_what_came_in_the_same_batch() -> None:
    peer = HandPeer()
    peer.receive(write(ONLY, P + 1, b"abcd", ackreq=True), write(ONLY, P, b"abcd"))
    assert peer.sent() == []


# ---------------------------------------------------------------------- immediates


def test_an_immediate_takes_a_receive() -> None:
    peer = HandPeer()
    peer.qp.post_receive(7)
    peer.qp.post_receive(8)
    assert peer.answers(write(ONLY_IMMEDIATE, P, b"abc", immediate=0xFFFFFFFF, ackreq=True)) == [(P, ACK, 1)]
    (done,) = peer.taken()
    assert (done.wr_id, done.status, done.kind) == (7, WorkStatus.SUCCESS, WorkKind.RECV_RDMA_WITH_IMM)
    assert (done.byte_len, done.immediate, peer.memory[:4]) == (3, 0xFFFFFFFF, b"abc\0")
    first, second, _ = three_packets(P + 1)
    last = write(LAST_IMMEDIATE, P + 3, b"12345", immediate=9, ackreq=True)
    assert peer.answers(first, second, last) == [(P + 3, ACK, 2)]
    (done,) = peer.taken()
    assert (done.wr_id, done.byte_len, done.immediate) == (8, 2 * MTU + 5, 9)


def test_without_a_receive_it_has_to_wait() -> None:
    peer = HandPeer(min_rnr_timer=12)
    request = write(ONLY_IMMEDIATE, P, b"abcd", immediate=1, ackreq=True)
    assert peer.answers(request) == [(P, RNR_12, 0)]
    assert not any(peer.memory)
    # What follows is dropped, and no sequence error is told of it.
    assert peer.answers(write(ONLY, P + 1, b"efgh", ackreq=True)) == []
    assert peer.answers(request) == [(P, RNR_12, 0)]
    peer.qp.post_receive(3)
    assert peer.answers(request) == [(P, ACK, 1)]
    assert (peer.completed(), peer.memory[:4]) == ([(3, WorkStatus.SUCCESS)], b"abcd")
    assert (peer.count("rnr_naks_sent"), peer.count("sequence_naks_sent")) == (2, 0)


def test_only_the_packet_with_the_immediate_has_to_wait() -> None:
    peer = HandPeer(min_rnr_timer=12)
    first, second, _ = three_packets()
    last = write(LAST_IMMEDIATE, P + 2, b"12345", immediate=9)
    assert peer.answers(first, second, last) == [(P + 2, RNR_12, 0)]
    peer.qp.post_receive(3)
    assert peer.answers(last) == []
    assert peer.completed() == [(3, WorkStatus.SUCCESS)]


# ---------------------------------------------------------------------- refusals

WRONG = {
    "middle without a first": (0, write(MIDDLE, P, pattern(MTU)), INVALID_REQUEST),
    "last without a first": (0, write(LAST, P, b"abcd"), INVALID_REQUEST),
    "only inside a message": (1, write(ONLY, P + 1, b"abcd"), INVALID_REQUEST),
    "first inside a message": (1, write(FIRST, P + 1, pattern(MTU), dmalen=600), INVALID_REQUEST),
    "first shorter than the path MTU": (0, write(FIRST, P, pattern(MTU - 4), dmalen=600), INVALID_REQUEST),
    "first longer than the path MTU": (0, write(FIRST, P, pattern(MTU + 4), dmalen=600), INVALID_REQUEST),
    "first of a message that one packet holds": (0, write(FIRST, P, pattern(MTU), dmalen=MTU), INVALID_REQUEST),
    "middle shorter than the path MTU": (1, write(MIDDLE, P + 1, pattern(MTU - 4)), INVALID_REQUEST),
    "middle that ends the message": (2, write(MIDDLE, P + 2, pattern(MTU)), INVALID_REQUEST),
    "last too early": (1, write(LAST, P + 1, b"12345"), INVALID_REQUEST),
    "last too short": (2, write(LAST, P + 2, b"1234"), INVALID_REQUEST),
    "last too long": (2, write(LAST, P + 2, b"123456"), INVALID_REQUEST),
    "last of nothing": (2, write(LAST, P + 2), INVALID_REQUEST),
    "only of another length": (0, write(ONLY, P, b"abcd", dmalen=5), INVALID_REQUEST),
    "only longer than the path MTU": (0, write(ONLY, P, pattern(MTU + 4)), INVALID_REQUEST),
    "a SEND": (0, bth(4, P) + b"abcd", INVALID_REQUEST),
    "a READ": (0, bth(12, P) + bytes(16), INVALID_REQUEST),
    "a key that opens nothing": (0, write(ONLY, P, b"abcd", rkey=RKEY + 1), REMOTE_ACCESS),
    "a range that begins too early": (0, write(ONLY, P, b"abcd", va=REGION_VA - 1), REMOTE_ACCESS),
    "a range that ends too late": (0, write(ONLY, P, b"abcd", va=REGION_VA + 8192 - 3), REMOTE_ACCESS),
    "a message that will end too late": (0, write(FIRST, P, pattern(MTU), dmalen=8193), REMOTE_ACCESS),
    "an address beyond any": (0, write(ONLY, P, b"abcd", va=(1 << 64) - 2), REMOTE_ACCESS),
}


@pytest.mark.parametrize(("taken", "request_bytes", "syndrome"), WRONG.values(), ids=WRONG)
def test_what_ends_the_queue_pair(taken: int, request_bytes: bytes, syndrome: int) -> None:
    peer = HandPeer()
    peer.qp.post_receive(5)
    before = three_packets()[:taken]
    peer.answers(*before)
    memory = bytes(peer.memory)
    assert peer.answers(request_bytes) == [(P + taken, syndrome, 0)]
    assert (peer.qp.state, bytes(peer.memory)) == (QpState.ERROR, memory)
    (done,) = peer.taken()
    assert (done.wr_id, done.status, done.byte_len, done.kind) == (
        5,
        WorkStatus.FLUSHED,
        0,
        WorkKind.RECV_RDMA_WITH_IMM,
    )
    assert str(P + taken) in str(peer.qp.error)
    assert [event.qpn for event in peer.endpoint.events] == [peer.qp.qpn]


def test_the_nak_that_ended_it_is_repeated_once_a_batch() -> None:
    peer = HandPeer()
    wrong = write(ONLY, P, b"abcd", rkey=1)
    assert peer.answers(wrong) == [(P, REMOTE_ACCESS, 0)]
    peer.receive(wrong, write(ONLY, P + 1, b"abcd", ackreq=True))
    assert [(each.psn, *each.aeth) for each in peer.sent()] == [(P, REMOTE_ACCESS, 0)]
    assert not any(peer.memory)
    # An answer is not answered: two that are over stay silent.
    assert peer.answers(answer(P)) == []
    # Who ended for a reason of its own has nothing to repeat.
    other = HandPeer()
    other.qp.to_error("over")
    assert other.answers(wrong) == []


def test_a_region_closed_while_a_message_goes_into_it() -> None:
    peer = HandPeer()
    first, second, _ = three_packets()
    peer.answers(first)
    peer.endpoint.memory.deregister(peer.region)
    assert peer.answers(second) == [(P + 1, REMOTE_ACCESS, 0)]


def test_a_region_that_is_only_read_from() -> None:
    peer = HandPeer()
    peer.endpoint.memory.deregister(peer.region)
    peer.endpoint.memory.register(peer.memory, va=REGION_VA, remote_write=False)
    assert peer.answers(write(ONLY, P, b"abcd")) == [(P, REMOTE_ACCESS, 0)]


def test_a_write_of_nothing_needs_no_key() -> None:
    peer = HandPeer()
    assert peer.answers(write(ONLY, P, b"", rkey=1, va=1, ackreq=True)) == [(P, ACK, 1)]
    peer.qp.post_receive(1)
    assert peer.answers(write(ONLY_IMMEDIATE, P + 1, b"", rkey=1, va=1, immediate=4, ackreq=True)) == [(P + 1, ACK, 2)]
    assert [done.immediate for done in peer.taken()] == [4]


def test_the_whole_message_was_the_length_of_the_region() -> None:
    peer = HandPeer(memory=2 * MTU + 5)
    assert peer.answers(*three_packets()) == [(P + 2, ACK, 1)]
    assert peer.memory == pattern(2 * MTU + 5)
