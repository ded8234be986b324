# SPDX-License-Identifier: BSD-2-Clause
"""The life of an EV as the table of behaviour.md, Paths, has it, but for what probes do."""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import RTT, Sending
from mrc.conformance.script import TRIM_NACK, Bench, case, ms, other_than, us, wire


@case("MRC-PATH-04", target_evs=2, look_at="what m=1 does to the EV that the SACK names, and to that one alone")
def a_mark_skips_its_ev(bench: Bench) -> None:
    """A SACK with m=1 takes its EV to SKIP and leaves all others GOOD. It comes back: packets go by it later."""
    sending = Sending(bench)
    ev = sending.evs[1]
    sending.carry(32)
    sending.carry_on(ev, 1)
    sending.expect_ev(ev, "SKIP")
    others = {each: state for each, state in sending.states().items() if each != ev and state != "GOOD"}
    bench.check(not others, "all other EVs GOOD", f"there are {others}")
    sending.expect_used(ev)


@case("MRC-PATH-05", plane_evs=2, agreed=[TRIM_NACK], look_at="what a NACK TRIMMED says of the path it names")
def a_trimmed_packet_skips_its_ev(bench: Bench) -> None:
    """A NACK TRIMMED takes its EV to SKIP. No port has room then, so that the rotation passes nothing before the
    script looks. The path was full and is not broken: no probe tests it."""
    sending = Sending(bench, carried=4)
    (write,) = sending.send(1)
    for plane in bench.planes:
        bench.set_port_room(plane.number, False)
    bench.nack(write, wire.TRIMMED)
    sending.expect_ev(write.ev, "SKIP")
    for plane in bench.planes:
        bench.set_port_room(plane.number, True)
    again = bench.expect("WRITE", psn=write.psn, rtx=1, ev=other_than(write.ev))
    sending.acknowledge([again])
    bench.expect_no("PROBE", within=ms(20))


@case("MRC-PATH-05/lasthop", agreed=[TRIM_NACK], look_at="which NACKs speak of a path: TRIMMED alone does")
def other_nacks_leave_the_ev(bench: Bench) -> None:
    """TRIMMED_LASTHOP and the resource NACKs say nothing about the path: its EV stays GOOD."""
    sending = Sending(bench, carried=4)
    for reason in (wire.TRIMMED_LASTHOP, wire.NO_BITMAP, wire.NO_PKT_BUFFER, wire.NO_RESOURCE):
        (write,) = sending.send(1)
        bench.nack(write, reason)
        sending.expect_ev(write.ev, "GOOD")
        sending.acknowledge([bench.expect("WRITE", psn=write.psn, rtx=1, within=ms(200))])


@case("MRC-PATH-06", target_evs=2, look_at="what m=2 does to an EV that is GOOD")
def always_skip_condemns(bench: Bench) -> None:
    """A SACK with m=2 takes its EV from GOOD to ASSUMED_BAD: no data goes by it, a probe does."""
    sending = Sending(bench)
    ev = sending.evs[1]
    sending.carry(32)
    sending.condemn(ev)
    sending.expect_ev(ev, "ASSUMED_BAD")
    sending.expect_unused(ev)
    bench.expect("PROBE", ev=ev, within=ms(20))


@case("MRC-PATH-06/skip", target_evs=2, look_at="what m=2 does to an EV that is in SKIP")
def always_skip_condemns_from_skip(bench: Bench) -> None:
    """A SACK with m=2 takes its EV from SKIP to ASSUMED_BAD: of two packets on it the first is answered with m=1, the
    second with m=2."""
    sending = Sending(bench)
    writes = sending.send(32)
    ev = writes[0].ev
    first, second = bench.first(2, (write for write in writes if write.ev == ev), "packets by one EV")
    sending.acknowledge([first], {ev: 1})
    sending.expect_ev(ev, "SKIP")
    sending.acknowledge([second], {ev: 2})
    sending.expect_ev(ev, "ASSUMED_BAD")
    sending.acknowledge(writes[-1:])
    sending.expect_unused(ev)


