# SPDX-License-Identifier: BSD-2-Clause
"""What is dropped, under which counter, changing nothing (behaviour.md, Errors; wire.md sections 1 to 9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hand_peer import PEER_QPN, REGION_VA, HandPeer, icrc, in_ipv6, local_address, peer_address
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch

Change = Callable[[HandPeer, bytes], bytes]
CONFIG = QpConfig(path_mtu=256)


def _changed(packet: bytes, at: int, value: int) -> bytes:
    return packet[:at] + bytes((value,)) + packet[at + 1 :]


def _resealed(packet: bytes, at: int, value: int, width: int = 1) -> bytes:
    """Bytes of the transport or IP header changed, the ICRC made right again."""
    changed = packet[:at] + value.to_bytes(width, "big") + packet[at + width :]
    return changed[:-4] + icrc(changed[:-4])


DROPPED: dict[str, tuple[str, Change]] = {
    "nothing": ("too_short", lambda _, packet: b""),
    "one byte": ("too_short", lambda _, packet: packet[:1]),
    "no room for BTH and ICRC": ("too_short", lambda _, packet: packet[:63]),
    "cut off": ("bad_length", lambda _, packet: packet[:-4]),
    "longer than it says": ("bad_length", lambda _, packet: packet + b"\0\0"),
    "UDP length differs": ("bad_length", lambda _, packet: _resealed(packet, 44, 99, 2)),
    "IPv6 length differs": ("bad_length", lambda _, packet: _resealed(packet, 4, 99, 2)),
    "IPv4": ("not_ipv6_udp", lambda _, packet: _resealed(packet, 0, 0x45)),
    "TCP": ("not_ipv6_udp", lambda _, packet: _resealed(packet, 6, 6)),
    "another UDP port": ("bad_udp_port", lambda hand, _: hand.request(0, b"data", dport=4790)),
    "TVer 1": ("bad_tver", lambda hand, _: hand.request(0, b"data", bth={"tver": 1})),
    "TVer 15": ("bad_tver", lambda hand, _: hand.request(0, b"data", bth={"tver": 15})),
    "unknown opcode": ("unknown_opcode", lambda _, packet: _resealed(packet, 48, 0xFF)),
    "a standard RoCEv2 opcode": ("unknown_opcode", lambda _, packet: _resealed(packet, 48, 0x0A)),
    "headers cut off": ("bad_length", lambda hand, _: in_ipv6(hand.request(0)[48:-4][:28])),
    "pad beyond the payload": ("bad_length", lambda hand, _: _resealed(hand.request(0), 49, 0x30)),
    "SACK with a payload": ("bad_length", lambda hand, _: in_ipv6(hand.sack(-1)[48:-4] + bytes(4))),
    "wrong ICRC": ("bad_icrc", lambda _, packet: _changed(packet, len(packet) - 1, packet[-1] ^ 1)),
    "a damaged payload": ("bad_icrc", lambda _, packet: _changed(packet, len(packet) - 6, packet[-6] ^ 0x80)),
    "a damaged PSN": ("bad_icrc", lambda _, packet: _changed(packet, 59, packet[59] ^ 1)),
    "another P_Key": ("bad_pkey", lambda hand, _: hand.request(0, b"data", bth={"pkey": 0x8001})),
    "unknown QP": ("unknown_qp", lambda hand, _: hand.request(0, b"data", bth={"dqp": hand.qp.qpn ^ 1})),
    "another source": ("bad_source", lambda hand, _: hand.request(0, b"data", source=peer_address(0) + 1)),
    "the source of another plane": ("bad_source", lambda hand, _: hand.request(0, b"data", source=peer_address(1))),
    "our own address as the source": ("bad_source", lambda hand, _: hand.request(0, b"data", source=local_address(0))),
}


def _untouched(hand: HandPeer) -> None:
    assert not any(hand.buffer)
    assert hand.qp.state == QpState.RTS
    assert hand.transmitted() == []
    assert not hand.endpoint.completions
    assert not hand.endpoint.events


@pytest.mark.parametrize("why", DROPPED)
def test_dropped_and_counted_by_name(why: str) -> None:
    """MRC-WIRE-06, MRC-WIRE-08, MRC-ICRC-11, MRC-RESP-01, MRC-RESP-02, MRC-ERR-02."""
    counter, change = DROPPED[why]
    hand = HandPeer(CONFIG)
    good = hand.request(0, b"data")
    hand.receive(change(hand, good))
    _untouched(hand)
    assert hand.counters == {counter: 1}
    # In a batch it leaves the packets around it alone.
    hand = HandPeer(CONFIG)
    sent = hand.exchange(hand.request(0, b"data"), change(hand, good), hand.request(1, b"more", va=REGION_VA + 4))
    assert hand.buffer[:8] == b"datamore"
    assert sent[-1].psn == hand.peer_first_psn + 1
    assert hand.counters[counter] == 1


def test_a_qp_not_yet_ready_to_receive_takes_nothing() -> None:
    hand = HandPeer(CONFIG)
    packet = hand.request(0, b"data")
    for state in (QpState.RESET, QpState.INIT):
        endpoint = Endpoint(hand.endpoint.config)  # the same seed gives the same QPN
        qp = endpoint.create_qp(CONFIG)
        assert qp.qpn != 0
        if state == QpState.INIT:
            qp.to_init()
        transport = bytearray(packet[48:-4])
        transport[5:8] = qp.qpn.to_bytes(3, "big")
        endpoint.receive(ReceivedBatch.from_packets([in_ipv6(bytes(transport))]), 0)
        assert endpoint.total_counters().as_dict() == {"wrong_qp_state": 1}


def test_a_port_without_a_peer_address_trusts_no_source_at_all() -> None:
    """Allowed source: on a port the QP has no path over, not even the unspecified address is one."""
    hand = HandPeer(CONFIG, planes=1)
    for port in (1, 7, 15):
        hand.receive(hand.request(0, b"data", source=0), port=port)
    _untouched(hand)
    assert hand.counters == {"bad_source": 3}


def test_a_source_for_a_port_beyond_the_plan_is_the_callers_error() -> None:
    hand = HandPeer(CONFIG)
    qp = hand.endpoint.create_qp(CONFIG)
    qp.to_init()
    with pytest.raises(CallerError):
        qp.to_rtr(QpPeer(PEER_QPN, 0, hand.profile, {16: peer_address(0)}))


@pytest.mark.parametrize("switch", [{"icrc_covers_outer": True}, {"udp_checksum_zero": False}])
def test_a_switch_an_endpoint_cannot_follow_is_refused(switch: dict[str, bool]) -> None:
    with pytest.raises(CallerError, match=next(iter(switch))):
        Endpoint(EndpointConfig(wire=WireProfile(**switch)))


def test_an_empty_batch_is_nothing() -> None:
    hand = HandPeer(CONFIG)
    hand.receive()
    _untouched(hand)
    assert hand.counters == {}


# ------------------------------------------------------------------ anything at all


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8))
def test_random_bytes_change_nothing(packets: list[bytes]) -> None:
    """MRC-ERR-01, MRC-ERR-02."""
    hand = HandPeer(CONFIG, memory=4096)
    hand.receive(*packets)
    _untouched(hand)
    counters = hand.counters
    assert sum(counters.values()) == len(packets)


@given(st.lists(st.binary(min_size=12, max_size=120), min_size=1, max_size=6), st.booleans())
def test_random_transports_in_right_packets_never_raise(transports: list[bytes], to_us: bool) -> None:
    """A right ICRC and source round any bytes: at most a QP in ERROR, never an exception, never a byte written.

    MRC-ERR-01.
    """
    hand = HandPeer(CONFIG, memory=4096)
    packets = []
    for transport in transports:
        body = bytearray(transport)
        if to_us:
            body[1], body[2:4], body[5:8] = body[1] & 0x30, b"\xff\xff", hand.qp.qpn.to_bytes(3, "big")
        packets.append(in_ipv6(bytes(body)))
    hand.receive(*packets)
    hand.transmitted()
    assert not any(hand.buffer)
    assert sum(hand.counters.values()) > 0


@given(
    st.sampled_from([0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE]),
    st.integers(0, 0xFF),
    st.integers(0, 0xFFFFFF),
    st.binary(max_size=100),
    st.integers(0, 3),
)
def test_any_known_opcode_with_any_fields_never_raises(
    opcode: int, flags: int, psn: int, rest: bytes, sent: int
) -> None:
    """While data is under way, and again after it: a peer may say anything. MRC-ERR-01."""
    hand = HandPeer(CONFIG, memory=4096)
    for _ in range(sent):
        hand.post(300)
    hand.transmitted()
    bth = bytes((opcode, 0, 0xFF, 0xFF, 0)) + hand.qp.qpn.to_bytes(3, "big") + bytes((flags,)) + psn.to_bytes(3, "big")
    length = {0xD1: 4, 0xD8: 16, 0xD9: 36, 0xDC: 36, 0xDD: 20, 0xDE: 16}.get(opcode)
    body = rest if length is None else rest.ljust(length, b"\xa5")[:length]
    packet = in_ipv6(bth + body)
    hand.receive(packet, packet)
    hand.transmitted()
    hand.run(hand.now + 50_000_000)
    assert not any(hand.buffer)
    statuses = [status for _, status in hand.completed()]
    assert len(statuses) <= sent
