# SPDX-License-Identifier: BSD-2-Clause
"""EVs, states and attributes as text and plain JSON: in profile files, on the control socket, on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from errno import EINVAL
from typing import Any

from msgspec import UNSET, Struct, UnsetType, defstruct, to_builtins

from mrc.control import reading
from mrc.control.attributes import CcProfileAttr, EvEventMask, EvFormatAttr, EvProfileAttr
from mrc.control.errors import ControlError, arguments
from mrc.control.reading import Ev, Number
from mrc.control.typed import Finite, Named, Text, Whole, told
from mrc.endpoint.congestion import ControllerConfig, algorithm_names, config_of
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.wire.entropy import EvField, EvMode

# The type of a controller's setting, by its annotation.
_SETTINGS: dict[str, Any] = {"int": Whole, "float": Finite, "bool": bool, "str": Text}
_OR_NONE = " | None"


def ev_text(ev: int) -> str:
    return f"{ev:#010x}"


def plain(value: object) -> Any:
    """Attributes and results as JSON: names of enums in lower case, no None members of dataclasses."""
    if isinstance(value, Flag):
        return [str(each.name).lower() for each in type(value) if each in value]
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, ControllerConfig):
        return value.in_profile()
    if isinstance(value, CcProfileAttr):
        return {name: plain(member) for name, member in value.rows()}
    if is_dataclass(value) and not isinstance(value, type):
        pairs = [(each.name, getattr(value, each.name)) for each in fields(value)]
        return {name: plain(member) for name, member in pairs if member is not None}
    if isinstance(value, list | tuple | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in value.items()}
    return value


# ------------------------------------------------------------------ what a profile file says


class _Format(Struct, forbid_unknown_fields=True):
    mode: Named[EvMode]
    fields: tuple[Number, ...] = ()
    srh: bool = False
    state: Any = None


class _Field(Struct, forbid_unknown_fields=True):
    width: Number
    init_val: Number | UnsetType = UNSET
    mask: Number | UnsetType = UNSET
    min_val: Number | UnsetType = UNSET
    max_val: Number | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.field()

    def field(self) -> EvField:
        return EvField(**to_builtins(self))


class _Profile(Struct, forbid_unknown_fields=True):
    mode: Named[EvProfileMode]
    format: Number = 0  # type: ignore[assignment]  # what reads a Number returns an int
    count: Number | None = None
    min_active: Number | None = None
    active_count: Number | None = None
    event_mask: tuple[Named[EvEventMask], ...] | None = None
    fields: tuple[_Field, ...] | UnsetType = UNSET
    evs: tuple[Ev, ...] | UnsetType = UNSET
    deny: Any = None
    state: Any = None


class _Denied(Struct):
    deny: list[Ev] = []


class _Algorithm(Struct):
    algorithm: Text


def ev_format(document: object) -> EvFormatAttr:
    """Raises ControlError EINVAL, as the other two do, for anything but a mapping of known keys to fitting values."""
    said = told(document, _Format, "an EV format")
    return EvFormatAttr(mode=said.mode.member, fields=said.fields, srh=said.srh)


def ev_profile(document: object) -> EvProfileAttr:
    said = told(document, _Profile, "an EV profile")
    return EvProfileAttr(
        ev_mode=said.mode.member,
        format_id=said.format,
        count=said.count,
        min_active=said.min_active,
        active_count=said.active_count,
        event_mask=None if said.event_mask is None else reading.together(said.event_mask),
        fields=None if said.fields is UNSET else tuple(each.field() for each in said.fields),
        evs=None if said.evs is UNSET else said.evs,
    )


def cc_profile(document: object) -> CcProfileAttr:
    algorithm = told(document, _Algorithm, "a CC profile").algorithm
    if algorithm not in algorithm_names():
        # Refused where it is loaded: which configuration it would take is not known.
        return CcProfileAttr(algorithm=algorithm)
    with arguments():
        default = config_of(algorithm)
    members: list[tuple[str, Any, Any]] = [("algorithm", Text, ""), ("state", Any, None)]
    if default is not None:
        settings = [(name, _kind_of(name, kind), UNSET) for name, kind in type(default).profile_settings().items()]
        section = defstruct(default.section, settings, forbid_unknown_fields=True)
        members.append((default.section, section | None, None))
    whole = defstruct("CcProfile", members, forbid_unknown_fields=True)
    said = told(document, whole, f"a CC profile of {algorithm}")
    config = None if default is None else getattr(said, default.section)
    if default is None or config is None:
        return CcProfileAttr(algorithm=algorithm)
    with arguments():
        return CcProfileAttr(algorithm=algorithm, config=type(default)(**to_builtins(config)))


def _kind_of(name: str, kind: str) -> Any:
    """The type of a controller's setting, by its annotation."""
    known = _SETTINGS.get(kind.removesuffix(_OR_NONE))
    if known is None:
        raise ControlError(EINVAL, f"a CC profile cannot say {name}: it is {kind}")
    return known | None | UnsetType if kind.endswith(_OR_NONE) else known | UnsetType


def denied(document: object) -> list[int]:
    """The EVs that an EV profile of a file has denied from the start."""
    return list(told(document, _Denied, "an EV profile").deny)
