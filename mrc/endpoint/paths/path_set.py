# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The EVs of one QP: it alone decides which EV a packet of data gets (behaviour.md, Paths).

The profile's EVs are numbered 0 .. n-1 (an *index*); per-EV state lies in arrays over that index. Active EVs are
in the rotation; the rest of the usable ones are the reserve.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import TYPE_CHECKING

from mrc.endpoint.config import PathConfig, PeerNodeConfig
from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.ev_events import ANY_STATE, EvObservers
from mrc.endpoint.paths.ev_table import INDEX, EvTable
from mrc.endpoint.paths.port_set import PortSet
from mrc.endpoint.paths.reverse import ControlEvs, ReverseEvs
from mrc.endpoint.paths.rotation import Rotation
from mrc.endpoint.paths.states import CARRIES_DATA, EvInput, EvState, next_state
from mrc.errors import CallerError
from mrc.wire.columns import array_of
from mrc.wire.compiled import const_u8s, i64s, public, python, readonly, u8s, with_gil
from mrc.wire.frames import Frames

if TYPE_CHECKING:
    from mrc.endpoint.paths.ev_events import EvEvents
    from mrc.endpoint.tracing import QpTrace
    from mrc.wire.fields import I64, U8

_SKIP, _BAD, _DENIED = int(EvState.SKIP), int(EvState.ASSUMED_BAD), int(EvState.DENIED)
_MARKED, _ALWAYS_SKIP, _LOST = int(EvInput.MARKED), int(EvInput.ALWAYS_SKIP), int(EvInput.LOST)
_SPURIOUS = int(EvInput.SPURIOUS)
_PROBED_CLEAR, _PROBED_MARKED = int(EvInput.PROBED_CLEAR), int(EvInput.PROBED_MARKED)
_INPUTS = len(EvInput)
_CARRIES_DATA: const_u8s = memoryview(CARRIES_DATA)
# [state * _INPUTS + what happened] to the state after it.
_NEXT: const_u8s = memoryview(bytes(next_state(state, happened) for state in EvState for happened in EvInput))
NEVER = -1
_NEVER = _NONE = NEVER


