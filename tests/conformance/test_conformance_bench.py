# SPDX-License-Identifier: BSD-2-Clause
"""What scripts can rely on: expectations that fail when they should, time, drops, and targets that can do little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from toy_targets import FIRST_PSN, PLANES, QPN, Behaviour, ToySession, ToyTarget, silent

from mrc.conformance.acknowledging import Acknowledger
from mrc.conformance.bench import Bench
from mrc.conformance.case import Case, case
from mrc.conformance.catalogue import catalogue
from mrc.conformance.codec import headers as wire
from mrc.conformance.codec.carriage import Carriage, ev_fields
from mrc.conformance.expectation import at_least, between, one_of, other_than
from mrc.conformance.network import Network
from mrc.conformance.packets import Crafted, Heard
from mrc.conformance.requirements import requirements
from mrc.conformance.runner import run, run_case
from mrc.conformance.setup import SVC_TIME, TRIM_NACK, Setup
from mrc.conformance.target import Frame, Unsupported
from mrc.conformance.targets.in_process import target as own_endpoint
from mrc.conformance.times import ms, time_text, us
from mrc.conformance.verdicts import FAILED, PASSED, UNSUPPORTED, Failed
from mrc.errors import CallerError
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.trimming import trim


def from_toy(session: ToySession, layers: list[tuple[str, dict[str, int]]], plane: int = 0) -> Crafted:
    """A packet of the toy's."""
    sport, label = ev_fields(plane << 24, 6, DEFAULT_WIRE_PROFILE)
    source, destination = (int(ip_address(each)) for each in (PLANES[plane].target, PLANES[plane].tester))
    carriage = Carriage(source, destination, flow_label=label, sport=sport)
    return Crafted(tuple(layers), carriage, plane, DEFAULT_WIRE_PROFILE, 0)


def sack(session: ToySession, cack: int, ack_psn: int, **fields: int) -> Crafted:
    first = session.tester.first_psn
    bth = {"opcode": wire.SACK, "pkey": 0xFFFF, "dqp": session.tester.qpn, "psn": first + cack & 0xFFFFFF}
    seth = {"cack_psn": first + cack & 0xFFFFFF, "ack_psn_offset": ack_psn - cack, "sack_offset": 1, **fields}
    return from_toy(session, [("bth", bth), ("seth", seth), ("cc_state", {})])


def ack(session: ToySession, cack: int, syndrome: int = 0x1F) -> Crafted:
    bth = {"opcode": wire.ACK, "pkey": 0xFFFF, "dqp": session.tester.qpn}
    bth["psn"] = session.tester.first_psn + cack & 0xFFFFFF
    return from_toy(session, [("bth", bth), ("aeth", {"syndrome": syndrome})])


def bench_on(behaviour: Behaviour, **setup: Any) -> Bench:
    chosen = Setup(**setup)
    return Bench(Network(ToySession(behaviour), DEFAULT_WIRE_PROFILE), chosen)


def bench_on_endpoint(**setup: Any) -> Bench:
    chosen = Setup(**setup)
    return Bench(Network(own_endpoint().open(chosen, DEFAULT_WIRE_PROFILE, 1), DEFAULT_WIRE_PROFILE), chosen)


def answering(*makes: Callable[[ToySession], Any], after: int = 0) -> Behaviour:
    """A toy that answers its first burst with these packets."""

    def behave(session: ToySession, frames: Sequence[Frame]) -> None:
        if session.seen == len(frames):
            for make in makes:
                session.send(make(session), after=after)

    return behave


# ------------------------------------------------------------------ expectations


def test_a_packet_that_agrees_is_returned() -> None:
    bench = bench_on(answering(lambda session: sack(session, 4, 11, bitmap=0b1110110)))
    bench.request(11)
    found = bench.expect("SACK", cack_psn=4, bitmap=0b1110110, above=[6, 7, 9, 10, 11])
    assert (found.ack_psn, found.above, found.dqp) == (11, (6, 7, 9, 10, 11), bench.tester.qpn)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cack_psn": 5}, "one came at 0 us with cack_psn 4"),
        ({"bitmap": 1}, "bitmap 0x0"),
        ({"above": [5]}, "above none"),
        ({"cack_psn": between(0, 3)}, "cack_psn 4"),
        ({"cack_psn": at_least(5)}, "cack_psn 4"),
        ({"m": one_of(1, 2)}, "m 0"),
        ({"cack_psn": other_than(4)}, "cack_psn 4"),
        ({"syndrome": 0}, "no syndrome"),
        ({"ack_psn": 12}, "SACK cack_psn 4, ack_psn 4"),
    ],
)
def test_a_packet_that_does_not_agree_fails(fields: dict[str, Any], words: str) -> None:
    bench = bench_on(answering(lambda session: sack(session, 4, 4)))
    bench.request(4)
    with pytest.raises(Failed) as failed:
        bench.expect("SACK", **fields)
    assert "a SACK with" in failed.value.expected
    assert words in failed.value.actual


