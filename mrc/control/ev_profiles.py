# SPDX-License-Identifier: BSD-2-Clause
"""The EV profiles of an endpoint: which EVs its QPs spray over, and what becomes of the QPs when that changes
(api.md, Controller)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from errno import E2BIG, EBUSY, EINVAL, ENOTSUP
from typing import Any

from mrc.control import explicit_evs
from mrc.control.attributes import ALL_EV_EVENTS, MAX_EV_COUNT, MAX_FIELDS, EvEventMask, EvFormatAttr, EvProfileAttr
from mrc.control.errors import ControlError, arguments
from mrc.control.ev_formats import EvFormats
from mrc.control.states import ProfileState
from mrc.control.table import INIT, OFFLINE, ONLINE, ProfileTable, Slot
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.endpoint.qp import QueuePair
from mrc.errors import CallerError, PeerError
from mrc.wire.entropy import EvField, generated_count

_EV_NEEDS = {
    EvProfileMode.AUTO: frozenset[str](),
    EvProfileMode.EXPLICIT: frozenset({"count"}),
    EvProfileMode.GENERATED: frozenset({"count", "fields"}),
}
_EV_TAKES = {
    EvProfileMode.AUTO: set[str](),
    EvProfileMode.EXPLICIT: {"count", "evs", "fields"},
    EvProfileMode.GENERATED: {"count", "fields"},
}
# What makes the EVs: it goes when the mode changes.
_OF_A_MODE = ("count", "fields", "evs")
# What a profile file may leave out.
_USUAL = ("min_active", "event_mask")


class EvProfiles(ProfileTable[EvProfileAttr]):
    """EV profiles by number. `formats` has the formats they use. `planes` is the number of the endpoint's ports: a
    profile has the same number of EVs for each."""

    def __init__(self, endpoint: Endpoint, default: EvProfile, planes: int) -> None:
        super().__init__("EV", Slot(ONLINE, _attributes_of(default), list(default.evs)))
        self.formats = EvFormats(default.format, self._that_use)
        self.planes = planes
        self._endpoint = endpoint
        self._names: dict[int, tuple[Slot[EvProfileAttr], Slot[EvFormatAttr] | None, dict[int, int]]] = {}

    def _that_use(self, format_id: int) -> list[int]:
        return [
            each
            for each, slot in self.items()
            if slot.state == ONLINE and slot.attributes.get("format_id") == format_id
        ]

    def event_mask(self, profile_id: int) -> EvEventMask:
        slot = self.get(profile_id)
        mask: EvEventMask = slot.attributes.get("event_mask", ALL_EV_EVENTS) if slot else ALL_EV_EVENTS
        return mask

    def modify(self, profile_id: int, attr: EvProfileAttr, *, with_usual: bool = False) -> None:
        """`with_usual`: what is needed on the way ONLINE and was never given is as usual, as with a profile file."""
        slot = self.slot(profile_id)
        base = dict(slot.attributes)
        if attr.evs is not None:
            base.pop("count", None)
        if attr.ev_mode is not None and attr.ev_mode != base.get("ev_mode"):
            base = {name: value for name, value in base.items() if name not in _OF_A_MODE}
        wanted, merged = self.step(profile_id, attr, base, _USUAL if with_usual else ())
        if slot.state == ONLINE and wanted == OFFLINE and (users := self.users(profile_id)):
            raise ControlError(EBUSY, f"EV profile {profile_id} is used by {len(users)} QPs")
        if wanted != INIT:
            self._check(merged)
        array = _resized(slot.array, merged)
        if wanted == ONLINE:
            self._commit(profile_id, merged, array, whole=slot.state != ONLINE)
        else:
            self._endpoint.online.forget(profile_id)
        self[profile_id] = Slot(wanted, merged, array if wanted != INIT else [])

    def load(self, profile_id: int, attr: EvProfileAttr) -> None:
        """Whatever it was, it is ONLINE with these attributes and no others; its QPs have its EVs at once."""
        slot = self.slot(profile_id)
        merged = attr.given()
        if missing := sorted({"ev_mode", "format_id"} - merged.keys()):
            raise ControlError(EINVAL, f"needs {', '.join(missing)}")
        self._check(merged)
        array = _resized([], merged)
        self._commit(profile_id, merged, array, whole=slot.state != ONLINE)
        self[profile_id] = Slot(ONLINE, merged, array)

    def set(
        self, profile_id: int, state: ProfileState, attributes: dict[str, Any], array: Sequence[int | None]
    ) -> None:
        """It is as another endpoint's controller has left it. Raises ControlError, and then nothing has changed."""
        if state != INIT:
            self._check(dict(attributes))
        if state == ONLINE:
            self._commit(profile_id, attributes, list(array))
        else:
            self._endpoint.online.forget(profile_id)
        self[profile_id] = Slot(state, attributes, list(array))

    def _check(self, attributes: dict[str, Any]) -> None:
        self.formats.online(attributes["format_id"])
        mode, count = attributes["ev_mode"], attributes.get("count")
        evs = attributes.get("evs")
        if evs is not None and mode == EvProfileMode.EXPLICIT:
            # All of the array at once.
            attributes["count"] = count = len(evs) if attributes.get("count") is None else count
        if missing := _EV_NEEDS[mode] - attributes.keys():
            raise ControlError(EINVAL, f"an {mode.name} profile needs {', '.join(sorted(missing))}")
        if foreign := attributes.keys() & set(_OF_A_MODE) - _EV_TAKES[mode]:
            raise ControlError(EINVAL, f"an {mode.name} profile takes no {', '.join(sorted(foreign))}")
        if count is None:
            return
        # As many EVs of each plane: a query returns the count that the profile really has.
        attributes["count"] = count = count + -count % self.planes
        if evs is not None and len(evs) > count:
            raise ControlError(E2BIG, f"{len(evs)} EVs for an array of {count}", len(evs))
        if count > MAX_EV_COUNT:
            raise ControlError(E2BIG, f"{count} EVs, a profile has at most {MAX_EV_COUNT}", count)
        for name in ("min_active", "active_count"):
            if attributes.get(name, 1) > count:
                raise ControlError(EINVAL, f"{name} {attributes[name]} is more than the {count} EVs of the profile")
        given = attributes.get("fields", ())
        if not all(isinstance(each, EvField) for each in given):
            raise ControlError(EINVAL, "the fields of an EV profile are EvField objects")
        if len(given) > MAX_FIELDS:
            raise ControlError(E2BIG, f"{len(given)} fields, at most {MAX_FIELDS} are possible", len(given))
        if mode == EvProfileMode.GENERATED and generated_count(given) < count:
            raise ControlError(E2BIG, f"the fields allow {generated_count(given)} EVs of {count}", count)
        if given and mode == EvProfileMode.EXPLICIT:
            with arguments():
                self.formats.online(attributes["format_id"]).fit(given)
            for ev in evs or ():
                self._on_the_wire(ev, attributes)

    def profile(self, attributes: dict[str, Any], array: Sequence[int | None], *, whole: bool = False) -> EvProfile:
        """What QPs work with. Raises ControlError EINVAL; with `whole` for an array not populated in all its entries,
        too, of which QPs otherwise use those that are."""
        mode = attributes["ev_mode"]
        if whole and mode == EvProfileMode.EXPLICIT and None in array:
            raise ControlError(EINVAL, f"{array.count(None)} of {len(array)} entries of the array are not populated")
        # An EV that is there several times is one path all the same.
        named = [self._on_the_wire(ev, attributes) for ev in array if ev is not None]
        evs = tuple(dict.fromkeys(named)) if mode == EvProfileMode.EXPLICIT else ()
        least = attributes.get("min_active")
        with arguments():
            return EvProfile(
                mode,
                self.formats.online(attributes["format_id"]),
                count=attributes.get("count") if mode == EvProfileMode.GENERATED else None,
                min_active=least if not evs or least is None else min(least, len(evs)),
                active_count=attributes.get("active_count"),
                evs=evs,
                fields=attributes.get("fields", ()) if mode == EvProfileMode.GENERATED else (),
            )

    def _on_the_wire(self, ev: int, attributes: dict[str, Any]) -> int:
        return explicit_evs.on_the_wire(ev, attributes, self.formats.online(attributes["format_id"]))

    def on_the_wire(self, profile_id: int, ev: int) -> int:
        """The EV that packets carry for one that the controller names. Raises ControlError EINVAL."""
        return self._on_the_wire(ev, self[profile_id].attributes)

    def names(self, profile_id: int) -> dict[int, int]:
        """What the controller calls the EVs that packets carry, of an EXPLICIT profile with fields; else nothing.

        Asked for each event of an EV, and worked out once for a profile as it is: each change makes another slot.
        """
        slot = self.get(profile_id)
        if slot is None or not slot.attributes.get("fields"):
            return {}
        format_id = slot.attributes["format_id"]
        of = slot, self.formats.get(format_id)
        known = self._names.get(profile_id)
        if known is None or known[0] is not of[0] or known[1] is not of[1]:
            known = *of, explicit_evs.names(slot.attributes, slot.array, self.formats.online(format_id))
            self._names[profile_id] = known
        return known[2]

    def _commit(
        self, profile_id: int, attributes: dict[str, Any], array: list[int | None], *, whole: bool = False
    ) -> None:
        """The QPs that use it have its EVs from now on. Raises ControlError EINVAL, and then nothing has changed."""
        profile = self.profile(attributes, array, whole=whole)
        moves = [(qp, self._paths(qp, profile)) for qp in self.users(profile_id) if qp.paths is not None]
        self._endpoint.online.ev[profile_id] = profile
        self._use(moves, profile_id, profile)

    def _use(self, moves: Sequence[tuple[QueuePair, Sequence[Path]]], profile_id: int, profile: EvProfile) -> None:
        """Give these QPs their paths by a profile."""
        for qp, paths in moves:
            config = profile.path_config(replace(qp.config.paths, active_count=None, ev_min_active=None))
            qp.use_paths(paths, profile_id, config)
            self._endpoint.wake(qp)

    @staticmethod
    def _paths(qp: QueuePair, profile: EvProfile) -> Sequence[Path]:
        node = qp.peer_node
        if node is None or node.paths_of is None:
            raise ControlError(ENOTSUP, f"QP {qp.qpn:#08x} was given its EVs by hand: they cannot be made anew")
        try:
            return node.paths_of(profile)
        except (CallerError, PeerError) as error:
            raise ControlError(EINVAL, f"QP {qp.qpn:#08x}: {error}") from None

    def try_ev(self, profile_id: int, ev: int) -> None:
        """Whether the QPs of a profile could have this EV. Raises ControlError EINVAL when not."""
        profile = self.profile(self[profile_id].attributes, [ev])
        for qp in self.users(profile_id):
            if qp.paths is not None:
                self._paths(qp, profile)

    def replace_entries(self, profile_id: int, array: list[int | None]) -> None:
        """The array of an EXPLICIT profile becomes this one."""
        slot = self[profile_id]
        if slot.state == ONLINE:
            self._commit(profile_id, slot.attributes, array)
        self[profile_id] = Slot(slot.state, slot.attributes, array)

    def move(self, old: int, new: int) -> int:
        """QPs that use one EV profile use another from now on. Returns how many. Both are ONLINE."""
        for profile_id in (old, new):
            if self.slot(profile_id).state != ONLINE:
                raise ControlError(EINVAL, f"EV profile {profile_id} is not ONLINE")
        slot = self[new]
        profile = self.profile(slot.attributes, slot.array)
        users = self.users(old)
        moves = [(qp, self._paths(qp, profile)) for qp in users if qp.paths is not None]
        self._use(moves, new, profile)
        for qp in users:
            qp.ev_profile_id = new
        return len(users)

    def users(self, profile_id: int) -> list[QueuePair]:
        return [qp for qp in self._endpoint.qps.values() if qp.ev_profile_id == profile_id]


def _resized(array: list[int | None], attributes: dict[str, Any]) -> list[int | None]:
    """The array for these attributes: `evs` where they are given, otherwise as it was with room for `count`."""
    if attributes.get("ev_mode") != EvProfileMode.EXPLICIT:
        return []
    array = list(attributes.pop("evs", array))
    count: int = attributes["count"]
    return array[:count] + [None] * (count - len(array))


def _attributes_of(profile: EvProfile) -> dict[str, Any]:
    """The default profile's, as a controller would have given them."""
    attributes: dict[str, Any] = {"ev_mode": profile.mode, "format_id": 0}
    for name in ("count", "min_active", "active_count"):
        if (value := getattr(profile, name)) is not None:
            attributes[name] = value
    if profile.fields:
        attributes["fields"] = profile.fields
    return attributes
