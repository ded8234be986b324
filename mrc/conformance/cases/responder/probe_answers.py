# SPDX-License-Identifier: BSD-2-Clause
"""How a responder answers reliability probes (wire.md section 8)."""

from __future__ import annotations

from mrc.conformance.script import CE, Bench, case, pattern, us

ANSWER = "pr and probe_id of the SACK that answers a probe"


@case("MRC-PROBE-03", look_at=ANSWER + ": all 16 bits, unsigned")
def a_probe_is_answered_under_its_id(bench: Bench) -> None:
    """Probes with ids 0, 1, 0x7fff, 0x8000 and 0xffff, the first on an idle QP: each is answered with a SACK that has
    pr 1 and its id, and with no ACK."""
    for probe_id in (0, 1, 0x7FFF, 0x8000, 0xFFFF):
        bench.probe(probe_id)
        bench.expect("SACK", probe_id=probe_id, pr=1, cack_psn=-1, within=us(10))
    bench.request(0, pattern(8))
    bench.expect("ACK", psn=0)
    bench.probe(7)
    bench.expect("SACK", probe_id=7, pr=1, cack_psn=0, within=us(10))
    bench.expect_silence()


@case("MRC-PROBE-03/one-burst", look_at="whether each of several probes is answered, and requests beside them as such")
def each_probe_of_a_burst_is_answered(bench: Bench) -> None:
    """One burst has probes 11, 12 and 13, two of them for the same id, and a request with AckReq: four SACKs with pr 1
    and one with pr 0, whose ack_psn is the request's."""
    bench.send(
        bench.make.probe(11),
        bench.make.request(0, pattern(8), ackreq=1),
        bench.make.probe(12),
        bench.make.probe(13),
        bench.make.probe(13),
    )
    bench.expect("SACK", ack_psn=0, pr=0)
    for probe_id in (11, 12, 13, 13):
        bench.expect("SACK", probe_id=probe_id, pr=1)
    bench.expect_no("SACK")


@case("MRC-PROBE-03/hole", look_at="what the answer to a probe says of holes, and that it says it to every probe")
def a_probe_is_answered_while_there_is_a_hole(bench: Bench) -> None:
    """PSN 2 is missing of 0 to 5: each of two probes, the second of which came CE, is told so, the second with m=1."""
    bench.send(*(bench.make.request(psn) for psn in (0, 1, 3, 4, 5)))
    bench.probe(21)
    bench.expect("SACK", probe_id=21, pr=1, cack_psn=1, above=[3, 4, 5], m=0)
    bench.probe(22, ecn=CE)
    bench.expect("SACK", probe_id=22, pr=1, cack_psn=1, above=[3, 4, 5], m=1)
