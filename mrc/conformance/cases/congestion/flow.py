# SPDX-License-Identifier: BSD-2-Clause
"""What the target has in flight: all that a peer sees of its window, and by which it can be measured to a packet."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

from mrc.conformance.script import Bench, Heard
from mrc.conformance.verdicts import Failed
from mrc.conformance.words import ranges

_BITMAP = 64


class Flow:
    """A write that is longer than any case, and its packets in flight: neither acknowledged nor known to be lost.

    The target may send while inflight < cwnd, so that a window of `cwnd` bytes is full with the first packet that takes
    inflight to `cwnd` or beyond. A SACK leaves so long after the last packet that it acknowledges was sent as its
    round trip is to be. A transport ACK brings no round trip, and so takes packets off without moving the window.
    """

    def __init__(self, bench: Bench, *, packets: int = 4000, length: int | None = None, first: int = 0) -> None:
        """`packets` full ones, or, with `length`, as many writes of so few bytes each. The PSNs below `first` have
        arrived."""
        bench.needs_virtual_time("what follows from a round trip of some microseconds")
        self.in_flight: dict[int, Heard] = {}
        self.acked_bytes = 0
        # UDP length + 40 of this flow's packets, and of a full one; `mtu` and `mss` of nscc.md.
        self.nominal = self.mtu = 0
        self.mss = bench.mtu
        self.cack = first - 1
        self._arrived: set[int] = set()
        self._bench = bench
        bench.answer_with(self._take)
        for _ in range(1 if length is None else packets):
            bench.post_write(bytes(packets * bench.mtu if length is None else length))
        bench.wait(0)
        bench.check(bool(self.in_flight), "packets of the write", "none came")

    def _take(self, packet: Heard) -> None:
        if packet.kind != "WRITE":
            return
        if not self.nominal:
            self.nominal = 40 + packet.udp_len
            self.mtu = self.nominal - len(packet.payload) - len(packet.padding) + self.mss
        # What is sent again is the youngest in flight.
        psn = packet.psn
        self.in_flight.pop(psn, None)
        self.in_flight[psn] = packet

    # ------------------------------------------------------------------ what the tester says

    def sack(self, count: int, rtt: int, **fields: Any) -> None:
        """Acknowledge the `count` oldest packets in flight with one SACK."""
        self._bench.check(bool(self.in_flight), "packets in flight", "there are none")
        self.sack_psns(list(self.in_flight)[:count], rtt, **fields)

    def sack_psns(self, psns: Iterable[int], rtt: int, **fields: Any) -> None:
        """Acknowledge these PSNs with one SACK, that the last of them triggered. The others in flight that were sent
        before may well be lost: see `lose`."""
        psns = list(psns)
        trigger = self.packet(psns[-1])
        self._bench.wait_until(trigger.at + rtt)
        self.acked_bytes += sum(40 + self._out(psn).udp_len for psn in psns)
        self._arrive(psns)
        self._say(trigger, **fields)

    def _say(self, trigger: Heard, **fields: Any) -> None:
        """A SACK of all that has arrived, triggered by this packet."""
        highest = max(self._arrived, default=self.cack)
        base = max(self.cack + 1, highest - _BITMAP + 1)
        above = [psn for psn in range(base, highest + 1) if psn in self._arrived]
        self._bench.sack(self.cack, above, to=trigger, sack_offset=base - self.cack, **fields)
        self._bench.wait(0)

    def round(self, rtt: int, *, each: int = 10, **fields: Any) -> None:
        """Acknowledge what is in flight now, `each` packets with a SACK."""
        left = len(self.in_flight)
        while left > 0:
            self.sack(min(each, left), rtt, **fields)
            left -= each

    def rounds(self, count: int, rtt: int, *, each: int = 10, **fields: Any) -> None:
        """As many times as `count` acknowledge what is in flight then."""
        for _ in range(count):
            self.round(rtt, each=each, **fields)

    def ack(self, count: int) -> None:
        """Acknowledge the `count` lowest PSNs in flight, and what is missing below them, with a transport ACK."""
        self._bench.check(bool(self.in_flight), "packets in flight", "there are none")
        psns = sorted(self.in_flight)[:count]
        self.acked_bytes += sum(40 + self._out(psn).udp_len for psn in psns)
        self._arrive(range(self.cack + 1, psns[-1] + 1))
        self._bench.ack(self.cack)
        self._bench.wait(0)

    def lose(self, psns: Iterable[int]) -> None:
        """These are lost, which the target finds out by the next SACK of packets sent a reorder guard later."""
        for psn in psns:
            self._out(psn)

    def nack(self, psns: Iterable[int], reason: int) -> None:
        """A NACK of each of these."""
        for psn in psns:
            self._bench.nack(self._out(psn), reason)
            self._bench.wait(0)

    def packet(self, psn: int) -> Heard:
        """This PSN as it left last. Fails when it is not in flight."""
        if psn not in self.in_flight:
            raise Failed(f"PSN {psn} in flight", f"there are {ranges(self.in_flight)}")
        return self.in_flight[psn]

    def _out(self, psn: int) -> Heard:
        packet = self.packet(psn)
        del self.in_flight[psn]
        return packet

    def _arrive(self, psns: Iterable[int]) -> None:
        self._arrived.update(psns)
        while self.cack + 1 in self._arrived:
            self.cack += 1
            self._arrived.discard(self.cack)

    # ------------------------------------------------------------------ what the tester sees

    def settle(self) -> int:
        """Take packets off with transport ACKs, one by one, until the target sends again: then its window is full.
        Returns how many are in flight then, 0 if nothing came."""
        while self.in_flight:
            before = len(self.in_flight)
            self.ack(1)
            if len(self.in_flight) >= before:
                break
        return len(self.in_flight)

    def expect_window(self, cwnd: float, *, slack: int = 1) -> None:
        """See that a window of `cwnd` bytes is full, give or take `slack` packets."""
        packets = ceil(cwnd / self.nominal)
        found = len(self.in_flight)
        self._bench.check(
            abs(found - packets) <= slack,
            f"{packets - slack} to {packets + slack} packets in flight, for a window of {cwnd:.0f} bytes",
            f"there are {found}, {found * self.nominal} bytes",
        )
