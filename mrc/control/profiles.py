# SPDX-License-Identifier: BSD-2-Clause
"""The three tables of profiles of one endpoint, and what becomes of the QPs when one changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from errno import E2BIG, EBUSY, EINVAL, ENOENT, ENOTSUP, EPERM
from typing import Any, Generic, TypeVar

from mrc.control import explicit_evs
from mrc.control.attributes import (
    ALL_EV_EVENTS,
    MAX_EV_COUNT,
    MAX_FIELDS,
    MAX_PROFILES,
    CcProfileAttr,
    EvEventMask,
    EvFormatAttr,
    EvProfileAttr,
    ProfileAttr,
)
from mrc.control.errors import ControlError, arguments
from mrc.control.states import ProfileState, check
from mrc.endpoint.congestion import (
    DEFAULT_ALGORITHM,
    Configured,
    algorithm_names,
    config_of,
    configured,
    factory_of,
    name_of,
)
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.online import DEFAULT_PROFILE
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.endpoint.qp import QueuePair
from mrc.errors import CallerError, PeerError
from mrc.verbs.device import Device
from mrc.verbs.tables import brief
from mrc.wire.entropy import EvField, generated_count

INIT, OFFLINE, ONLINE = ProfileState
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

A = TypeVar("A", bound=ProfileAttr)
T = TypeVar("T")


@dataclass(slots=True)
class Slot(Generic[A]):
    """A profile: its state, its attributes by name, and the array of an EXPLICIT one (None: not populated)."""

    state: ProfileState = ProfileState.INIT
    attributes: dict[str, Any] = field(default_factory=dict)
    array: list[int | None] = field(default_factory=list)


class Profiles:
    """All profiles of a device. Profile 0 of each kind is the default one: ONLINE from the start, and for good."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.endpoint: Endpoint = device.endpoint
        self.formats: dict[int, Slot[EvFormatAttr]] = {}
        self._names: dict[int, tuple[Slot[EvProfileAttr], Slot[EvFormatAttr] | None, dict[int, int]]] = {}
        self.evs: dict[int, Slot[EvProfileAttr]] = {}
        self.ccs: dict[int, Slot[CcProfileAttr]] = {}
        profile = device.ev_profile
        fmt = profile.format
        self.native = fmt.mode
        self.formats[0] = Slot(ONLINE, {"mode": fmt.mode, "fields": fmt.widths, "srh": fmt.srh})
        self.evs[0] = Slot(ONLINE, _attributes_of(profile), list(profile.evs))
        controller = self.endpoint.online.cc.get(DEFAULT_PROFILE) or factory_of(DEFAULT_ALGORITHM)
        config = {"config": controller.config} if isinstance(controller, Configured) else {}
        self.ccs[0] = Slot(ONLINE, {"algorithm": name_of(controller), **config})

    @property
    def planes(self) -> int:
        return len(self.device.ports())

    @property
    def ev_count(self) -> int:
        """How many EVs all profiles have together. Those of an AUTO profile depend on the peer and do not count."""
        return sum(slot.attributes.get("count", 0) for slot in self.evs.values())

    @property
    def counts(self) -> str:
        """How many there are of each kind, in words."""
        return f"{len(self.formats)} EV formats, {len(self.evs)} EV profiles, {len(self.ccs)} CC profiles"

    def __repr__(self) -> str:
        return brief("Profiles", f"of {self.device.name}", closed=False, says=self.counts)

    def change(self, action: Callable[[], T], *, or_alone: bool = False) -> T:
        """Let a controller change them by `action`: on a host with several endpoints those of all of them.

        With `or_alone` only those of this endpoint, where its process may not change the host's. Raises ControlError.
        """
        host = self.endpoint.online.host
        if host is None or (or_alone and not host.permitted):
            return action()
        with host.changing():
            return action()

    # ------------------------------------------------------------------ finding

    @staticmethod
    def slot(table: dict[int, Slot[A]], kind: str, profile_id: int) -> Slot[A]:
        """A profile, in INIT where nobody has touched it. Raises ControlError ENOENT."""
        if type(profile_id) is not int or not 0 <= profile_id < MAX_PROFILES:
            raise ControlError(ENOENT, f"no {kind} profile {profile_id!r}: there are 0 to {MAX_PROFILES - 1}")
        return table.get(profile_id) or Slot()

    @classmethod
    def described(cls, table: dict[int, Slot[A]], kind: str, profile_id: int) -> Slot[A]:
        """A profile that is not in INIT. Raises ControlError ENOENT."""
        slot = cls.slot(table, kind, profile_id)
        if slot.state == INIT:
            raise ControlError(ENOENT, f"there is no {kind} profile {profile_id}")
        return slot

    def event_mask(self, profile_id: int) -> EvEventMask:
        slot = self.evs.get(profile_id)
        mask: EvEventMask = slot.attributes.get("event_mask", ALL_EV_EVENTS) if slot else ALL_EV_EVENTS
        return mask

    # ------------------------------------------------------------------ EV formats

    def modify_format(self, profile_id: int, attr: EvFormatAttr) -> None:
        slot = self.slot(self.formats, "EV format", profile_id)
        wanted, merged = _step("EV format", profile_id, slot, attr)
        users = [
            each for each, ev in self.evs.items() if ev.state == ONLINE and ev.attributes.get("format_id") == profile_id
        ]
        if slot.state == ONLINE and users:
            raise ControlError(EBUSY, f"EV format profile {profile_id} is used by EV profiles {_numbers(users)}")
        if wanted != INIT:
            self._check_format(merged)
        self.formats[profile_id] = Slot(wanted, merged)

    def _check_format(self, attributes: dict[str, Any]) -> None:
        mode, widths, srh = attributes["mode"], attributes.get("fields", ()), attributes.get("srh", False)
        if mode != self.native:
            raise ControlError(EINVAL, f"the network reads {self.native.name} EVs, not {mode.name}")
        if not all(type(width) is int for width in widths):
            raise ControlError(EINVAL, "the fields of an EV format are widths in bits")
        if len(widths) > MAX_FIELDS:
            raise ControlError(E2BIG, f"{len(widths)} fields, at most {MAX_FIELDS} are possible", len(widths))
        with arguments():
            limit = EvFormat(mode, (), srh).limit
        if sum(widths) > limit:
            raise ControlError(E2BIG, f"the fields take {sum(widths)} bits, there are {limit}", sum(widths))
        with arguments():
            EvFormat(mode, tuple(widths), srh)

    def format_of(self, format_id: int) -> EvFormat:
        """Raises ControlError ENOENT for one that was never described, EINVAL for one that is not ONLINE."""
        slot = self.described(self.formats, "EV format", format_id)
        if slot.state != ONLINE:
            raise ControlError(EINVAL, f"EV format profile {format_id} is {slot.state.name}: bring it ONLINE first")
        attributes = slot.attributes
        return EvFormat(attributes["mode"], tuple(attributes["fields"]), attributes.get("srh", False))

    # ------------------------------------------------------------------ EV profiles

    def modify_ev(self, profile_id: int, attr: EvProfileAttr, *, with_usual: bool = False) -> None:
        """`with_usual`: what is needed on the way ONLINE and was never given is as usual, as with a profile file."""
        slot = self.slot(self.evs, "EV", profile_id)
        base = dict(slot.attributes)
        if attr.evs is not None:
            base.pop("count", None)
        if attr.ev_mode is not None and attr.ev_mode != base.get("ev_mode"):
            base = {name: value for name, value in base.items() if name not in _OF_A_MODE}
        wanted, merged = _step("EV", profile_id, slot, attr, base, _USUAL if with_usual else ())
        if slot.state == ONLINE and wanted == OFFLINE and (users := self.users_of_ev(profile_id)):
            raise ControlError(EBUSY, f"EV profile {profile_id} is used by {len(users)} QPs")
        if wanted != INIT:
            self._check_ev(merged)
        array = _resized(slot.array, merged)
        if wanted == ONLINE:
            self._commit_ev(profile_id, merged, array, whole=slot.state != ONLINE)
        else:
            self.endpoint.online.forget(profile_id)
        self.evs[profile_id] = Slot(wanted, merged, array if wanted != INIT else [])

    def load_ev(self, profile_id: int, attr: EvProfileAttr) -> None:
        """Whatever it was, it is ONLINE with these attributes and no others; its QPs have its EVs at once."""
        slot = self.slot(self.evs, "EV", profile_id)
        merged = attr.given()
        if missing := sorted({"ev_mode", "format_id"} - merged.keys()):
            raise ControlError(EINVAL, f"needs {', '.join(missing)}")
        self._check_ev(merged)
        array = _resized([], merged)
        self._commit_ev(profile_id, merged, array, whole=slot.state != ONLINE)
        self.evs[profile_id] = Slot(ONLINE, merged, array)

    def set_ev(
        self, profile_id: int, state: ProfileState, attributes: dict[str, Any], array: Sequence[int | None]
    ) -> None:
        """It is as another endpoint's controller has left it. Raises ControlError, and then nothing has changed."""
        if state != INIT:
            self._check_ev(dict(attributes))
        if state == ONLINE:
            self._commit_ev(profile_id, attributes, list(array))
        else:
            self.endpoint.online.forget(profile_id)
        self.evs[profile_id] = Slot(state, attributes, list(array))

    def set_cc(self, profile_id: int, state: ProfileState, attributes: dict[str, Any]) -> None:
        """As `set_ev`. QPs that use it go on as they are."""
        if state != INIT:
            self._check_cc(attributes)
        self._commit_cc(profile_id, state, attributes)

    def set_format(self, profile_id: int, state: ProfileState, attributes: dict[str, Any]) -> None:
        """As `set_ev`."""
        if state != INIT:
            self._check_format(attributes)
        self.formats[profile_id] = Slot(state, attributes)

    def _check_ev(self, attributes: dict[str, Any]) -> None:
        self.format_of(attributes["format_id"])
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
                self.format_of(attributes["format_id"]).fit(given)
            for ev in evs or ():
                self._on_the_wire(ev, attributes)

    def ev_profile(self, attributes: dict[str, Any], array: Sequence[int | None], *, whole: bool = False) -> EvProfile:
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
                self.format_of(attributes["format_id"]),
                count=attributes.get("count") if mode == EvProfileMode.GENERATED else None,
                min_active=least if not evs or least is None else min(least, len(evs)),
                active_count=attributes.get("active_count"),
                evs=evs,
                fields=attributes.get("fields", ()) if mode == EvProfileMode.GENERATED else (),
            )

    def _on_the_wire(self, ev: int, attributes: dict[str, Any]) -> int:
        return explicit_evs.on_the_wire(ev, attributes, self.format_of(attributes["format_id"]))

    def on_the_wire(self, profile_id: int, ev: int) -> int:
        """The EV that packets carry for one that the controller names. Raises ControlError EINVAL."""
        return self._on_the_wire(ev, self.evs[profile_id].attributes)

    def names(self, profile_id: int) -> dict[int, int]:
        """What the controller calls the EVs that packets carry, of an EXPLICIT profile with fields; else nothing.

        Asked for each event of an EV, and worked out once for a profile as it is: each change makes another slot.
        """
        slot = self.evs.get(profile_id)
        if slot is None or not slot.attributes.get("fields"):
            return {}
        format_id = slot.attributes["format_id"]
        of = slot, self.formats.get(format_id)
        known = self._names.get(profile_id)
        if known is None or known[0] is not of[0] or known[1] is not of[1]:
            known = *of, explicit_evs.names(slot.attributes, slot.array, self.format_of(format_id))
            self._names[profile_id] = known
        return known[2]

    def _commit_ev(
        self, profile_id: int, attributes: dict[str, Any], array: list[int | None], *, whole: bool = False
    ) -> None:
        """The QPs that use it have its EVs from now on. Raises ControlError EINVAL, and then nothing has changed."""
        profile = self.ev_profile(attributes, array, whole=whole)
        moves = [(qp, self._paths(qp, profile)) for qp in self.users_of_ev(profile_id) if qp.paths is not None]
        self.endpoint.online.ev[profile_id] = profile
        for qp, paths in moves:
            config = profile.path_config(replace(qp.config.paths, active_count=None, ev_min_active=None))
            qp.use_paths(paths, profile_id, config)
            self.endpoint.wake(qp)

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
        profile = self.ev_profile(self.evs[profile_id].attributes, [ev])
        for qp in self.users_of_ev(profile_id):
            if qp.paths is not None:
                self._paths(qp, profile)

    def replace_entries(self, profile_id: int, array: list[int | None]) -> None:
        """The array of an EXPLICIT profile becomes this one."""
        slot = self.evs[profile_id]
        if slot.state == ONLINE:
            self._commit_ev(profile_id, slot.attributes, array)
        self.evs[profile_id] = Slot(slot.state, slot.attributes, array)

    def move(self, old: int, new: int) -> int:
        """QPs that use one EV profile use another from now on. Returns how many. Both are ONLINE."""
        for profile_id in (old, new):
            if self.slot(self.evs, "EV", profile_id).state != ONLINE:
                raise ControlError(EINVAL, f"EV profile {profile_id} is not ONLINE")
        slot = self.evs[new]
        profile = self.ev_profile(slot.attributes, slot.array)
        users = self.users_of_ev(old)
        moves = [(qp, self._paths(qp, profile)) for qp in users if qp.paths is not None]
        for qp, paths in moves:
            config = profile.path_config(replace(qp.config.paths, active_count=None, ev_min_active=None))
            qp.use_paths(paths, new, config)
            self.endpoint.wake(qp)
        for qp in users:
            qp.ev_profile_id = new
        return len(users)

    def users_of_ev(self, profile_id: int) -> list[QueuePair]:
        return [qp for qp in self.endpoint.qps.values() if qp.ev_profile_id == profile_id]

    # ------------------------------------------------------------------ CC profiles

    def modify_cc(self, profile_id: int, attr: CcProfileAttr, *, with_usual: bool = False) -> None:
        """`with_usual`: without a configuration it goes ONLINE with the algorithm's default one."""
        slot = self.slot(self.ccs, "CC", profile_id)
        wanted, merged = _step("CC", profile_id, slot, attr)
        self._check_cc_free(profile_id, slot)
        if wanted != INIT:
            self._check_cc(merged)
        if wanted == ONLINE and not with_usual and _lacks_config(merged):
            raise ControlError(EINVAL, "CC profile, OFFLINE to ONLINE: needs config")
        self._commit_cc(profile_id, wanted, merged)

    def load_cc(self, profile_id: int, attr: CcProfileAttr) -> None:
        """Whatever it was, it is ONLINE with these attributes. The default one too, as long as no QP uses it."""
        slot = self.slot(self.ccs, "CC", profile_id)
        self._check_cc_free(profile_id, slot)
        merged = attr.given()
        self._check_cc(merged)
        self._commit_cc(profile_id, ONLINE, merged)

    def _check_cc_free(self, profile_id: int, slot: Slot[CcProfileAttr]) -> None:
        users = [qp for qp in self.endpoint.qps.values() if qp.cc_profile_id == profile_id]
        if slot.state == ONLINE and users:
            raise ControlError(EBUSY, f"CC profile {profile_id} is used by {len(users)} QPs")

    @staticmethod
    def _check_cc(attributes: dict[str, Any]) -> None:
        algorithm = attributes.get("algorithm")
        if algorithm not in algorithm_names():
            known = ", ".join(algorithm_names())
            raise ControlError(EINVAL, f"no congestion control algorithm {algorithm!r}: there are {known}")
        with arguments():
            configured(algorithm, attributes.get("config"))

    def _commit_cc(self, profile_id: int, wanted: ProfileState, attributes: dict[str, Any]) -> None:
        online = self.endpoint.online.cc
        if wanted != ONLINE:
            online.pop(profile_id, None)
        else:
            online[profile_id] = configured(attributes["algorithm"], attributes.get("config"))
        self.ccs[profile_id] = Slot(wanted, attributes)


