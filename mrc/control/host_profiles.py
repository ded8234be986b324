# SPDX-License-Identifier: BSD-2-Clause
"""The profiles and port states of an endpoint as plain JSON, and taken over from it: what endpoints of a host share.

A document has `ev_formats`, `ev_profiles`, `cc_profiles` and `ports`, by number. A profile has its `state`, what a
profile file says of it (`is`), and an EV profile its `array` and the EVs that are denied towards all (`deny`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from errno import ENOENT
from typing import Any

from msgspec import Struct, field

from mrc.control import reading, texts
from mrc.control.attributes import CcProfileAttr, EvFormatAttr, EvProfileAttr, PortAdmin
from mrc.control.errors import ControlError
from mrc.control.loading import KINDS
from mrc.control.profiles import Profiles
from mrc.control.reading import Ev
from mrc.control.states import ProfileState
from mrc.control.typed import Named, told
from mrc.endpoint.paths.states import EvState

Document = dict[str, dict[str, Any]]
SECTIONS = (*KINDS, "ports")
INIT, ONLINE = ProfileState.INIT, ProfileState.ONLINE

_log = logging.getLogger("mrc.control")


def empty() -> Document:
    return {section: {} for section in SECTIONS}


def document_of(profiles: Profiles) -> Document:
    """What there is now. Called where the endpoint runs."""
    endpoint = profiles.endpoint
    document = empty()
    for number, format_slot in profiles.formats.items():
        said = texts.plain(EvFormatAttr(**format_slot.attributes))
        document["ev_formats"][str(number)] = _entry(format_slot.state, said)
    for number, slot in profiles.evs.items():
        said = texts.plain(EvProfileAttr(**slot.attributes))
        for file_name, name in (("mode", "ev_mode"), ("format", "format_id")):
            if name in said:
                said[file_name] = said.pop(name)
        denied = sorted(endpoint.online.denied_to_all(number))
        document["ev_profiles"][str(number)] = {**_entry(slot.state, said), "array": list(slot.array), "deny": denied}
    for number, cc_slot in profiles.ccs.items():
        said = texts.plain(CcProfileAttr(**cc_slot.attributes))
        document["cc_profiles"][str(number)] = _entry(cc_slot.state, said)
    for port in range(profiles.planes):
        document["ports"][str(port + 1)] = "up" if endpoint.port_is_enabled(port) else "down"
    return document


def _entry(state: ProfileState, said: dict[str, Any]) -> dict[str, Any]:
    return {"state": state.name.lower(), "is": said}


def changed(before: Document, after: Document) -> Document:
    """The entries of `after` that `before` has not, or otherwise."""
    return {
        section: {number: entry for number, entry in after[section].items() if before[section].get(number) != entry}
        for section in SECTIONS
    }


def read(document: object) -> Document:
    """One that another process has written. Raises ControlError EINVAL."""
    said = told(document, dict[str, Any], "the host's profiles")
    return {section: told(said.get(section, {}), dict[str, Any], section) for section in SECTIONS}


def adopt(profiles: Profiles, entries: Document, before: Document) -> None:
    """Let an endpoint have these entries. `before`: those it had from here. Called where the endpoint runs.

    What it cannot have, such as a congestion control algorithm that another process has registered, it goes without.
    """
    ways: dict[str, Callable[[Profiles, int, object, object], None]] = {
        "ev_formats": _format,
        "ev_profiles": _ev,
        "cc_profiles": _cc,
        "ports": _port,
    }
    for section, adopt_one in ways.items():
        for number, entry in entries[section].items():
            try:
                numbered = reading.number_text(number, f"a number in {section}")
                adopt_one(profiles, numbered, entry, before[section].get(number))
            except ControlError as error:
                _log.warning("%s %s of this host cannot be used here: %s", section, number, error.reason)


class _Entry(Struct):
    state: Named[ProfileState]
    attributes: dict[str, Any] = field(name="is", default_factory=dict)
    array: list[Ev | None] = []
    deny: Any = []


def _format(profiles: Profiles, number: int, entry: object, before: object) -> None:
    said = told(entry, _Entry, "a profile")
    state = said.state.member
    profiles.formats.slot(number)
    given = texts.ev_format(said.attributes).given() if state != INIT else {}
    profiles.formats.set(number, state, {name: value for name, value in given.items() if name in said.attributes})


def _ev(profiles: Profiles, number: int, entry: object, before: object) -> None:
    said = told(entry, _Entry, "a profile")
    state = said.state.member
    slot = profiles.evs.slot(number)
    attributes = texts.ev_profile(said.attributes).given() if state != INIT else {}
    if slot.state != state or slot.attributes != attributes or slot.array != said.array:
        profiles.evs.set(number, state, attributes, said.array)
    if state == ONLINE:
        had = set(texts.denied({"deny": whole_of(before).get("deny", [])}))
        has = set(texts.denied({"deny": said.deny}))
        for ev in has - had:
            _set_state(profiles, number, ev, EvState.DENIED)
        for ev in had - has:
            _set_state(profiles, number, ev, EvState.GOOD)


def whole_of(entry: object) -> Mapping[str, Any]:
    return entry if isinstance(entry, dict) else {}


def _set_state(profiles: Profiles, number: int, ev: int, state: EvState) -> None:
    online = profiles.endpoint.online
    (online.deny if state == EvState.DENIED else online.allow)(number, ev, None)
    for qp in profiles.evs.users(number):
        if qp.paths is not None and qp.paths.holds(ev):
            (qp.paths.deny if state == EvState.DENIED else qp.paths.allow)(ev)
            profiles.endpoint.wake(qp)


def _cc(profiles: Profiles, number: int, entry: object, before: object) -> None:
    said = told(entry, _Entry, "a profile")
    state = said.state.member
    profiles.ccs.slot(number)
    profiles.ccs.set(number, state, texts.cc_profile(said.attributes).given() if state != INIT else {})


def _port(profiles: Profiles, number: int, entry: object, before: object) -> None:
    admin = told(entry, Named[PortAdmin], "a port").member
    if not 1 <= number <= profiles.planes:
        raise ControlError(ENOENT, f"there are ports 1 to {profiles.planes}")
    profiles.endpoint.enable_port(number - 1, admin == PortAdmin.UP, profiles.device.now())
