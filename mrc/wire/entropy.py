# SPDX-License-Identifier: BSD-2-Clause
"""The entropy value: where a packet carries it, and how a profile generates it (wire.md section 10)."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from enum import IntEnum

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

__all__ = ["EvField", "EvMode", "ev_to_fields", "expand", "expanded", "fields_to_ev", "generated_evs"]


class EvMode(IntEnum):
    """How the network reads the EV. Names and values as in `mrc_ctl.h`, one bit each."""

    STEV = 1
    SRV6 = 2
    UDP = 4


# Most bits the fields of a format may have together (section 10, last line).
WIDTH_LIMITS = {EvMode.UDP: 16, EvMode.STEV: 32, EvMode.SRV6: 128}
SRV6_WITH_SRH_WIDTH_LIMIT = 256


def ev_to_fields(ev: int, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> tuple[int, int]:
    """(UDP source port, low 16 bits of the flow label) that carry a 32-bit EV.

    >>> ev_to_fields(0x0003C001)
    (49153, 3)
    """
    low, high = ev & 0xFFFF, ev >> 16
    return (low, high) if profile.ev_low_half_in_source_port else (high, low)


def fields_to_ev(source_port: int, flow_label: int, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> int:
    """The EV a packet carries. On IPv4 there is no flow label: pass 0."""
    label = flow_label & 0xFFFF
    low, high = (source_port, label) if profile.ev_low_half_in_source_port else (label, source_port)
    return high << 16 | low


@record(frozen=True, slots=True)
class EvField:
    """One field of a generated EV: `width` bits that start as `init_val`; the bits set in `mask` are generated.

    `min_val` and `max_val` bound the generated bits, read as a number before they are placed. A `max_val` of None or 0
    bounds nothing (MRC-EV-14).
    """

    width: int
    init_val: int = 0
    mask: int = 0
    min_val: int = 0
    max_val: int | None = None

    def __post_init__(self) -> None:
        if self.width < 1:
            raise CallerError(f"a field's width must be at least 1 bit, got {self.width}")
        # A shift by an unbounded width would take all memory before a format's limit is checked.
        if self.width > SRV6_WITH_SRH_WIDTH_LIMIT:
            raise CallerError(f"a field's width must be at most {SRV6_WITH_SRH_WIDTH_LIMIT} bits, got {self.width}")
        for name, value in (("init_val", self.init_val), ("mask", self.mask)):
            if not 0 <= value < 1 << self.width:
                raise CallerError(f"{name} {value:#x} does not fit a field of {self.width} bits")
        if not 0 <= self.min_val <= self.greatest < 1 << self.generated_bits:
            raise CallerError(
                f"min_val {self.min_val} and max_val {self.greatest} must bound {self.generated_bits} generated bits"
            )

    @property
    def generated_bits(self) -> int:
        """How many bits of an EV's number the field takes: those of its mask."""
        return self.mask.bit_count()

    @property
    def greatest(self) -> int:
        """The greatest number that is placed into the field."""
        return self.max_val or (1 << self.generated_bits) - 1

    def place(self, bits: int) -> int:
        """`init_val` with the bits of the mask, most significant first, set from `bits`."""
        value, left = self.init_val, self.generated_bits
        for position in range(self.width - 1, -1, -1):
            if self.mask >> position & 1:
                left -= 1
                value = value & ~(1 << position) | (bits >> left & 1) << position
        return value


def expanded(ev: int, fields: Sequence[EvField], widths: Sequence[int]) -> int:
    """The concatenated fields of a generated EV, first field most significant, in the `widths` (bits) of the EV format.

    A field that is narrower than its place stands at the right of it, zeros in front; places without a field are 0.
    Raises CallerError when the EV has more bits than the masks or lies outside a field's bounds, and where the widths
    have no room for the fields.

    Two bits of the first field and one of the second are generated, 3 bits of an EV's number together:

    >>> hex(expanded(0b101, [EvField(8, mask=0b11), EvField(8, mask=0b1)], [8, 24]))
    '0x2000001'
    """
    left = sum(field.generated_bits for field in fields)
    if ev >> left:
        raise CallerError(f"EV {ev:#x} has more than the {left} bits the masks generate")
    values = []
    for field in fields:
        left -= field.generated_bits
        bits = ev >> left & (1 << field.generated_bits) - 1
        if not field.min_val <= bits <= field.greatest:
            raise CallerError(f"EV {ev:#x}: {bits} is outside {field.min_val}..{field.greatest}")
        values.append(field.place(bits))
    return _concatenated(values, fields, widths)


def expand(ev: int, fields: Sequence[EvField]) -> int:
    """Deprecated: `expanded` with the fields' own widths, which misplaces a field narrower than its place."""
    warnings.warn("expand knows no widths of an EV format: use expanded", DeprecationWarning, stacklevel=2)
    return expanded(ev, fields, [field.width for field in fields])


def _concatenated(values: Sequence[int], fields: Sequence[EvField], widths: Sequence[int]) -> int:
    """The values of fields, each at the right of its place in the format."""
    if len(fields) > len(widths) or any(field.width > width for field, width in zip(fields, widths, strict=False)):
        ours, theirs = (" + ".join(map(str, each)) for each in ([field.width for field in fields], widths))
        raise CallerError(f"the format has fields of {theirs} bits, the profile of {ours}")
    result = 0
    for place, width in enumerate(widths):
        result = result << width | (values[place] if place < len(values) else 0)
    return result


def generated_evs(fields: Sequence[EvField]) -> Iterator[int]:
    """Every EV the bounds allow, in rising order."""
    for choice in itertools.product(*(range(field.min_val, field.greatest + 1) for field in fields)):
        ev = 0
        for field, bits in zip(fields, choice, strict=True):
            ev = ev << field.generated_bits | bits
        yield ev


def generated_count(fields: Sequence[EvField]) -> int:
    """How many EVs the bounds allow."""
    return math.prod(field.greatest - field.min_val + 1 for field in fields)


def generated_ev(fields: Sequence[EvField], number: int, widths: Sequence[int]) -> int:
    """EV `number` (from 0) of those the bounds allow, in rising order, expanded: what `expanded` makes of it."""
    placed = []
    for field in reversed(fields):
        number, bits = divmod(number, field.greatest - field.min_val + 1)
        placed.append(field.place(field.min_val + bits))
    return _concatenated(placed[::-1], fields, widths)