@case("MRC-PATH-07", target_evs=2, look_at="what a hole in a SACK does to the EV the missing packet went by")
def a_hole_condemns_its_ev(bench: Bench) -> None:
    """A packet is lost, as the SACK of eight shows that were sent later. One loss is enough: its EV is ASSUMED_BAD.
    The other EVs stay GOOD, and the retransmission goes by one of them."""
    sending = Sending(bench, carried=32)
    cack = sending.cack
    (lost,) = sending.send(1)
    bench.wait(RTT)
    arrived = sending.send(8)
    bench.sack(cack, [write.psn for write in arrived], to=arrived[-1])
    again = bench.expect("WRITE", psn=lost.psn, rtx=1, ev=other_than(lost.ev))
    sending.expect_ev(lost.ev, "ASSUMED_BAD")
    bad = [ev for ev, state in sending.states().items() if state == "ASSUMED_BAD"]
    bench.check(bad == [lost.ev], "one EV in ASSUMED_BAD", f"there are {len(bad)}")
    bench.sack(arrived[-1].psn, to=again)


@case("MRC-PATH-07/skip", target_evs=2, look_at="what a loss does to an EV that is in SKIP")
def a_hole_condemns_from_skip(bench: Bench) -> None:
    """The EV of the lost packet is in SKIP, by the mark of one that arrived on it: the loss condemns it all
    the same."""
    sending = Sending(bench, carried=32)
    writes = sending.send(32)
    marked = writes[0]
    (lost,) = bench.first(1, (write for write in writes[1:] if write.ev == marked.ev), "more packets by its EV")
    bench.wait(RTT)
    later = sending.send(8)
    sending.acknowledge([marked], {marked.ev: 1})
    sending.expect_ev(marked.ev, "SKIP")
    above = [write.psn for write in (*writes, *later) if write.psn > lost.psn]
    bench.sack(lost.psn - 1, above, to=later[-1])
    bench.expect("WRITE", psn=lost.psn, rtx=1)
    sending.expect_ev(lost.ev, "ASSUMED_BAD")


@case("MRC-PATH-07/timer", target_evs=2, own_timers=True, look_at="what a path timer that runs out does to the EV")
def a_timer_condemns_its_ev(bench: Bench) -> None:
    """A single packet is never answered, and nothing behind it can tell: its path timer finds the loss, which condemns
    its EV as well, and the packet goes by another."""
    sending = Sending(bench, carried=32)
    (lost,) = sending.send(1)
    bench.expect("WRITE", psn=lost.psn, rtx=1, ev=other_than(lost.ev), within=ms(30))
    sending.expect_ev(lost.ev, "ASSUMED_BAD")


@case("MRC-PATH-08", target_evs=2, look_at="what the rotation does when it comes to an EV in SKIP")
def the_rotation_resets_a_skipped_ev(bench: Bench) -> None:
    """One EV after the other is taken to SKIP, then packets go out one by one: none goes by it while it is in SKIP, the
    one during which it becomes GOOD neither, and it is used again later."""
    sending = Sending(bench, carried=32)
    for ev in sending.evs:
        sending.carry_on(ev, 1)
        for _ in range(4 * len(sending.evs)):
            (write,) = sending.send(1)
            sending.acknowledge([write])
            what = "the EV taken by the packet for which another was reset"
            bench.check(write.ev != ev, f"{what} other than {ev:#010x}", "it is that one")
            if bench.ev_state(ev) == "GOOD":
                break
        sending.expect_ev(ev, "GOOD")
        sending.expect_used(ev)


@case("MRC-PATH-09", look_at="how many EVs in SKIP one packet resets on its way to a GOOD one")
def a_packet_resets_one_ev_at_most(bench: Bench) -> None:
    """All EVs but one are in SKIP. Each packet takes one of them at most back to GOOD."""
    sending = Sending(bench)
    writes = sending.send(32)
    skipped = sending.evs[1:]
    sending.acknowledge(writes, dict.fromkeys(skipped, 1))
    left = _skipped(sending)
    bench.check(left == len(skipped), f"{len(skipped)} EVs in SKIP", f"there are {left}")
    for _ in range(8 * len(skipped)):
        sending.acknowledge(sending.send(1))
        now = _skipped(sending)
        bench.check(now >= left - 1, "at most one EV reset by a packet", f"{left - now} were")
        left = now
    bench.check(left == 0, "no EV in SKIP after some rotations", f"there are {left}")


def _skipped(sending: Sending) -> int:
    return list(sending.states().values()).count("SKIP")


