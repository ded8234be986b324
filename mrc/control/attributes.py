# SPDX-License-Identifier: BSD-2-Clause
"""Attributes that a controller reads of a device and sets of its profiles (api.md, Controller)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from errno import EINVAL
from typing import Any

from mrc.control.errors import ControlError
from mrc.control.states import ProfileState
from mrc.endpoint.congestion import ControllerConfig, section_names
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState
from mrc.records import record
from mrc.verbs.enums import ProtocolVersion
from mrc.verbs.tables import Tabular
from mrc.wire.entropy import EvField, EvMode

MAX_PROFILES = 64
MAX_EV_COUNT = 4096
MAX_TOTAL_EV_COUNT = MAX_PROFILES * MAX_EV_COUNT
MAX_FIELDS = 16
MAX_BATCH = 1024
MAX_VENDOR_CFG = 128  # bytes


class EvFormatMask(IntFlag):
    """Modes of an EV format that the device's network reads, one bit each."""

    STEV = EvMode.STEV
    SRV6 = EvMode.SRV6
    UDP = EvMode.UDP


class EvModeMask(IntFlag):
    """Modes of an EV profile, one bit each."""

    AUTO = 1 << EvProfileMode.AUTO
    EXPLICIT = 1 << EvProfileMode.EXPLICIT
    GENERATED = 1 << EvProfileMode.GENERATED


class EvEventMask(IntFlag):
    """The states to which an EV's change makes an event. The values are those of an EV's state in `mrc_ctl.h`.

    SKIP is an addition of this project, above the bits of `mrc_ctl.h`. Without it an EV in SKIP counts as GOOD: it is
    in use.
    """

    GOOD = 1
    ASSUMED_BAD = 2
    DENIED = 4
    SKIP = 1 << 16

    @property
    def states(self) -> frozenset[EvState]:
        """The EV states that the mask lets through."""
        return frozenset(state for state in EvState if EvEventMask[state.name] & self)


ALL_EV_EVENTS = EvEventMask.GOOD | EvEventMask.SKIP | EvEventMask.ASSUMED_BAD | EvEventMask.DENIED
USUAL_EV_EVENTS = EvEventMask.GOOD | EvEventMask.ASSUMED_BAD | EvEventMask.DENIED


class ControlCap(IntFlag):
    """The optional capabilities of a device. Values as in `mrc_ctl.h`."""

    EV_PROFILE_MODIFY_ONLINE = 1  # an EV profile may be changed while QPs use it
    CC_PROFILE_MODIFY_ONLINE = 2
    EV_EVENT = 4
    EV_EXPLICIT_RANGE = 8
    EV_EVENT_PRECISE_DROP_CNT = 16  # of EV events that found no room
    EP_OP_EV_PROBE = 32


@record(frozen=True, slots=True)
class ControlDeviceAttr(Tabular):
    """What the controller can do with a device. Profiles of each kind are numbered 0 to max_..._profiles - 1.

    `protocol_version` has a bit for each version of MRC. A profile has at most `max_ev_count` EVs, a multiple of
    `ev_count_alignment` (as many of each plane), all profiles together `max_total_ev_count`, of which `free_ev_count`
    are left. `max_fields` fields have together `max_width` bits. `max_batch` operations go into one call. `port_mask`
    has bit N for port N, counted from 1.
    """

    name: str
    protocol_version: ProtocolVersion
    max_ev_format_profiles: int
    max_ev_profiles: int
    max_cc_profiles: int
    max_ev_count: int
    max_total_ev_count: int
    free_ev_count: int
    ev_count_alignment: int
    max_fields: int
    max_width: int
    ev_format_mask: EvFormatMask
    ev_mode_mask: EvModeMask
    cc_algorithms: tuple[str, ...]
    port_mask: int
    max_batch: int
    caps: ControlCap


class PortAdmin(IntEnum):
    """Whether a port may be used."""

    DOWN = 0
    UP = 1


@record(frozen=True, slots=True)
class PortControlAttr(Tabular):
    """One port, counted from 1: what the controller wants, whether there is a link, and so whether it is in use."""

    port_num: int
    plane: int
    address: str
    admin: PortAdmin
    link_up: bool

    @property
    def up(self) -> bool:
        """Whether the port is in use: allowed, and its link up."""
        return self.link_up and self.admin == PortAdmin.UP


