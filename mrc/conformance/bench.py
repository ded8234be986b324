# SPDX-License-Identifier: BSD-2-Clause
"""The tester's side of a connection, as scripts see it: packets out, packets expected, in time.

PSNs count from the first one of the end that numbers them: PSN 0 of the tester is its first request, and cack_psn -1
says that nothing has arrived. Times count from the beginning of the case, in ns (`us(10)`, `ms(1)`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, Self

from mrc.conformance.codec.headers import MRC, OpcodeTable
from mrc.conformance.crafting import PacketMaker
from mrc.conformance.expectation import Expected, kinds_text
from mrc.conformance.network import Network
from mrc.conformance.packets import Came, Crafted, Heard
from mrc.conformance.setup import Plane, Setup
from mrc.conformance.target_side import TargetSide
from mrc.conformance.times import ms, seconds, time_text, us
from mrc.conformance.verdicts import Failed
from mrc.wire.profile import WireProfile

# How long an immediate may wait for a receive until it is refused (MRC-IMM-07; C: no source says it).
FOR_A_RECEIVE = seconds(10)
_HELD_FOR_A_BURST = us(900)  # less than SOON
SOON = ms(1)  # what is not expected at a certain time is expected by then


class Bench(TargetSide):
    """One connection between the tester and the target.

    The tester sends with `request`, `probe`, `sack`, `ack`, `nack`, ... (`make` makes the same packets without sending
    them, `send` sends packets, all in one burst) and waits with `expect`. What it gets is kept until a script asks.
    """

    table: ClassVar[OpcodeTable] = MRC
    maker: ClassVar[type[PacketMaker]] = PacketMaker

    def __init__(self, network: Network, setup: Setup) -> None:
        super().__init__(network, setup)
        self.make = self.maker(network.session, network.profile, self.tester, self.target)
        self._unread: list[Heard] = []
        self._answers: list[Callable[[Heard], None]] = []
        # How long after it came an endpoint request of the target's is answered, as any node that is alive does; None:
        # it is not.
        self.answer_after: int | None = us(10)
        network.ends.append(self)

    # ------------------------------------------------------------------ what there is

    @property
    def now(self) -> int:
        """Time since the case began, ns."""
        return self.network.now

    @property
    def mtu(self) -> int:
        """The path MTU, bytes."""
        return self.target.path_mtu

    @property
    def planes(self) -> Sequence[Plane]:
        return self.network.session.planes

    @property
    def mode(self) -> str:
        """How EVs are carried: srv6, stev or udp."""
        return self.network.session.mode

    @property
    def profile(self) -> WireProfile:
        return self.network.profile

    @property
    def window(self) -> int:
        """PSNs from epsn on that the target's responder takes: MPR x 128."""
        return self.target.mpr * 128

    @property
    def dropped(self) -> list[Heard]:
        """What came from the target and an honest peer would have dropped."""
        return self.network.dropped

    @property
    def all_heard(self) -> list[Heard]:
        """Every packet of the target's so far, in order, dropped or not."""
        return [passed.packet for passed in self.network.log if isinstance(passed.packet, Heard)]

    def evs(self, plane: int = 0) -> tuple[int, ...]:
        """EVs from the tester to the target in one plane."""
        return next(each.evs for each in self.planes if each.number == plane)

    def port_mask(self, *planes: int) -> int:
        """The port_status_mask that says of the ports of these planes, and of no others, that they are up."""
        return sum(1 << plane + self.profile.first_port_bit for plane in planes)

    @property
    def all_up(self) -> int:
        """The port_status_mask that says that the ports of all planes are up."""
        return self.port_mask(*(plane.number for plane in self.planes))

    def another(self, **changes: Any) -> Self:
        """A second connection with the same target, set up alike but for these fields of `Setup`."""
        return type(self)(self.network, replace(self.setup, **changes))

    # ------------------------------------------------------------------ time

    def wait(self, duration: int) -> None:
        """Let time go on."""
        self.network.run(self.now + duration)
        self.network.settle()

    def wait_until(self, when: int) -> None:
        """Let time go on to `when`; nothing happens if that is past."""
        self.network.run(when)

    # ------------------------------------------------------------------ packets out

    def send(self, *packets: Crafted, at: int | None = None) -> None:
        """Send these in one burst, now or at a time."""
        if at is not None:
            self.wait_until(at)
        self.network.put(packets)

    def send_together(self, *packets: Crafted) -> None:
        """Send these in one burst. The target answers none of them before it has all, if it can be made to wait.

        Without that a live target may take each of them for itself and answer it before the next one comes.
        """
        session = self.network.session
        self.ask_if_it_can("answers to packets that the target has at once", lambda: session.hold(_HELD_FOR_A_BURST))
        self.send(*packets)
        self.ask_if_it_can("answers to packets that the target has at once", lambda: session.hold(0))

    def _send_one(self, packet: Crafted, at: int | None) -> Crafted:
        self.send(packet, at=at)
        return packet

    def request(self, psn: int, payload: bytes = b"", *, at: int | None = None, **fields: Any) -> Crafted:
        """Send a write request; see `PacketMaker.request`."""
        return self._send_one(self.make.request(psn, payload, **fields), at)

    def message(self, psn: int, payload: bytes, *, at: int | None = None, **fields: Any) -> list[Crafted]:
        """Send the requests of one message in one burst; see `PacketMaker.message`."""
        packets = self.make.message(psn, payload, **fields)
        self.send(*packets, at=at)
        return packets

    def probe(self, probe_id: int = 1, *, at: int | None = None, **fields: Any) -> Crafted:
        """Send a reliability probe."""
        return self._send_one(self.make.probe(probe_id, **fields), at)

    def sack(self, cack: int, above: Sequence[int] = (), *, at: int | None = None, **fields: Any) -> Crafted:
        """Send a SACK of the target's requests; see `PacketMaker.sack`."""
        return self._send_one(self.make.sack(cack, above, **fields), at)

    def ack(self, cack: int, *, at: int | None = None, **fields: Any) -> Crafted:
        """Send a transport ACK of the target's requests."""
        return self._send_one(self.make.ack(cack, **fields), at)

    def nak(self, psn: int, syndrome: int, *, at: int | None = None, **fields: Any) -> Crafted:
        """Send a NAK of a request of the target's."""
        return self._send_one(self.make.aeth(psn, syndrome, **fields), at)

    def nack(self, to: Heard, reason: int, *, at: int | None = None, **fields: Any) -> Crafted:
        """Send a NACK of a request of the target's."""
        return self._send_one(self.make.nack(to, reason, **fields), at)

    def endpoint_request(self, request_id: int, *, at: int | None = None, **fields: Any) -> Crafted:
        """Send an endpoint request."""
        return self._send_one(self.make.endpoint_request(request_id, **fields), at)

    def endpoint_response(self, to: Heard, *, at: int | None = None, **fields: Any) -> Crafted:
        """Answer an endpoint request of the target's."""
        return self._send_one(self.make.endpoint_response(to, **fields), at)

    # ------------------------------------------------------------------ packets in

    def receive(self, packet: Heard) -> None:
        """A packet came for this connection."""
        kind = packet.kind
        packet.first_psn = self.target.first_psn if kind == "WRITE" else self.tester.first_psn
        self._unread.append(packet)
        if kind == "ENDPOINT_REQUEST" and self.answer_after is not None:
            self.network.at(self.now + self.answer_after, lambda: self.send(self.make.endpoint_response(packet)))
        for answer in self._answers:
            answer(packet)

    def answer_with(self, answer: Callable[[Heard], None]) -> None:
        """Call this with each packet as it comes, before the script sees it."""
        self._answers.append(answer)

    def expect(
        self,
        kind: str,
        *,
        within: int = SOON,
        after: int | None = None,
        since: int | None = None,
        **fields: Any,
    ) -> Heard:
        """Wait for a packet of `kind` with these fields, `within` so long after `since` (now, unless given) and not
        sooner than `after`. Returns it.

        It is the next of its kind that was not expected yet; where the fields name one of several (a SACK's ack_psn,
        a WRITE's psn, ...: `mrc.conformance.expectation.IDENTITY`), the next that they name. Fails when it is another
        than expected, comes too soon or does not come.
        """
        slack = self.network.session.slack_ns
        origin = self.now if since is None else since
        expected = Expected(kind, fields, None if after is None else origin + after, origin + within, bool(slack))
        packet = self._next(expected)
        if packet is None:
            self.network.run(origin + within + slack, stop=lambda: self._next(expected) is not None)
            packet = self._next(expected)
        if packet is None:
            raise Failed(str(expected), kinds_text([*self._unread, *self.dropped], kind))
        self._unread.remove(packet)
        in_time = packet.at <= origin + within + slack
        if after is not None and packet.at < origin + after - min(slack, after // 5):
            in_time = False
        if not in_time or expected.wrong_fields(packet):
            raise Failed(str(expected), expected.description_of(packet))
        return packet

    def _next(self, expected: Expected) -> Heard | None:
        return next((packet for packet in self._unread if expected.is_meant(packet)), None)

    def written(self, psn: int, payload: bytes, /, *, immediate: int | None = None, **fields: Any) -> Heard:
        """Have the target write this, and wait for the packet of it with this PSN; `fields` as for `expect`."""
        self.post_write(payload, immediate=immediate)
        return self.expect("WRITE", psn=psn, **fields)

    def expect_no(self, kind: str, *, within: int = SOON, **fields: Any) -> None:
        """See that for so long, and among what came before, there is no packet of `kind` with these fields."""
        unwanted = Expected(kind, fields)
        self.wait(within)
        found = next((packet for packet in self._unread if unwanted.holds(packet)), None)
        if found is not None:
            raise Failed(f"not {unwanted}", f"at {time_text(found.at)} came {found}")

    def expect_silence(self, within: int = SOON, *, but: Sequence[str] = ("ENDPOINT_REQUEST",)) -> None:
        """See that for so long, and among what came before, there is nothing at all, `but` of these kinds. A node may
        at any time look for EVs with endpoint requests."""
        self.wait(within)
        found = [packet for packet in self._unread if packet.kind not in but]
        if found:
            raise Failed(f"silence until {time_text(self.now)}", f"at {time_text(found[0].at)} came {found[0]}")

    def read(self, *kinds: str) -> Came:
        """What came of these kinds (all, without any) and was not expected yet; it counts as expected now."""
        self.network.settle()
        chosen = Came(packet for packet in self._unread if not kinds or packet.kind in kinds)
        self._unread = [packet for packet in self._unread if packet not in chosen]
        return chosen

    def expect_works(self, psn: int, *, cack_psn: int | None = None) -> Heard:
        """See that the target still answers: a zero-length write with AckReq gets its SACK. For the end of scripts that
        expect silence, which a dead target keeps too."""
        self.read()
        self.request(psn, ackreq=1)
        return self.expect("SACK", ack_psn=psn, cack_psn=psn if cack_psn is None else cack_psn)

    def expect_goes_on(self, psn: int) -> None:
        """See that nothing else was written, and that the target answers a request with this PSN."""
        self.expect_nothing_written()
        self.expect_works(psn)

    def expect_ignored(self, *packets: Crafted, within: int = us(100)) -> None:
        """Send these in one burst, and see that none is answered and that one counter rises by as many."""
        self.mark_counters()
        self.send(*packets)
        self.expect_silence(within)
        self.expect_counted(len(packets))

    def first(self, count: int, packets: Iterable[Heard], what: str) -> list[Heard]:
        """The first `count` of these packets, which are `what`. Fails when there are fewer."""
        found = list(islice(packets, count))
        self.check(len(found) == count, f"{count} {what}", f"there are {len(found)}")
        return found

    def plane(self, packet: Heard) -> Plane:
        """The plane a packet came in on. Fails when it is none of the tester's."""
        found = next((each for each in self.planes if each.number == packet.plane), None)
        if found is None:
            raise Failed("packets on the tester's planes", f"one came on plane {packet.plane}: {packet}")
        return found

    def check(self, holds: bool, expected: str, actual: str) -> None:
        """Fail unless `holds`. The report shows both sentences."""
        if not holds:
            raise Failed(expected, actual)
