# SPDX-License-Identifier: BSD-2-Clause
"""Which EV a packet gets: rotation, reserve and planes (behaviour.md, Paths)."""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import Sending, loads, uses
from mrc.conformance.script import Bench, Heard, case, ms, pattern, us

RESERVE = {"evs_per_plane": 8, "active_count": 4}


def _expect_equal_loads(bench: Bench, writes: list[Heard]) -> None:
    """See that all planes carry as much as each other, to a few packets."""
    by_plane, planes = loads(writes), len(bench.planes)
    least, most = min(by_plane.values()), max(by_plane.values())
    equal = len(by_plane) == planes and most - least <= 8
    bench.check(equal, f"{planes} planes equally loaded", f"by plane: {dict(sorted(by_plane.items()))}")


def _expect_others_used(bench: Bench, sending: Sending) -> None:
    """See that data goes by all planes but plane 0, and none by that."""
    by_plane, others = loads(sending.carry(64)), {plane.number for plane in bench.planes[1:]}
    told = f"by plane: {dict(sorted(by_plane.items()))}"
    bench.check(set(by_plane) == others, f"all packets on {', '.join(f'plane {each}' for each in others)}", told)


@case(
    "MRC-PATH-01",
    connections=4,
    planes=2,
    options=RESERVE,
    look_at="how many EVs of each plane are active, and how they are picked",
)
def the_active_set_is_a_random_subset(bench: Bench) -> None:
    """Of 8 EVs of each plane four are to be active: over 64 packets as many of each plane are used, two of each where
    there are two. Four connections do not all have the same ones."""
    benches = [bench, *(bench.another() for _ in range(3))]
    subsets = set()
    for each in benches:
        sending = Sending(each)
        used = set(uses(sending.carry(64)))
        by_plane = [len(used & set(sending.of_plane(plane.number))) for plane in bench.planes]
        equal = sum(by_plane) == RESERVE["active_count"] and max(by_plane) - min(by_plane) <= 1
        bench.check(equal, "4 EVs used, as many of each plane", f"of each plane: {by_plane}")
        subsets.add(frozenset(used))
    bench.check(len(subsets) > 1, "active sets that differ between connections", "all are the same")


@case("MRC-PATH-03", mode="srv6", look_at="whether every EV is a path of its own and all of them carry data")
def every_path_is_in_use(bench: Bench) -> None:
    """In SRv6 mode every EV of the profile carries data, and each goes to an outer destination of its own."""
    bench.needs_outer_as_sent()
    sending = Sending(bench)
    writes = sending.carry(32 * len(sending.evs))
    bench.check(set(uses(writes)) == set(sending.evs), "every EV used", f"{len(uses(writes))} are")
    if bench.slack:
        bench.network.unchecked["outer destinations, of which a network leaves the last part"] = None
        return
    paths = {write.carriage.outer.dst for write in writes if write.carriage.outer is not None}
    bench.check(len(paths) == len(sending.evs), f"{len(sending.evs)} outer destinations", f"there are {len(paths)}")


@case("MRC-PATH-15", look_at="what happens when the rotation comes round without a GOOD EV")
def with_all_in_skip_packets_still_go(bench: Bench) -> None:
    """All EVs are in SKIP. A packet leaves all the same, at once, by the one EV that it has taken back to GOOD."""
    sending = Sending(bench)
    sending.acknowledge(sending.send(64), dict.fromkeys(sending.evs, 1))
    skipped = [ev for ev, state in sending.states().items() if state == "SKIP"]
    bench.check(len(skipped) == len(sending.evs), "all EVs in SKIP", f"{len(skipped)} are")
    (write,) = sending.send(1)
    good = [ev for ev, state in sending.states().items() if state == "GOOD"]
    bench.check(good == [write.ev], f"EV {write.ev:#010x} alone GOOD", f"GOOD: {', '.join(map(hex, good))}")


@case("MRC-PATH-16", target_evs=2, look_at="what goes on while no EV is usable")
def without_a_usable_ev_probes_go_on(bench: Bench) -> None:
    """One EV is in ASSUMED_BAD, all others are denied: what is posted then waits, probes go on. Three answers, and it
    leaves by that EV."""
    sending = Sending(bench, carried=32)
    ev = sending.evs[0]
    sending.condemn(ev)
    bench.deny(*sending.evs[1:])
    bench.read()
    bench.post_write(pattern(16))
    bench.expect_no("WRITE", within=us(500))
    for _ in range(20):
        probe = bench.expect("PROBE", within=ms(20))
        if probe.ev == ev:
            bench.sack(sending.cack, to=probe)
            if bench.ev_state(ev) == "GOOD":
                break
    bench.expect("WRITE", psn=sending.cack + 1, ev=ev)