def test_nothing_at_all_fails() -> None:
    bench = bench_on(silent)
    bench.request(0)
    with pytest.raises(Failed, match="nothing came"):
        bench.expect("ACK", within=us(10))
    assert bench.now == us(10)


def test_of_several_of_a_kind_the_one_that_is_named_is_meant() -> None:
    """Another SACK in between is no fault, and is still there to be expected."""
    bench = bench_on(answering(lambda s: sack(s, 0, 0), lambda s: sack(s, 2, 2), lambda s: sack(s, 2, 2, m=1)))
    bench.request(0)
    assert bench.expect("SACK", ack_psn=2).m == 0
    assert bench.expect("SACK", ack_psn=2, m=1).m == 1
    assert bench.expect("SACK").ack_psn == 0
    with pytest.raises(Failed):
        bench.expect("SACK")


def test_packets_of_a_kind_that_nothing_tells_apart_come_in_order() -> None:
    bench = bench_on(answering(lambda s: ack(s, 0), lambda s: ack(s, 1)))
    bench.request(0)
    with pytest.raises(Failed, match="with psn 0"):
        bench.expect("ACK", psn=1)


@pytest.mark.parametrize(
    ("after", "within", "fails"), [(us(40), us(60), False), (us(51), us(60), True), (None, us(49), True)]
)
def test_too_soon_and_too_late_fail(after: int | None, within: int, fails: bool) -> None:
    bench = bench_on(answering(lambda s: ack(s, 0), after=us(50)))
    bench.request(0)
    if fails:
        with pytest.raises(Failed):
            bench.expect("ACK", after=after, within=within)
    else:
        assert bench.expect("ACK", after=after, within=within).at == us(50)


def test_times_count_from_the_beginning_of_the_case_or_from_what_is_named() -> None:
    bench = bench_on(answering(lambda s: ack(s, 0), after=us(50)))
    bench.request(0, at=us(20))
    assert bench.now == us(20)
    bench.wait(us(100))
    assert bench.expect("ACK", since=us(20), after=us(50), within=us(50)).at == us(70)


def test_silence_is_seen_broken_by_what_came_before_too() -> None:
    bench = bench_on(answering(lambda s: ack(s, 0)))
    bench.request(0)
    bench.wait(us(10))
    with pytest.raises(Failed, match="ACK psn 0"):
        bench.expect_silence(us(10))
    with pytest.raises(Failed):
        bench.expect_no("ACK", within=us(10), psn=0)
    bench.expect_no("ACK", within=us(10), psn=1)
    bench.expect_no("SACK", within=us(10))
    bench.read("ACK")
    bench.expect_silence(us(10))


# ------------------------------------------------------------------ what an honest peer drops


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"icrc": 1}, "its ICRC"),
        ({"tver": 1}, "its TVer is 1"),
        ({"pkey": 0x7FFF}, "its P_Key"),
        ({"dport": 4790}, "UDP port 4790"),
        ({"src": 1}, "its addresses"),
        ({"dqp": 0x999}, "which the tester does not have"),
        ({"opcode": 0x04}, "which MRC does not have"),
        ({"payload": b"more"}, "4 bytes after the headers"),
        ({"plen": 1}, "its IP length"),
        ({"udp_len": 9}, "its UDP length"),
    ],
)
def test_what_an_honest_peer_drops_is_not_expected_and_has_its_reason(change: dict[str, Any], why: str) -> None:
    bench = bench_on(answering(lambda s: ack(s, 0).but(**change)))
    bench.request(0)
    with pytest.raises(Failed):
        bench.expect("ACK", within=us(10))
    (dropped,) = bench.dropped
    assert why in dropped.fault
    assert why in str(bench.network.log[-1])


