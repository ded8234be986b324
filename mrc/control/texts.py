"""EVs, states and attributes as text and plain JSON: in profile files, on the control socket, on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum, Flag
from errno import EINVAL
from typing import Any, TypeVar

from mrc.control.attributes import CcProfileAttr, EvEventMask, EvFormatAttr, EvProfileAttr
from mrc.control.errors import ControlError, arguments
from mrc.endpoint.congestion import NsccConfig
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.wire.entropy import EvField, EvMode
from mrc.wire.usid import ev_of_path

E = TypeVar("E", bound=Enum)

_PLACE = re.compile(r"p(\d{1,3})s(\d{1,3})\Z")
_NUMBER = re.compile(r"(0x[0-9a-fA-F]{1,8}|\d{1,10})\Z")
# A profile file says times in these units; NSCC's own is a nanosecond.
_NSCC_OWN = ("ticks_per_second", "delay_average")


def ev_of(value: object) -> int:
    """An EV: a number, `0x01000002`, or in SRv6 mode `p1s2`: through spine 2 of plane 1. Raises ControlError EINVAL."""
    if type(value) is int and 0 <= value < 1 << 32:
        return value
    if isinstance(value, str):
        if place := _PLACE.match(value):
            with arguments():
                return ev_of_path(int(place[1]), int(place[2]))
        if _NUMBER.match(value) and int(value, 0) < 1 << 32:
            return int(value, 0)
    raise ControlError(EINVAL, f"{value!r} is no EV: give a number of 32 bits, such as 0x01000002, or p1s2")


def ev_text(ev: int) -> str:
    return f"{ev:#010x}"


def plain(value: object) -> Any:
    """Attributes and results as JSON: names of enums in lower case, no None members of dataclasses."""
    if isinstance(value, Flag):
        return [str(each.name).lower() for each in type(value) if each in value]
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, NsccConfig):
        own = {name: member for name, member in asdict(value).items() if name != "delay_average"}
        return {name: member for name, member in own.items() if member is not None and name not in _NSCC_OWN}
    if is_dataclass(value) and not isinstance(value, type):
        pairs = [(each.name, getattr(value, each.name)) for each in fields(value)]
        return {name: plain(member) for name, member in pairs if member is not None}
    if isinstance(value, list | tuple | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in value.items()}
    return value


# ------------------------------------------------------------------ what a profile file says


def ev_format(told: object) -> EvFormatAttr:
    """Raises ControlError EINVAL, as the other two do, for anything but a mapping of known keys to fitting values."""
    said = _mapping(told, "an EV format", {"mode", "fields", "srh", "state"})
    return EvFormatAttr(
        mode=_enum(EvMode, said.get("mode"), "mode"),
        fields=tuple(_integer(width, "a field's width") for width in _list(said.get("fields", []), "fields")),
        srh=_of(bool, said.get("srh", False), "srh"),
    )


def ev_profile(told: object) -> EvProfileAttr:
    known = {"mode", "format", "count", "min_active", "active_count", "event_mask", "fields", "evs", "deny", "state"}
    said = _mapping(told, "an EV profile", known)
    mask = said.get("event_mask")
    return EvProfileAttr(
        ev_mode=_enum(EvProfileMode, said.get("mode"), "mode"),
        format_id=_integer(said.get("format", 0), "format"),
        count=_optional(said, "count"),
        min_active=_optional(said, "min_active"),
        active_count=_optional(said, "active_count"),
        event_mask=None if mask is None else event_mask(mask),
        fields=tuple(_field(each) for each in _list(said["fields"], "fields")) if "fields" in said else None,
        evs=tuple(ev_of(each) for each in _list(said["evs"], "evs")) if "evs" in said else None,
    )


def cc_profile(told: object) -> CcProfileAttr:
    said = _mapping(told, "a CC profile", {"algorithm", "nscc", "state"})
    nscc = said.get("nscc")
    config = None
    if nscc is not None:
        allowed = {each.name for each in fields(NsccConfig)} - set(_NSCC_OWN)
        with arguments():
            try:
                config = NsccConfig(**_mapping(nscc, "nscc", allowed))
            except TypeError as error:
                raise ControlError(EINVAL, f"nscc: {error}") from None
    return CcProfileAttr(algorithm=_of(str, said.get("algorithm"), "algorithm"), nscc=config)


def denied(told: object) -> list[int]:
    """The EVs that an EV profile of a file has denied from the start."""
    return [ev_of(each) for each in _list(_of(dict, told, "an EV profile").get("deny", []), "deny")]


def event_mask(told: object) -> EvEventMask:
    mask = EvEventMask(0)
    for each in _list(told, "event_mask"):
        mask |= _enum(EvEventMask, each, "event_mask")
    return mask


def _field(told: object) -> EvField:
    said = _mapping(told, "a field", {"width", "init_val", "mask", "min_val", "max_val"})
    numbers = {name: _integer(value, name) for name, value in said.items()}
    if "width" not in numbers:
        raise ControlError(EINVAL, "a field needs a width")
    with arguments():
        return EvField(**numbers)


def _optional(said: Mapping[str, Any], name: str) -> int | None:
    return None if said.get(name) is None else _integer(said[name], name)


def _integer(value: object, what: str) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value, 0)
    number: int = _of(int, value, what)
    return number


def _of(kind: Callable[..., Any], value: object, what: str) -> Any:
    if type(value) is not kind:
        raise ControlError(EINVAL, f"{what} is {value!r}, which is no {getattr(kind, '__name__', kind)}")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ControlError(EINVAL, f"{what} is a list, not {value!r}")
    return value


def _mapping(value: object, what: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ControlError(EINVAL, f"{what} is a mapping, not {value!r}")
    if foreign := sorted(map(str, value.keys() - known)):
        raise ControlError(EINVAL, f"{what} has no {', '.join(foreign)}: there are {', '.join(sorted(known))}")
    return value


def _enum(kind: type[E], value: object, what: str) -> E:
    names = {member.name.lower(): member for member in kind}
    if not isinstance(value, str) or value.lower() not in names:
        raise ControlError(EINVAL, f"{what} is {value!r}, one of {', '.join(names)} is expected")
    return names[value.lower()]