def _lacks_config(attributes: dict[str, Any]) -> bool:
    return "config" not in attributes and config_of(attributes["algorithm"]) is not None


def _step(
    kind: str,
    profile_id: int,
    slot: Slot[A],
    attr: A,
    base: dict[str, Any] | None = None,
    assumed: Sequence[str] = (),
) -> tuple[ProfileState, dict[str, Any]]:
    """Where it is to go, and its attributes there; those `assumed` need not be given. Raises ControlError."""
    given = attr.given()
    wanted = slot.state if attr.state is None else attr.state
    check(kind, slot.state, wanted, given, [*slot.attributes, *assumed])
    if profile_id == DEFAULT_PROFILE and wanted != ONLINE:
        raise ControlError(EPERM, f"{kind} profile 0 is the default one: it stays ONLINE")
    if wanted == INIT:
        return wanted, {}
    return wanted, (slot.attributes if base is None else base) | given


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


def _numbers(of: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(of)))


_known: weakref.WeakKeyDictionary[Endpoint, Profiles] = weakref.WeakKeyDictionary()


def profiles_of(device: Device) -> Profiles:
    """The one set of tables of a device's endpoint. Called where the endpoint runs."""
    found = _known.get(device.endpoint)
    if found is None:
        found = _known[device.endpoint] = Profiles(device)
    return found