@case("MRC-PATH-10", look_at="what a second mark does to an EV that is in SKIP already")
def a_mark_in_skip_is_ignored(bench: Bench) -> None:
    """Four packets that went by one EV come back with m=1 each: it is in SKIP, and not deeper in it than by one mark.
    As soon as the rotation has passed it once it is GOOD."""
    sending = Sending(bench)
    writes = sending.send(32)
    ev = writes[0].ev
    sending.acknowledge(writes, {ev: 1})
    sending.expect_ev(ev, "SKIP")
    sending.carry(2 * len(sending.evs))
    sending.expect_ev(ev, "GOOD")


@case("MRC-PATH-10/trimmed", agreed=[TRIM_NACK], look_at="what a NACK TRIMMED does to an EV that is in SKIP already")
def a_trim_in_skip_is_ignored(bench: Bench) -> None:
    """Of packets that went by one EV one comes back with m=1, another is trimmed: the EV stays in SKIP until the
    rotation has passed it."""
    sending = Sending(bench)
    writes = sending.send(32)
    ev = writes[0].ev
    first, second = bench.first(2, (write for write in writes if write.ev == ev), "packets by one EV")
    sending.acknowledge([first], {ev: 1})
    for plane in bench.planes:
        bench.set_port_room(plane.number, False)
    bench.nack(second, wire.TRIMMED)
    sending.expect_ev(ev, "SKIP")


@case(
    "MRC-PATH-13",
    target_evs=2,
    look_at="what becomes of the EV when the packet that was taken for lost has come after all",
)
def a_spurious_loss_is_undone(bench: Bench) -> None:
    """A hole condemns an EV, the packet is sent again; then the SACK of its first transmission comes, with rtx 0. The
    EV is GOOD again at once and carries data."""
    sending = Sending(bench, carried=32)
    cack = sending.cack
    (late,) = sending.send(1)
    bench.wait(RTT)
    arrived = sending.send(8)
    bench.sack(cack, [write.psn for write in arrived], to=arrived[-1])
    bench.expect("WRITE", psn=late.psn, rtx=1)
    sending.expect_ev(late.ev, "ASSUMED_BAD")
    bench.wait(us(2))
    sending.cack = arrived[-1].psn
    bench.sack(sending.cack, to=late)
    sending.expect_ev(late.ev, "GOOD")
    sending.expect_used(late.ev)


@case(
    "MRC-PATH-14",
    target_evs=4,
    look_at="what may carry a packet on an EV that a controller denied, and what brings it back",
)
def a_denied_ev_stays_denied(bench: Bench) -> None:
    """EVs in GOOD, SKIP and ASSUMED_BAD are denied: neither data nor probes go by them for a second, a link that goes
    down and comes back changes nothing. Allowed again each carries data."""
    sending = Sending(bench, carried=32)
    good, skipped, bad = sending.evs[:3]
    sending.condemn(bad)
    sending.carry_on(skipped, 1)
    for ev, state in ((good, "GOOD"), (skipped, "SKIP"), (bad, "ASSUMED_BAD")):
        sending.expect_ev(ev, state)
        bench.deny(ev)
        sending.expect_ev(ev, "DENIED")
    denied = (good, skipped, bad)
    for _ in range(10):
        sending.carry(32)
        bench.wait(ms(100))
    bench.ask_if_it_can("ports", lambda: bench.network.session.set_port(0, False))
    bench.ask_if_it_can("ports", lambda: bench.network.session.set_port(0, True))
    sending.carry(32)
    for ev in denied:
        sending.expect_ev(ev, "DENIED")
    _nothing_by(bench, denied)
    for ev in denied:
        bench.ask(lambda ev=ev: bench.qp.allow_ev(ev))  # type: ignore[misc]
        sending.expect_used(ev)


def _nothing_by(bench: Bench, evs: tuple[int, ...]) -> None:
    """See that of this QP's packets none came by any of these EVs lately. Endpoint operations are no QP's."""
    lately = [packet for packet in bench.all_heard if packet.at > bench.now - ms(900)]
    found = [packet for packet in lately if packet.ev in evs and not packet.kind.startswith("ENDPOINT")]
    bench.check(not found, "nothing by an EV that is denied", f"{found[0]}" if found else "")