@pytest.mark.parametrize("cut", range(0, 68, 3))
def test_any_piece_of_a_packet_is_dropped_in_words(cut: int) -> None:
    bench = bench_on(answering(lambda s: ack(s, 0).frame()[:cut]))
    bench.request(0)
    bench.wait(us(1))
    assert [bool(packet.fault) for packet in bench.dropped] == [True]
    assert str(bench.dropped[0])


def test_a_packet_on_the_wrong_plane_is_dropped() -> None:
    bench = bench_on(lambda session, frames: session.send(ack(session, 0), plane=1))
    bench.request(0)
    bench.wait(us(1))
    assert "in plane 1" in bench.dropped[0].fault


# ------------------------------------------------------------------ targets that can do little, or go wrong


def scripted(script: Callable[[Bench], None], **setup: Any) -> Case:
    return Case("MRC-WIRE-01", requirements()["MRC-WIRE-01"], "wire", Setup(**setup), script, "about", "look at")


def test_what_a_target_cannot_do_is_unsupported_with_the_reason() -> None:
    result = run_case(scripted(lambda bench: bench.post_write(b"x") and None), ToyTarget(silent))
    assert (result.verdict, result.expected, result.actual) == (UNSUPPORTED, None, "the target cannot post a write")


def test_a_check_that_a_target_gives_no_means_for_is_noted_and_the_case_goes_on() -> None:
    def script(bench: Bench) -> None:
        bench.expect_memory(0, b"x")
        bench.expect_nothing_written()
        bench.expect_state("RTS")
        bench.mark_counters()
        bench.expect_counted()
        bench.expect_completion("WRITE")

    result = run_case(scripted(script), ToyTarget(silent))
    assert (result.verdict, result.unchecked) == (PASSED, ("memory", "state", "counters", "completions"))
    assert run_case(scripted(Bench.needs_memory), ToyTarget(silent)).verdict == UNSUPPORTED


class Fixed(ToySession):
    """A target with a mind of its own: IPv6, two planes, an MTU of 1024, TRIM_NACK always, the tester's QP by hand."""

    def connect(self, setup: Setup, tester: Any) -> Any:
        qp = super().connect(setup, tester)
        by_hand = replace(tester, qpn=0x777, first_psn=4711)
        qp.terms = replace(qp.terms, agreed=frozenset({TRIM_NACK}), tester=by_hand)
        return qp


class FixedTarget(ToyTarget):
    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Any:
        return Fixed(silent)


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        ({"agreed": frozenset({SVC_TIME})}, "SVC_TIME cannot be agreed"),
        ({"without": frozenset({TRIM_NACK})}, "TRIM_NACK is always agreed"),
        ({"mode": "srv6"}, "needs mode srv6, with this target it is stev"),
        ({"ip": 4}, "needs IP version 4"),
        ({"planes": 3}, "needs 3 planes, this target has 2"),
        ({"path_mtu": 4096}, "needs path MTU 4096"),
        ({"target_first_psn": 1}, "first PSN 1"),
        ({"first_psn": 0}, "first PSN is 4711, the case needs 0"),
    ],
)
def test_what_a_target_does_not_become_makes_a_case_unsupported(setup: dict[str, Any], words: str) -> None:
    result = run_case(scripted(lambda bench: None, **setup), FixedTarget(silent))
    assert (result.verdict, words in str(result.actual)) == (UNSUPPORTED, True), result.actual


def test_what_was_agreed_on_by_hand_is_followed() -> None:
    """Also where the target can do more than a case asks for."""
    bench = Bench(Network(Fixed(silent), DEFAULT_WIRE_PROFILE), Setup(mode="stev", ip=6, planes=2, path_mtu=1024))
    assert (bench.tester.qpn, bench.make.request(1).fields["bth"]["psn"]) == (0x777, 4712)


def test_a_target_that_never_stops_sending_fails_its_case_and_not_the_run() -> None:
    def endless(session: ToySession, frames: Sequence[Frame]) -> None:
        for _ in range(30_000):
            session.send(b"x")

    assert run_case(scripted(lambda bench: bench.request(0) and None), ToyTarget(endless)).verdict == FAILED

    class Stuck(ToySession):
        def next_deadline(self) -> int | None:
            return self.now

    class StuckTarget(ToyTarget):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Any:
            return Stuck(silent)

    result = run_case(scripted(lambda bench: bench.wait(us(1))), StuckTarget(silent))
    assert (result.verdict, "timer" in str(result.actual)) == (FAILED, True)


