# SPDX-License-Identifier: BSD-2-Clause
"""Profiles of a file brought ONLINE, whatever was there before (docs/control.md, Profile files)."""

from __future__ import annotations

from collections.abc import Callable
from errno import EINVAL
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from mrc.control import reading, texts
from mrc.control.attributes import CcProfileAttr, EvFormatAttr
from mrc.control.errors import ControlError, arguments
from mrc.control.profiles import Profiles
from mrc.control.states import ProfileState
from mrc.control.typed import told
from mrc.endpoint.congestion import config_of
from mrc.endpoint.congestion.config import no_line_rate
from mrc.endpoint.paths.online import DEFAULT_PROFILE
from mrc.endpoint.paths.states import EvState

__all__ = ["load"]

INIT, OFFLINE, ONLINE = ProfileState
KINDS = {"ev_formats": "EV format", "ev_profiles": "EV", "cc_profiles": "CC"}


def load(profiles: Profiles, document: object) -> list[str]:
    """Bring every profile of a document ONLINE; which, as `EV profile 1`. Called where the endpoint runs.

    Formats come first. One that is wrong is named in the ControlError; those before it stay loaded.
    """
    said = asdict(told(document, _File, "a profile file"))
    loaders: dict[str, Callable[[Profiles, int, object], None]] = {
        "ev_formats": _format,
        "ev_profiles": _ev,
        "cc_profiles": _cc,
    }
    loaded: list[str] = []
    for key, load_one in loaders.items():
        profile_ids = [reading.number_text(number, f"a profile number in {key}") for number in said[key] or ()]
        for profile_id, listed in zip(profile_ids, (said[key] or {}).values(), strict=True):
            name = f"{KINDS[key]} profile {profile_id}"
            try:
                load_one(profiles, profile_id, listed)
            except ControlError as error:
                before = f" (loaded before it: {', '.join(loaded)})" if loaded else ""
                raise ControlError(error.errno or EINVAL, f"{name}: {error.reason}{before}", error.needed) from None
            loaded.append(name)
    return loaded


def set_line_rate(profiles: Profiles, line_rate_bps: int) -> None:
    """The most that the default CC profile takes the network for, in bits a second; all else of it stays.

    Called where the endpoint runs, before it has QPs. Raises ControlError EINVAL for a rate out of range, or when that
    profile's algorithm takes none, EBUSY when QPs use it.
    """
    said = profiles.ccs.described(DEFAULT_PROFILE).attributes
    algorithm = said["algorithm"]
    with arguments():
        config = said.get("config") or config_of(algorithm)
        if config is None:
            raise ControlError(EINVAL, no_line_rate(algorithm))
        config = config.with_line_rate(line_rate_bps)
    profiles.ccs.load(DEFAULT_PROFILE, CcProfileAttr(algorithm=algorithm, config=config))


class _File(Struct, forbid_unknown_fields=True):
    """Numbers are those of YAML, or text."""

    ev_formats: dict[Any, Any] | None = None
    ev_profiles: dict[Any, Any] | None = None
    cc_profiles: dict[Any, Any] | None = None


def _format(profiles: Profiles, profile_id: int, listed: object) -> None:
    attr = texts.ev_format(listed)
    slot = profiles.formats.slot(profile_id)
    if slot.state == ONLINE:
        if all(slot.attributes.get(name, False) == value for name, value in attr.given().items()):
            return
        profiles.formats.modify(profile_id, EvFormatAttr(state=OFFLINE))
    elif slot.state == INIT:
        profiles.formats.modify(profile_id, EvFormatAttr(state=OFFLINE, mode=attr.mode))
    given: dict[str, Any] = attr.given()
    profiles.formats.modify(profile_id, EvFormatAttr(state=ONLINE, **given))


def _ev(profiles: Profiles, profile_id: int, listed: object) -> None:
    attr = texts.ev_profile(listed)
    denied = texts.denied(listed)
    profiles.evs.load(profile_id, attr)
    for named in denied:
        ev = profiles.evs.on_the_wire(profile_id, named)
        profiles.endpoint.online.deny(profile_id, ev, None)
        for qp in profiles.evs.users(profile_id):
            if qp.paths is not None and qp.paths.holds(ev) and qp.paths.state[qp.paths.index(ev)] != EvState.DENIED:
                qp.paths.deny(ev)


def _cc(profiles: Profiles, profile_id: int, listed: object) -> None:
    attr = texts.cc_profile(listed)
    slot = profiles.ccs.slot(profile_id)
    if slot.state != ONLINE or slot.attributes != attr.given():
        profiles.ccs.load(profile_id, attr)
