# SPDX-License-Identifier: BSD-2-Clause
"""The requestor of RC against answers written by hand (IBTA 9.7.2, 9.7.5, 9.9.2)."""

from __future__ import annotations

import pytest
from rc_hand import (
    ACK,
    FIRST,
    INVALID_REQUEST,
    LAST,
    LAST_IMMEDIATE,
    MICROSECOND,
    MIDDLE,
    MILLISECOND,
    ONLY,
    ONLY_IMMEDIATE,
    OUR_PSN,
    PEER_QPN,
    REMOTE_ACCESS,
    REMOTE_OPERATION,
    SEQUENCE_ERROR,
    HandPeer,
    answer,
    shapes,
)

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.node.local_ports import PortLimit
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError

P = OUR_PSN
MTU = 256
TIMEOUT = 10  # 4.096 us x 2^10
TIMEOUT_NS = 4_194_304


def psns(peer: HandPeer) -> list[int]:
    return [each.psn for each in peer.sent()]


@pytest.mark.parametrize("version", [4, 6])
def test_a_message_of_three_packets_byte_by_byte(version: int) -> None:
    peer = HandPeer(version=version)
    peer.memory[: 2 * MTU + 5] = bytes(at % 249 for at in range(2 * MTU + 5))
    peer.post(2 * MTU + 5, 0x01020304, va=0x1122334455667788 >> 2)
    first, middle, last = peer.sent()
    assert shapes([first, middle, last]) == [(FIRST, P, False), (MIDDLE, P + 1, False), (LAST_IMMEDIATE, P + 2, True)]
    assert {each.dqp for each in (first, middle, last)} == {PEER_QPN}
    assert first.reth == (0x1122334455667788 >> 2, 0xBEEF, 2 * MTU + 5)
    assert (middle.extension, last.extension.hex()) == (b"", "01020304")
    assert first.payload + middle.payload + last.payload == peer.memory[: 2 * MTU + 5]
    assert [each.pad for each in (first, middle, last)] == [0, 0, 3]
    assert peer.sent() == []
    peer.receive(answer(P + 2, msn=1))
    (done,) = peer.taken()
    assert (done.wr_id, done.status, done.byte_len) == (1, WorkStatus.SUCCESS, 2 * MTU + 5)
    assert peer.qp.next_deadline() is None


@pytest.mark.parametrize(
    ("length", "opcodes"),
    [(0, [ONLY]), (1, [ONLY]), (MTU, [ONLY]), (MTU + 1, [FIRST, LAST]), (2 * MTU, [FIRST, LAST])],
)
def test_opcodes_by_length(length: int, opcodes: list[int]) -> None:
    peer = HandPeer()
    peer.post(length)
    sent = peer.sent()
    assert [each.opcode for each in sent] == opcodes
    assert sum(len(each.payload) for each in sent) == length
    assert [each.ackreq for each in sent] == [*[False] * (len(sent) - 1), True]


def test_an_immediate_in_one_packet() -> None:
    peer = HandPeer()
    peer.post(3, 0xFFFFFFFF)
    (sent,) = peer.sent()
    assert (sent.opcode, sent.extension[16:].hex(), sent.pad) == (ONLY_IMMEDIATE, "ffffffff", 1)


def test_psns_wrap() -> None:
    peer = HandPeer(first_psn=0xFFFFFE)
    peer.post(4 * MTU)
    assert psns(peer) == [0xFFFFFE, 0xFFFFFF, 0, 1]
    peer.receive(answer(0xFFFFFF))
    assert peer.completed() == []
    peer.receive(answer(1, msn=1))
    assert peer.completed() == [(1, WorkStatus.SUCCESS)]


def test_the_window_and_what_asks_for_an_answer() -> None:
    peer = HandPeer(window_packets=5, ack_every_packets=3)
    peer.post(9 * MTU)
    assert shapes(peer.sent()) == [
        (FIRST, P, False),
        (MIDDLE, P + 1, False),
        (MIDDLE, P + 2, True),  # the third
        (MIDDLE, P + 3, False),
        (MIDDLE, P + 4, True),  # the window is full
    ]
    peer.receive(answer(P + 2))
    assert shapes(peer.sent()) == [(MIDDLE, P + 5, False), (MIDDLE, P + 6, False), (MIDDLE, P + 7, True)]
    peer.receive(answer(P + 7))
    assert shapes(peer.sent()) == [(LAST, P + 8, True)]


