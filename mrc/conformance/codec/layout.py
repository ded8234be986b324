# SPDX-License-Identifier: BSD-2-Clause
"""A header as the tables of wire.md give it: which bytes, which bits of the number they make, which field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mrc.errors import CallerError

# `0-1[6:5] m`: bits 6 to 5 of bytes 0 to 1 taken as one big-endian number.
_LINE = re.compile(r"(\d+)(?:-(\d+))?(?:\[(\d+)(?::(\d+))?\])?\s+(\w+)( signed)?\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies: `bits` bits, the lowest of them `shift` bits above the lowest of bytes `first` to `last`."""

    first: int
    last: int
    shift: int
    bits: int
    signed: bool

    def positions(self) -> range:
        """The bits it takes, counted from the first of the header."""
        end = 8 * (self.last + 1) - self.shift
        return range(end - self.bits, end)


class Layout:
    """A header of `length` bytes. `text` has one field a line, in wire order."""

    def __init__(self, name: str, length: int, text: str) -> None:
        self.name = name
        self.length = length
        self.places: dict[str, Place] = {}
        # Of each field: where it lies in the header as one big-endian number, and what it may be.
        self._in_whole: dict[str, tuple[int, int, int, int]] = {}
        # Of each field: name, shift and mask; and of each signed one: name and half of its range.
        self._read: list[tuple[str, int, int]] = []
        self._signed: list[tuple[str, int]] = []
        for line in filter(None, map(str.strip, text.splitlines())):
            match = _LINE.match(line)
            if match is None:
                raise CallerError(f"layout of {name}: {line!r} is not `byte[bits] name`")
            first, last = int(match[1]), int(match[2] or match[1])
            high = int(match[3]) if match[3] else 8 * (last - first + 1) - 1
            low = int(match[4]) if match[4] else (high if match[3] else 0)
            self.places[match[5]] = Place(first, last, low, high - low + 1, bool(match[6]))
        covered = sorted(bit for place in self.places.values() for bit in place.positions())
        if covered != list(range(8 * length)):
            raise CallerError(f"layout of {name}: its fields do not cover each of its {8 * length} bits once")
        for field, place in self.places.items():
            low = -(1 << place.bits - 1) if place.signed else 0
            shift = 8 * (length - 1 - place.last) + place.shift
            mask = (1 << place.bits) - 1
            self._in_whole[field] = shift, mask, low, low + mask
            self._read.append((field, shift, mask))
            if place.signed:
                self._signed.append((field, -low))

    def read(self, data: bytes, at: int = 0) -> dict[str, int]:
        """Every field of a header that begins at `at` in `data`, which holds all of it."""
        whole = int.from_bytes(data[at : at + self.length], "big")
        values = {name: whole >> shift & mask for name, shift, mask in self._read}
        for name, half in self._signed:
            if values[name] >= half:
                values[name] -= 2 * half
        return values

    def write(self, values: Mapping[str, int]) -> bytes:
        """The header's bytes; fields not named are 0. Raises CallerError for a field it has not, or one too wide."""
        whole = 0
        for name, value in values.items():
            field = self._in_whole.get(name)
            if field is None:
                raise CallerError(f"{self.name} has no field {name}")
            shift, mask, low, high = field
            if not low <= value <= high:
                raise CallerError(f"{self.name}.{name} is {low}..{high}, not {value}")
            whole |= (value & mask) << shift
        return whole.to_bytes(self.length, "big")
