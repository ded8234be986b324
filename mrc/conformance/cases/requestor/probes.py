# SPDX-License-Identifier: BSD-2-Clause
"""Reliability probes that a requestor sends, and what it learns from the answers (wire.md section 8)."""

from __future__ import annotations

from mrc.conformance.cases.requestor.losses import learn_the_rtt
from mrc.conformance.script import TRIM_NACK, Bench, Heard, Unsupported, case, ms, pattern, us


def _tail_probe(bench: Bench) -> Heard:
    """Four writes, PSN 20 to 23, of which nothing is heard: the probe that asks."""
    learn_the_rtt(bench)
    for psn in range(20, 24):
        bench.written(psn, pattern(8))
    return bench.expect("PROBE", within=ms(10))


@case("MRC-PROBE-01", look_at="the sixteen bytes of the PETH: probe_id at 4, DCIDs at 8 and 10, timestamp at 12")
def peth_is_sixteen_bytes(bench: Bench) -> None:
    """The second probe for a lost tail: each field of its PETH stands where it should, and what is reserved is 0."""
    first = _tail_probe(bench)
    probe = bench.expect("PROBE", within=ms(10) + 2 * bench.slack)
    bench.check(probe.probe_id != first.probe_id, "a probe_id of its own", f"both have {probe.probe_id}")
    peth = probe.frame[len(probe.frame) - (probe.udp_len - 8) + 12 : -4]
    wanted = b"".join(
        number.to_bytes(2, "big")
        for number in (0, 0, probe.probe_id, 0, bench.target.qpn & 0xFFFF, bench.tester.qpn & 0xFFFF)
    )
    bench.check(len(peth) == 16, "a PETH of 16 bytes", f"it has {len(peth)}")
    bench.check(peth[:12] == wanted, f"a PETH that begins {wanted.hex(' ')}", f"it is {peth.hex(' ')}")


@case("MRC-PROBE-02", look_at="ftype of a probe whose timestamp is valid")
def ftype_is_one_with_a_timestamp(bench: Bench) -> None:
    """Two probes for a tail that stays silent: where either has a timestamp, ftype is 1 in both, and with tsr 0 their
    timestamps are as far apart as they are."""
    first = _tail_probe(bench)
    second = bench.expect("PROBE", within=ms(10) + 2 * bench.slack)
    if not first.tx_timestamp and not second.tx_timestamp:
        raise Unsupported("the target's probes have no timestamp")
    for probe in (first, second):
        bench.check(probe.ftype == 1, "ftype 1", f"it is {probe.ftype}: {probe}")
    if first.tsr == 0:
        apart, found = (second.at - first.at) // 128, second.tx_timestamp - first.tx_timestamp & 0xFFFF
        late = (found - apart + 0x8000 & 0xFFFF) - 0x8000
        bench.check(abs(late) <= 1 + bench.stamp_slack // 128, f"timestamps {apart} apart", f"they are {found} apart")


@case("MRC-PROBE-05", look_at="what the SACK that answers a probe is used for: cack_psn and holes, like any other")
def the_answer_to_a_probe_acknowledges(bench: Bench) -> None:
    """All SACKs of four writes were lost. The answer to the probe says that all have arrived but PSN 21: the first
    completes, PSN 21 is sent again, and nothing else is."""
    probe = _tail_probe(bench)
    for wr_id in range(20):
        bench.expect_completion("WRITE", wr_id=wr_id)
    bench.sack(20, [22, 23], to=probe)
    bench.expect("WRITE", psn=21, rtx=1, within=us(10))
    bench.expect_completion("WRITE", wr_id=20)
    bench.expect_no_completion()
    bench.expect_no("WRITE", within=us(100))


@case("MRC-PROBE-06", without=[TRIM_NACK], look_at="whether a probe's answer alone makes packets lost")
def a_probe_finds_what_was_trimmed(bench: Bench) -> None:
    """The peer has no trim NACK, and all four writes were trimmed: the answer to the probe says that nothing arrived,
    and all four are sent again."""
    probe = _tail_probe(bench)
    bench.sack(19, to=probe)
    for psn in range(20, 24):
        bench.expect("WRITE", psn=psn, rtx=1, within=ms(2))
