# SPDX-License-Identifier: BSD-2-Clause
"""Packets as scripts handle them: those the tester makes (`Crafted`) and those it gets (`Heard`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mrc.conformance.codec.carriage import Carriage, ev_fields, ev_of
from mrc.conformance.codec.headers import BTH_LENGTH
from mrc.conformance.codec.icrc import ICRC_LENGTH, UDP_LENGTH, icrc, icrc_bytes
from mrc.conformance.codec.transport import has_field, write_transport
from mrc.conformance.verdicts import Failed
from mrc.conformance.words import PSN_MASK, counted_from, describe, kind_of, ranges, reported_above
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile

Fields = dict[str, dict[str, int]]

ECT0, CE = 0b10, 0b11
# What scripts call fields of the carriage.
_CARRIAGE = {
    "hlim": "hop_limit",
    "fl": "flow_label",
    "sport": "sport",
    "dport": "dport",
    "chksum": "chksum",
    "plen": "ip_length",
    "udp_len": "udp_length",
    "src": "src",
    "dst": "dst",
}
# Of a packet that was heard: not by the name of a header's field.
_OWN = frozenset({"plane", "payload", "padding", "kind", "ev", "length", "at"})
_COUNTED = frozenset({"psn", "cack_psn", "nack_psn"})
# Of the outer header, where there is one.
_OUTER = {
    "outer_fl": "flow_label",
    "outer_src": "src",
    "outer_dst": "dst",
    "segments": "segments",
}


@dataclass(frozen=True)
class Crafted:
    """A packet of the tester's. `but` gives another one with some fields changed before its ICRC is worked out,
    `on_the_way` one that changed behind it, as switches change packets; nothing is changed in place.

    Fields have the names of wire.md section 13; where two headers of a packet share one, that of the later header is
    meant, and `bth_m` names the other. Of what carries it: ev, dscp, ecn (on both IP headers; `inner_ecn` and
    `outer_ecn` on one), hlim, fl, sport, dport, chksum, src, dst, plen, udp_len; of the outer header outer_fl,
    outer_src, outer_dst and segments; also payload, padding and icrc.
    """

    layers: tuple[tuple[str, Mapping[str, int]], ...]
    carriage: Carriage
    plane: int
    profile: WireProfile
    first_psn: int
    payload: bytes = b""
    padding: bytes | None = None
    icrc: int | None = None
    changed: Mapping[str, Any] = field(default_factory=dict)
    # Of a trimmed packet: bytes kept from the BTH on.
    kept: int | None = None
    # Of a packet that is broken off: bytes of the whole frame.
    frame_length: int | None = None
    # What stands from the BTH to the ICRC in the place of the layers, whatever it is.
    body: bytes | None = None
    # The whole frame, whatever it is.
    whole: bytes | None = None

    @property
    def ev(self) -> int:
        return ev_of(self.carriage, self.profile)

    @property
    def psn(self) -> int:
        """Its PSN as scripts count it."""
        return counted_from(self.first_psn, self.fields["bth"].get("psn", 0))

    @property
    def fields(self) -> Fields:
        return {name: dict(values) for name, values in self.layers}

    @property
    def size(self) -> int:
        """UDP length + 40: what rcvd_bytes and the SACK threshold count."""
        return 40 + UDP_LENGTH + len(self._transport) + ICRC_LENGTH

    @cached_property
    def uncovered(self) -> bytes:
        """What its ICRC is worked out from, before anything is masked: from the (inner) IP header to the padding."""
        return self.carriage.headers(len(self._transport)) + self._transport

    @property
    def right_icrc(self) -> int:
        return icrc(self.uncovered)

    def but(self, **changes: Any) -> Crafted:
        """A copy with these fields changed, and an ICRC that fits."""
        packet = self
        for name, value in changes.items():
            packet = packet._with(name, value)
        return packet

    def on_the_way(self, **changes: Any) -> Crafted:
        """A copy as a switch would have changed it: its ICRC stays."""
        return replace(self, changed={**self.changed, **changes})

    def trimmed(self, *, lasthop: bool = False, lengths: bool = True, kept: int | None = None) -> Crafted:
        """What a trimming switch leaves of it (section 12): `kept` bytes from the BTH on, or BTH and 8 bytes, the
        outermost DSCP rewritten, and with `lengths` the outermost IP length, in UDP and STEV modes the UDP length
        too."""
        profile = self.profile
        kept = BTH_LENGTH + profile.trim_keeps_after_bth if kept is None else kept
        dscp = profile.dscp_trimmed_lasthop if lasthop else profile.dscp_trimmed
        packet = replace(self, kept=kept)._outermost_dscp(dscp)  # noqa: SLF001
        if packet.carriage.outer is not None or not lengths:
            # The inner lengths keep their old value; the outer one is what there is.
            udp_length = UDP_LENGTH + len(self._transport) + ICRC_LENGTH
            ip_length = udp_length + (20 if packet.carriage.version == 4 else 0)
            return packet.but(plen=ip_length, udp_len=udp_length)
        ip_length = UDP_LENGTH + kept + (20 if packet.carriage.version == 4 else 0)
        return packet.but(plen=ip_length, udp_len=UDP_LENGTH + kept)

    def broken_off(self, frame_length: int) -> Crafted:
        """Only the first `frame_length` bytes of the whole packet, whatever its headers say."""
        return replace(self, frame_length=frame_length)

    def frame(self) -> bytes:
        """The bytes, from the outermost IP header to the ICRC."""
        if self.whole is not None:
            return self.whole
        crc = self.right_icrc if self.icrc is None else self.icrc
        if self.kept is not None:
            kept = (self._transport + icrc_bytes(crc))[: self.kept]
            carriage = self.carriage
            return carriage.in_outer(carriage.headers(len(kept)) + kept)
        late = replace(self, changed={}).but(**self.changed) if self.changed else self
        frame = late.carriage.in_outer(late.uncovered + icrc_bytes(crc))
        return frame if self.frame_length is None else frame[: self.frame_length]

    def __str__(self) -> str:
        text = describe(self.fields, len(self.payload), self.ev, self.plane, self.first_psn)
        if self.kept is not None:
            text += ", TRIMMED"
        if self.traffic_class & CE == CE:
            text += ", CE"
        if self.body is not None:
            text += f", but for its {len(self.body)} bytes from the BTH on: {self.body[:48].hex(' ')}"
        if self.whole is not None:
            text += f", but as these {len(self.whole)} bytes: {self.whole[:96].hex(' ')}"
        if self.icrc is not None:
            text += f", ICRC {self.icrc:#010x}"
        if self.changed:
            text += ", changed on the way: " + ", ".join(f"{name} {value!r}" for name, value in self.changed.items())
        return text

    @property
    def traffic_class(self) -> int:
        """Of the outermost IP header."""
        outer = self.carriage.outer
        return self.carriage.traffic_class if outer is None else outer.traffic_class

    @cached_property
    def _transport(self) -> bytes:
        if self.body is not None:
            return self.body
        return write_transport(self.layers, self.payload, self.padding, self.profile)

    def _outermost_dscp(self, dscp: int) -> Crafted:
        return self._with("outer_dscp" if self.carriage.outer is not None else "inner_dscp", dscp)

    def _with(self, name: str, value: Any) -> Crafted:
        if name in ("payload", "padding", "icrc", "plane", "body", "whole"):
            changes: dict[str, Any] = {name: value}
            return replace(self, **changes)
        if name == "ev":
            sport, label = ev_fields(value, self.carriage.version, self.profile)
            return self._carried(sport=sport, flow_label=label)
        if name in ("dscp", "ecn"):
            packet = self._with(f"inner_{name}", value)
            return packet._with(f"outer_{name}", value) if self.carriage.outer is not None else packet  # noqa: SLF001
        if name in ("inner_dscp", "inner_ecn"):
            return self._carried(traffic_class=_put(self.carriage.traffic_class, name, value))
        if name in ("outer_dscp", "outer_ecn", *_OUTER):
            return self._with_outer(name, value)
        if name in _CARRIAGE:
            return self._carried(**{_CARRIAGE[name]: value})
        return self._with_layer_field(name, value)

    def _carried(self, **changes: Any) -> Crafted:
        return replace(self, carriage=self.carriage._replace(**changes))

    def _with_outer(self, name: str, value: Any) -> Crafted:
        outer = self.carriage.outer
        if outer is None:
            raise CallerError(f"{name}: this packet has no outer header")
        changes: dict[str, Any] = (
            {_OUTER[name]: value} if name in _OUTER else {"traffic_class": _put(outer.traffic_class, name, value)}
        )
        return self._carried(outer=outer._replace(**changes))

    def _with_layer_field(self, name: str, value: int) -> Crafted:
        for index in range(len(self.layers) - 1, -1, -1):
            layer, values = self.layers[index]
            own = name.removeprefix(f"{layer}_")
            chosen = next((each for each in (own, name) if has_field(layer, each, self.profile)), None)
            if chosen is not None:
                changed = (layer, {**values, chosen: value})
                return replace(self, layers=(*self.layers[:index], changed, *self.layers[index + 1 :]))
        raise CallerError(f"no header of this packet has a field {name}: {', '.join(self.fields)}")


def _put(traffic_class: int, name: str, value: int) -> int:
    if name.endswith("dscp"):
        return value << 2 | traffic_class & 3
    return traffic_class & ~3 | value


@dataclass(eq=False)
class Heard:
    """A packet the tester got, at time `at`. A script reads its fields as attributes, by the names of `Crafted`.

    PSNs count from the first one of the end that numbers them: of a WRITE from the target's, of everything that answers
    the tester's requests from the tester's. Beside the fields of its headers it has `kind`, `plane`, `ev`, `payload`,
    `length` (bytes of payload), `dscp` and `ecn` (of the outermost IP header; also `inner_dscp`, `inner_ecn`), of a
    SACK `ack_psn` and `above` (the PSNs reported received), of an endpoint operation `request_id`.
    `fault` says why the tester dropped it, "" if it did not.
    """

    at: int
    plane: int
    frame: bytes
    carriage: Carriage
    layers: Fields
    payload: bytes
    padding: bytes
    icrc: int | None
    profile: WireProfile
    first_psn: int
    fault: str = ""

    @property
    def kind(self) -> str:
        return kind_of(self.layers)

    @property
    def ev(self) -> int:
        return ev_of(self.carriage, self.profile)

    @property
    def length(self) -> int:
        return len(self.payload)

    def value(self, name: str) -> Any:
        """A field by its name. Raises CallerError for one that this packet does not have."""
        if name in _OWN:
            return getattr(self, name)
        if name in _DERIVED and (derived := _DERIVED[name](self)) is not None:
            return derived
        for layer, values in reversed(self.layers.items()):
            if name in values:
                return self._counted(name, values[name])
            if name.startswith(layer) and (own := name.removeprefix(f"{layer}_")) in values:
                return self._counted(own, values[own])
        if name in _CARRIAGE:
            return getattr(self.carriage, _CARRIAGE[name])
        if name in _OUTER and self.carriage.outer is not None:
            return getattr(self.carriage.outer, _OUTER[name])
        raise CallerError(f"a {self.kind} has no field {name}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.value(name)
        except CallerError:
            raise Failed(f"a {self.kind} with {name}", f"it has none: {self}") from None

    def has(self, name: str) -> bool:
        try:
            self.value(name)
        except CallerError:
            return False
        return True

    def _counted(self, name: str, value: int) -> int:
        """PSNs of requests and their answers as scripts count them. A probe's and an operation's are no such PSNs."""
        if name in _COUNTED and self.kind in ("WRITE", "SACK", "ACK", "NAK", "NACK"):
            return counted_from(self.first_psn, value)
        return value

    def __str__(self) -> str:
        text = describe(self.layers, len(self.payload), self.ev, self.plane, self.first_psn)
        return f"{text} (dropped: {self.fault})" if self.fault else text


def _outermost_class(it: Heard) -> int:
    return (it.carriage.outer or it.carriage).traffic_class


def _request_id(it: Heard) -> int | None:
    return it.layers["bth"]["psn"] & 0xFFFF if it.kind.startswith("ENDPOINT") else None


def _above(it: Heard) -> Any:
    seth = it.layers.get("seth")
    return None if seth is None else reported_above(seth, it.first_psn)


def _ack_psn(it: Heard) -> int | None:
    seth = it.layers.get("seth", {})
    if "ack_psn_offset" not in seth:
        return None
    return counted_from(it.first_psn, seth["cack_psn"] + seth["ack_psn_offset"] & PSN_MASK)


# What is said of a packet that was heard, and is no field of a header. None: that kind of packet has none.
_DERIVED: dict[str, Callable[[Heard], Any]] = {
    "dscp": lambda it: _outermost_class(it) >> 2,
    "inner_dscp": lambda it: it.carriage.traffic_class >> 2,
    "ecn": lambda it: _outermost_class(it) & 3,
    "inner_ecn": lambda it: it.carriage.traffic_class & 3,
    "request_id": _request_id,
    "above": _above,
    "ack_psn": _ack_psn,
}


class Came(list[Heard]):
    """Packets that came, in order. Fails where a script looks for one that did not come."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and not -len(self) <= index < len(self):
            raise Failed(f"at least {index + 1 if index >= 0 else -index} packets", f"{len(self)} came")
        return super().__getitem__(index)


def value_text(name: str, value: Any) -> str:
    """A value as its field is usually written."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:16].hex(' ')}{' ...' if len(value) > 16 else ''}"
    if name == "above" and isinstance(value, tuple | list | set | frozenset | range):
        return ranges(value)
    if name in ("ev", "entropy"):
        return f"{value:#010x}" if isinstance(value, int) else str(value)
    if name in ("bitmap", "va", "rkey", "dqp", "src", "dst", "opcode", "syndrome", "data", "reason"):
        return f"{value:#x}" if isinstance(value, int) else str(value)
    return str(value)
