# SPDX-License-Identifier: BSD-2-Clause
"""What cases about states, errors and hostile input are written with: packets that are none, counters, refusals."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NoReturn

import pytest
from toy_targets import ToySession, silent

from mrc.conformance.bench import Bench
from mrc.conformance.cases.robustness.hostile import every_kind, headers_of, know_ordinary_counters, transport
from mrc.conformance.codec.headers import OPCODES
from mrc.conformance.codec.icrc import icrc
from mrc.conformance.network import Network
from mrc.conformance.script import pattern, us
from mrc.conformance.setup import Setup
from mrc.conformance.target import Refused, Unsupported
from mrc.conformance.targets.in_process import target
from mrc.conformance.verdicts import Failed
from mrc.wire.profile import DEFAULT_WIRE_PROFILE


def bench(**setup: object) -> Bench:
    chosen = Setup(**setup)  # type: ignore[arg-type]
    return Bench(Network(target().open(chosen, DEFAULT_WIRE_PROFILE, 1), DEFAULT_WIRE_PROFILE), chosen)


class Counting(ToySession):
    """It counts what a test says."""

    def __init__(self) -> None:
        super().__init__(silent)
        self.counted: dict[str, int] = {}

    def counters(self) -> Mapping[str, int]:
        return dict(self.counted)


def counting() -> tuple[Bench, dict[str, int]]:
    session = Counting()
    return Bench(Network(session, DEFAULT_WIRE_PROFILE), Setup()), session.counted


# ------------------------------------------------------------------ packets


def test_a_packet_with_the_body_it_has_already_is_the_same() -> None:
    for name, packet in every_kind(bench()).items():
        assert packet.but(body=transport(packet)).frame() == packet.frame(), name


@pytest.mark.parametrize("ip", [4, 6])
def test_another_body_has_lengths_and_icrc_of_its_own(ip: int) -> None:
    """wire.md section 9 by hand: ones for what switches change, then the body as it is."""
    made = bench(mode="udp", ip=ip).make.request(0, pattern(8)).but(body=b"\xca\x01\x02")
    frame = made.frame()
    head = 40 if ip == 6 else 20
    assert len(frame) == head + 8 + 3 + 4
    assert int.from_bytes(frame[head + 4 : head + 6], "big") == 8 + 3 + 4
    masked = bytearray(frame[:-4])
    for at in (0, 1, 2, 3, 7) if ip == 6 else (1, 8, 10, 11):
        masked[at] |= 0x0F if ip == 6 and not at else 0xFF
    masked[head + 6 : head + 8] = b"\xff\xff"
    assert frame[-4:] == zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def test_byte_4_of_a_body_counts_as_ones() -> None:
    made = bench(mode="udp").make.probe()
    bodies = [bytes((0xDE, 0, 0, 0, byte)) for byte in (0, 0x5A)]
    assert len({icrc(made.but(body=body).frame()[:-4]) for body in bodies}) == 1


def test_a_whole_frame_is_sent_as_it_is() -> None:
    made = bench().make.probe().but(whole=b"no packet at all")
    assert made.frame() == b"no packet at all"
    assert "16 bytes" in str(made)


def test_there_is_a_packet_of_every_opcode_and_its_headers_end_where_they_should() -> None:
    kinds = every_kind(bench())
    assert {packet.fields["bth"]["opcode"] for packet in kinds.values()} == set(OPCODES)
    lengths = {"First": 32, "Last with Immediate": 36, "Only": 32, "Only with TSETH": 36, "ACK": 16, "SACK": 48}
    lengths |= {"NACK": 32, "PROBE": 28, "ENDPOINT_REQUEST": 28, "ENDPOINT_RESPONSE": 48}
    assert {name: headers_of(kinds[name]) for name in lengths} == lengths


# ------------------------------------------------------------------ counters


def test_packets_counted_under_several_names_are_added_up() -> None:
    made, counted = counting()
    counted |= {"short": 5}
    made.mark_counters()
    counted |= {"short": 7, "long": 1}
    made.expect_dropped(3)
    with pytest.raises(Failed, match="rose by 3 in all"):
        made.expect_dropped(4)


def test_counters_that_count_good_packets_say_nothing_of_bad_ones() -> None:
    made, counted = counting()
    made.mark_counters()
    counted["received"] = 10
    made.leave_out_risen_counters()
    made.mark_counters()
    counted["received"] = 12
    with pytest.raises(Failed):
        made.expect_dropped(1)
    with pytest.raises(Failed):
        made.expect_counted(2)
    counted["dropped"] = 2
    made.expect_dropped(2)
    made.expect_counted(2)


def test_what_the_endpoint_counts_of_good_packets_is_known() -> None:
    """A good SACK rises none of the counters that are left, and a wrong one does."""
    made = bench()
    know_ordinary_counters(made)
    made.post_write(pattern(8))
    write = made.expect("WRITE", psn=0)
    made.wait(us(100))
    made.mark_counters()
    made.sack(0, to=write)
    made.wait(us(1))
    with pytest.raises(Failed):
        made.expect_dropped(1)
    made.sack(5, to=write)
    made.wait(us(1))
    made.expect_dropped(1)


# ------------------------------------------------------------------ states and refusals


def refuse() -> NoReturn:
    raise Refused("not now")


def test_a_refusal_is_told_as_one() -> None:
    made = bench()
    made.expect_refused("this", refuse)
    with pytest.raises(Failed, match="it was done"):
        made.expect_refused("this", lambda: None)
    with pytest.raises(Failed, match="it refused: not now"):
        made.ask(refuse)


@pytest.mark.parametrize("state", ["RESET", "INIT", "RTR", "RTS"])
def test_a_qp_is_brought_up_as_far_as_a_case_wants_it(state: str) -> None:
    assert bench(state=state).qp.state() == state


def test_a_target_that_cannot_stop_on_its_way_up_makes_the_case_unsupported() -> None:
    with pytest.raises(Unsupported):
        Bench(Network(ToySession(silent), DEFAULT_WIRE_PROFILE), Setup(state="INIT"))


def test_an_attribute_nobody_knows_is_unsupported() -> None:
    with pytest.raises(Unsupported):
        bench(state="INIT").qp.go_to("RTR", {"colour": 3})


def test_completions_are_told_one_by_one() -> None:
    made = bench()
    made.post_receives(1)
    made.ask(made.qp.to_error)
    found = made.next_completion()
    assert found is not None
    assert (found.kind, found.status) == ("RECEIVE", "FLUSHED")
    with pytest.raises(Failed, match="there is none"):
        made.next_completion()


def test_more_connections_than_the_qpns_from_the_first_one_on() -> None:
    """The tester's QPNs have 24 bits however many connections a case opens."""
    made = bench()
    others = [made.another() for _ in range(230)]
    qpns = {each.tester.qpn for each in (made, *others)}
    assert len(qpns) == 231
    assert all(0x10 < qpn < 1 << 24 for qpn in qpns)
    others[-1].expect_works(0)
