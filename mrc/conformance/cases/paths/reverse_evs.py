# SPDX-License-Identifier: BSD-2-Clause
"""Which EVs control packets take: those known to work (behaviour.md, Reverse EVs)."""

from __future__ import annotations

from itertools import pairwise

from mrc.conformance.cases.paths.sending import Sending
from mrc.conformance.script import Bench, Heard, case, ms, wire


def _answers(bench: Bench, count: int) -> list[Heard]:
    """The target's SACKs of so many requests."""
    return [bench.expect_works(psn) for psn in range(count)]


@case(
    "MRC-PATH-29",
    plane_evs=2,
    look_at="which EVs control packets take, and whether each plane has one that is known good",
)
def control_packets_take_evs_known_good(bench: Bench) -> None:
    """Everything the target sends on one EV of each plane is answered, what it sends on others is lost, probes
    included. Then its SACKs of ours go by those EVs, and by each of them."""
    good = {plane.target_evs[1] for plane in bench.planes}
    bench.answer_after = None
    sending = Sending(bench)
    writes = sending.send(32)
    above = [write.psn for write in writes if write.ev in good]
    named = {write.ev: write for write in writes if write.ev in good}
    bench.wait(ms(2))
    for write in named.values():
        bench.sack(-1, above, to=write)
    sacks = _answers(bench, 16)
    bench.check({sack.ev for sack in sacks} == good, "the SACKs on the good EVs", _evs(sacks))


@case("MRC-PATH-30", plane_evs=2, look_at="what a SACK for data tells about the EV it names")
def sacks_teach_reverse_evs(bench: Bench) -> None:
    """Before anything is known control packets take any EV. The SACKs for data of the target's name one EV of each
    plane, and from then on they take these."""
    bench.needs_virtual_time("which EVs are known at the time: another 5 ms later may be")
    bench.answer_after = None
    before = _answers(bench, 32)
    several = len(bench.planes)
    bench.check(len({sack.ev for sack in before}) > several, f"SACKs on more than {several} EVs", _evs(before))
    sending = Sending(bench)
    writes = sending.send(32)
    taught = [
        bench.first(1, (write for write in writes if write.plane == plane.number), f"packet on plane {plane.number}")[0]
        for plane in bench.planes
    ]
    for write in taught:
        bench.sack(31, to=write)
    bench.wait(ms(20))
    bench.read()
    sacks = []
    for psn in range(32, 48):
        bench.request(psn, ackreq=1)
        sacks.append(bench.expect("SACK", ack_psn=psn))
    wanted = {write.ev for write in taught}
    bench.check({sack.ev for sack in sacks} == wanted, "SACKs on the EVs that SACKs named", _evs(sacks))


@case("MRC-PATH-31", target_evs=2, look_at="how often a node that only receives probes for EVs, and when it stops")
def a_receiver_learns_from_ev_probes(bench: Bench) -> None:
    """A request a millisecond arrives for 200 ms: EV probes come, 10 ms apart or more, on more than one EV. No request
    arrives for 200 ms: none comes but for one at the beginning."""
    for psn in range(200):
        bench.request(psn, at=ms(psn))
    bench.wait(ms(1))
    probes = [packet for packet in bench.read("ENDPOINT_REQUEST") if packet.op == wire.EV_PROBE]
    least = 8 if bench.slack else 15
    bench.check(least <= len(probes) <= 21, f"{least} to 21 EV probes within 200 ms", f"there are {len(probes)}")
    apart = min(later.at - sooner.at for sooner, later in pairwise(probes))
    if bench.slack:
        # One that was held up comes close to the next: then it is the whole row that tells.
        apart = min((probe.at - probes[0].at) // number for number, probe in enumerate(probes) if number > 2)
    bench.check(apart >= ms(8 if bench.slack else 10), "EV probes 10 ms apart or more", f"some come {apart} ns apart")
    bench.check(len({probe.ev for probe in probes}) > 1, "EV probes on several EVs", _evs(probes))
    bench.wait(ms(200))
    late = bench.read("ENDPOINT_REQUEST")
    bench.check(len(late) <= 1, "no EV probes while no data arrives", f"there are {len(late)}")


def _evs(packets: list[Heard]) -> str:
    return "they are on " + ", ".join(f"{ev:#010x}" for ev in sorted({packet.ev for packet in packets}))
