# SPDX-License-Identifier: BSD-2-Clause
"""What the requestor sends and how it takes acknowledgements (behaviour.md, Requestor; wire.md section 4)."""

from __future__ import annotations

import pytest
from hand_peer import MILLISECOND, HandPeer, data, numbers

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError

CONFIG = QpConfig(path_mtu=256)


# ------------------------------------------------------------------ acknowledgements


@pytest.mark.parametrize("kind", ["ack", "sack"])
def test_an_acknowledgement_of_what_came_before_the_first_psn_is_no_answer(kind: str) -> None:
    """A peer that counts from elsewhere keeps nothing alive. Of one before the first PSN nothing is taken, be it about
    paths or that the peer is there. That nothing has arrived yet is what it may say."""
    hand = HandPeer(CONFIG)
    hand.post(256)
    sent = data(hand.transmitted())
    said = {"ack": hand.ack, "sack": lambda number: hand.sack(number, ev=sent[0].ev, m=1)}[kind]
    assert hand.qp.paths is not None
    for round_trip in range(1, 100):
        hand.receive(said(-2), said(-50))
        assert hand.counters["ack_before_first_psn"] == 2 * round_trip
        hand.run(hand.now + 50 * MILLISECOND)
        if hand.qp.state == QpState.ERROR:
            break
    assert [status for _, status in hand.completed()] == [WorkStatus.RETRY_EXCEEDED]
    assert hand.qp.paths.state[hand.qp.paths.index(sent[0].ev)] != EvState.SKIP
    other = HandPeer(CONFIG)
    other.post(256)
    other.transmitted()
    other.receive(other.ack(-1), other.sack(-1))
    assert "ack_before_first_psn" not in other.counters


def test_a_late_sack_does_not_keep_a_lost_packet_from_being_sent_again() -> None:
    """cack_psn never goes back: a late SACK's bits below it are old news, whatever has been sent since.

    The window is 128 PSNs and full; the SACK names the PSN acknowledged last, 128 before the one sent last. That
    one is lost all the same, and must come again.
    """
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1, timeout=20))
    hand.post(256 * 300)
    sent = numbers(hand, hand.transmitted())
    acked = -1
    while max(sent) < acked + 128:  # the congestion window opens with what SACKs acknowledge
        acked += 1
        sent += numbers(hand, hand.exchange(hand.sack(acked)))
        assert acked < 150
    last = max(sent)
    hand.receive(hand.sack(acked - 2, above=[acked]))
    # Everything but the last is acknowledged; new packets follow and are acknowledged too.
    hand.now += MILLISECOND
    later = numbers(hand, hand.exchange(hand.ack(last - 1)))
    hand.now += MILLISECOND
    assert min(later) == last + 1
    again = numbers(hand, hand.exchange(hand.sack(last - 1, above=range(last + 1, last + 40), trigger=last + 39)))
    again += numbers(hand, hand.run(hand.now + 100 * MILLISECOND))
    assert last in again


def test_a_sequence_error_is_a_nak_and_completes_nothing() -> None:
    """wire.md section 5: 0x60 is a NAK like the others."""
    hand = HandPeer(CONFIG)
    hand.post(256)
    hand.transmitted()
    hand.receive(hand.ack(0, syndrome=0x60))
    assert (0, WorkStatus.SUCCESS) not in hand.completed()


def test_a_nak_for_a_message_not_yet_all_sent_fails_that_message() -> None:
    """The window holds its tail back; the NAK still names it and not an older one."""
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1))
    hand.post(256)
    hand.post(256 * 400)
    hand.post(1)
    assert max(numbers(hand, hand.transmitted())) < 300
    hand.receive(hand.ack(5, syndrome=0x62))
    assert hand.completed() == [(0, WorkStatus.FLUSHED), (1, WorkStatus.REMOTE_ACCESS_ERROR), (2, WorkStatus.FLUSHED)]


# ------------------------------------------------------------------ what may be posted


def test_writes_are_posted_in_rts_only() -> None:
    """RESET, INIT and RTR refuse them; ERROR flushes them at once."""
    hand = HandPeer(CONFIG, to_rts=False)
    source = MemoryRegion(b"abc", 0, 0, remote_write=False)
    with pytest.raises(CallerError, match="RTR"):
        hand.qp.post_write(WriteRequest(0, source, 0, 3, 0, 0))
    fresh = hand.endpoint.create_qp(CONFIG)
    with pytest.raises(CallerError, match="RESET"):
        fresh.post_write(WriteRequest(0, source, 0, 3, 0, 0))
    hand.qp.to_error("enough")
    hand.qp.post_write(WriteRequest(9, source, 0, 3, 0, 0))
    assert hand.completed() == [(9, WorkStatus.FLUSHED)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": -1},
        {"length": 4},
        {"offset": -1},
        {"offset": 3, "length": 1},
        {"length": 1 << 31},
        {"remote_va": -1},
        {"remote_va": 1 << 64},
        {"rkey": 1 << 32},
        {"rkey": -1},
    ],
)
def test_a_write_that_leaves_its_region_or_its_fields_is_refused(wrong: dict[str, int]) -> None:
    source = MemoryRegion(b"abc", 0, 0, remote_write=False)
    right = {"offset": 0, "length": 3, "remote_va": 0, "rkey": 0}
    with pytest.raises(CallerError):
        WriteRequest(wr_id=0, source=source, **{**right, **wrong})
