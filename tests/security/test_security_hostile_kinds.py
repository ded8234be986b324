# SPDX-License-Identifier: BSD-2-Clause
"""What benchmarks/hostile-load throws is what it says: each kind meets the check that its name names."""

from __future__ import annotations

import random
from ipaddress import IPv6Address

import pytest
from hand_peer import MIDDLE, HandPeer, data
from hostile.kinds import KINDS, RECEIVER, Kind
from hostile.overheard import Overheard
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from mrc.bench.prepared import harmless, through_the_fabric
from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.qp_states import QpState
from mrc.wire.usid import UsidTemplate

MANY = 60
COUNTERS = {
    "noise": "not_ipv6_udp",
    "noise-4791": "bad_tver",
    "wrong-icrc": "bad_icrc",
    "unknown-qp": "unknown_qp",
    "wrong-source": "bad_source",
    "bad-rkey": "duplicates_old",
    "beyond-window": "psn_out_of_window",
    "trimmed": "trimmed_received",
    "probes": "probes_answered",
    "ev-probes": "ev_probes_answered",
    "ev-probes-stranger": "unknown_peer",
    "sack-unsent": "ack_for_unsent_psn",
    "sack-stale": "ack_too_old",
    "sack-replayed": "sacks_received",
    "nack-unsent": "ack_for_unsent_psn",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_meets_its_check_and_no_other_and_harms_nothing(kind: Kind) -> None:
    hand = HandPeer(QpConfig(path_mtu=256), capabilities=Capability.TRIM_NACK)
    hand.exchange(hand.request(0, b"x"))
    for _ in range(4):
        hand.post(256)
    ours = [packet.whole for packet in data(hand.transmitted()) if packet.port == 0]
    theirs = hand.request(1, b"x" * 256, op=MIDDLE, dmalen=1024, timestamp=5)
    # A request as it passes on the way to the end that is attacked, or from it.
    heard = Overheard(theirs if kind.target == RECEIVER else ours[0], hand.sack(1))
    hand.exchange(hand.sack(1))
    before = hand.counters.get(COUNTERS[kind.name], 0)
    chance = random.Random(1)
    hand.exchange(*(kind.make(heard, chance) for _ in range(MANY)))
    counted = hand.counters[COUNTERS[kind.name]] - before
    assert counted > 0.8 * MANY
    assert hand.qp.state == QpState.RTS
    assert bytes(hand.buffer[1:]).count(0) == len(hand.buffer) - 1
    assert hand.qp.requestor.sent.una == hand.qp.requestor.sent.next_psn - 2


def test_harmless_packets_have_a_right_checksum() -> None:
    """Scapy computes it anew: a wrong one would be dropped before it cost anything."""
    for length in (60, 61, 380):
        packet = harmless("fd00::1", "fd00::2", 9, length)
        assert len(packet) == length
        shown = IPv6(packet)
        told = shown[UDP].chksum
        del shown[UDP].chksum
        assert IPv6(bytes(shown))[UDP].chksum == told


def test_hostile_packets_go_by_usids() -> None:
    """wire.md section 11: "Two hosts on one leaf: source leaf : host port"."""
    packet = IPv6(through_the_fabric(b"\x60" + bytes(99), "fd00::1", UsidTemplate(1, 1, 2), 0))
    assert (packet.nh, packet.plen, packet.src) == (41, 100, "fd00::1")
    assert IPv6Address(packet.dst) == IPv6Address("5f00:0:1001:4002::")