def test_little_room_in_the_batch() -> None:
    peer = HandPeer()
    peer.post(3 * MTU)
    assert [len(peer.sent(room=1)) for _ in range(4)] == [1, 1, 1, 0]


def test_messages_complete_in_order_and_one_answer_does_for_several() -> None:
    peer = HandPeer()
    for wr_id in (1, 2, 3):
        peer.post(2 * MTU, wr_id=wr_id)
    assert psns(peer) == [P, P + 1, P + 2, P + 3, P + 4, P + 5]
    peer.receive(answer(P + 4, msn=2))
    assert peer.completed() == [(1, WorkStatus.SUCCESS), (2, WorkStatus.SUCCESS)]
    peer.receive(answer(P + 3, msn=2), answer(P + 4, msn=2))
    assert (peer.completed(), peer.count("answers_to_nothing")) == ([], 2)
    peer.receive(answer(P + 5, msn=3))
    assert peer.completed() == [(3, WorkStatus.SUCCESS)]


def test_a_sequence_error_goes_back_to_what_it_names() -> None:
    peer = HandPeer()
    peer.post(2 * MTU, wr_id=1)
    peer.post(3 * MTU, wr_id=2)
    peer.sent()
    peer.receive(answer(P + 3, SEQUENCE_ERROR, msn=1))
    # It acknowledges what came before, and what it names is in the middle of a message: no RETH again.
    assert peer.completed() == [(1, WorkStatus.SUCCESS)]
    assert shapes(peer.sent()) == [(MIDDLE, P + 3, False), (LAST, P + 4, True)]
    assert peer.count("retransmitted_packets") == 2
    peer.receive(answer(P + 2, SEQUENCE_ERROR, msn=1))
    assert peer.sent() == []


def test_an_answer_that_comes_while_it_goes_back() -> None:
    peer = HandPeer()
    peer.post(5 * MTU)
    peer.sent()
    peer.receive(answer(P + 1, SEQUENCE_ERROR))
    assert [each.psn for each in peer.sent(room=1)] == [P + 1]
    peer.receive(answer(P + 3))
    assert psns(peer) == [P + 4]


def test_silence_goes_back_to_the_oldest() -> None:
    peer = HandPeer(timeout=TIMEOUT)
    peer.post(3 * MTU)
    peer.sent()
    peer.receive(answer(P))
    assert peer.endpoint.next_deadline() == TIMEOUT_NS
    peer.pass_time(TIMEOUT_NS - 1)
    assert peer.sent() == []
    peer.pass_time(1)
    assert shapes(peer.sent()) == [(MIDDLE, P + 1, False), (LAST, P + 2, True)]
    assert peer.count("local_ack_timeouts") == 1
    peer.receive(answer(P + 2))
    assert peer.completed() == [(1, WorkStatus.SUCCESS)]
    assert peer.qp.next_deadline() is None


def test_progress_starts_the_timer_anew() -> None:
    peer = HandPeer(timeout=TIMEOUT)
    peer.post(3 * MTU)
    peer.sent()
    peer.pass_time(TIMEOUT_NS - 1)
    peer.receive(answer(P))
    peer.pass_time(TIMEOUT_NS - 1)
    assert peer.sent() == []
    peer.pass_time(1)
    assert psns(peer) == [P + 1, P + 2]


@pytest.mark.parametrize("retry_count", [0, 2])
def test_retries_run_out(retry_count: int) -> None:
    peer = HandPeer(timeout=TIMEOUT, retry_count=retry_count)
    peer.post(MTU, wr_id=1)
    peer.post(MTU, wr_id=2)
    for _ in range(retry_count + 1):
        assert psns(peer) == [P, P + 1]
        assert peer.qp.state == QpState.RTS
        peer.pass_time(TIMEOUT_NS)
    assert peer.qp.state == QpState.ERROR
    assert peer.completed() == [(1, WorkStatus.RETRY_EXCEEDED), (2, WorkStatus.FLUSHED)]
    assert (peer.sent(), peer.qp.next_deadline()) == ([], None)


def test_progress_gives_the_retries_back() -> None:
    peer = HandPeer(timeout=TIMEOUT, retry_count=1)
    peer.post(4 * MTU)
    for at in range(4):
        peer.sent()
        peer.pass_time(TIMEOUT_NS)
        assert psns(peer)[0] == P + at
        peer.receive(answer(P + at))
    assert peer.completed() == [(1, WorkStatus.SUCCESS)]


