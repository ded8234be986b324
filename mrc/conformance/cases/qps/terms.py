# SPDX-License-Identifier: BSD-2-Clause
"""What both ends tell each other beforehand, the least each can do, and the two halves of a QP (behaviour.md)."""

from __future__ import annotations

from mrc.conformance.script import TRIM_NACK, Bench, case, ms, pattern, us

LEAST_MPR, LEAST_IMMEDIATES = 8, 32
FIRST_TARGET, FIRST_TESTER = 0x765432, 0x123456


@case(
    "MRC-QP-04",
    first_psn=FIRST_TESTER,
    target_first_psn=FIRST_TARGET,
    path_mtu=512,
    mpr=1,
    max_wimm=2,
    look_at="which of the parameters told beforehand is not followed",
)
def what_is_told_beforehand_is_followed(bench: Bench) -> None:
    """Unusual first PSNs, a path MTU of 512 bytes, 128 PSNs and 2 writes with immediate granted: all of the target's
    packets keep to them, with the QPN, addresses, VA and R_Key of the tester; what the tester sends is taken by the
    target's."""
    immediates = [bench.post_write(pattern(8), immediate=number) for number in range(3)]
    bench.wait(us(100))
    writes = bench.read("WRITE")
    bench.check(len(writes) == 2, "2 writes with immediate, as granted", f"{len(writes)} came")
    for number, write in enumerate(writes):
        raw = write.layers["bth"]["psn"]
        bench.check(raw == FIRST_TARGET + number, f"PSN {FIRST_TARGET + number:#x} on the wire", f"it is {raw:#x}")
        found = (write.dqp, write.va, write.rkey)
        wanted = (bench.tester.qpn, bench.tester.region_va, bench.tester.rkey)
        bench.check(found == wanted, f"QPN, VA and R_Key {wanted}", f"they are {found}")
    bench.sack(1, to=writes[1])
    bench.sack(2, to=bench.expect("WRITE", psn=2))
    bench.wait(us(10))
    for wr_id in immediates:
        bench.expect_completion("WRITE", wr_id=wr_id)
    bench.post_write(pattern(200 * 512))
    bench.wait(us(100))
    writes = bench.read("WRITE")
    bench.check(len(writes) == 128, "128 PSNs, as granted", f"{len(writes)} packets came")
    bench.check(writes[0].length == 512, "payload of 512 bytes, the path MTU", f"it is {writes[0].length}")
    bench.request(0, pattern(512), ackreq=1)
    bench.expect("SACK", ack_psn=0, psn=0, dqp=bench.tester.qpn)
    bench.expect_memory(0, pattern(512))


@case("MRC-QP-04/silent", connections=2, look_at="whether anything is asked or told in-band when a QP comes up")
def nothing_is_told_in_band(bench: Bench) -> None:
    """Two connections come up without a packet of any connection's: no request, probe or answer until somebody writes.
    EV probes, which belong to nodes, may pass. The first packet of either side may be data."""
    other = bench.another()
    for each in (bench, other):
        each.expect_silence(ms(10))
    other.request(0, pattern(16), ackreq=1)
    other.expect("SACK", ack_psn=0, cack_psn=0)
    bench.written(0, pattern(16), payload=pattern(16))


@case("MRC-QP-04/capabilities", without=[TRIM_NACK], look_at="whether a capability is used that the peer did not tell")
def what_the_peer_cannot_is_not_asked_of_it(bench: Bench) -> None:
    """The tester has told none of the three capabilities: data goes as DSCP_NO_TRIM, a trimmed packet is not answered,
    and the mpr of SACKs is 0."""
    bench.written(0, pattern(16), dscp=bench.profile.dscp_no_trim)
    bench.send(bench.make.request(0, pattern(64)).trimmed())
    bench.expect_no("NACK")
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, mpr=0)