# ------------------------------------------------------------------ the control case


def test_a_dead_target_makes_a_run_void_although_every_silence_passes() -> None:
    found = run([scripted(lambda bench: bench.expect_silence())], ToyTarget(silent))
    assert (found.passed, found.failed, found.good) == (1, 0, False)
    assert "does not answer one plain write" in found.void


def test_a_target_that_says_whatever_is_expected_makes_a_run_void() -> None:
    """It claims one PSN more than was sent: the control case passes, which it must not."""
    found = run([], ToyTarget(answering(lambda session: sack(session, 1, 0))))
    assert (found.good, "passed" in found.void) == (False, True)


def test_an_honest_target_does_not() -> None:
    found = run([], ToyTarget(answering(lambda session: sack(session, 0, 0))))
    assert found.good
    assert found.control is not None
    assert found.control.verdict == FAILED


def test_a_profile_that_the_tester_cannot_follow_is_refused() -> None:
    for wire_profile in (WireProfile(icrc_covers_outer=True), WireProfile(udp_checksum_zero=False)):
        with pytest.raises(CallerError):
            run([], ToyTarget(silent), wire=wire_profile)


# ------------------------------------------------------------------ crafting


def test_psns_count_from_the_first_one_and_wrap() -> None:
    bench = bench_on(silent, first_psn=(1 << 24) - 2)
    assert [bench.make.request(psn).fields["bth"]["psn"] for psn in (-1, 0, 1, 2)] == [0xFFFFFD, 0xFFFFFE, 0xFFFFFF, 0]
    assert [bench.make.request(psn).psn for psn in (-5, 3)] == [-5, 3]
    answer = bench.make.sack(1, [3, 4])
    assert answer.fields["bth"]["psn"] == answer.fields["seth"]["cack_psn"] == FIRST_PSN + 1
    assert (answer.fields["seth"]["bitmap"], answer.fields["bth"]["dqp"]) == (0b110, QPN)


def test_fields_are_named_with_their_header_where_two_share_a_name() -> None:
    packet = bench_on(silent).make.sack(0).but(m=2, bth_m=1, bth_psn=5, dscp=3, ecn=1, hlim=9)
    assert (packet.fields["seth"]["m"], packet.fields["bth"]["m"], packet.fields["bth"]["psn"]) == (2, 1, 5)
    assert (packet.traffic_class, packet.carriage.hop_limit) == (0b001101, 9)
    with pytest.raises(CallerError):
        packet.but(rqmsn=1)
    with pytest.raises(CallerError):
        packet.but(outer_dscp=1)


def test_what_changes_on_the_way_leaves_the_icrc() -> None:
    packet = bench_on(silent).make.request(0, b"abc")
    changed = packet.on_the_way(hlim=1, payload=b"abd")
    assert packet.frame()[-4:] == changed.frame()[-4:]
    assert packet.frame()[:-8] != changed.frame()[:-8]
    assert packet.but(payload=b"abd").frame()[-4:] != packet.frame()[-4:]


@pytest.mark.parametrize(("mode", "ip"), [("srv6", 6), ("stev", 6), ("udp", 4)])
def test_a_trimmed_packet_is_what_a_switch_leaves(mode: str, ip: int) -> None:
    """wire.md section 12: BTH and 8 bytes; the outermost codepoint and lengths rewritten; no ICRC."""
    bench = bench_on_endpoint(mode=mode, ip=ip, agreed=frozenset({TRIM_NACK}))
    for packet in (bench.make.request(0, bytes(1000)), bench.make.request(0, bytes(1000), timestamp=5)):
        assert packet.trimmed().frame() == trim(packet.frame())
        assert packet.trimmed(lasthop=True).frame() == trim(packet.frame(), last_hop=True)


def test_a_message_is_cut_by_the_path_mtu() -> None:
    packets = bench_on(silent).make.message(3, bytes(2050), offset=16, msn=7, immediate=9)
    assert [packet.fields["bth"]["opcode"] for packet in packets] == [wire.FIRST, wire.MIDDLE, wire.LAST_IMMEDIATE]
    assert [packet.fields["reth"]["va"] for packet in packets] == [0x10010, 0x10410, 0x10810]
    assert {(packet.fields["reth"]["dmalen"], packet.fields["meth"]["msn"]) for packet in packets} == {(2050, 7)}
    assert [packet.psn for packet in packets] == [3, 4, 5]