@case(
    "MRC-PATH-16/budget",
    options={"timeout": 17, "linear_retries": 2, "exponential_retries": 0},
    look_at="what ends a connection that has no usable EV, and when: the budget of local ACK timeouts",
)
def without_a_usable_ev_the_budget_decides(bench: Bench) -> None:
    """All EVs are denied. What is posted never leaves; after three local ACK timeouts of 134 ms, to 2 % (live: to a
    quarter), and not sooner the QP is in ERROR and the write has failed."""
    sending = Sending(bench, carried=32)
    bench.expect_completion("WRITE")
    bench.deny(*sending.evs)
    began, budget = bench.now, 3 * (1024 << 17)
    near = budget // 4 if bench.slack else budget // 50
    wr_id = bench.post_write(pattern(16))
    bench.wait_until(began + budget - near)
    bench.expect_state("RTS")
    bench.expect_no_completion()
    bench.wait_until(began + budget + near)
    bench.expect_completion("WRITE", wr_id=wr_id, status="RETRY_EXCEEDED")
    bench.expect_state("ERROR")
    bench.expect_no("WRITE", within=us(1))


@case(
    "MRC-PATH-17",
    planes=2,
    look_at="what losses of packets that were in flight when their plane went down do to its EVs",
)
def what_goes_down_together_is_one_event(bench: Bench) -> None:
    """The link of plane 0 goes down with 16 packets in flight on it and comes back. Then a SACK shows that they are
    lost: they went down with the link, and none of their EVs is ASSUMED_BAD."""
    sending = Sending(bench, carried=32)
    writes = sending.send(32)
    bench.set_port(0, False)
    bench.wait(us(20))
    later = sending.send(8)
    bench.set_port(0, True)
    arrived = [write.psn for write in (*writes, *later) if write.plane != 0]
    gone = [write.psn for write in writes if write.plane == 0]
    bench.check(bool(gone), "packets in flight on plane 0", "there are none")
    first = gone[0]
    plane = bench.planes[1].number
    bench.sack(first - 1, [psn for psn in arrived if psn > first], to=later[-1], plane=plane)
    for psn in gone:
        bench.expect("WRITE", psn=psn, rtx=1)
    bad = [ev for ev, state in sending.states().items() if state == "ASSUMED_BAD"]
    bench.check(not bad, "no EV in ASSUMED_BAD", f"there are {len(bad)}")


@case(
    "MRC-PATH-20", options=RESERVE, look_at="where a restored EV goes when its plane has all the active EVs it should"
)
def a_restored_ev_becomes_reserve(bench: Bench) -> None:
    """Two of eight EVs of each plane are active. One goes bad and is replaced; restored it is GOOD and carries
    nothing."""
    sending = Sending(bench)
    ev = sending.send(1)[0].ev
    sending.condemn(ev)
    bench.read()
    sending.answer_probes(ev)
    sending.expect_ev(ev, "GOOD")
    sending.expect_unused(ev, 256)


@case("MRC-PATH-20/short", target_evs=2, look_at="where a restored EV goes when its plane is short of active EVs")
def a_restored_ev_rejoins(bench: Bench) -> None:
    """All EVs are active. One goes bad, nothing replaces it; restored it carries data again."""
    sending = Sending(bench)
    ev = sending.evs[0]
    sending.carry(32)
    sending.condemn(ev)
    sending.expect_unused(ev)
    sending.answer_probes(ev)
    sending.expect_used(ev)


@case("MRC-PATH-21", options={"ev_min_active": 4096}, look_at="what becomes of an EV that cannot be spared")
def an_ev_that_cannot_be_spared_is_skipped(bench: Bench) -> None:
    """More EVs are needed than there are: m=2 takes one to SKIP, and it is used again."""
    sending = Sending(bench, carried=32)
    ev = sending.evs[0]
    sending.condemn(ev)
    sending.expect_ev(ev, "SKIP")
    sending.expect_used(ev)


def _left_over(bench: Bench, sending: Sending, evs: list[int]) -> int:
    """How many of these EVs are still used when there was an m=2 for each."""
    for ev in evs:
        sending.condemn(ev)
    bad = list(sending.states().values()).count("ASSUMED_BAD")
    return len(evs) - bad


