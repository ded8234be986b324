# SPDX-License-Identifier: BSD-2-Clause
"""EV formats: how the network reads an EV (wire.md section 10; api.md, Controller)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.entropy import SRV6_WITH_SRH_WIDTH_LIMIT, WIDTH_LIMITS, EvField, EvMode

__all__ = ["EvFormat"]


@record(frozen=True, slots=True)
class EvFormat:
    """A mode and the widths (bits, at least 1 each) of its fields, most significant first.

    In STEV mode a field is a tier and the first one the first hop. `srh`: SRV6 mode with a segment routing header
    beside the address. No widths: the structure is not known, or there is none. Raises CallerError when the fields are
    wider together than the mode can carry (E2BIG), or for an SRH in another mode (EINVAL).

    >>> from mrc.wire.entropy import EvMode
    >>> EvFormat(EvMode.STEV, widths=(8, 24)).bits
    32
    """

    mode: EvMode
    widths: tuple[int, ...] = ()
    srh: bool = False

    def __post_init__(self) -> None:
        if self.srh and self.mode != EvMode.SRV6:
            raise CallerError(f"a segment routing header belongs to SRV6 mode, not to {self.mode.name}")
        for width in self.widths:
            if width < 1:
                raise CallerError(f"a field's width must be at least 1 bit, got {width}")
        if self.bits > self.limit:
            with_srh = " with SRH" if self.srh else ""
            raise CallerError(f"the fields take {self.bits} bits, {self.mode.name}{with_srh} carries {self.limit}")

    @property
    def bits(self) -> int:
        """What all fields take together."""
        return sum(self.widths)

    @property
    def limit(self) -> int:
        """The most bits this mode carries."""
        return SRV6_WITH_SRH_WIDTH_LIMIT if self.srh else WIDTH_LIMITS[self.mode]

    def fit(self, fields: tuple[EvField, ...]) -> tuple[EvField, ...]:
        """A profile's fields zero-filled to this format's widths: each to the width of its place, the rest 0.

        Raises CallerError for fields this format has no room for.
        """
        bits = sum(field.width for field in fields)
        if bits > self.limit:
            raise CallerError(f"the fields take {bits} bits, {self.mode.name} carries {self.limit}")
        if not self.widths:
            return fields
        widths = [field.width for field in fields]
        if len(widths) > len(self.widths) or any(map(operator.gt, widths, self.widths)):
            raise CallerError(f"the format has fields of {_list(self.widths)} bits, the profile of {_list(widths)}")
        left = self.widths[len(fields) :]
        filled = [replace(field, width=width) for field, width in zip(fields, self.widths, strict=False)]
        return (*filled, *(EvField(width) for width in left))


def _list(widths: Sequence[int]) -> str:
    return " + ".join(map(str, widths))