# ------------------------------------------------------------------ the target's own side


def test_memory_that_is_not_as_expected_fails() -> None:
    bench = bench_on_endpoint()
    bench.request(0, b"abcd", offset=100)
    with pytest.raises(Failed, match="offset 102"):
        bench.expect_memory(100, b"abXd")
    with pytest.raises(Failed, match="offset 100"):
        bench.expect_nothing_written()
    bench.expect_memory(100, b"abcd")
    bench.expect_nothing_written()


def test_counters_states_and_completions_that_are_not_as_expected_fail() -> None:
    bench = bench_on_endpoint()
    bench.mark_counters()
    with pytest.raises(Failed, match="counter that rose by 1"):
        bench.expect_counted(1)
    with pytest.raises(Failed, match="it is in RTS"):
        bench.expect_state("ERROR")
    with pytest.raises(Failed, match="there is none"):
        bench.expect_completion("WRITE")
    bench.post_write(b"abc")
    bench.sack(0, to=bench.expect("WRITE"))
    with pytest.raises(Failed):
        bench.expect_no_completion()
    with pytest.raises(Failed, match="SUCCESS"):
        bench.expect_completion("WRITE", status="FLUSHED")


def test_two_connections_share_a_network_and_nothing_else() -> None:
    bench = bench_on_endpoint()
    other = bench.another(first_psn=5)
    assert other.target.qpn != bench.target.qpn
    bench.request(0, ackreq=1)
    other.request(0, ackreq=1)
    assert bench.expect("SACK").layers["bth"]["psn"] == 1000
    assert other.expect("SACK").layers["bth"]["psn"] == 5


def test_endpoint_requests_are_answered_unless_told_otherwise() -> None:
    for after, answered in ((us(30), True), (None, False)):
        bench = bench_on_endpoint()
        bench.answer_after = after
        ev = bench.planes[1].target_evs[2]
        bench.network.session.probe_ev(ev, None)
        bench.wait(ms(200))
        assert bench.expect("ENDPOINT_REQUEST").ev == ev
        assert bench.network.session.ev_probe_results() == {ev: us(30) if answered else None}


def test_an_acknowledger_brings_a_lossy_transfer_to_its_end() -> None:
    """300 packets of which every twentieth is lost at first: all arrive, and only what was lost is sent again."""

    def lost(packet: Heard) -> bool:
        return packet.kind == "WRITE" and packet.psn % 20 == 7 and not packet.rtx

    bench = bench_on_endpoint()
    peer = Acknowledger(bench, after=us(100), lose=lost)
    bench.post_write(bytes(300 * bench.mtu))
    bench.wait(ms(50))
    bench.expect_completion("WRITE", length=300 * bench.mtu)
    writes = bench.read("WRITE")
    assert peer.cack == 299
    assert sorted(packet.psn for packet in writes if packet.rtx) == list(range(7, 300, 20))


def test_a_target_that_is_made_to_hold_answers_later() -> None:
    bench = bench_on_endpoint()
    bench.network.session.hold(us(70))
    bench.request(0, ackreq=1)
    assert bench.expect("SACK", after=us(70), within=us(70)).at == us(70)


def test_times_are_told_in_the_unit_that_reads_best() -> None:
    assert [time_text(each) for each in (0, 1, us(10), us(1.5), ms(16.7772), 2_500_000_000)] == [
        "0 us",
        "1 ns",
        "10 us",
        "1.5 us",
        "16.777 ms",
        "2.5 s",
    ]


# ------------------------------------------------------------------ the registry


def test_a_case_needs_a_requirement_an_id_of_its_own_and_words() -> None:
    for case_id, words in (("MRC-NONE-1", "no such requirement"), (catalogue()[0].id, "twice")):
        with pytest.raises(CallerError, match=words):
            case(case_id, look_at="")(silent)  # type: ignore[arg-type]
    with pytest.raises(CallerError, match="no docstring"):
        case("MRC-ACK-01/no-words", look_at="")(lambda bench: None)


def test_a_session_says_what_it_cannot_do() -> None:
    session = ToySession(silent)
    for question in (session.counters, session.ev_probe_results, lambda: session.set_port(0, False)):
        with pytest.raises(Unsupported):
            question()
