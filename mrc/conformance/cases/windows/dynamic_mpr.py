# SPDX-License-Identifier: BSD-2-Clause
"""Dynamic MPR: what a responder tells of its window, and how a requestor follows (behaviour.md, Responder)."""

from __future__ import annotations

from mrc.conformance.script import DYNAMIC_MPR, Bench, Heard, case, pattern, us, wire

UNIT = 128


def _writes(bench: Bench, count: int) -> None:
    """The target is given so many writes of one packet."""
    for number in range(count):
        bench.post_write(pattern(8, number))


def _leave(bench: Bench, first: int, edge: int) -> list[Heard]:
    """See that the target's writes leave from PSN `first` on, and none from `edge` on."""
    bench.wait(us(100))
    # On a real network the planes overtake each other.
    found = sorted((packet for packet in bench.read("WRITE") if not packet.rtx), key=lambda write: write.psn)
    psns = [packet.psn for packet in found]
    told = f"PSNs {psns[0]} to {psns[-1]}" if psns else "nothing"
    bench.check(psns == list(range(first, edge)), f"new writes with PSNs {first} to {edge - 1}", f"{told} left")
    return found


@case("MRC-MPR-05", agreed=[DYNAMIC_MPR], mpr=2, look_at="what a smaller mpr does to an edge that was granted")
def a_window_that_shrinks_is_followed(bench: Bench) -> None:
    """The tester granted PSNs up to 255. When 100 writes are out a SACK says mpr 1 with cack_psn 9, an edge of 138: the
    target goes on up to 137 and waits. With cack_psn 99 and mpr 1 it goes on up to 227."""
    _writes(bench, 100)
    writes = _leave(bench, 0, 100)
    bench.sack(9, to=writes[9], mpr=1)
    _writes(bench, 200)
    _leave(bench, 100, 10 + UNIT)
    bench.sack(99, to=writes[99], mpr=1)
    _leave(bench, 10 + UNIT, 100 + UNIT)


@case("MRC-MPR-06", agreed=[DYNAMIC_MPR], mpr=1, look_at="what a SACK that was overtaken does to the edge")
def a_sack_that_was_overtaken_moves_no_edge(bench: Bench) -> None:
    """A SACK with mpr 2 and behind it an older one, which it overtook, with mpr 1: the edge of the first counts. So it
    does when the older one says 3, which is more."""
    _writes(bench, 20)
    writes = _leave(bench, 0, 20)
    bench.send(bench.make.sack(9, to=writes[9], mpr=2), bench.make.sack(4, to=writes[4], mpr=1))
    _writes(bench, 400)
    _leave(bench, 20, 10 + 2 * UNIT)
    bench.sack(5, to=writes[5], mpr=3)
    bench.wait(us(100))
    bench.check(not [each for each in bench.read("WRITE") if not each.rtx], "nothing new", "something left")


@case(
    "MRC-MPR-02",
    agreed=[DYNAMIC_MPR],
    options={"mpr_dest": 2},
    look_at="whether a smaller grant takes back what was advertised",
)
def every_edge_told_is_honoured(bench: Bench) -> None:
    """The target granted PSNs up to 255, then grants 128 from now on: what it tells does not take the edge back, and
    PSN 255 is still taken. What lies beyond the edge told is refused."""
    bench.ask(lambda: bench.qp.set_mpr(1))
    bench.request(0, ackreq=1)
    sack = bench.expect("SACK", ack_psn=0, cack_psn=0)
    edge = 1 + sack.mpr * UNIT
    bench.check(edge >= 2 * UNIT, f"an edge of at least {2 * UNIT}", f"mpr {sack.mpr} says {edge}")
    for psn in (2 * UNIT - 1, edge - 1):
        bench.request(psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=0)
    bench.request(edge)
    bench.expect("NACK", nack_psn=edge, reason=wire.PSN_OOR_WINDOW)


@case("MRC-MPR-03", agreed=[DYNAMIC_MPR], mpr=1, look_at="what an mpr of 0 is taken for")
def an_mpr_of_zero_does_not_close_the_window(bench: Bench) -> None:
    """SACKs with mpr 0: the window is the one agreed on beforehand, 128 PSNs beyond cack_psn."""
    _writes(bench, 300)
    writes = _leave(bench, 0, UNIT)
    bench.sack(9, to=writes[9], mpr=0)
    writes += _leave(bench, UNIT, 10 + UNIT)
    bench.sack(UNIT + 9, to=writes[UNIT + 9], mpr=0)
    _leave(bench, 10 + UNIT, 10 + 2 * UNIT)


@case("MRC-MPR-04", agreed=[DYNAMIC_MPR], mpr=1, look_at="whether the mpr of a SACK moves the requestor's edge")
def a_requestor_follows_the_window(bench: Bench) -> None:
    """128 writes leave; a SACK for the first with mpr 2 lets PSNs up to 256 out."""
    _writes(bench, 300)
    writes = _leave(bench, 0, UNIT)
    bench.sack(0, to=writes[0], mpr=2)
    _leave(bench, UNIT, 1 + 2 * UNIT)


@case(
    "MRC-MPR-04/advertised",
    agreed=[DYNAMIC_MPR],
    options={"mpr_dest": 2},
    look_at="whether the mpr of a SACK is the window of now, and whether that window is kept",
)
def a_responder_tells_its_window(bench: Bench) -> None:
    """The target grants 2 units: mpr is 2. It grants 5: mpr is 5, and the last PSN of that window is taken, the one
    behind it refused."""
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, mpr=2)
    bench.ask(lambda: bench.qp.set_mpr(5))
    bench.request(1, ackreq=1)
    bench.expect("SACK", ack_psn=1, mpr=5)
    bench.request(1 + 5 * UNIT, ackreq=1)
    bench.expect("SACK", ack_psn=1 + 5 * UNIT, cack_psn=1)
    bench.request(2 + 5 * UNIT)
    bench.expect("NACK", nack_psn=2 + 5 * UNIT, reason=wire.PSN_OOR_WINDOW)


@case("MRC-MPR-04/not-agreed", without=[DYNAMIC_MPR], mpr=1, look_at="mpr of a SACK where MPR is not dynamic")
def without_agreement_mpr_says_nothing(bench: Bench) -> None:
    """Where dynamic MPR is not agreed, a SACK with mpr 4 lets out what it acknowledges, and no more."""
    _writes(bench, 300)
    writes = _leave(bench, 0, UNIT)
    bench.sack(0, to=writes[0], mpr=4)
    _leave(bench, UNIT, 1 + UNIT)
