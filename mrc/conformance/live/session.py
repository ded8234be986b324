# SPDX-License-Identifier: BSD-2-Clause
"""The tester's end of a case with a live target that messages control."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from mrc.conformance.live.messages import pack, unpack
from mrc.conformance.live.outer import OuterAddresses
from mrc.conformance.live.wire_clock import STALLED_NS, WireClock
from mrc.conformance.setup import Plane, Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import (
    Frame,
    Refused,
    Session,
    TargetCompletion,
    TargetEvent,
    TargetLost,
    TargetQp,
    Unsupported,
)
from mrc.errors import MrcError, PeerError
from mrc.net.exchange import ExchangeClient

DEFAULT_SLACK_NS = 200_000_000
_ANSWER_TIMEOUT_S = 15.0
# An answer takes a millisecond or two. With one that took so long a host was busy with something else.
_SLOW_ANSWER_NS = 20_000_000
# What left the target's host before it answered is here so long after the answer at the latest, on an idle network.
_UNDER_WAY_NS = 1_000_000


class Raised(Exception):
    """The target's end raised something. The traceback from there is a note."""


class ControlLine:
    """Calls over the exchange. Once the target is lost every further call says so at once."""

    def __init__(self, client: ExchangeClient) -> None:
        self._client = client
        self._lost: str | None = None
        self.slowest_ns = 0
        # How many of the packets sent in this case have arrived, as the target last reported.
        self.came = 0

    def check(self) -> None:
        """Raise TargetLost when the target was found gone while nothing was asked."""
        try:
            self._client.check()
        except PeerError as error:
            self._lost = f"the target does not answer any more: {error}"
            raise TargetLost(self._lost) from None

    def call(self, kind: str, **body: Any) -> Any:
        """Raises Unsupported and Refused as the target does, Raised for whatever else it raised, TargetLost."""
        if self._lost is not None:
            raise TargetLost(self._lost)
        began = time.monotonic_ns()
        try:
            answer = self._client.request(kind, {name: pack(value) for name, value in body.items()}, _ANSWER_TIMEOUT_S)
        except PeerError as error:
            self._lost = f"the target does not answer any more: {error}"
            raise TargetLost(self._lost) from None
        except MrcError as error:
            raise Unsupported(str(error)) from None
        self.slowest_ns = max(self.slowest_ns, time.monotonic_ns() - began)
        for name, error_class in (("unsupported", Unsupported), ("refused", Refused)):
            if name in answer:
                raise error_class(str(answer[name]))
        if "raised" in answer:
            raised = Raised(f"at the target's end, {answer['raised']}")
            raised.add_note(f"There:\n{answer.get('traceback', '')}")
            raise raised
        self.came = int(answer.get("came", self.came))
        try:
            return unpack(answer.get("result"))
        except PeerError as error:
            self._lost = str(error)
            raise TargetLost(self._lost) from None


class LiveSession(Session):
    """One case."""

    outer_as_sent = False

    def __init__(self, line: ControlLine, clock: WireClock, outer: OuterAddresses, slack_ns: int, opened: Any) -> None:
        self._line = line
        self._clock = clock
        self._outer = outer
        self.slack_ns = slack_ns
        self.mode: str = opened["mode"]
        self.planes: tuple[Plane, ...] = tuple(opened["planes"])
        line.slowest_ns = 0
        clock.begin()

    @property
    def now(self) -> int:
        return self._clock.now

    @property
    def disturbed(self) -> str:
        if self._clock.stalled_ns > STALLED_NS:
            return f"the tester woke up {self._clock.stalled_ns / 1e6:.0f} ms too late"
        if self._line.slowest_ns > _SLOW_ANSWER_NS:
            return f"the target took {self._line.slowest_ns / 1e6:.0f} ms to answer"
        return ""

    def ask(self, qp: int | None, method: str, *arguments: Any) -> Any:
        """Have the target do or tell something, once it has had what was sent so far."""
        self._clock.catch_up()
        try:
            return self._line.call("ask", qp=qp, method=method, arguments=list(arguments), sent=self._clock.sent)
        finally:
            self._lost_on_the_way()

    def _lost_on_the_way(self) -> None:
        """Packets that did not come in time are not waited for again."""
        if self._line.came < self._clock.sent:
            self.never_came += self._clock.sent - self._line.came
            self._clock.sent = self._line.came

    # ------------------------------------------------------------------ packets and time

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        number, terms = self._line.call("connect", setup=setup, tester=tester)
        return LiveQp(self, number, terms)

    def put(self, frames: Sequence[Frame]) -> None:
        self._clock.put([Frame(frame.plane, self._outer.for_plane(frame)) for frame in frames])

    def get(self, until: int) -> Sequence[Frame]:
        return self._clock.get(until)

    def settle(self) -> int | None:
        self._line.call("settle", sent=self._clock.sent)
        self._lost_on_the_way()
        return time.monotonic_ns() + _UNDER_WAY_NS

    def close(self) -> None:
        self._line.call("close")

    def outer_addresses(self, ev: int) -> tuple[int, int] | None:
        return self._outer.of(ev) if self.mode == "srv6" else None

    # ------------------------------------------------------------------ the target's own side

    def check(self, setup: Setup) -> None:
        self.ask(None, "check", setup)

    def hold(self, duration: int) -> None:
        self.ask(None, "hold", duration)

    def counters(self) -> Mapping[str, int]:
        found: dict[str, int] = self.ask(None, "counters")
        return found

    def events(self) -> Sequence[TargetEvent]:
        found: list[TargetEvent] = self.ask(None, "events")
        return found

    def set_port(self, plane: int, up: bool) -> None:
        self.ask(None, "set_port", plane, up)

    def set_port_room(self, plane: int, room: bool) -> None:
        self.ask(None, "set_port_room", plane, room)

    def probe_ev(self, ev: int, dscp: int | None) -> None:
        self.ask(None, "probe_ev", ev, dscp)

    def ev_probe_results(self) -> Mapping[int, int | None]:
        found: dict[int, int | None] = self.ask(None, "ev_probe_results")
        return found


class LiveQp(TargetQp):
    """A QP at the target, by its number there."""

    def __init__(self, session: LiveSession, number: int, terms: TargetQpTerms) -> None:
        self._session = session
        self._number = number
        self.terms = terms

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self._session.ask(self._number, method, *arguments)

    def memory(self, offset: int, length: int) -> bytes:
        return bytes(self._ask("memory", offset, length))

    def state(self) -> str:
        return str(self._ask("state"))

    def completions(self) -> Sequence[TargetCompletion]:
        found: list[TargetCompletion] = self._ask("completions")
        return found

    def post_receive(self, wr_id: int) -> None:
        self._ask("post_receive", wr_id)

    def post_write(self, wr_id: int, data: bytes, remote_va: int, rkey: int, immediate: int | None) -> None:
        self._ask("post_write", wr_id, data, remote_va, rkey, immediate)

    def ev_states(self) -> Mapping[int, str]:
        found: dict[int, str] = self._ask("ev_states")
        return found

    def deny_ev(self, ev: int) -> None:
        self._ask("deny_ev", ev)

    def allow_ev(self, ev: int) -> None:
        self._ask("allow_ev", ev)

    def set_mpr(self, units: int) -> None:
        self._ask("set_mpr", units)

    def set_receiver_penalty(self, penalty: int, restore: bool) -> None:
        self._ask("set_receiver_penalty", penalty, restore)

    def to_error(self) -> None:
        self._ask("to_error")

    def go_to(self, state: str, attributes: Mapping[str, int]) -> None:
        self._ask("go_to", state, attributes)
