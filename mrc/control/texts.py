# SPDX-License-Identifier: BSD-2-Clause
"""EVs, states and attributes as text and plain JSON: in profile files, on the control socket, on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from errno import EINVAL
from typing import Any

from mrc.control import reading
from mrc.control.attributes import CcProfileAttr, EvEventMask, EvFormatAttr, EvProfileAttr
from mrc.control.errors import ControlError, arguments
from mrc.endpoint.congestion import ControllerConfig, algorithm_names, config_of
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.wire.entropy import EvField, EvMode

# How a setting of a controller is read, by its annotation.
_SETTING_READERS: dict[str, Callable[[object, str], object]] = {
    "int": reading.whole,
    "float": reading.number,
    "bool": reading.flag,
    "str": reading.text,
}
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


def ev_format(document: object) -> EvFormatAttr:
    """Raises ControlError EINVAL, as the other two do, for anything but a mapping of known keys to fitting values."""
    said = reading.mapping(document, "an EV format", {"mode", "fields", "srh", "state"})
    widths = reading.items(said.get("fields", []), "fields")
    return EvFormatAttr(
        mode=reading.member(EvMode, said.get("mode"), "mode"),
        fields=tuple(reading.number_text(width, "a field's width") for width in widths),
        srh=reading.flag(said.get("srh", False), "srh"),
    )


def ev_profile(document: object) -> EvProfileAttr:
    known = {"mode", "format", "count", "min_active", "active_count", "event_mask", "fields", "evs", "deny", "state"}
    said = reading.mapping(document, "an EV profile", known)
    count, min_active, active_count = (
        reading.optional(reading.number_text, said.get(name), name) for name in ("count", "min_active", "active_count")
    )
    return EvProfileAttr(
        ev_mode=reading.member(EvProfileMode, said.get("mode"), "mode"),
        format_id=reading.number_text(said.get("format", 0), "format"),
        count=count,
        min_active=min_active,
        active_count=active_count,
        event_mask=reading.optional(event_mask, said.get("event_mask")),
        fields=tuple(_field(each) for each in reading.items(said["fields"], "fields")) if "fields" in said else None,
        evs=tuple(reading.ev_of(each) for each in reading.items(said["evs"], "evs")) if "evs" in said else None,
    )


def cc_profile(document: object) -> CcProfileAttr:
    said = reading.mapping(document, "a CC profile")
    algorithm = reading.text(said.get("algorithm"), "algorithm")
    if algorithm not in algorithm_names():
        # Refused where it is loaded: which configuration it would take is not known.
        return CcProfileAttr(algorithm=algorithm)
    with arguments():
        default = config_of(algorithm)
    section = set() if default is None else {default.section}
    reading.mapping(said, f"a CC profile of {algorithm}", {"algorithm", "state", *section})
    if default is None or said.get(default.section) is None:
        return CcProfileAttr(algorithm=algorithm)
    return CcProfileAttr(algorithm=algorithm, config=_config(type(default), said[default.section]))


def _config(kind: type[ControllerConfig], document: object) -> ControllerConfig:
    """A controller's configuration, each setting read by its annotation."""
    kinds = kind.profile_settings()
    said = reading.mapping(document, kind.section, kinds)
    with arguments():
        return kind(**{name: _setting(value, name, kinds[name]) for name, value in said.items()})


def _setting(value: object, name: str, kind: str) -> object:
    if value is None and kind.endswith(_OR_NONE):
        return None
    read = _SETTING_READERS.get(kind.removesuffix(_OR_NONE))
    if read is None:
        raise ControlError(EINVAL, f"a CC profile cannot say {name}: it is {kind}")
    return read(value, name)


def denied(document: object) -> list[int]:
    """The EVs that an EV profile of a file has denied from the start."""
    return [
        reading.ev_of(each)
        for each in reading.items(reading.mapping(document, "an EV profile").get("deny", []), "deny")
    ]


def event_mask(document: object) -> EvEventMask:
    mask = EvEventMask(0)
    for each in reading.items(document, "event_mask"):
        mask |= reading.member(EvEventMask, each, "event_mask")
    return mask


def _field(document: object) -> EvField:
    said = reading.mapping(document, "a field", {"width", "init_val", "mask", "min_val", "max_val"})
    numbers = {name: reading.number_text(value, name) for name, value in said.items()}
    if "width" not in numbers:
        raise ControlError(EINVAL, "a field needs a width")
    with arguments():
        return EvField(**numbers)
