# SPDX-License-Identifier: BSD-2-Clause
"""The names a filter knows: every field of wire.md section 13, each layer, and what is known of a whole packet."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from mrc.capture.fields import NOT_NAMED
from mrc.wire.headers import HEADERS
from mrc.wire.names import FIELD_NAMES, OPCODE_WORDS

NUMBER, MAC, IPV4, IPV6, TIME, TRUTH, WORD = "number", "MAC", "IPv4", "IPv6", "time", "truth", "word"

_ADDRESSES = {
    ("ether", "src"): MAC,
    ("ether", "dst"): MAC,
    ("ipv4", "src"): IPV4,
    ("ipv4", "dst"): IPV4,
    ("ipv6", "src"): IPV6,
    ("ipv6", "dst"): IPV6,
    ("grh", "src"): IPV6,
    ("grh", "dst"): IPV6,
}
# Words that stand for values of one field: those of its names that are one word.
_WORDS = {
    place: {name: value for value, name in names.items() if name.isidentifier() and name.isupper()}
    for place, names in FIELD_NAMES.items()
} | {("bth", "opcode"): {name: value for value, name in OPCODE_WORDS.items()}}


@dataclass(frozen=True, slots=True)
class Name:
    """A field: of a `layer`, or of the whole packet (layer ""). `bits` is its width, 0 where that says nothing."""

    layer: str
    field: str
    kind: str = NUMBER
    bits: int = 0

    @property
    def text(self) -> str:
        return f"{self.layer}.{self.field}" if self.layer else self.field

    @property
    def words(self) -> dict[str, int]:
        """What may be written in place of a number."""
        return _WORDS.get((self.layer, self.field), {})


def _fields() -> dict[str, Name]:
    names = [
        Name(layer, field.name, _ADDRESSES.get((layer, field.name), NUMBER), field.bits)
        for layer, layout in HEADERS.items()
        for field in layout.fields
        if field.name not in NOT_NAMED.get(layer, ())
    ]
    names += [
        Name("seth", "probe_id", NUMBER, 16),
        Name("srh", "segments", IPV6, 128),
        Name("payload", "length", NUMBER, 32),
        Name("icrc", "crc", NUMBER, 32),
        Name("", "number"),
        Name("", "length"),
        Name("", "ev", NUMBER, 32),
        Name("", "time", TIME),
        Name("", "time_relative", TIME),
        Name("", "icrc_ok", TRUTH),
        Name("", "trimmed", TRUTH),
        Name("", "path", WORD),
        Name("", "malformed", WORD),
    ]
    return {name.text: name for name in names}


FIELDS: dict[str, Name] = _fields()
LAYERS: frozenset[str] = frozenset(name.layer for name in FIELDS.values() if name.layer)


def nearest(wrong: str) -> list[str]:
    """Names that somebody who wrote `wrong` may have meant, the likeliest first."""
    layer, _, field = wrong.rpartition(".")
    known = [*FIELDS, *sorted(LAYERS)]
    if layer in LAYERS:
        own = [name.field for name in FIELDS.values() if name.layer == layer]
        close = [f"{layer}.{name}" for name in difflib.get_close_matches(field, own, 3, 0.4)]
        if close:
            return close
    same_end = [name.text for name in FIELDS.values() if name.layer and name.field == field]
    return (same_end or difflib.get_close_matches(wrong, known, 3, 0.5))[:3]