class ProfileAttr(Tabular):
    """Attributes of a profile, for `modify` and from `query`; None: not given.

    `vendor_cfg` is what `mrc_ctl.h` has for a vendor's own settings. There are none here: zeros alone are taken.
    """

    __slots__ = ()
    state: ProfileState | None

    def given(self) -> dict[str, Any]:
        """Those that are not None, but for the state. Raises ControlError EINVAL for one out of its range."""
        chosen = {}
        for name in (each.name for each in fields(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is None:
                continue
            if not _RANGES[name](value):
                raise ControlError(EINVAL, f"{name}={value!r} is out of its range")
            if name not in ("state", "vendor_cfg"):
                chosen[name] = value
        return chosen


@record(frozen=True, slots=True)
class EvFormatAttr(ProfileAttr):
    """An EV format: `fields` are the widths of its fields in bits, most significant first; none: no structure."""

    state: ProfileState | None = None
    mode: EvMode | None = None
    fields: tuple[int, ...] | None = None
    srh: bool | None = None
    vendor_cfg: bytes | None = None


@record(frozen=True, slots=True)
class EvProfileAttr(ProfileAttr):
    """An EV profile.

    `count` EVs over all planes, at least `min_active` of them usable (0: all may go bad); `event_mask`. `fields` of a
    GENERATED profile are those its EVs are drawn from. With `fields` the array of an EXPLICIT profile holds the bits of
    their masks, and packets carry what these expand to; without them, an EV of the array is what packets carry.
    `active_count` and `evs` are ours: how many carry data at once, and all of an EXPLICIT array at once.
    """

    state: ProfileState | None = None
    ev_mode: EvProfileMode | None = None
    format_id: int | None = None
    count: int | None = None
    min_active: int | None = None
    active_count: int | None = None
    event_mask: EvEventMask | None = None
    fields: tuple[EvField, ...] | None = None
    evs: tuple[int, ...] | None = None
    vendor_cfg: bytes | None = None


@dataclass(frozen=True, slots=True, init=False)
class CcProfileAttr(ProfileAttr):
    """A congestion control profile: the algorithm by its name, and its configuration. "none" turns congestion control
    off; `mrc_ctl.h` has an algorithm that is NULL for that.

    A configuration is given and read by the name of its section too: `CcProfileAttr(nscc=NsccConfig())`, `attr.nscc`.
    """

    state: ProfileState | None
    algorithm: str | None
    config: ControllerConfig | None
    vendor_cfg: bytes | None

    def __init__(
        self,
        state: ProfileState | None = None,
        algorithm: str | None = None,
        config: ControllerConfig | None = None,
        vendor_cfg: bytes | None = None,
        **section: ControllerConfig | None,
    ) -> None:
        given = {name: each for name, each in section.items() if each is not None}
        if len(given) + (config is not None) > 1:
            raise ControlError(EINVAL, "a CC profile takes one configuration")
        for name, each in given.items():
            if not isinstance(each, ControllerConfig) or each.section != name:
                raise ControlError(EINVAL, f"{name}={each!r} is no configuration of that name")
            config = each
        object.__setattr__(self, "state", state)
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "vendor_cfg", vendor_cfg)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and self.config is not None and self.config.section == name:
            return self.config
        if name in section_names():
            return None
        raise AttributeError(f"a CC profile has no {name!r}")

    def rows(self) -> list[tuple[str, Any]]:
        """Return (name, value) of each attribute that is given; a configuration goes by the name of its section."""
        return [
            (value.section if isinstance(value, ControllerConfig) else name, value)
            for name, value in ProfileAttr.rows(self)
        ]


def _within(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _tuple_of(value: Any, kind: type, most: int) -> bool:
    return isinstance(value, tuple) and len(value) <= most and all(type(each) is kind for each in value)


_RANGES = {
    "state": lambda value: isinstance(value, ProfileState),
    "mode": lambda value: isinstance(value, EvMode),
    "fields": lambda value: _tuple_of(value, int, 1 << 16) or _tuple_of(value, EvField, 1 << 16),
    "srh": lambda value: isinstance(value, bool),
    "ev_mode": lambda value: isinstance(value, EvProfileMode),
    "format_id": lambda value: _within(value, 0, 0xFFFF),
    "count": lambda value: _within(value, 1, 1 << 32),
    "min_active": lambda value: _within(value, 0, 1 << 32),
    "active_count": lambda value: _within(value, 1, 1 << 32),
    "event_mask": lambda value: isinstance(value, EvEventMask),
    "evs": lambda value: _tuple_of(value, int, 1 << 17) and all(0 <= each < 1 << 32 for each in value),
    "algorithm": lambda value: isinstance(value, str),
    "config": lambda value: isinstance(value, ControllerConfig),
    "vendor_cfg": lambda value: isinstance(value, bytes) and len(value) <= MAX_VENDOR_CFG and not any(value),
}
