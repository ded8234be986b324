# SPDX-License-Identifier: BSD-2-Clause
"""What a script expects of a packet: which kind, which fields, and when; and the sentences of a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrc.conformance.packets import Heard, value_text
from mrc.conformance.times import time_text
from mrc.errors import CallerError

KINDS = ("WRITE", "SACK", "ACK", "NAK", "NACK", "PROBE", "ENDPOINT_REQUEST", "ENDPOINT_RESPONSE")
# Which packet is meant: of several of a kind, the first that agrees in these has to agree in all.
IDENTITY = {
    "WRITE": ("psn",),
    "SACK": ("ack_psn", "probe_id"),
    "NACK": ("nack_psn",),
    "ENDPOINT_REQUEST": ("op", "request_id"),
    "ENDPOINT_RESPONSE": ("request_id",),
}
# The same on a live network, beside those.
LIVE_IDENTITY = {"ACK": ("psn",), "PROBE": ("ev",)}


@dataclass(frozen=True, slots=True)
class Such:
    """A value that is not given as one number, but by what holds for it; `words` tell it."""

    words: str
    holds: Callable[[Any], bool]


def between(low: int, high: int) -> Such:
    """From `low` to `high`, both included."""
    return Such(f"from {low} to {high}", lambda value: low <= value <= high)


def at_least(low: int) -> Such:
    return Such(f"at least {low}", lambda value: value >= low)


def one_of(*values: Any) -> Such:
    return Such("one of " + ", ".join(map(str, values)), lambda value: value in values)


def other_than(*values: Any) -> Such:
    return Such("other than " + ", ".join(map(str, values)), lambda value: value not in values)


@dataclass(frozen=True)
class Expected:
    """A packet of `kind` with these fields, not before `earliest` and not after `latest` (ns; None: no such limit).

    `live`: what was sent in one burst may have been taken in several, so that an ACK for all of it comes behind ACKs
    for less, and a path that was slow for a moment may be probed at any time.
    """

    kind: str
    fields: Mapping[str, Any]
    earliest: int | None = None
    latest: int | None = None
    live: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        names = {**IDENTITY, **LIVE_IDENTITY}.get(self.kind, ()) if self.live else IDENTITY.get(self.kind, ())
        return {name: self.fields[name] for name in names if name in self.fields}

    def is_meant(self, packet: Heard) -> bool:
        """Whether this is the packet expected, right or wrong."""
        return packet.kind == self.kind and all(_agrees(packet, *each) for each in self.identity.items())

    def wrong_fields(self, packet: Heard) -> list[str]:
        return [name for name, value in self.fields.items() if not _agrees(packet, name, value)]

    def holds(self, packet: Heard) -> bool:
        return packet.kind == self.kind and not self.wrong_fields(packet)

    def __str__(self) -> str:
        said = f"{'an' if self.kind[0] in 'AE' or self.kind == 'NACK' else 'a'} {self.kind}"
        if self.fields:
            said += " with " + ", ".join(f"{name} {_wanted_text(name, value)}" for name, value in self.fields.items())
        if self.earliest is not None:
            said += f", not before {time_text(self.earliest)}"
        return said if self.latest is None else f"{said}, by {time_text(self.latest)}"

    def description_of(self, packet: Heard) -> str:
        """What is wrong with a packet that is meant."""
        values = [
            f"{name} {value_text(name, packet.value(name))}" if packet.has(name) else f"no {name}"
            for name in self.wrong_fields(packet)
        ]
        when = time_text(packet.at)
        said = f"one came at {when} with {', '.join(values)}" if values else f"it came at {when}"
        return f"{said}: {packet}"


def kinds_text(packets: Sequence[Heard], kind: str) -> str:
    """What came instead of a packet of a kind."""
    near = [packet for packet in packets if packet.kind == kind]
    if near:
        return "; ".join(f"at {time_text(packet.at)} {packet}" for packet in near[-3:])
    if packets:
        return "none came, only " + "; ".join(f"at {time_text(p.at)} {p}" for p in packets[-3:])
    return "nothing came"


def _agrees(packet: Heard, name: str, wanted: Any) -> bool:
    try:
        value = packet.value(name)
    except CallerError:
        return False
    if isinstance(wanted, Such):
        return wanted.holds(value)
    if name == "above":
        return tuple(sorted(wanted)) == tuple(value)
    return bool(value == wanted)


def _wanted_text(name: str, wanted: Any) -> str:
    return wanted.words if isinstance(wanted, Such) else value_text(name, wanted)