@case("MRC-QP-05", look_at="how many PSNs the target's responder takes at least: 1024")
def at_least_1024_psns_are_taken(bench: Bench) -> None:
    """The target grants an MPR of 8 or more. PSN 0 is missing: PSN 1 to 1023 are taken, none is refused, and when PSN
    0 comes cack_psn is 1023."""
    granted = bench.target.mpr
    bench.check(granted >= LEAST_MPR, f"an MPR of at least {LEAST_MPR}", f"it is {granted}")
    last = 128 * LEAST_MPR - 1
    for first in range(1, last + 1, 93):
        bench.send(*(bench.make.request(psn, pattern(4, psn), offset=4 * psn) for psn in range(first, first + 93)))
        bench.wait(us(1))
    bench.request(0, pattern(4, 0), ackreq=1)
    bench.expect("SACK", ack_psn=0, cack_psn=last)
    bench.expect_memory(0, b"".join(pattern(4, psn) for psn in range(last + 1)))
    bench.expect_no("NACK", within=us(10))


@case("MRC-QP-05/immediates", look_at="how many writes with immediate may be in flight at least: 32")
def at_least_32_writes_with_immediate_are_taken(bench: Bench) -> None:
    """The target grants 32 writes with immediate or more. PSN 0 is missing: 31 above it wait, and when it comes as the
    32nd all are delivered, in order."""
    granted = bench.target.max_wimm
    bench.check(granted >= LEAST_IMMEDIATES, f"{LEAST_IMMEDIATES} writes with immediate", f"{granted} are granted")
    ids = bench.post_receives(LEAST_IMMEDIATES)
    for number in [*range(1, LEAST_IMMEDIATES), 0]:
        bench.request(number, immediate=500 + number, rqmsn=number)
    bench.expect("ACK", psn=LEAST_IMMEDIATES - 1)
    for number, wr_id in enumerate(ids):
        bench.expect_completion("RECEIVE", wr_id=wr_id, immediate=500 + number)


@case("MRC-QP-06", mpr=1, look_at="whether what is outstanding in one direction holds up the other")
def a_requestor_that_waits_holds_up_no_responder(bench: Bench) -> None:
    """The target has 128 packets in flight and nobody acknowledges them. Writes to it are taken and acknowledged at
    once, whatever its own requestor does meanwhile."""
    bench.post_write(pattern(300 * bench.mtu))
    bench.wait(us(100))
    for psn in range(40):
        bench.request(psn, pattern(16), offset=16 * psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=psn, within=us(10))
    bench.expect_memory(0, 40 * pattern(16))


@case("MRC-QP-06/hole", look_at="whether a hole in one direction holds up the other")
def a_responder_that_waits_holds_up_no_requestor(bench: Bench) -> None:
    """PSN 0 of the tester is missing, PSN 1 to 99 are there. The target's writes leave, and complete when they are
    acknowledged, under PSNs of their own."""
    for first in range(1, 100, 33):
        bench.send(*(bench.make.request(psn) for psn in range(first, first + 33)))
    for number in range(20):
        wr_id = bench.post_write(pattern(16))
        bench.sack(number, to=bench.expect("WRITE", psn=number, within=us(10)))
        bench.wait(us(10))
        bench.expect_completion("WRITE", wr_id=wr_id)
    bench.expect_no("ACK", within=us(10))


@case("MRC-QP-06/numbers", look_at="whether the PSNs of one direction move the other")
def acknowledgements_of_one_direction_are_none_of_the_other(bench: Bench) -> None:
    """The target's write, PSN 0, is outstanding while PSN 0 to 9 come from the tester: it does not complete, and each
    SACK counts the tester's PSNs. Its acknowledgement then moves no cack_psn of the tester's."""
    wr_id = bench.post_write(pattern(16))
    write = bench.expect("WRITE", psn=0)
    for psn in range(10):
        bench.request(psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=psn)
    bench.expect_no_completion()
    bench.sack(0, to=write)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=wr_id)
    bench.probe(5)
    bench.expect("SACK", probe_id=5, cack_psn=9)
