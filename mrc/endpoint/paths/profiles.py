# SPDX-License-Identifier: BSD-2-Clause
"""EV profiles: which EVs a QP uses (api.md, Controller; behaviour.md, Paths)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from random import Random

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.addressing import (
    NO_SPINE,
    Path,
    PlanePair,
    ev_bits,
    srv6_path,
    srv6_uplinks,
    stev_paths,
    udp_paths,
)
from mrc.endpoint.paths.formats import EvFormat
from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.entropy import EvField, EvMode, generated_count, generated_ev
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

__all__ = ["EvProfile", "EvProfileMode"]

AUTO_COUNT = 128
AUTO_ACTIVE = 100
# Source ports AUTO draws from: what IANA leaves free for this, and RoCEv2 uses.
_FIRST_DYNAMIC_PORT, _DYNAMIC_PORT_BITS = 0xC000, 14
_STEV_FIRST_HOP_BITS = 8
_MOST_EVS = 1 << 16  # of an SRV6 profile, all of which are looked at


class EvProfileMode(IntEnum):
    """Where a profile's EVs come from. Names as in `mrc_ctl.h`."""

    AUTO = 0
    EXPLICIT = 1
    GENERATED = 2


@record(frozen=True, slots=True)
class EvProfile:
    """A profile of `count` EVs over all planes.

    EXPLICIT: `evs` are given; in SRV6 mode each names its plane, otherwise they are dealt to the planes in turn.
    GENERATED: drawn at random from what `fields` allow, an equal number for each plane. AUTO: we choose; in SRV6 mode
    and in STEV mode with known uplinks every distinct path, otherwise 128 at random or what there is.

    `active_count` EVs carry data at once, the rest are the reserve; `min_active` is the fewest that stay usable. None:
    AUTO in UDP and STEV modes keeps 100 of 128 active, otherwise PathConfig decides.

    Raises CallerError for what api.md calls EINVAL and, with the size that is needed, E2BIG.
    """

    mode: EvProfileMode
    format: EvFormat
    count: int | None = None
    min_active: int | None = None
    active_count: int | None = None
    evs: tuple[int, ...] = ()
    fields: tuple[EvField, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("min_active", 0), ("active_count", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise CallerError(f"{name} must be at least {least}, got {value}")
        if self.mode == EvProfileMode.AUTO and self.count is not None:
            raise CallerError("an AUTO profile chooses how many EVs it has: leave count out, or use GENERATED")
        if bool(self.evs) != (self.mode == EvProfileMode.EXPLICIT):
            raise CallerError("an EXPLICIT profile, and no other, is given its EVs")
        if bool(self.fields) != (self.mode == EvProfileMode.GENERATED):
            raise CallerError("a GENERATED profile, and no other, is given fields")
        if self.mode == EvProfileMode.EXPLICIT:
            self._check_explicit()
        elif self.mode == EvProfileMode.GENERATED:
            object.__setattr__(self, "fields", self.format.fit(self.fields))
            available = generated_count(self.fields)
            if self.count is None:
                raise CallerError("a GENERATED profile needs a count")
            if self.count > available:
                raise CallerError(f"the fields allow {available} EVs, {self.count} are asked for")
        for name in ("min_active", "active_count"):
            value, count = getattr(self, name), self.count
            if value is not None and count is not None and value > count:
                raise CallerError(f"{name} {value} is more than the {count} EVs of the profile")

    def _check_explicit(self) -> None:
        if self.count is not None and self.count != len(self.evs):
            raise CallerError(f"a profile of {self.count} EVs is given {len(self.evs)}")
        object.__setattr__(self, "count", len(self.evs))
        if len(set(self.evs)) != len(self.evs):
            raise CallerError("the EVs of a profile must differ")

    @classmethod
    def auto(cls, mode: EvMode, widths: tuple[int, ...] = ()) -> EvProfile:
        """We choose, for a network of this mode and structure.

        >>> EvProfile.auto(EvMode.SRV6).mode.name
        'AUTO'
        """
        return cls(EvProfileMode.AUTO, EvFormat(mode, widths))

    def path_config(self, base: PathConfig) -> PathConfig:
        """`base` with what this profile says of active EVs, where `base` itself says nothing."""
        active, least = self.active_count, self.min_active
        if active is None and self.mode == EvProfileMode.AUTO and self.format.mode != EvMode.SRV6:
            active = AUTO_ACTIVE
        return replace(
            base,
            active_count=base.active_count if base.active_count is not None else active,
            ev_min_active=base.ev_min_active if base.ev_min_active is not None else least,
        )

    def paths(
        self,
        planes: Sequence[PlanePair],
        random: Random,
        profile: WireProfile = DEFAULT_WIRE_PROFILE,
    ) -> list[Path]:
        """The EVs towards one peer over these planes, those of a plane together.

        The same state of `random` gives the same EVs. Raises CallerError when there are fewer than the profile asks
        for, when an EV names no path, and when generated ones cannot be shared out equally.
        """
        if not planes:
            raise CallerError("a profile needs at least one plane")
        if self.mode == EvProfileMode.GENERATED and self.count is not None and self.count % len(planes):
            raise CallerError(f"count {self.count} must be a multiple of the {len(planes)} planes")
        if self.format.mode == EvMode.SRV6:
            return self._srv6_paths(planes, random, profile)
        paths: list[Path] = []
        for plane, values in zip(planes, self._values(planes, random), strict=True):
            if self.format.mode == EvMode.UDP:
                paths += udp_paths(plane, values, profile)
            else:
                paths += stev_paths(plane, ((value, self._first_hop(value, plane)) for value in values), profile)
        return paths

    # ------------------------------------------------------------------ UDP and STEV

    def _values(self, planes: Sequence[PlanePair], random: Random) -> list[list[int]]:
        """What goes into the header fields, for each plane. No value comes twice: feedback names nothing but the EV."""
        if self.mode == EvProfileMode.EXPLICIT:
            return [list(self.evs[index :: len(planes)]) for index in range(len(planes))]
        if self.mode == EvProfileMode.GENERATED and self.count is not None:
            return _drawn(self.fields, self.count // len(planes), len(planes), random)
        if self.format.mode == EvMode.STEV and all(plane.uplinks for plane in planes):
            return [self._every_uplink(plane) for plane in planes]
        bits = min(ev_bits(plane, self.format.mode) for plane in planes)
        fields = self._auto_fields(bits)
        each = min(AUTO_COUNT, generated_count(fields)) // len(planes)
        return _drawn(fields, each, len(planes), random)

    def _auto_fields(self, bits: int) -> tuple[EvField, ...]:
        if self.format.widths:
            return tuple(EvField(width, mask=(1 << width) - 1) for width in self.format.widths)
        if self.format.mode == EvMode.UDP:
            return (EvField(bits, init_val=_FIRST_DYNAMIC_PORT, mask=(1 << _DYNAMIC_PORT_BITS) - 1),)
        return (EvField(bits, mask=(1 << bits) - 1),)

    def _first_hop(self, value: int, plane: PlanePair) -> int:
        """What the most significant field says, where there is a structure."""
        if not self.format.widths and not plane.uplinks:
            return NO_SPINE
        bits, width = self._structure(plane)
        return value >> (bits - width)

    def _structure(self, plane: PlanePair) -> tuple[int, int]:
        """Bits of a whole structured EV, and of its first hop."""
        if self.format.widths:
            return self.format.bits, self.format.widths[0]
        return ev_bits(plane, EvMode.STEV), _STEV_FIRST_HOP_BITS

    def _every_uplink(self, plane: PlanePair) -> list[int]:
        """An EV per uplink of the first switch; the plane in the last bits keeps those of several planes apart."""
        bits, width = self._structure(plane)
        if plane.uplinks > 1 << width or plane.plane >> (bits - width):
            raise CallerError(
                f"{bits} bits with {width} for the first hop cannot tell {plane.uplinks} uplinks of plane "
                f"{plane.plane} apart"
            )
        return [uplink << (bits - width) | plane.plane for uplink in range(plane.uplinks)]

    # ------------------------------------------------------------------ SRV6

    def _srv6_paths(self, planes: Sequence[PlanePair], random: Random, profile: WireProfile) -> list[Path]:
        uplinks = self._uplinks_named(planes)
        paths: list[Path] = []
        for plane in planes:
            if plane.usids is None:
                raise CallerError(f"plane {plane.plane}: SRV6 mode needs the peer's leaf and host number")
            existing = srv6_uplinks(plane, plane.usids)
            chosen = list(range(existing)) if uplinks is None else uplinks[plane.plane]
            missing = [uplink for uplink in chosen if uplink >= existing]
            if missing:
                raise CallerError(f"plane {plane.plane} has {existing} paths, an EV names number {missing[0]}")
            if self.mode == EvProfileMode.GENERATED and self.count is not None:
                chosen = _subset(chosen, self.count // len(planes), plane.plane, random)
            paths += [srv6_path(plane, plane.usids, uplink, profile) for uplink in chosen]
        if len({path.ev for path in paths}) != len(paths):
            raise CallerError("two planes have an EV in common: a SACK names a path by its EV alone")
        if not paths:
            raise CallerError("no EV of the profile is of a plane that both ends have")
        return paths

    def _uplinks_named(self, planes: Sequence[PlanePair]) -> dict[int, list[int]] | None:
        """What EXPLICIT and GENERATED profiles allow, by plane; those of planes that are not shared do not count."""
        if self.mode == EvProfileMode.AUTO:
            return None
        evs: Sequence[int] = self.evs
        if self.mode == EvProfileMode.GENERATED:
            available = generated_count(self.fields)
            if available > _MOST_EVS:
                raise CallerError(f"the fields allow {available} EVs, at most {_MOST_EVS} are looked at")
            widths = [field.width for field in self.fields]  # the format's, since `fit`
            evs = [generated_ev(self.fields, number, widths) for number in range(available)]
        uplinks: dict[int, list[int]] = {plane.plane: [] for plane in planes}
        for ev in evs:
            for plane in planes:
                uplink = None if plane.usids is None else plane.usids.uplink_of(plane.plane, ev)
                if uplink is not None:
                    uplinks[plane.plane].append(uplink)
        return uplinks


def _subset(uplinks: list[int], wanted: int, plane: int, random: Random) -> list[int]:
    if len(uplinks) < wanted:
        raise CallerError(f"plane {plane} has {len(uplinks)} EVs in this profile, each plane is to have {wanted}")
    return sorted(random.sample(uplinks, wanted))


def _drawn(fields: Sequence[EvField], each: int, planes: int, random: Random) -> list[list[int]]:
    """`each` EVs for every plane, drawn at random from what the fields allow, none twice."""
    if each < 1:
        raise CallerError(f"the fields allow {generated_count(fields)} EVs, there are {planes} planes")
    numbers = random.sample(range(generated_count(fields)), each * planes)
    widths = [field.width for field in fields]  # the format's, since `fit`
    return [[generated_ev(fields, number, widths) for number in numbers[plane::planes]] for plane in range(planes)]
