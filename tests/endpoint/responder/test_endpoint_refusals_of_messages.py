# SPDX-License-Identifier: BSD-2-Clause
"""Packets of a message that contradict each other, their opcode or the region (behaviour.md, Responder).

The path MTU is 256. A message of 600 bytes is three packets, 256, 256 and 88 bytes; of 513 the Last has 1 byte.
"""

from __future__ import annotations

from typing import Any

import pytest
from hand_peer import ACK, FIRST, LAST, LAST_IMMEDIATE, MIDDLE, ONLY, ONLY_IMMEDIATE, REGION_VA, HandPeer, of

from mrc.endpoint.config import Capability, QpConfig, ResponderConfig
from mrc.endpoint.qp_states import QpState

MTU = 256
CONFIG = QpConfig(path_mtu=MTU, responder=ResponderConfig(wait_for_receive_ns=0))
SIZE = 1 << 16
INVALID, ACCESS = 0x61, 0x62


def _hand(config: QpConfig = CONFIG, memory: int = SIZE) -> HandPeer:
    return HandPeer(config, memory=memory)


def _packet(hand: HandPeer, number: int, op: int, size: int, dmalen: int, at: int = 0, **others: Any) -> bytes:
    """`at`: the offset in the region."""
    fields = {"msn": 0, **others}
    return hand.request(number, bytes((number + 1 & 0xFF,)) * size, op=op, va=REGION_VA + at, dmalen=dmalen, **fields)