@case("MRC-PATH-22", options={"evs_per_plane": 5}, look_at="how many EVs a QP keeps: a quarter, rounded up")
def a_quarter_of_the_profile_stays(bench: Bench) -> None:
    """The profile has two planes of five EVs. There is an m=2 for each: three stay usable, and packets still go."""
    sending = Sending(bench, carried=32)
    left = _left_over(bench, sending, sending.evs)
    wanted = -(-len(sending.evs) // 4)
    bench.check(left == wanted, f"{wanted} of {len(sending.evs)} EVs usable", f"{left} are")
    sending.carry(8)


@case(
    "MRC-PATH-22/port-down",
    planes=2,
    look_at="whether EVs of a port that is down are counted among those that are left",
)
def evs_of_a_port_that_is_down_do_not_count(bench: Bench) -> None:
    """The ports of all planes but plane 0 are down. There is an m=2 for each EV of plane 0: not all of them go bad,
    although the other planes have EVs that are GOOD."""
    sending = Sending(bench, carried=32)
    for plane in bench.planes[1:]:
        bench.set_port(plane.number, False)
    left = _left_over(bench, sending, sending.of_plane(0))
    bench.check(left >= 1, "at least 1 EV of plane 0 usable", f"{left} are")
    sending.carry(8)


@case("MRC-PATH-23", planes=2, options=RESERVE, look_at="which EV takes the place of a bad one")
def a_bad_ev_is_replaced_in_its_plane(bench: Bench) -> None:
    """Two of eight EVs of each plane are active; one goes bad: another of the same plane carries data
    instead of it, and the planes stay equally loaded."""
    sending = Sending(bench)
    before = set(uses(sending.carry(256)))
    ev = min(before)
    sending.condemn(ev)
    writes = sending.expect_unused(ev, 256)
    fresh = [each for each in uses(writes) if each not in before]
    planes = [sending.plane_of(each) for each in fresh]
    bench.check(planes == [sending.plane_of(ev)], f"one new EV, of plane {sending.plane_of(ev)}", f"planes {planes}")
    _expect_equal_loads(bench, writes)


@case("MRC-PATH-24", planes=2, plane_evs=2, look_at="who carries the share of a bad EV when there is no reserve")
def its_plane_carries_a_bad_evs_share(bench: Bench) -> None:
    """All EVs are active and one goes bad: the planes stay equally loaded, although one has an EV less."""
    sending = Sending(bench, carried=32)
    sending.condemn(sending.evs[0])
    _expect_equal_loads(bench, sending.expect_unused(sending.evs[0], 256))


@case(
    "MRC-PATH-25",
    planes=2,
    look_at="where packets go when a plane has no usable EV, and from when on it has its share again",
)
def a_dead_planes_share_goes_to_the_others(bench: Bench) -> None:
    """All EVs of plane 0 go bad: the other planes carry everything, and nothing waits. One of them is restored: plane 0
    carries data again."""
    sending = Sending(bench, carried=32)
    dead = sending.of_plane(0)
    sending.condemn(*dead)
    _expect_others_used(bench, sending)
    bench.read()
    for _ in range(40):
        probe = bench.expect("PROBE", within=ms(300))
        if probe.ev == dead[0]:
            bench.sack(sending.cack, to=probe)
        if bench.ev_state(dead[0]) == "GOOD":
            break
    sending.expect_used(dead[0])


@case("MRC-PATH-26", planes=4, look_at="how many packets each plane gets")
def planes_are_equally_loaded(bench: Bench) -> None:
    """Of 512 packets over four planes or more each carries as many, give or take a few."""
    _expect_equal_loads(bench, Sending(bench).carry(512))


@case(
    "MRC-PATH-27",
    connections=2,
    target_evs=2,
    look_at="whether the order of EVs repeats itself, or is the same for two QPs",
)
def orders_are_shuffled_and_differ(bench: Bench) -> None:
    """Over 512 packets the order of EVs is not that of one short cycle over and over, and another QP has another."""
    orders = []
    for each in (bench, bench.another()):
        order = [write.ev for write in Sending(each).carry(512)]
        cycles = [length for length in range(1, 129) if order[length:] == order[:-length]]
        bench.check(not cycles, "an order of EVs that is reshuffled", f"it repeats itself after {cycles[:1]} packets")
        orders.append(order)
    bench.check(orders[0] != orders[1], "two QPs with orders of their own", "they are the same")


@case("MRC-PATH-28", planes=2, look_at="when a packet gets its EV, and whether room at the port matters")
def packets_avoid_a_port_without_room(bench: Bench) -> None:
    """The port of plane 0 has no room: all packets go by the other planes. It has room again, and its share of them."""
    sending = Sending(bench)
    bench.set_port_room(0, False)
    _expect_others_used(bench, sending)
    bench.set_port_room(0, True)
    _expect_equal_loads(bench, sending.carry(128))


@case("MRC-PATH-28/send-time", target_evs=2, mpr=1, look_at="whether a packet that waits has got its EV already")
def evs_are_picked_at_send_time(bench: Bench) -> None:
    """200 packets are posted, the window lets 128 out. Then an EV is denied: none of the other 72 goes by it."""
    sending = Sending(bench)
    bench.post_write(pattern(200 * bench.mtu))
    bench.wait(us(10))
    first = bench.read("WRITE")
    bench.check(0 < len(first) <= 128, "at most 128 packets within the window", f"there are {len(first)}")
    ev = sending.evs[0]
    bench.deny(ev)
    seen = len(first)
    while seen < 200:
        bench.sack(seen - 1, to=first[-1], ack_psn=seen - 1)
        bench.wait(us(10))
        first = bench.read("WRITE")
        bench.check(bool(first), "further packets", "there are none")
        bench.check(not uses(first)[ev], "no packet by the denied EV", f"{uses(first)[ev]} went by it")
        seen += len(first)
