# SPDX-License-Identifier: BSD-2-Clause
"""The words for what is wrong with a link, in topology files and on the command line, and the fields of Impairment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mrc.fabric import units
from mrc.fabric.impairment import Impairment
from mrc.records import record


@record(frozen=True, slots=True)
class LinkKey:
    """`field` of Impairment; `parse` makes its value of what a person wrote, `text` the other way round."""

    field: str
    parse: Callable[[Any], Any]
    text: Callable[[Any], str]


def _number_or(parse_text: Callable[[str], int]) -> Callable[[Any], int]:
    return lambda value: parse_text(value) if isinstance(value, str) else int(value)


_size = _number_or(units.size_bytes)
_time = _number_or(units.duration_ns)
LINK_KEYS = {
    "rate": LinkKey("rate_bps", _number_or(units.rate_bps), units.rate_text),
    "queue": LinkKey("queue_bytes", _size, units.size_text),
    "ecn_at": LinkKey("ecn_at_bytes", _size, units.size_text),
    "trim_at": LinkKey("trim_at_bytes", _size, units.size_text),
    "trim_to": LinkKey("trim_to_bytes", _size, units.size_text),
    "trim_dscp": LinkKey("trim_dscp", int, str),
    "trim_dscp_lasthop": LinkKey("trim_dscp_lasthop", int, str),
    "loss": LinkKey("loss", units.share, units.share_text),
    "duplicate": LinkKey("duplicate", units.share, units.share_text),
    "corrupt": LinkKey("corrupt", units.share, units.share_text),
    "delay": LinkKey("delay_ns", _time, units.duration_text),
    "jitter": LinkKey("jitter_ns", _time, units.duration_text),
    "reorder": LinkKey("reorder", units.share, units.share_text),
    "mtu": LinkKey("mtu_bytes", int, lambda mtu: str(mtu) if mtu else "the fabric's"),
}


def differing(one: Impairment, other: Impairment) -> Iterator[tuple[str, str, str]]:
    """(key, what it is in `one`, what it is in `other`) where they differ, in words: ("loss", "1%", "0%")."""
    for name, key in LINK_KEYS.items():
        here, there = getattr(one, key.field), getattr(other, key.field)
        if here != there:
            yield name, key.text(here), key.text(there)


def options(found: Impairment, wanted: Impairment) -> list[str]:
    """The options of `mrc lab impair` that make `wanted` of `found`: ["--rate", "1gbit", "--loss", "off"]."""
    words = []
    for name, key in LINK_KEYS.items():
        value = getattr(wanted, key.field)
        if value != getattr(found, key.field):
            words += [f"--{name.replace('_', '-')}", key.text(value) if value else "off"]
    return words