class PathSet:
    """EV states, rotation, reserve and planes of one QP. Raises CallerError for an empty or ambiguous profile.

    `reverse` is what is known of the peer node's EVs and `numbers` what these EVs are called there; without it the
    QP keeps that knowledge for itself. Changes go to `events` under the names `qpn` and `profile_id`. An EV keeps its
    index for good: one that a profile no longer has is *retired*. `frames` has them all as ways.

    `newly_bad` are the EVs that became ASSUMED_BAD and whose probing has not been taken up yet, `newly_bad_count` of
    them. `silent`: every EV is DENIED, so nothing at all may leave.
    """

    events: EvEvents | None
    _is_newly_bad: u8s

    def __init__(
        self,
        paths: Sequence[Path],
        config: PathConfig,
        random: Random,
        *,
        reverse: ReverseEvs | None = None,
        numbers: Sequence[int] | None = None,
        full_ports: PortSet | None = None,
        observers: EvObservers | None = None,
        frames: Frames | None = None,
    ) -> None:
        """`full_ports` are the local ports without room for a packet just now, kept by the owner. `frames`, where
        given, has these EVs as its first ways, and is somebody else's."""
        if not paths:
            raise CallerError("a QP needs at least one EV")
        if len({path.ev for path in paths}) != len(paths):
            raise CallerError("the EVs of a profile must differ")
        observers = observers or EvObservers()
        self._qpn: int = observers.qpn
        self.profile_id: public[int] = observers.profile_id
        self._trace: readonly[QpTrace | None] = observers.trace
        self._full_ports: PortSet = PortSet() if full_ports is None else full_ports
        self.events = events = observers.events
        self._wanted: u8s = memoryview(bytearray(ANY_STATE + 1)) if events is None else events.wanted_flags
        self.paths: tuple[Path, ...] = ()
        self.frames: Frames = frames or Frames()
        self._shares_frames = frames is not None
        self.newly_bad_count = 0
        self.newly_bad: i64s = column(0)
        self._evs = EvTable()
        count = len(paths)
        self._enter(list(zip(paths, range(count) if numbers is None else numbers, strict=True)))
        self._reverse: ReverseEvs = reverse or ReverseEvs(PeerNodeConfig(), count)
        for index in range(count):
            self._bring_in(index)
        self._evs.arrange(range(count))
        self._ports_down: set[int] = set()
        self._peer_ports_down: set[int] = set()
        self._min_active = _least_active(count, config)
        self.silent = False
        self._released = False
        draws = Draws(random.getrandbits(63))
        self._rotation = Rotation(
            self._evs,
            config.active_count,
            draws,
            self._trace,
            self._wanted,
            self._report_passed,
            config.skip_at_least_ns,
        )
        self.control = ControlEvs(self._evs, self._reverse, draws)

    @property
    def table(self) -> EvTable:
        """What is known of each EV, as columns of numbers."""
        return self._evs

    @property
    def state(self) -> U8:
        """EvState by index, in place; so are the arrays of numpy's below."""
        return array_of(self._evs.state)

    @property
    def port(self) -> I64:
        """Local ports."""
        return array_of(self._evs.port)

    @property
    def packets(self) -> I64:
        """Packets sent."""
        return array_of(self._evs.packets)

    @property
    def lost(self) -> I64:
        """Packets lost untrimmed."""
        return array_of(self._evs.lost)

    @property
    def marked(self) -> I64:
        """Marks and trimmed packets."""
        return array_of(self._evs.marked)

    @property
    def first_sent_at(self) -> I64:
        """When the first packet was sent, or NEVER."""
        return array_of(self._evs.first_sent_at)

    @property
    def last_sent_at(self) -> I64:
        """When the last packet was sent, or NEVER."""
        return array_of(self._evs.last_sent_at)

    # ------------------------------------------------------------------ choosing

    def select(self, now: int, avoid: int = _NEVER) -> int:
        """The index of the EV the next packet gets, -1 when no EV is usable. It gets `avoid` only when there is no
        other."""
        self._rotation.now = now
        if self._full_ports.count:
            index = self._select_beside(avoid)
        else:
            index = self._rotation.next()
            if index == avoid and index != _NONE:
                index = self._rotation.take_other(self._full_ports, avoid)
        if index == _NONE:
            return _NONE
        self._evs.packets[index] += 1
        self._evs.last_sent_at[index] = now
        if self._evs.first_sent_at[index] == _NEVER:
            self._evs.first_sent_at[index] = now
        return index

    def _select_beside(self, avoid: int) -> int:
        """An EV whose port has room."""
        if not self._rotation.usable_beside(self._full_ports):
            return _NONE
        return self._rotation.take_other(self._full_ports, avoid)

    def usable(self) -> bool:
        """Whether any EV may carry data now."""
        if self._full_ports.count:
            return self._rotation.usable_beside(self._full_ports)
        return self._rotation.usable()

    # ------------------------------------------------------------------ feedback

    def index(self, ev: int) -> int:
        """The index of an EV of this profile, or -1."""
        row = self._evs.by_ev.find(ev)
        return _NONE if row < 0 else self._evs.by_ev.cells[row + INDEX]

    def on_ev_answered(self, index: int, now: int) -> None:
        """What was sent on this EV was acknowledged: control packets may take it."""
        self._reverse.confirm_by_data(self._evs.number[index], now)

    def on_mark(self, index: int, m: int) -> None:
        """A SACK said m (1 or 2) for this EV."""
        self._evs.marked[index] += 1
        self._feed(index, _MARKED if m == 1 else _ALWAYS_SKIP)

    def on_trimmed(self, index: int) -> None:
        """A NACK TRIMMED named this EV."""
        self._evs.marked[index] += 1
        self._feed(index, _MARKED)

    def on_loss(self, index: int, psn: int, sent_at: int = _NEVER) -> None:
        """The transmission of `psn` on this EV at `sent_at`, -1 where that is not known, was lost untrimmed.

        What was in flight when the EV or its port went down is part of that event and condemns nothing again.
        """
        self._evs.lost[index] += 1
        self._reverse.lose(self._evs.number[index])
        if _NEVER < sent_at <= self._evs.condemned_through[index]:
            return
        was_bad = self._evs.state[index] == _BAD
        self._evs.condemned_through[index] = self._evs.last_sent_at[index]
        if self._feed(index, _LOST) == _BAD and not was_bad:
            self._evs.condemned_by[index] = psn

    def on_spurious(self, index: int, psn: int) -> None:
        """The loss of `psn` on this EV was none: undone if that loss condemned it."""
        self._evs.lost[index] -= 1
        if self._evs.condemned_by[index] == psn:
            self._evs.condemned_through[index] = _NEVER
            self._feed(index, _SPURIOUS)

    def on_probed(self, index: int, marked: bool) -> None:
        """Enough consecutive probes on this EV were answered."""
        self._feed(index, _PROBED_MARKED if marked else _PROBED_CLEAR)

    def on_probe_failed(self, index: int) -> None:
        """A probe on this EV was not answered."""
        self._reverse.lose(self._evs.number[index])

    def has_newly_bad(self) -> bool:
        """Whether an EV turned bad whose probing has not been taken up."""
        return self.newly_bad_count > 0

    def forget_newly_bad(self) -> None:
        """Their probing has been taken up."""
        for place in range(self.newly_bad_count):
            self._is_newly_bad[self.newly_bad[place]] = 0
        self.newly_bad_count = 0

    def is_bad(self, index: int) -> bool:
        """Whether an EV is ASSUMED_BAD and its port up, at both ends."""
        return self._evs.state[index] == _BAD and not self._evs.closed[self._evs.plane_of[index]]

    def is_denied(self, index: int) -> bool:
        """Whether an EV may carry nothing, not even a probe."""
        return self._evs.state[index] == _DENIED

    # ------------------------------------------------------------------ controller

    def holds(self, ev: int) -> python[bool]:
        """Whether the profile has this EV."""
        index = self.index(ev)
        return index >= 0 and self._evs.plane_of[index] >= 0

    def current(self) -> python[list[int]]:
        """Indexes of the EVs the profile has, in its order."""
        return self._evs.current()

    def deny(self, ev: int) -> python[None]:
        """Send nothing on this EV until it is allowed again. Raises CallerError for an EV of another profile."""
        self._feed(self._of_profile(ev), EvInput.DENY)

    def allow(self, ev: int) -> python[None]:
        """Undo `deny`; an EV that is not DENIED stays what it is. Raises CallerError for an EV of another profile."""
        self._feed(self._of_profile(ev), EvInput.ALLOW)

    def _of_profile(self, ev: int) -> python[int]:
        if not self.holds(ev):
            raise CallerError(f"EV {ev:#010x} is not one of this QP's profile")
        return self.index(ev)

    def replace(self, paths: Sequence[Path], numbers: Sequence[int], config: PathConfig) -> python[None]:
        """Have exactly these EVs from now on; `numbers` are what the peer node calls them.

        Those that stay keep their state. Those that go carry nothing any more; what is in flight on them is still
        accounted for. Ports that the profile did not have are taken to be up. Raises CallerError, and nothing has
        changed, for an empty or ambiguous profile.
        """
        if not paths or len({path.ev for path in paths}) != len(paths):
            raise CallerError("a profile has at least one EV, and each once")
        before = set(self.current())
        fresh = [each for each in zip(paths, numbers, strict=True) if self.index(each[0].ev) < 0]
        if fresh:
            self._enter(fresh)
            if self._trace is not None:
                self._trace.evs_added([path.ev for path, _ in fresh])
        after = {self.index(path.ev) for path in paths}
        for index in before - after:
            self._retire(index)
        for index in after - before:
            self._bring_in(index)
        self._evs.arrange(sorted(after))
        # The state of a port that the profile does not have is not reported here.
        self._ports_down &= set(self._evs.ports())
        self._peer_ports_down &= set(self._evs.ports())
        for plane, port in enumerate(self._evs.ports()):
            self._close(plane, port)
        self._min_active = _least_active(len(after), config)
        self._rotation.renew(config.active_count)
        self.control.renew()
        self._changed()

    def _enter(self, paths: Sequence[tuple[Path, int]]) -> python[None]:
        """Give EVs that were never in the profile an index each; they are in none yet."""
        self._evs.add([path for path, _ in paths], [number for _, number in paths])
        self.paths = (*self.paths, *(path for path, _ in paths))
        self._enter_frames([path for path, _ in paths])
        bad = [self.newly_bad[place] for place in range(self.newly_bad_count)]
        self.newly_bad, self._is_newly_bad = column(self._evs.count), memoryview(bytearray(self._evs.count))
        self.newly_bad_count = 0
        for index in bad:
            self._note_bad(index)

    def _enter_frames(self, paths: Sequence[Path]) -> python[None]:
        if self._shares_frames and len(self.paths) == len(paths):
            return
        if self._shares_frames:
            # Other EVs than those of the beginning: their indexes are our own.
            self._shares_frames, self.frames, paths = False, Frames(), self.paths
        self.frames.extend(
            [path.template for path in paths], [path.port for path in paths], [path.destination for path in paths]
        )

    def _bring_in(self, index: int) -> python[None]:
        """The profile has this EV from now on."""
        self._evs.state[index] = EvState.GOOD
        self._reverse.users[self._evs.number[index]] += 1

    def _retire(self, index: int) -> python[None]:
        """The profile no longer has this EV."""
        self._reverse.users[self._evs.number[index]] -= 1
        if self._evs.state[index] == _DENIED:
            self._reverse.deny(self._evs.number[index], -1)
        self._evs.condemned_by[index] = NEVER
        # No feedback leads out of it.
        self._evs.state[index] = _DENIED

    def release(self) -> python[None]:
        """The QP is gone: what it said of EVs to its peer node holds no longer."""
        if not self._released:
            self._released = True
            for index in self.current():
                self._retire(index)

    # ------------------------------------------------------------------ ports

    def set_port(self, port: int, up: bool) -> python[None]:
        """A local port's link changed: its EVs leave or rejoin the rotation at once."""
        self._set(self._ports_down, port, up)

    def set_peer_port(self, plane: int, up: bool) -> python[None]:
        """The peer said that its port on this plane is down or back: the same for the EVs of that plane."""
        for port in {path.port for path in self.paths if path.plane == plane}:
            self._set(self._peer_ports_down, port, up)

    @property
    def ports(self) -> Collection[int]:
        """The local ports of the profile's EVs."""
        return self._evs.ports()

    def port_up(self, port: int) -> python[bool]:
        """Whether a port of this QP's is up, at both ends."""
        plane = self._evs.plane_with(port)
        return plane >= 0 and not self._evs.closed[plane]

    def _set(self, down: set[int], port: int, up: bool) -> python[None]:
        plane = self._evs.plane_with(port)
        if plane < 0:
            return
        (down.discard if up else down.add)(port)
        was_closed = self._evs.closed[plane]
        self._close(plane, port)
        if self._evs.closed[plane] == was_closed:
            # With every plane closed, control packets still go by what is up here.
            self.control.changed()
            return
        for index in self._evs.members_of(plane):
            if not was_closed:
                self._evs.condemned_through[index] = self._evs.last_sent_at[index]
            elif self._evs.state[index] == _BAD:
                self._note_bad(index)
        self._changed()

    def _close(self, plane: int, port: int) -> python[None]:
        """Note at which ends the port of a plane is down."""
        self._evs.shut_here[plane] = port in self._ports_down
        self._evs.closed[plane] = port in self._ports_down or port in self._peer_ports_down

    # ------------------------------------------------------------------ states

    def _feed(self, index: int, happened: int) -> int:
        """`happened` (EvInput) to an EV. Returns its state after it."""
        old = self._evs.state[index]
        new = _NEXT[old * _INPUTS + happened]
        if new == _BAD and old != _BAD and not self._can_spare(self._evs.plane_of[index]):
            new = _SKIP
        if new != old:
            self._evs.state[index] = new
            self._evs.skip_until[index] = _NEVER
            self._moved(index, old, new, happened)
        return new

    def _moved(self, index: int, old: int, new: int, happened: int) -> None:
        """An EV is in another state."""
        plane = self._evs.plane_of[index]
        if self._trace is not None or self._wanted[ANY_STATE]:
            self._report(index, old, new, happened)
        if new == _BAD:
            self._note_bad(index)
        if old == _DENIED or new == _DENIED:
            self._reverse.deny(self._evs.number[index], 1 if new == _DENIED else -1)
            self._changed()
        if _CARRIES_DATA[old] and not _CARRIES_DATA[new]:
            self._evs.usable[plane] -= 1
            self._leave(index, plane)
        elif _CARRIES_DATA[new] and not _CARRIES_DATA[old]:
            self._evs.usable[plane] += 1
            self._evs.condemned_by[index] = _NEVER
            self._rejoin(index, plane)

    def _report(self, index: int, old: int, new: int, happened: int) -> with_gil[None]:
        """Let the trace and the owner know."""
        if self._trace is not None:
            self._trace.ev_state(index, EvState(old), EvState(new), EvInput(happened))
        if self.events is not None and self._wanted[ANY_STATE]:
            path = self.paths[index]
            self.events.changed(self._qpn, self.profile_id, path.ev, path.port, EvState(old), EvState(new))

    def _report_passed(self, index: int) -> python[None]:
        """The rotation took an EV out of SKIP."""
        if self.events is not None:
            path = self.paths[index]
            self.events.changed(self._qpn, self.profile_id, path.ev, path.port, EvState.SKIP, EvState.GOOD)

    def _note_bad(self, index: int) -> None:
        """An EV is to be probed."""
        if not self._is_newly_bad[index]:
            self._is_newly_bad[index] = 1
            self.newly_bad[self.newly_bad_count] = index
            self.newly_bad_count += 1

    def _can_spare(self, plane: int) -> bool:
        """Whether an EV may go bad. Those of a port that is down do not count."""
        if self._evs.closed[plane]:
            return True
        usable = 0
        for each in range(self._evs.planes):
            if not self._evs.closed[each]:
                usable += self._evs.usable[each]
        return usable > self._min_active

    def _leave(self, index: int, plane: int) -> None:
        """An EV that can no longer be used is replaced by a reserve EV of the same plane, if there is one."""
        self._rotation.leave(plane, index)
        self.control.changed()

    def _rejoin(self, index: int, plane: int) -> None:
        """A restored EV rejoins the active set if its plane is short there, else it is reserve."""
        if self._rotation.rejoin(plane, index):
            self.control.changed()

    def _changed(self) -> None:
        """Which EVs may be used has changed."""
        self._rotation.changed()
        self.control.changed()
        self.silent = self._evs.all_denied()


def _least_active(count: int, config: PathConfig) -> python[int]:
    return -(-count // 4) if config.ev_min_active is None else config.ev_min_active