@pytest.mark.parametrize(("payload", "blamed"), [(MTU - 1, True), (MTU, False)])
def test_an_mtu_too_small_is_named_when_retries_run_out(payload: int, blamed: bool) -> None:
    peer = HandPeer(timeout=TIMEOUT, retry_count=0)
    peer.endpoint.limit_port(0, PortLimit(payload, "interface e0 has MTU 800"), 5)
    peer.post(MTU)
    assert psns(peer) == [P]
    peer.pass_time(TIMEOUT_NS)
    assert peer.qp.error is not None
    assert peer.qp.error.startswith("no port takes packets") is blamed
    assert ("interface e0 has MTU 800: raise" in peer.qp.error) is blamed


def test_sequence_errors_without_progress_use_up_retries_too() -> None:
    peer = HandPeer(retry_count=1)
    peer.post(MTU)
    peer.sent()
    peer.receive(answer(P, SEQUENCE_ERROR))
    assert psns(peer) == [P]
    peer.receive(answer(P, SEQUENCE_ERROR))
    assert peer.completed() == [(1, WorkStatus.RETRY_EXCEEDED)]


def test_a_sequence_error_starts_the_timer_anew() -> None:
    peer = HandPeer(timeout=TIMEOUT)
    peer.post(MTU)
    peer.sent()
    peer.pass_time(1000)
    peer.receive(answer(P, SEQUENCE_ERROR))
    assert psns(peer) == [P]
    assert peer.qp.next_deadline() == 1000 + TIMEOUT_NS


def test_what_is_counted() -> None:
    peer = HandPeer(timeout=TIMEOUT)
    peer.post(2 * MTU + 3)
    peer.sent()
    peer.receive(answer(P), answer(P + 1, SEQUENCE_ERROR), answer(P + 1, 0x20 | 1))
    peer.pass_time(10 * MICROSECOND)
    assert psns(peer) == [P + 1, P + 2]
    peer.pass_time(TIMEOUT_NS)
    peer.receive(answer(P + 1), answer(P + 2, REMOTE_ACCESS))
    assert peer.endpoint.total_counters().as_dict() == {
        "data_packets_sent": 5,
        "data_bytes_sent": 2 * MTU + 3 + MTU + 3,
        "retransmitted_packets": 2,
        "acks_received": 2,
        "sequence_naks_received": 1,
        "rnr_naks_received": 1,
        "naks_received": 1,
        "local_ack_timeouts": 1,
    }
    assert peer.qp.error == f"the peer refused the request with PSN {P + 2}"


# ---------------------------------------------------------------------- a receiver that is not ready


def delay_us(code: int) -> int:
    """IBTA table 45: even codes double from one to the next, odd ones lie half way; 0 stands for what would be 32."""
    if code == 1:
        return 10
    half = code // 2 or 16
    return 10 * 2**half * 3 // 2 if code % 2 else 10 * 2**half


def test_the_table_of_delays() -> None:
    assert [delay_us(code) for code in (0, 1, 2, 3, 12, 19, 31)] == [655_360, 10, 20, 30, 640, 7_680, 491_520]


@pytest.mark.parametrize("code", range(32))
def test_the_delay_asked_for(code: int) -> None:
    delay = delay_us(code) * MICROSECOND
    peer = HandPeer(timeout=31)
    peer.post(MTU, 1, wr_id=1)
    peer.post(MTU, wr_id=2)
    peer.sent()
    peer.receive(answer(P, 0x20 | code))
    assert peer.endpoint.next_deadline() == delay
    # Whatever else is told of it meanwhile.
    peer.receive(answer(P, SEQUENCE_ERROR))
    peer.pass_time(delay - 1)
    assert peer.sent() == []
    peer.pass_time(1)
    assert psns(peer) == [P, P + 1]
    assert peer.qp.next_deadline() == peer.now + (4096 << 31)
    peer.receive(answer(P + 1))
    assert peer.completed() == [(1, WorkStatus.SUCCESS), (2, WorkStatus.SUCCESS)]


def test_it_is_not_timed_out_meanwhile() -> None:
    peer = HandPeer(timeout=TIMEOUT, retry_count=0)
    peer.post(MTU, 1)
    peer.sent()
    peer.receive(answer(P, 0x20 | 24))
    peer.pass_time(40 * MILLISECOND)
    assert (peer.sent(), peer.qp.state, peer.count("local_ack_timeouts")) == ([], QpState.RTS, 0)


