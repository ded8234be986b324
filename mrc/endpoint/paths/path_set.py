"""The EVs of one QP: it alone decides which EV a packet gets (behaviour.md, Paths).

The profile's EVs are numbered 0 .. n-1 (an *index*); per-EV state lies in arrays over that index. Active EVs are
in the rotation; the rest of the usable ones are the reserve.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import PathConfig, PeerNodeConfig
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.control_evs import ControlEvs
from mrc.endpoint.paths.ev_events import EvEvents
from mrc.endpoint.paths.reverse import ReverseEvs
from mrc.endpoint.paths.rotation import Rotation
from mrc.endpoint.paths.states import EvInput, EvState, next_state
from mrc.endpoint.tracing import QpTrace
from mrc.errors import CallerError
from mrc.wire.frames import Frames

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_SKIP, _BAD, _DENIED = int(EvState.SKIP), int(EvState.ASSUMED_BAD), int(EvState.DENIED)
_MARKED, _ALWAYS_SKIP, _LOST = int(EvInput.MARKED), int(EvInput.ALWAYS_SKIP), int(EvInput.LOST)
_INPUTS = len(EvInput)
# [state * _INPUTS + what happened] to the state after it.
_NEXT = memoryview(bytes(next_state(state, happened) for state in EvState for happened in EvInput))
NEVER = -1
_NEVER = NEVER
_NO_PORTS: Set[int] = frozenset()


class PathSet:
    """EV states, rotation, reserve and planes of one QP. Raises CallerError for an empty or ambiguous profile.

    `reverse` is what is known of the peer node's EVs and `numbers` what these EVs are called there; without it the
    QP keeps that knowledge for itself. Changes go to `events` under the names `qpn` and `profile_id`. An EV keeps its
    index for good: one that a profile no longer has is *retired*. `frames` has them all as ways.
    """

    __slots__ = (
        "_condemned_by",
        "_condemned_through",
        "_first_sent_at",
        "_full_ports",
        "_index_of_ev",
        "_last_sent_at",
        "_lost",
        "_marked",
        "_members",
        "_min_active",
        "_numbers",
        "_packets",
        "_peer_ports_down",
        "_port_of",
        "_ports_down",
        "_qpn",
        "_random",
        "_released",
        "_retired",
        "_reverse",
        "_rotation",
        "_state",
        "_trace",
        "_usable_evs",
        "control",
        "events",
        "first_sent_at",
        "frames",
        "last_sent_at",
        "lost",
        "marked",
        "newly_bad",
        "packets",
        "paths",
        "port",
        "profile_id",
        "silent",
        "state",
    )

    def __init__(
        self,
        paths: Sequence[Path],
        config: PathConfig,
        random: np.random.Generator,
        *,
        reverse: ReverseEvs | None = None,
        numbers: I64 | None = None,
        events: EvEvents | None = None,
        qpn: int = 0,
        profile_id: int = 0,
        full_ports: Set[int] = frozenset(),
        trace: QpTrace | None = None,
    ) -> None:
        """`full_ports` are the local ports without room for a packet just now, kept by the owner."""
        if not paths:
            raise CallerError("a QP needs at least one EV")
        self.paths = tuple(paths)
        count = len(self.paths)
        self._index_of_ev = {path.ev: index for index, path in enumerate(self.paths)}
        if len(self._index_of_ev) != count:
            raise CallerError("the EVs of a profile must differ")
        self._random = random
        self._qpn = qpn
        self.profile_id = profile_id
        self._trace = trace
        self._full_ports = full_ports
        self.events = events
        self.port: I64 = np.array([path.port for path in self.paths], np.int64)
        self.frames = Frames()
        for path in self.paths:
            self.frames.add(path.template, path.port, path.destination)
        self.state: U8 = np.zeros(count, np.uint8)
        self.packets: I64 = np.zeros(count, np.int64)
        self.lost: I64 = np.zeros(count, np.int64)
        self.marked: I64 = np.zeros(count, np.int64)
        self.first_sent_at: I64 = np.full(count, NEVER, np.int64)
        self.last_sent_at: I64 = np.full(count, NEVER, np.int64)
        # EVs that became ASSUMED_BAD and whose probing has not been taken up yet.
        self.newly_bad: list[int] = []
        self._members = {port: np.flatnonzero(self.port == port) for port in sorted(set(self.port.tolist()))}
        self._rotation = Rotation(self._members, config.active_count, random, trace, self._passed)
        self._ports_down: set[int] = set()
        self._peer_ports_down: set[int] = set()
        # By port the EVs in GOOD or SKIP.
        self._usable_evs = {port: len(members) for port, members in self._members.items()}
        self._min_active = _least_active(count, config)
        # Whether every EV is DENIED: then nothing at all may leave.
        self.silent = False
        self._retired: set[int] = set()
        self._released = False
        # The PSN whose loss condemned an EV, and when the last packet was sent on it that went down with it.
        self._condemned_by: dict[int, int] = {}
        self._condemned_through: I64 = np.full(count, NEVER, np.int64)
        self._reverse = reverse or ReverseEvs(PeerNodeConfig(), count)
        self._numbers: I64 = np.arange(count) if numbers is None else numbers
        self._reverse.users[self._numbers] += 1
        self.control = ControlEvs(self._reverse, random, self._control_columns)
        self._look()

    # ------------------------------------------------------------------ choosing

    def _look(self) -> None:
        """The arrays are others: have views of them."""
        self._state = self.state.data
        self._port_of = self.port.data
        self._packets = self.packets.data
        self._lost = self.lost.data
        self._marked = self.marked.data
        self._first_sent_at = self.first_sent_at.data
        self._last_sent_at = self.last_sent_at.data

    def select(self, now: int, avoid: int = _NEVER) -> int:
        """The index of the EV the next packet gets, -1 when no EV is usable. It gets `avoid` only when there is no
        other."""
        if self._full_ports:
            index = self._select_beside(avoid)
        else:
            index = self._rotation.take(self._state)
            if index == avoid != _NEVER:
                index = self._rotation.take_other(self._state, self._port_of, _NO_PORTS, avoid)
        if index == _NEVER:
            return _NEVER
        self._packets[index] += 1
        self._last_sent_at[index] = now
        if self._first_sent_at[index] == _NEVER:
            self._first_sent_at[index] = now
        return index

    def _select_beside(self, avoid: int) -> int:
        """An EV whose port has room."""
        if not self._rotation.usable_beside(self._full_ports):
            return _NEVER
        return self._rotation.take_other(self._state, self._port_of, self._full_ports, avoid)

    def usable(self) -> bool:
        """Whether any EV may carry data now."""
        return self._rotation.usable_beside(self._full_ports) if self._full_ports else self._rotation.usable

    def has_newly_bad(self) -> bool:
        """Whether an EV turned bad whose probing has not been taken up."""
        return bool(self.newly_bad)

    def _control_columns(self) -> list[I64]:
        """By plane the EVs that control packets may take: known good ones where there are any. None while `silent`."""
        allowed = {port: mine[self.state[mine] != _DENIED] for port, mine in self._members.items()}
        planes: list[I64] = []
        # When the peer said that every plane is down, one that is up here may be back there unannounced.
        for closed in (self._rotation.closed, self._ports_down, frozenset[int]()):
            planes = planes or [mine for port, mine in allowed.items() if port not in closed and len(mine)]
        chosen = [mine[self._reverse.choose(self._numbers[mine])] for mine in planes]
        return [mine for mine in chosen if len(mine)] or planes

    # ------------------------------------------------------------------ feedback

    def index(self, ev: int) -> int:
        """The index of an EV of this profile, or -1."""
        return self._index_of_ev.get(ev, NEVER)

    def on_ev_answered(self, index: int, now: int) -> None:
        """What was sent on this EV was acknowledged: control packets may take it."""
        self._reverse.confirm_by_data(self._numbers[index], now)

    def on_mark(self, index: int, m: int) -> None:
        """A SACK said m (1 or 2) for this EV."""
        self._marked[index] += 1
        self._feed(index, _MARKED if m == 1 else _ALWAYS_SKIP)

    def on_trimmed(self, index: int) -> None:
        """A NACK TRIMMED named this EV."""
        self._marked[index] += 1
        self._feed(index, _MARKED)

    def on_loss(self, index: int, psn: int, sent_at: int = _NEVER) -> None:
        """The transmission of `psn` on this EV at `sent_at`, -1 where that is not known, was lost untrimmed.

        What was in flight when the EV or its port went down is part of that event and condemns nothing again.
        """
        self._lost[index] += 1
        self._reverse.lose(int(self._numbers[index]))
        if _NEVER < sent_at <= self._condemned_through[index]:
            return
        was_bad = self._state[index] == _BAD
        self._condemned_through[index] = self._last_sent_at[index]
        if self._feed(index, _LOST) == _BAD and not was_bad:
            self._condemned_by[index] = psn

    def on_spurious(self, index: int, psn: int) -> None:
        """The loss of `psn` on this EV was none: undone if that loss condemned it."""
        self._lost[index] -= 1
        if self._condemned_by.get(index) == psn:
            self._condemned_through[index] = NEVER
            self._feed(index, EvInput.SPURIOUS)

    def on_probed(self, index: int, marked: bool) -> None:
        """Enough consecutive probes on this EV were answered."""
        self._feed(index, EvInput.PROBED_MARKED if marked else EvInput.PROBED_CLEAR)

    def on_probe_failed(self, index: int) -> None:
        """A probe on this EV was not answered."""
        self._reverse.lose(int(self._numbers[index]))

    # ------------------------------------------------------------------ controller

    def holds(self, ev: int) -> bool:
        """Whether the profile has this EV."""
        index = self.index(ev)
        return index >= 0 and index not in self._retired

    def current(self) -> list[int]:
        """Indexes of the EVs the profile has, in its order."""
        return [index for index in range(len(self.paths)) if index not in self._retired]

    def deny(self, ev: int) -> None:
        """Send nothing on this EV until it is allowed again. Raises CallerError for an EV of another profile."""
        self._feed(self._of_profile(ev), EvInput.DENY)

    def allow(self, ev: int) -> None:
        """Undo `deny`; an EV that is not DENIED stays what it is. Raises CallerError for an EV of another profile."""
        self._feed(self._of_profile(ev), EvInput.ALLOW)

    def _of_profile(self, ev: int) -> int:
        if not self.holds(ev):
            raise CallerError(f"EV {ev:#010x} is not one of this QP's profile")
        return self.index(ev)

    def replace(self, paths: Sequence[Path], numbers: I64, config: PathConfig) -> None:
        """Have exactly these EVs from now on; `numbers` are what the peer node calls them.

        Those that stay keep their state. Those that go carry nothing any more; what is in flight on them is still
        accounted for. Ports that the profile did not have are taken to be up. Raises CallerError, and nothing has
        changed, for an empty or ambiguous profile.
        """
        if not paths or len({path.ev for path in paths}) != len(paths):
            raise CallerError("a profile has at least one EV, and each once")
        before = set(self.current())
        self._add([(path, int(number)) for path, number in zip(paths, numbers, strict=True)])
        after = {self._index_of_ev[path.ev] for path in paths}
        for index in before - after:
            self._retire(index)
        for index in after & self._retired:
            self.state[index] = EvState.GOOD
            self._reverse.users[self._numbers[index]] += 1
        self._retired = set(range(len(self.paths))) - after
        current = np.array(sorted(after), np.int64)
        port = self.port[current]
        self._members = {each: current[port == each] for each in sorted(set(port.tolist()))}
        self._usable_evs = {each: int((self.state[mine] <= _SKIP).sum()) for each, mine in self._members.items()}
        self._min_active = _least_active(len(current), config)
        self._rotation.renew(self._members, config.active_count, self.state)
        self._changed()

    def _add(self, paths: Sequence[tuple[Path, int]]) -> None:
        """Give those of these EVs that were never in the profile an index, retired as yet."""
        fresh = [(path, number) for path, number in paths if path.ev not in self._index_of_ev]
        if not fresh:
            return
        first = len(self.paths)
        self._retired |= set(range(first, first + len(fresh)))
        for path, _ in fresh:
            self._index_of_ev[path.ev] = len(self.paths)
            self.paths = (*self.paths, path)
            self.frames.add(path.template, path.port, path.destination)
        self.port = np.concatenate((self.port, [path.port for path, _ in fresh]))
        self._numbers = np.concatenate((self._numbers, [number for _, number in fresh]))
        self.state = np.concatenate((self.state, np.full(len(fresh), _DENIED, np.uint8)))
        none: I64 = np.zeros(len(fresh), np.int64)
        self.packets = np.concatenate((self.packets, none))
        self.lost = np.concatenate((self.lost, none))
        self.marked = np.concatenate((self.marked, none))
        never: I64 = np.full(len(fresh), NEVER, np.int64)
        self.first_sent_at = np.concatenate((self.first_sent_at, never))
        self.last_sent_at = np.concatenate((self.last_sent_at, never))
        self._condemned_through = np.concatenate((self._condemned_through, never))
        self._look()
        if self._trace is not None:
            self._trace.evs_added([path.ev for path, _ in fresh])

    def _retire(self, index: int) -> None:
        """The profile no longer has this EV."""
        number = self._numbers[index]
        self._reverse.users[number] -= 1
        if self.state[index] == _DENIED:
            self._reverse.denied[number] -= 1
        self._condemned_by.pop(index, None)
        # No feedback leads out of it.
        self.state[index] = _DENIED

    def release(self) -> None:
        """The QP is gone: what it said of EVs to its peer node holds no longer."""
        if not self._released:
            self._released = True
            for index in self.current():
                self._retire(index)

    # ------------------------------------------------------------------ ports

    def set_port(self, port: int, up: bool) -> None:
        """A local port's link changed: its EVs leave or rejoin the rotation at once."""
        self._set(self._ports_down, port, up)

    def set_peer_port(self, plane: int, up: bool) -> None:
        """The peer said that its port on this plane is down or back: the same for the EVs of that plane."""
        for port in {path.port for path in self.paths if path.plane == plane}:
            self._set(self._peer_ports_down, port, up)

    @property
    def ports(self) -> Collection[int]:
        """The local ports of the profile's EVs."""
        return self._members.keys()

    def port_up(self, port: int) -> bool:
        """Whether a port of this QP's is up, at both ends."""
        return port in self._members and port not in self._rotation.closed

    def _set(self, down: set[int], port: int, up: bool) -> None:
        if port not in self._members:
            return
        (down.discard if up else down.add)(port)
        closed = port in self._ports_down or port in self._peer_ports_down
        if closed == (port in self._rotation.closed):
            # With every plane closed, control packets still go by what is up here.
            self.control.changed()
            return
        members = self._members[port]
        if closed:
            self._rotation.closed.add(port)
            self._condemned_through[members] = self.last_sent_at[members]
        else:
            self._rotation.closed.discard(port)
            self.newly_bad += members[self.state[members] == _BAD].tolist()
        self._changed()

    # ------------------------------------------------------------------ states

    def _feed(self, index: int, happened: int) -> int:
        """`happened` (EvInput) to an EV. Returns its state after it."""
        old = self._state[index]
        new = _NEXT[old * _INPUTS + happened]
        if new == _BAD and old != _BAD and not self._can_spare(self._port_of[index]):
            new = _SKIP
        if new != old:
            self._state[index] = new
            self._moved(index, old, new, happened)
        return new

    def _moved(self, index: int, old: int, new: int, happened: int) -> None:
        """An EV is in another state."""
        port = self._port_of[index]
        if self._trace is not None:
            self._trace.ev_state(index, EvState(old), EvState(new), EvInput(happened))
        if new == _BAD:
            self.newly_bad.append(index)
        if _DENIED in (old, new):
            self._reverse.denied[self._numbers[index]] += 1 if new == _DENIED else -1
            self._changed()
        if new > _SKIP >= old:
            self._usable_evs[port] -= 1
            self._leave(index, port)
        elif old > _SKIP >= new:
            self._usable_evs[port] += 1
            self._condemned_by.pop(index, None)
            self._rejoin(index, port)
        if self.events is not None and self.events.wanted_by_any:
            self.events.changed(self._qpn, self.profile_id, self.paths[index].ev, port, EvState(old), EvState(new))

    def _passed(self, index: int) -> None:
        """The rotation took an EV out of SKIP."""
        if self.events is not None and _SKIP in self.events.wanted_by_any:
            ev, port = self.paths[index].ev, self._port_of[index]
            self.events.changed(self._qpn, self.profile_id, ev, port, EvState.SKIP, EvState.GOOD)

    def _can_spare(self, port: int) -> bool:
        """Whether an EV may go bad. Those of a port that is down do not count."""
        closed = self._rotation.closed
        if port in closed:
            return True
        usable = 0
        for up, count in self._usable_evs.items():
            if up not in closed:
                usable += count
        return usable > self._min_active

    def _leave(self, index: int, port: int) -> None:
        """An EV that can no longer be used is replaced by a reserve EV of the same plane, if there is one."""
        members = self._members[port]
        self._rotation.leave(port, index, members[self.state[members] <= _SKIP])
        self.control.changed()

    def _rejoin(self, index: int, port: int) -> None:
        """A restored EV rejoins the active set if its plane is short there, else it is reserve."""
        if self._rotation.rejoin(port, index, self.port):
            self.control.changed()

    def _changed(self) -> None:
        """Which EVs may be used has changed."""
        self._rotation.changed()
        self.control.changed()
        self.silent = all(bool((self.state[mine] == _DENIED).all()) for mine in self._members.values())


def _least_active(count: int, config: PathConfig) -> int:
    return -(-count // 4) if config.ev_min_active is None else config.ev_min_active
