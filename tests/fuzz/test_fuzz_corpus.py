# SPDX-License-Identifier: BSD-2-Clause
"""Every input the fuzzer kept, and every one that once failed, run again without the fuzzer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from received_bytes import Coverage, Fuzzed, Setup, is_malformed, run_input, state_of

CORPUS = Path(__file__).parent / "corpus"
CHUNK = 64


def inputs() -> list[Path]:
    return sorted(CORPUS.iterdir())


@pytest.mark.parametrize("start", range(0, max(1, len(inputs())), CHUNK))
def test_the_corpus_holds(start: int) -> None:
    """behaviour.md, Errors: malformed input never raises out of the endpoint and never changes state."""
    chosen = inputs()[start : start + CHUNK]
    assert chosen
    for path in chosen:
        run_input(path.read_bytes())


@given(st.binary(max_size=400))
def test_any_bytes_hold(data: bytes) -> None:
    """Arbitrary bytes never raise out of the endpoint and never change state."""
    run_input(data)


def test_the_look_at_state_sees_what_changes() -> None:
    """Would a change be seen? One bit of a received-PSN map, one counter of a window, one posted write."""
    fuzzed = Fuzzed(Setup.ESTABLISHED)
    before = state_of(fuzzed.endpoint)
    assert state_of(fuzzed.endpoint) == before
    fuzzed.qp.requestor.sent.una += 1
    changed = state_of(fuzzed.endpoint)
    assert changed != before
    fuzzed.post(8)
    assert state_of(fuzzed.endpoint) != changed


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("what", ["state", "memory"])
def test_a_malformed_packet_that_changes_something_is_found(
    before: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of several it is: behind another one the endpoint is not looked at again before it comes."""
    fuzzed, malformed = Fuzzed(Setup.ESTABLISHED), bytes(80)
    for _ in range(before):
        fuzzed.receive_raw(malformed, 0)
    received = Fuzzed.receive

    def receive(self: Fuzzed, packet: bytes, port: int = 0) -> None:
        received(self, packet, port)
        if what == "state":
            self.qp.requestor.sent.una += 1
        else:
            self.memory[0] ^= 1

    monkeypatch.setattr(Fuzzed, "receive", receive)
    with pytest.raises(AssertionError, match="a malformed packet changed something"):
        fuzzed.receive_raw(malformed, 0)


def test_what_changed_before_a_malformed_packet_is_not_its_doing() -> None:
    fuzzed, malformed = Fuzzed(Setup.ESTABLISHED), bytes(80)
    for change in (lambda: fuzzed.post(8), fuzzed.transmit, lambda: fuzzed.wait(1 << 31)):
        fuzzed.receive_raw(malformed, 0)
        before = state_of(fuzzed.endpoint)
        change()
        assert state_of(fuzzed.endpoint) != before
        fuzzed.receive_raw(malformed, 0)


def test_the_established_state_has_holes_both_ways() -> None:
    fuzzed = Fuzzed(Setup.ESTABLISHED)
    assert fuzzed.qp.responder.received.held > 0
    counters = fuzzed.endpoint.total_counters()
    assert counters.sacks_received == 1
    assert counters.ack_for_unsent_psn == 0
    assert bytes(range(16)) in fuzzed.memory


def test_a_packet_of_ours_is_not_malformed() -> None:
    fuzzed = Fuzzed(Setup(0))
    packet = fuzzed.framed(0xDE, 0, 0, bytes(16), 0, fuzzed.qp.qpn)
    assert not is_malformed(packet)
    damaged = np.frombuffer(packet, np.uint8).copy()
    damaged[60] ^= 1
    assert is_malformed(damaged.tobytes())


LIVE = bytes((0x21,))  # FRAMED, and what an honest peer would send now


@pytest.mark.parametrize("kind", range(7))
def test_what_an_honest_peer_would_send_is_taken(kind: int) -> None:
    """Unchanged it is no error of any kind: what the fuzzer changes by one byte is right before."""
    coverage = Coverage()
    run_input(bytes((Setup.ESTABLISHED,)) + (LIVE + bytes((kind, 0, 0, 0))) * 3, coverage)
    assert coverage.met_live == coverage.packets
    accepted = {"bytes_placed", "sacks_received", "acks_received", "nacks_received", "probes_answered"}
    accepted |= {"duplicates_above_epsn", "rtt_samples", "losses_by_hole", "losses_by_nack", "trimmed_received"}
    assert coverage.fates.total() - sum(coverage.fates[name] for name in accepted) <= 3
    assert sum(coverage.fates[name] for name in accepted) >= 4


def test_live_records_meet_a_qp_that_lives() -> None:
    """The kept inputs of such records: however many of their packets are deadly, the next one meets a new QP."""
    coverage = Coverage()
    for path in sorted(CORPUS.glob("live-*")):
        run_input(path.read_bytes(), coverage)
    assert coverage.packets > 500
    assert coverage.met_live >= 0.95 * coverage.packets
    assert len(coverage.fates) > 12