def test_an_answer_ends_the_wait() -> None:
    peer = HandPeer()
    peer.post(MTU, 1, wr_id=1)
    peer.post(MTU, wr_id=2)
    peer.sent()
    peer.receive(answer(P, 0x20), answer(P))
    assert peer.completed() == [(1, WorkStatus.SUCCESS)]
    assert psns(peer) == [P + 1]


@pytest.mark.parametrize("rnr_retry", [0, 3])
def test_patience_with_a_receiver_runs_out(rnr_retry: int) -> None:
    peer = HandPeer(rnr_retry=rnr_retry)
    peer.post(MTU, 1)
    for _ in range(rnr_retry + 1):
        assert psns(peer) == [P]
        peer.receive(answer(P, 0x21))
        peer.pass_time(10 * MICROSECOND)
    assert peer.completed() == [(1, WorkStatus.RNR_RETRY_EXCEEDED)]


def test_patience_without_end() -> None:
    peer = HandPeer(rnr_retry=7)
    peer.post(MTU, 1)
    for _ in range(50):
        assert psns(peer) == [P]
        peer.receive(answer(P, 0x21))
        peer.pass_time(10 * MICROSECOND)
    assert peer.qp.state == QpState.RTS


# ---------------------------------------------------------------------- refusals and nonsense


@pytest.mark.parametrize(
    ("syndrome", "status"),
    [
        (INVALID_REQUEST, WorkStatus.REMOTE_INVALID_REQUEST),
        (REMOTE_ACCESS, WorkStatus.REMOTE_ACCESS_ERROR),
        (REMOTE_OPERATION, WorkStatus.REMOTE_OPERATION_ERROR),
    ],
)
def test_a_refusal_ends_the_queue_pair(syndrome: int, status: WorkStatus) -> None:
    peer = HandPeer()
    for wr_id in (1, 2, 3):
        peer.post(2 * MTU, wr_id=wr_id)
    peer.qp.post_receive(9)
    peer.sent()
    peer.receive(answer(P + 3, syndrome, msn=1), answer(P + 5, msn=3))
    flushed = WorkStatus.FLUSHED
    assert peer.completed() == [(1, WorkStatus.SUCCESS), (2, status), (3, flushed), (9, flushed)]
    assert (peer.qp.state, peer.sent(), peer.count("wrong_qp_state")) == (QpState.ERROR, [], 1)
    peer.post(MTU, wr_id=4)
    peer.qp.post_receive(10)
    late = [(done.wr_id, done.status, done.byte_len) for done in peer.taken()]
    assert late == [(4, flushed, 0), (10, flushed, 0)]


@pytest.mark.parametrize("syndrome", [ACK, SEQUENCE_ERROR, 0x20, REMOTE_ACCESS])
@pytest.mark.parametrize("psn", [P - 1, P + 3, P + 1000, P - 1000])
def test_nothing_is_believed_of_what_was_not_sent(syndrome: int, psn: int) -> None:
    peer = HandPeer()
    peer.post(5 * MTU)
    assert len(peer.sent(room=3)) == 3
    peer.receive(answer(psn, syndrome))
    assert (peer.completed(), peer.qp.state, peer.count("answers_to_nothing")) == ([], QpState.RTS, 1)
    assert psns(peer) == [P + 3, P + 4]


@pytest.mark.parametrize("syndrome", [0x40, 0x5F, 0x64, 0x7F, 0x80, 0xFF])
def test_reserved_syndromes_say_nothing(syndrome: int) -> None:
    peer = HandPeer()
    peer.post(MTU)
    peer.sent()
    peer.receive(answer(P, syndrome))
    assert (peer.completed(), peer.qp.state, peer.count("unknown_syndrome")) == ([], QpState.RTS, 1)


@pytest.mark.parametrize("credits", [0, 1, 0x1E])
def test_credits_play_no_part(credits: int) -> None:
    peer = HandPeer()
    peer.post(MTU)
    peer.sent()
    peer.receive(answer(P, credits))
    assert peer.completed() == [(1, WorkStatus.SUCCESS)]


def test_work_in_the_wrong_state() -> None:
    peer = HandPeer()
    qp = peer.endpoint.create_qp()
    with pytest.raises(CallerError, match="RESET"):
        qp.post_receive(1)
    with pytest.raises(CallerError, match="RTS"):
        qp.post_write(None)  # type: ignore[arg-type]
    with pytest.raises(CallerError, match="RESET"):
        qp.to_rts()
