# SPDX-License-Identifier: BSD-2-Clause
"""Operations on the EVs of a profile, in batches that end at the first entry that fails (api.md, Controller)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from errno import E2BIG, EINVAL, ENOENT

from mrc.control.attributes import MAX_BATCH
from mrc.control.errors import ControlError
from mrc.control.peers import find_peer
from mrc.control.profiles import Profiles
from mrc.control.states import ProfileState
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState, worst
from mrc.endpoint.qp import QueuePair
from mrc.records import record
from mrc.verbs.tables import Tabular


class EvOpKind(IntEnum):
    """What an EV operation does: replace an EV, change the state of one, ask for it."""

    REPLACE = 0
    MODIFY_STATE = 1
    QUERY_STATE = 2


@record(frozen=True, slots=True)
class EvOp(Tabular):
    """One operation on EV `ev` of a profile.

    REPLACE puts `new_ev` in its place: in the first entry that has it, with `all_copies` in every one, with `index`
    only in that entry. Without `ev` it fills entry `index`, or the first that is not populated. Where `state` is given
    the new EV has it. MODIFY_STATE sets `state`, DENIED or GOOD, towards `peer` (an address or a name) or towards all.
    QUERY_STATE asks the worst state it has, towards `peer` or all.
    """

    op: EvOpKind
    ev: int | None = None
    new_ev: int | None = None
    index: int | None = None
    state: EvState | None = None
    peer: str | None = None
    all_copies: bool = False


@record(frozen=True, slots=True)
class EvOpResult(Tabular):
    """How one entry went: `errno` 0 and how many array entries or QPs it was about, or why not. `state`: if asked.

    `reason` does not name the entry's own EV or index: who shows it says in front what it is about.
    """

    errno: int = 0
    reason: str = ""
    count: int = 0
    state: EvState | None = None


@record(frozen=True, slots=True)
class EvEntry(Tabular):
    """An EV of a profile as one QP has it. Counts are packets."""

    qp_num: int
    peer: str
    ev: int
    plane: int
    port_num: int
    spine: int
    state: EvState
    packets: int
    lost: int
    marked: int


def run_batch(
    profiles: Profiles, profile_id: int, batch: Sequence[EvOp], *, keep_going: bool = False
) -> list[EvOpResult]:
    """Entries in turn, to the first that fails, whose result is the last; with `keep_going` all of them.

    Raises ControlError for the batch as a whole: ENOENT without such a profile, E2BIG.
    """
    profiles.evs.described(profile_id)
    if len(batch) > MAX_BATCH:
        raise ControlError(E2BIG, f"{len(batch)} operations in one batch, at most {MAX_BATCH} are possible", len(batch))
    replacing = _Replacing(profiles, profile_id)
    results = []
    for entry in batch:
        try:
            if entry.op == EvOpKind.REPLACE:
                results.append(replacing.replace(entry))
                if entry.state is not None:
                    replacing.commit()
                    given = replace(entry, op=EvOpKind.MODIFY_STATE, ev=entry.new_ev)
                    _modify_state(profiles, profile_id, given)
            elif entry.op == EvOpKind.MODIFY_STATE:
                replacing.commit()
                results.append(_modify_state(profiles, profile_id, entry))
            elif entry.op == EvOpKind.QUERY_STATE:
                replacing.commit()
                results.append(_query_state(profiles, profile_id, entry))
            else:
                raise ControlError(EINVAL, f"{entry.op!r} is no operation on EVs")
        except ControlError as error:
            results.append(EvOpResult(error.errno or EINVAL, error.reason))
            if not keep_going:
                break
    replacing.commit()
    return results


class _Replacing:
    """Replacements of one batch, put into effect together: a profile may be without an EV for none of them."""

    def __init__(self, profiles: Profiles, profile_id: int) -> None:
        self._profiles = profiles
        self._id = profile_id
        self._changed: list[int | None] | None = None

    def replace(self, entry: EvOp) -> EvOpResult:
        slot = self._profiles.evs[self._id]
        if slot.attributes["ev_mode"] != EvProfileMode.EXPLICIT:
            mode = slot.attributes["ev_mode"].name
            raise ControlError(EINVAL, f"the EVs of an {mode} profile are not the controller's to replace")
        array = list(slot.array if self._changed is None else self._changed)
        new = entry.new_ev
        if entry.state not in (None, EvState.DENIED, EvState.GOOD):
            raise ControlError(EINVAL, f"a controller sets DENIED or GOOD, not {entry.state!r}")
        if type(new) is not int or not 0 <= new < 1 << 32:
            raise ControlError(EINVAL, f"an EV has 32 bits, new_ev is {new!r}")
        self._profiles.evs.on_the_wire(self._id, new)
        places = self._places(array, entry)
        for place in places:
            array[place] = new
        if slot.state == ProfileState.ONLINE:
            self._profiles.evs.try_ev(self._id, new)
        self._changed = array
        return EvOpResult(count=len(places))

    @staticmethod
    def _places(array: Sequence[int | None], entry: EvOp) -> list[int]:
        index, ev = entry.index, entry.ev
        if index is not None:
            if not 0 <= index < len(array):
                raise ControlError(ENOENT, f"the array has {len(array)} entries")
            if ev is not None and array[index] != ev:
                raise ControlError(ENOENT, f"entry {index} has another EV")
            return [index]
        places = [place for place, has in enumerate(array) if has == ev]
        if not places:
            raise ControlError(ENOENT, "every entry is populated" if ev is None else "not in the array")
        return places if entry.all_copies else places[:1]

    def commit(self) -> None:
        if self._changed is not None:
            self._profiles.evs.replace_entries(self._id, self._changed)
            self._changed = None


def _members(profiles: Profiles, profile_id: int, peer: PeerNode | None) -> Iterator[tuple[QueuePair, PathSet]]:
    """The QPs with this profile that have EVs, towards one peer or all."""
    for qp in profiles.evs.users(profile_id):
        if qp.paths is not None and (peer is None or qp.peer_node is peer):
            yield qp, qp.paths


def _holders(profiles: Profiles, profile_id: int, entry: EvOp) -> tuple[int, PeerNode | None, list[QueuePair]]:
    """The EV as packets carry it, the peer, and the QPs that have it.

    Raises ControlError ENOENT when it is known that there is none.
    """
    ev = entry.ev
    if type(ev) is not int or not 0 <= ev < 1 << 32:
        raise ControlError(EINVAL, f"an EV has 32 bits, ev is {ev!r}")
    peer = None if entry.peer is None else find_peer(profiles.endpoint, entry.peer)
    everybody = list(_members(profiles, profile_id, peer))
    slot = profiles.evs[profile_id]
    explicit = slot.attributes["ev_mode"] == EvProfileMode.EXPLICIT
    if slot.attributes.get("fields") and explicit and ev not in slot.array:
        raise ControlError(ENOENT, f"not in EV profile {profile_id}")
    carried = profiles.evs.on_the_wire(profile_id, ev)
    holders = [qp for qp, paths in everybody if paths.holds(carried)]
    if not holders and ev not in slot.array and (explicit or everybody):
        raise ControlError(ENOENT, f"not in EV profile {profile_id}")
    return carried, peer, holders


def _modify_state(profiles: Profiles, profile_id: int, entry: EvOp) -> EvOpResult:
    if entry.state not in (EvState.DENIED, EvState.GOOD):
        raise ControlError(EINVAL, f"a controller sets DENIED or GOOD, not {entry.state!r}")
    ev, peer, holders = _holders(profiles, profile_id, entry)
    key = None if peer is None else peer.key
    online = profiles.endpoint.online
    (online.deny if entry.state == EvState.DENIED else online.allow)(profile_id, ev, key)
    for qp in holders:
        if qp.paths is not None:
            (qp.paths.deny if entry.state == EvState.DENIED else qp.paths.allow)(ev)
            profiles.endpoint.wake(qp)
    return EvOpResult(count=len(holders))


def _query_state(profiles: Profiles, profile_id: int, entry: EvOp) -> EvOpResult:
    ev, peer, holders = _holders(profiles, profile_id, entry)
    states = [EvState(int(qp.paths.state[qp.paths.index(ev)])) for qp in holders if qp.paths is not None]
    if not states:
        towards = profiles.endpoint.online.denied_towards(profile_id, ev)
        denied = None in towards or (peer is not None and peer.key in towards)
        states = [EvState.DENIED if denied else EvState.GOOD]
    return EvOpResult(count=len(holders), state=worst(states))


def entries(profiles: Profiles, profile_id: int, most: int) -> list[EvEntry]:
    """What every QP with this profile has. Raises ControlError ENOENT without such a profile, E2BIG above `most`."""
    profiles.evs.described(profile_id)
    members = list(_members(profiles, profile_id, None))
    needed = sum(len(paths.current()) for _, paths in members)
    if needed > most:
        raise ControlError(E2BIG, f"there are {needed} EVs, room for {most} was given", needed)
    found = [entry for qp, paths in members for entry in _of_qp(qp, paths)]
    names = profiles.evs.names(profile_id)
    return [replace(entry, ev=names.get(entry.ev, entry.ev)) for entry in found] if names else found


def _of_qp(qp: QueuePair, paths: PathSet) -> Iterator[EvEntry]:
    columns = (paths.state, paths.packets, paths.lost, paths.marked)
    state, packets, lost, marked = (column.tolist() for column in columns)
    peer = qp.peer_node.label if qp.peer_node is not None else ""
    for index in paths.current():
        path = paths.paths[index]
        yield EvEntry(
            qp.qpn, peer, path.ev, path.plane, path.port + 1, path.spine,
            EvState(state[index]), packets[index], lost[index], marked[index],
        )  # fmt: skip
