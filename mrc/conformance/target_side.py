# SPDX-License-Identifier: BSD-2-Clause
"""What a script asks of the target itself: its memory, completions, state and counters, and what it is to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mrc.conformance.needs import check_qp, check_session
from mrc.conformance.network import Network
from mrc.conformance.setup import DEFAULT_FIRST_PSN, Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import AdapterFault, Refused, TargetCompletion, TargetEvent, TargetQp, Unsupported
from mrc.conformance.times import ms
from mrc.conformance.verdicts import Failed

T = TypeVar("T")

_STAMP_SLACK = ms(4)
_FIRST_TESTER_QPN = 0x2B0200


class TargetSide:
    """One connection, brought up. What a target cannot tell leaves a check undone, which is noted."""

    def __init__(self, network: Network, setup: Setup) -> None:
        self.network = network
        self.setup = setup
        self.tester = TesterQp(
            qpn=_FIRST_TESTER_QPN + 0x10001 * len(network.ends) & 0xFFFFFF,
            first_psn=DEFAULT_FIRST_PSN if setup.first_psn is None else setup.first_psn,
            mpr=setup.mpr,
            max_wimm=setup.max_wimm,
            capabilities=setup.agreed,
        )
        check_session(setup, network.session)
        self._qp: TargetQp = network.session.connect(setup, self.tester)
        check_qp(setup, self._qp)
        self.target: TargetQpTerms = self._qp.terms
        # Where the tester's end was not up to the tester.
        self.tester = self.target.tester or self.tester
        self._posted = 0
        self._counters: dict[str, int] = {}
        self._never_came = 0
        # Counters that count what is in order as well.
        self._ordinary: set[str] = set()
        self._completed: list[TargetCompletion] = []
        self._shadow: bytearray | None = None
        self._snapshot()

    def ask(self, question: Callable[[], T]) -> T:
        """Have the target do or tell something. Fails when it refuses."""
        try:
            return question()
        except Refused as reason:
            raise Failed("the target to do what was asked", f"it refused: {reason}") from None

    def ask_if_it_can(self, what: str, question: Callable[[], T]) -> T | None:
        """Have the target do or tell what it need not support. None, and `what` noted as unchecked, where not."""
        try:
            return self.ask(question)
        except Unsupported:
            self.network.unchecked[what] = None
            return None

    def _memory(self, offset: int, length: int) -> bytes:
        if offset + length > self.target.region_length:
            raise ValueError(
                f"{length} bytes at {offset} are not in the region: the case has to say that it needs them"
            )
        found = self._qp.memory(offset, length)
        if len(found) != length:
            raise AdapterFault(f"the adapter's memory gave {len(found)} bytes where {length} were asked for")
        return found

    def _snapshot(self) -> None:
        try:
            self._shadow = bytearray(self._memory(0, self.target.region_length))
        except Unsupported:
            self._shadow = None

    @property
    def slack(self) -> int:
        """How much later than its time limit something may happen on this network, 0 in virtual time."""
        return self.network.session.slack_ns

    @property
    def stamp_slack(self) -> int:
        """How far a timestamp may be off on this network. Its 16 bits come round after some milliseconds."""
        return min(self.slack, _STAMP_SLACK)

    def needs_virtual_time(self, what: str) -> None:
        """This case is about what only virtual time can tell, which is `what`."""
        if self.network.session.slack_ns:
            raise Unsupported(f"on a live network nobody can tell {what}")

    def needs_outer_as_sent(self) -> None:
        """This case is about outer destinations as they leave the target."""
        if not self.network.session.outer_as_sent:
            raise Unsupported("switches between the target and the tester have shortened the outer destinations")

    def needs_memory(self) -> None:
        """This case is about what is written: without a look into the target's memory it is unsupported."""
        if self._shadow is None:
            raise Unsupported("the target cannot show its memory")

    def expect_memory(self, offset: int, data: bytes) -> None:
        """See that these bytes have been written at `offset` of the region."""
        found = self.ask_if_it_can("memory", lambda: self._memory(offset, len(data)))
        if found is None or self._shadow is None:
            return
        if found != data:
            first = next(at for at, (wrong, right) in enumerate(zip(found, data, strict=True)) if wrong != right)
            raise Failed(
                f"{len(data)} bytes written at offset {offset} of the region",
                f"from offset {offset + first} on there is {found[first : first + 16].hex(' ')} "
                f"where {data[first : first + 16].hex(' ')} was to be",
            )
        self._shadow[offset : offset + len(data)] = data

    def expect_nothing_written(self) -> None:
        """See that the region is as it was, but for what `expect_memory` saw."""
        found = self.ask_if_it_can("memory", lambda: self._memory(0, self.target.region_length))
        if found is None or self._shadow is None or found == bytes(self._shadow):
            return
        first = next(at for at, (now, then) in enumerate(zip(found, self._shadow, strict=True)) if now != then)
        raise Failed(
            "nothing else written to the region", f"at offset {first} there is {found[first : first + 16].hex(' ')}"
        )

    def expect_state(self, state: str) -> None:
        """See that the target's QP is in this state."""
        found = self.ask_if_it_can("state", self._qp.state)
        if found is not None and found != state:
            raise Failed(f"the QP in {state}", f"it is in {found}")

    def ev_state(self, ev: int) -> str:
        """The state of one of the target's EVs. Fails where it reports none."""
        found = self.ask(self._qp.ev_states)
        if ev not in found:
            raise Failed(
                f"a state of EV {ev:#010x}", f"there are those of {', '.join(f'{each:#010x}' for each in found)}"
            )
        return found[ev]

    def mark_counters(self) -> None:
        """From here on `expect_counted` counts."""
        self._counters = dict(self.ask_if_it_can("counters", self.network.session.counters) or {})
        self._never_came = self.network.session.never_came

    def leave_out_risen_counters(self) -> None:
        """Counters that rose since `mark_counters` count what is in order as well: from now on `expect_counted` and
        `expect_dropped` look at the others only."""
        self._ordinary |= {name for name, risen in (self._risen() or {}).items() if risen}

    def _risen(self) -> dict[str, int] | None:
        """By how much each counter rose since `mark_counters`."""
        found = self.ask_if_it_can("counters", self.network.session.counters)
        if found is None:
            return None
        risen = {name: count - self._counters.get(name, 0) for name, count in found.items()}
        return {name: by for name, by in risen.items() if name not in self._ordinary}

    def expect_counted(self, packets: int = 1) -> None:
        """See that one of the target's counters rose by so many since `mark_counters`."""
        risen = self._risen()
        if risen is None:
            return
        packets = self._that_came(packets)
        if packets and packets not in risen.values():
            risen_text = ", ".join(f"{name} by {by}" for name, by in risen.items() if by) or "none"
            raise Failed(f"a counter that rose by {packets}", f"what rose: {risen_text}")

    def expect_dropped(self, packets: int) -> None:
        """See that the target's counters rose by so many or more since `mark_counters`, whatever they are called: each
        of several packets was counted, for whatever was wrong with it."""
        risen = self._risen()
        if risen is None:
            return
        packets = self._that_came(packets)
        if sum(risen.values()) < packets:
            raise Failed(f"{packets} packets counted", f"the counters rose by {sum(risen.values())} in all")

    def _that_came(self, packets: int) -> int:
        """How many of these packets came to the target: what its host kept from it, it need not count."""
        kept = min(packets, self.network.session.never_came - self._never_came)
        if kept:
            self.network.unchecked["counters, of packets that the target's host kept from it"] = None
        return packets - kept

    def set_port(self, plane: int, up: bool) -> None:
        """Take the target's port of this plane down, or bring it back."""
        self.ask(lambda: self.network.session.set_port(plane, up))

    def set_port_room(self, plane: int, room: bool) -> None:
        """Say whether the target's port of this plane has room for packets."""
        self.ask(lambda: self.network.session.set_port_room(plane, room))

    def probe_ev(self, ev: int, dscp: int | None = None) -> None:
        """Have the target probe one of its EVs, in this class of traffic (None: the one of its choice)."""
        self.ask(lambda: self.network.session.probe_ev(ev, dscp))

    def deny(self, *evs: int) -> None:
        """Deny the target's QP these EVs, as a controller does."""
        for ev in evs:
            self.ask(lambda ev=ev: self._qp.deny_ev(ev))  # type: ignore[misc]

    def expect_refused(self, what: str, action: Callable[[], object]) -> None:
        """See that the target refuses to do this, which is `what`."""
        try:
            action()
        except Refused:
            return
        raise Failed(f"{what} refused", "it was done")

    def events(self) -> list[TargetEvent]:
        """The events that the target reported to its owner since the last call."""
        return list(self.ask(self.network.session.events))

    def post_write(self, data: bytes, *, offset: int = 0, immediate: int | None = None) -> int:
        """Have the target write to the tester's region. Returns the work request's id."""
        wr_id, self._posted = self._posted, self._posted + 1
        va = self.tester.region_va + offset
        self.ask(lambda: self._qp.post_write(wr_id, data, va, self.tester.rkey, immediate))
        return wr_id

    def post_receives(self, count: int = 1) -> list[int]:
        """Have the target post receives. Returns the ids of their work requests."""
        ids = list(range(self._posted, self._posted + count))
        self._posted += count
        for wr_id in ids:
            self.ask(lambda wr_id=wr_id: self._qp.post_receive(wr_id))  # type: ignore[misc]
        return ids

    def expect_completion(self, kind: str, **fields: Any) -> TargetCompletion | None:
        """See that the target's next completion is of this kind, WRITE or RECEIVE, and has these fields of
        `TargetCompletion` (`status` SUCCESS unless given). None where the target cannot tell."""
        if not self._fetch_completions():
            return None
        fields = {"status": "SUCCESS", **fields}
        wanted = f"a completion of a {kind} with " + ", ".join(f"{name} {value}" for name, value in fields.items())
        if not self._completed:
            raise Failed(wanted, "there is none")
        found = self._completed.pop(0)
        if found.kind != kind or any(getattr(found, name) != value for name, value in fields.items()):
            raise Failed(wanted, f"it is {found}")
        return found

    def next_completion(self) -> TargetCompletion | None:
        """The target's next completion, whatever it is. Fails when there is none; None where the target cannot tell."""
        if not self._fetch_completions():
            return None
        if not self._completed:
            raise Failed("a completion", "there is none")
        return self._completed.pop(0)

    def expect_no_completion(self) -> None:
        """See that the target has no completion that was not expected."""
        if self._fetch_completions() and self._completed:
            raise Failed("no completion", f"there is {self._completed[0]}")

    def _fetch_completions(self) -> bool:
        found = self.ask_if_it_can("completions", self._qp.completions)
        self._completed += found or ()
        return found is not None

    @property
    def qp(self) -> TargetQp:
        """The target's QP, for what this class has no word of its own for; use it inside `ask`."""
        return self._qp
