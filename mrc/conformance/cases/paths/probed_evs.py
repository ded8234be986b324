# SPDX-License-Identifier: BSD-2-Clause
"""On which EV a probe goes that tests a path (behaviour.md, Paths, Reliability probe)."""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import Sending
from mrc.conformance.script import Bench, case, ms


@case("MRC-PROBE-04", plane_evs=2, look_at="on which EV a probe leaves that tests a path: the one it tests")
def a_path_is_tested_on_itself(bench: Bench) -> None:
    """An EV of each of the first two planes is assumed bad. All probes of the next 200 ms, none of which is answered,
    go by these, and each by the plane of its EV."""
    sending = Sending(bench, carried=32)
    bad = [plane.target_evs[1] for plane in bench.planes[:2]]
    sending.condemn(*bad)
    bench.read()
    bench.wait(ms(200))
    probes = bench.read("PROBE")
    found = {probe.ev for probe in probes}
    bench.check(
        found == set(bad), f"probes on EVs {[hex(ev) for ev in bad]}", f"they are on {[hex(ev) for ev in found]}"
    )
    for probe in probes:
        plane = sending.plane_of(probe.ev)
        bench.check(probe.plane == plane, f"a probe of plane {plane} there", f"{probe}")


@case("MRC-PROBE-04/follows", target_evs=2, look_at="on which EV the next probe leaves once one was answered")
def the_probes_that_follow_test_the_same_path(bench: Bench) -> None:
    """One EV is assumed bad. Its first probe is answered, marked, and so is the second: all three go by it, under
    three ids."""
    sending = Sending(bench, carried=32)
    ev = bench.planes[-1].target_evs[0]
    sending.condemn(ev)
    bench.read()
    ids = set()
    for _ in range(3):
        probe = bench.expect("PROBE", within=ms(50))
        bench.check(probe.ev == ev, f"a probe on EV {ev:#010x}", f"it is on {probe.ev:#010x}")
        ids.add(probe.probe_id)
        bench.sack(sending.cack, to=probe, m=1)
    bench.check(len(ids) == 3, "three probe_ids", f"they are {sorted(ids)}")
