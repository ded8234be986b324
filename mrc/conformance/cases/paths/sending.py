# SPDX-License-Identifier: BSD-2-Clause
"""What the cases on paths are written with: the target sends, and each packet is answered with a SACK of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mrc.conformance.script import Bench, Heard, ms, pattern, us

_AT_ONCE = 32
RTT = us(10)
_UNMARKED: Mapping[int, int] = {}


class Sending:
    """The target's writes over one connection, which all arrive unless a script says otherwise. `cack` is the PSN up
    to which they have been acknowledged."""

    def __init__(self, bench: Bench, *, carried: int = 0) -> None:
        """So many packets have been carried at once."""
        self._bench = bench
        self.cack = -1
        self.carry(carried)

    @property
    def evs(self) -> list[int]:
        """The EVs of the target's profile."""
        return [ev for plane in self._bench.planes for ev in plane.target_evs]

    def plane_of(self, ev: int) -> int:
        found = next((plane.number for plane in self._bench.planes if ev in plane.target_evs), None)
        self._bench.check(found is not None, "an EV of the target's profile", f"EV {ev:#010x} is none")
        return -1 if found is None else found

    def of_plane(self, plane: int) -> list[int]:
        return [ev for ev in self.evs if self.plane_of(ev) == plane]

    def send(self, count: int) -> list[Heard]:
        """The target sends so many packets; nobody has answered them yet."""
        self._bench.post_write(pattern(count * self._bench.mtu))
        self._bench.wait(RTT)
        # On a real network the planes overtake each other.
        writes = sorted(self._bench.read("WRITE"), key=lambda write: write.psn)
        self._bench.check(len(writes) == count, f"{count} packets at once", f"{len(writes)} came")
        return writes

    def acknowledge(self, writes: Iterable[Heard], marks: Mapping[int, int] = _UNMARKED) -> None:
        """Everything up to each of these has arrived; `marks` is m by EV."""
        for write in writes:
            self.cack = write.psn
            self._bench.sack(self.cack, to=write, m=marks.get(write.ev, 0))

    def carry(self, count: int, marks: Mapping[int, int] = _UNMARKED) -> list[Heard]:
        """The target sends so many packets, some at once, and each is acknowledged."""
        carried: list[Heard] = []
        while len(carried) < count:
            writes = self.send(min(_AT_ONCE, count - len(carried)))
            self.acknowledge(writes, marks)
            carried += writes
        return carried

    def carry_on(self, ev: int, m: int = 0) -> None:
        """Packets, one by one, up to the first that goes by this EV, whose SACK has this m."""
        for _ in range(8 * len(self.evs)):
            (write,) = self.send(1)
            self.acknowledge([write], {ev: m})
            if write.ev == ev:
                return
        self._bench.check(False, f"EV {ev:#010x} to be used sooner or later", "it was not")

    def condemn(self, *evs: int) -> None:
        """SACKs with m=2 take these EVs to ASSUMED_BAD."""
        for ev in evs:
            self.carry_on(ev, 2)

    def answer_probes(self, ev: int, marks: Iterable[int] = (0, 0, 0)) -> None:
        """Answer the next probes of this EV, the only one in ASSUMED_BAD, with these m."""
        for m in marks:
            probe = self._bench.expect("PROBE", ev=ev, within=ms(300))
            self._bench.sack(self.cack, to=probe, m=m)

    def states(self) -> dict[int, str]:
        return dict(self._bench.ask(self._bench.qp.ev_states))

    def expect_ev(self, ev: int, state: str) -> None:
        found = self._bench.ev_state(ev)
        self._bench.check(found == state, f"EV {ev:#010x} in {state}", f"it is in {found}")

    def expect_unused(self, ev: int, count: int = 64) -> list[Heard]:
        """See that none of so many packets goes by this EV."""
        writes = self.carry(count)
        used = uses(writes)[ev]
        self._bench.check(not used, f"EV {ev:#010x} unused over {count} packets", f"{used} went by it")
        return writes

    def expect_used(self, ev: int, count: int = 64) -> None:
        """See that some of so many packets go by this EV."""
        self._bench.check(ev in uses(self.carry(count)), f"EV {ev:#010x} used over {count} packets", "none went by it")


def uses(writes: Iterable[Heard]) -> Counter[int]:
    """How many packets went by each EV."""
    return Counter(write.ev for write in writes)


def loads(writes: Iterable[Heard]) -> Counter[int]:
    """How many packets went by each plane."""
    return Counter(write.plane for write in writes)