def _message(hand: HandPeer, number: int, dmalen: int, at: int, msn: int, immediate: bool = False) -> list[bytes]:
    packets = -(-dmalen // MTU)
    made = []
    for place in range(packets):
        last = place == packets - 1
        op = FIRST if place == 0 else MIDDLE if not last else LAST_IMMEDIATE if immediate else LAST
        size = dmalen - place * MTU if last else MTU
        made.append(_packet(hand, number + place, op, size, dmalen, at + place * MTU, msn=msn))
    return made


def _refused(hand: HandPeer, packet: bytes, number: int, syndrome: int) -> None:
    """This packet ends the QP, and nothing of it is written."""
    before = bytes(hand.buffer)
    nak = of(hand.exchange(packet), ACK)[-1]
    assert (nak.psn - hand.peer_first_psn, nak["aeth"]["syndrome"]) == (number, syndrome)
    assert hand.qp.state == QpState.ERROR
    assert hand.buffer == before


# ------------------------------------------------------------------ one packet and its opcode

ALONE: dict[str, tuple[int, int, int]] = {
    "a First of a message that fits one packet": (FIRST, MTU, MTU),
    "a First of a message shorter than it": (FIRST, MTU, 255),
    "a Middle of a message that fits one packet": (MIDDLE, MTU, MTU),
    "a Middle of a message of two packets": (MIDDLE, MTU, 2 * MTU),
    "a Last of a message that fits one packet": (LAST, 100, 100),
    "a Last of a message that fits one packet exactly": (LAST, MTU, MTU),
    "a Last with 1 byte where 88 are left": (LAST, 1, 600),
    "a Last with 89 bytes where 88 are left": (LAST, 89, 600),
    "a full Last where 88 bytes are left": (LAST, MTU, 600),
    "a Last of 1 byte where a whole path MTU is left": (LAST, 1, 8192),
    "a Last with immediate of 1 byte that says 8192": (LAST_IMMEDIATE, 1, 8192),
    "a Last with immediate of a message that fits one packet": (LAST_IMMEDIATE, 8, 8),
    "an Only that is a part": (ONLY, MTU, 600),
    "an Only with immediate that is a part": (ONLY_IMMEDIATE, MTU, 600),
    "a First of no message": (FIRST, MTU, 0),
    "a Last of no message": (LAST, 4, 0),
}


@pytest.mark.parametrize("why", ALONE)
@pytest.mark.parametrize("number", [0, 40])
def test_a_length_that_contradicts_the_opcode_is_refused(why: str, number: int) -> None:
    """, at the left edge and above a hole."""
    hand = _hand()
    hand.qp.post_receive(1)
    op, size, dmalen = ALONE[why]
    _refused(hand, _packet(hand, number, op, size, dmalen, 2048), number, INVALID)
    assert hand.counters["bad_request_length"] == 1
    assert [done.byte_len for done in hand.endpoint.completions] == [0]  # flushed


# ------------------------------------------------------------------ packets of one message


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("then", [0, 1, 2])
@pytest.mark.parametrize(
    "wrong", [{"dmalen": 601}, {"dmalen": 599}, {"at": 1}, {"at": 256}, {"dmalen": 856}, {"msn": 5}], ids=str
)
def test_packets_of_one_message_agree(first: int, then: int, wrong: dict[str, int]) -> None:
    """DMALen is the same in each, VA advances by the path MTU, and neighbours have one MSN. The first that arrives is
    taken, the second is the offending one."""
    if first == then or ("msn" in wrong and abs(first - then) > 1):
        return
    hand = _hand()
    hand.exchange(_message(hand, 0, 600, 1024, 0)[first])
    assert hand.qp.state == QpState.RTS or first == 2
    dmalen = wrong.get("dmalen", 600)
    op = (FIRST, MIDDLE, LAST)[then]
    size = MTU if then < 2 else (dmalen - 1) % MTU + 1
    at = 1024 + then * MTU + wrong.get("at", 0)
    _refused(hand, _packet(hand, then, op, size, dmalen, at, msn=wrong.get("msn", 0)), then, INVALID)


@pytest.mark.parametrize(
    ("op", "number", "size"),
    [(FIRST, 11, MTU), (FIRST, 14, MTU), (LAST, 11, 88), (LAST, 13, 88), (MIDDLE, 13, MTU), (MIDDLE, 9, MTU)],
)
def test_a_message_has_the_psns_its_first_or_last_says(op: int, number: int, size: int) -> None:
    """A First is at PSN 10 and says 600 bytes: its Middle is 11, its Last 12, whatever their VAs."""
    hand = _hand()
    hand.receive(_packet(hand, 10, FIRST, MTU, 600, 2048))
    _refused(hand, _packet(hand, number, op, size, 600, 2048 + (number - 10) * MTU), number, INVALID)


def test_middles_further_apart_than_their_message_is_long() -> None:
    """Four packets have two Middles, side by side."""
    hand = _hand()
    hand.receive(_packet(hand, 10, MIDDLE, MTU, 1000, 4096))
    _refused(hand, _packet(hand, 12, MIDDLE, MTU, 1000, 4096 + 512), 12, INVALID)


@pytest.mark.parametrize("op", [ONLY, ONLY_IMMEDIATE])
@pytest.mark.parametrize("number", [1, 2])
def test_an_only_is_no_part_of_a_message(op: int, number: int) -> None:
    """In the place of a Middle or Last, whatever its MSN."""
    for msn in (0, 7):
        hand = _hand()
        hand.qp.post_receive(1)
        hand.receive(*_message(hand, 0, 600, 0, 0)[:number])
        _refused(hand, _packet(hand, number, op, 4, 4, 4096, msn=msn), number, INVALID)


def test_a_last_is_followed_by_the_begin_of_a_message() -> None:
    hand = _hand()
    hand.receive(*_message(hand, 0, 600, 0, 0))
    _refused(hand, _packet(hand, 3, LAST, 88, 600, 4096, msn=1), 3, INVALID)


def test_a_first_in_front_of_what_begins_a_message() -> None:
    """PSN 5 is an Only: PSN 4 cannot be a First."""
    hand = _hand()
    hand.receive(_packet(hand, 5, ONLY, 4, 4))
    _refused(hand, _packet(hand, 4, FIRST, MTU, 600, 1024), 4, INVALID)


def test_an_msn_comes_round() -> None:
    """As after 65,536 messages: each message has the MSN of the one before it. What has arrived whole is forgotten."""
    hand = _hand()
    for number in range(0, 90, 3):
        hand.receive(*reversed(_message(hand, number, 513 + number, 1024 + number, 0)))
    assert hand.qp.state == QpState.RTS
    assert hand.qp.responder._messages.open.count == 0


def test_what_is_kept_is_bounded_by_the_window() -> None:
    """Honest messages of two packets, each Last missing; a peer cannot make it more."""
    hand = _hand(QpConfig(path_mtu=MTU, mpr_dest=1))
    hand.receive(*(_message(hand, number, 300, 0, number)[0] for number in range(0, 128, 2)))
    assert hand.qp.state == QpState.RTS
    assert hand.qp.responder._messages.open.count == 64
    hand.receive(*(_message(hand, number, 300, 0, number)[1] for number in range(0, 128, 2)))
    assert hand.qp.responder._messages.open.count == 0


def test_the_window_grows_in_the_midst_of_messages() -> None:
    """What is known of packets that have arrived moves into a larger ring."""
    config = QpConfig(path_mtu=MTU, mpr_dest=1, capabilities=Capability.DYNAMIC_MPR)
    hand = HandPeer(config, memory=SIZE, capabilities=Capability.DYNAMIC_MPR)
    for number in range(0, 600, 3):
        hand.receive(*_message(hand, number, 600, 0, number))
    hand.receive(_message(hand, 600, 600, 0, 600)[0], _message(hand, 603, 600, 0, 603)[0])
    hand.qp.set_mpr(255)
    _refused(hand, _packet(hand, 601, ONLY, 4, 4), 601, INVALID)


@pytest.mark.parametrize("number", [40, 41])
def test_a_packet_in_the_middle_of_a_message_follows_none_that_has_ended(number: int) -> None:
    """Two whole messages came in the reverse order; a Middle follows them."""
    hand = _hand()
    hand.receive(_packet(hand, number + 1, ONLY, 4, 4, msn=1), _packet(hand, number, ONLY, 4, 4, msn=0))
    _refused(hand, _packet(hand, number + 2, MIDDLE, MTU, 900, 4096, msn=2), number + 2, INVALID)


def test_the_owner_learns_which_lengths_contradict_each_other() -> None:
    """behaviour.md, Responder: "DMALen is the same in every packet of a message"."""
    hand = _hand()
    hand.receive(_packet(hand, 0, FIRST, MTU, 600))
    hand.exchange(_packet(hand, 1, MIDDLE, MTU, 700, MTU))
    assert hand.endpoint.events[-1].detail.endswith("has DMALen 700 where its message had 600")


def test_a_refused_packet_leaves_no_trace() -> None:
    """For want of room: when it comes again with another length nothing contradicts it."""
    hand = _hand(QpConfig(path_mtu=MTU, responder=ResponderConfig(max_held_packets=0)))
    hand.receive(_packet(hand, 1, MIDDLE, MTU, 900, 4096))
    hand.receive(*_message(hand, 0, 600, 0, 0))
    assert hand.qp.state == QpState.RTS
    assert hand.buffer[512:600] == b"\3" * 88


# ------------------------------------------------------------------ the region

REGION: dict[str, tuple[int, int, int, int]] = {
    "a First whose message ends beyond": (FIRST, MTU, 600, 1000 - 599),
    "a Last whose message begins before": (LAST, 88, 600, 511),
    "a Last that ends beyond": (LAST, 88, 600, 1000 - 87),
    "a Middle with no room for a First": (MIDDLE, MTU, 600, 255),
    "a Middle with no room for a Last": (MIDDLE, MTU, 600, 1000 - 343),
    "a Middle of a message as long as the region, one byte off": (MIDDLE, MTU, 1000, 257),
    "a Middle of a message longer than the region": (MIDDLE, MTU, 1001, 256),
    "an Only that ends beyond": (ONLY, 100, 100, 901),
}
FITS: dict[str, tuple[int, int, int, int]] = {
    "a First whose message ends with the region": (FIRST, MTU, 600, 400),
    "a Last whose message begins with the region": (LAST, 88, 600, 512),
    "a Last that ends with the region": (LAST, 88, 600, 912),
    "a Middle behind a First": (MIDDLE, MTU, 600, 256),
    "a Middle before a Last": (MIDDLE, MTU, 600, 1000 - 344),
    "the first Middle of a message as long as the region": (MIDDLE, MTU, 1000, 256),
    "the second Middle of a message as long as the region": (MIDDLE, MTU, 1000, 512),
    "an Only that ends with the region": (ONLY, 100, 100, 900),
}


@pytest.mark.parametrize("why", REGION)
def test_a_message_that_does_not_lie_in_the_region_is_refused_by_any_of_its_packets(why: str) -> None:
    """A region of 1,000 bytes: "the whole message must lie in the region"."""
    hand = _hand(memory=1000)
    op, size, dmalen, at = REGION[why]
    _refused(hand, _packet(hand, 40, op, size, dmalen, at), 40, ACCESS)
    assert hand.counters["bad_address"] == 1


@pytest.mark.parametrize("why", FITS)
def test_a_message_that_fills_the_region_to_its_edges_is_taken(why: str) -> None:
    hand = _hand(memory=1000)
    op, size, dmalen, at = FITS[why]
    hand.receive(_packet(hand, 40, op, size, dmalen, at))
    assert hand.qp.state == QpState.RTS
    assert hand.buffer[at : at + size] == bytes((41,)) * size


# ------------------------------------------------------------------ which one is named


def test_what_was_acknowledged_before_an_offender_is_done() -> None:
    """A SACK, a bad request and a SACK in one batch: the first SACK counts, the second finds the QP in ERROR."""
    hand = _hand()
    hand.post(256)
    hand.post(256)
    hand.transmitted()
    hand.exchange(hand.sack(0), hand.request(0, b"x", rkey=1), hand.sack(1))
    assert [status.name for _, status in hand.completed()] == ["SUCCESS", "FLUSHED"]
    assert hand.counters["wrong_qp_state"] == 1
