# SPDX-License-Identifier: BSD-2-Clause
"""The words of `mrc craft`: an opcode, a mode, `field=value`; names and ranges are those of wire.md section 13."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from mrc.wire.headers import HEADERS
from mrc.wire.names import FIELD_NAMES
from mrc.wire.opcodes import OPCODES, Opcode

MODES = {
    "udp": "IPv6, or IPv4 where an ipv4 field is given; the EV in source port and flow label",
    "stev": "the same headers; switches read fields of the EV",
    "srv6": "IPv6 in IPv6; the outer destination is the uSID list of the EV's path",
    "srv6-srh": "the same with the last uSID in a segment routing header",
}
WRITE = "write"
PAYLOAD_FORMS = "text:hello, hex:00ff, zeros:1024, count:1024 (0, 1, .. 255, 0, ..) or file:PATH"
_SHORT_SLUGS = {"acknowledge": "ack"}
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z", re.IGNORECASE)
_NOT_IN_SECTION_13 = {"version", "ihl", "dei"}
# The opcode is the first word of a line, and most syndromes are credits, which are numbers.
_ENUMERATIONS = {
    f"{layer}.{field}": names
    for (layer, field), names in FIELD_NAMES.items()
    if (layer, field) not in (("bth", "opcode"), ("aeth", "syndrome"))
}
_ADDRESSES = {"ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address, "outer": ipaddress.IPv6Address}


def slug(opcode: Opcode) -> str:
    """What an opcode is called on the command line: `write-only`, `sack`, `rc-send-only`."""
    name = opcode.name.lower().replace(" & ", "-").replace(" ", "-")
    if opcode.is_mrc:
        name = name.removeprefix("rdma-").removeprefix("reliability-").removesuffix("-request")
        name = "endpoint-request" if name == "endpoint" else name
    return _SHORT_SLUGS.get(name, name)


OPCODE_SLUGS = {slug(opcode): opcode for opcode in OPCODES.values()}
# A whole message, in as many packets as it takes.
MESSAGES = {
    WRITE: OPCODE_SLUGS["write-only"],
    "write-with-immediate": OPCODE_SLUGS["write-only-with-immediate"],
}


@dataclass(frozen=True, slots=True)
class CraftField:
    """A field that can be given: `least` and `most` bound a number; where they are None, `form` says what it is."""

    layer: str
    name: str
    least: int | None = None
    most: int | None = None
    form: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.layer}.{self.name}" if self.layer else self.name

    @property
    def range(self) -> str:
        if self.least is None or self.most is None:
            return self.form
        big = self.most > 0xFFFF
        return f"{self.least}..{self.most:#x}" if big else f"{self.least}..{self.most}"


@dataclass(slots=True)
class CraftRequest:
    """What one line of words asks for: the opcode, whether it is a whole message, the mode, and values by full name."""

    opcode: Opcode
    message: bool
    mode: str
    values: dict[str, Any] = field(default_factory=dict)

    def of(self, layer: str) -> dict[str, Any]:
        """The values given for one layer, by short name."""
        prefix = f"{layer}."
        return {name.removeprefix(prefix): value for name, value in self.values.items() if name.startswith(prefix)}


def transport_layers(opcode: Opcode) -> tuple[str, ...]:
    """The BTH and every header the opcode may have."""
    return ("bth", *opcode.headers)


def carrier_layers(mode: str) -> tuple[str, ...]:
    """The layers below the BTH, as they are called here: `outer` is the outer of two IPv6 headers."""
    outer = {"srv6": ("outer", "usid"), "srv6-srh": ("outer", "usid", "srh")}.get(mode, ())
    return ("ether", "vlan", *outer, "ipv6", *(() if outer else ("ipv4",)), "udp")


def _layout_fields(layer: str) -> list[CraftField]:
    found = []
    for item in HEADERS["ipv6" if layer == "outer" else layer].fields:
        if item.name in _NOT_IN_SECTION_13:
            continue
        if item.name in ("src", "dst") and layer in (*_ADDRESSES, "ether"):
            found.append(CraftField(layer, item.name, form="a MAC address" if layer == "ether" else "an IP address"))
            continue
        half = 1 << item.bits - 1
        least, most = (-half, half - 1) if item.signed else (0, (1 << item.bits) - 1)
        found.append(CraftField(layer, item.name, least, most))
        if (layer, item.name) == ("seth", "ack_psn_offset"):
            found.append(CraftField(layer, "probe_id", 0, 0xFFFF))
    if layer == "srh":
        found.append(CraftField("srh", "segments", form="IPv6 addresses with commas between, the last segment first"))
    return found


def fields_of(opcode: Opcode, mode: str) -> list[CraftField]:
    """Every field a packet of this opcode and mode can be given: `ev` and the like, then by layer, outermost first."""
    found = [CraftField("", "ev", 0, 0xFFFFFFFF, "with commas between, packets take them in turn")]
    if opcode.has_payload:
        found.append(CraftField("", "payload", form=PAYLOAD_FORMS))
    found.append(CraftField("", "icrc", 0, 0xFFFFFFFF))
    if mode == "srv6-srh":
        found.append(CraftField("", "hmac", form="KEYID:KEY, the HMAC TLV of the segment routing header"))
    for layer in (*carrier_layers(mode), *transport_layers(opcode)):
        if layer == "usid":
            names = ("source_leaf", "destination_leaf", "destination_host")
            found += [CraftField("usid", name, 0, 0xFF) for name in names]
            found.append(CraftField("usid", "block", 0, 0xFFFFFFFF))
        else:
            found += _layout_fields(layer)
    return found


def parse(words: Sequence[str]) -> CraftRequest:
    """Understand one line of words. Raises click.UsageError, with the nearest name there is, for what is wrong."""
    if not words:
        raise click.UsageError("name an opcode, such as write-only or sack; --list shows them all")
    opcode, message = _opcode(words[0])
    pairs: list[tuple[str, str]] = []
    mode = None
    for word in words[1:]:
        name, equals, text = word.partition("=")
        if equals:
            pairs.append((name, text))
        elif word in MODES and mode is None:
            mode = word
        else:
            near = _near(word, [*MODES, *(item.full_name for item in fields_of(opcode, mode or "udp"))])
            raise click.UsageError(f"{word!r} is neither a mode ({', '.join(MODES)}) nor field=value{near}")
    request = CraftRequest(opcode, message, mode or "udp")
    fields = fields_of(opcode, request.mode)
    for name, text in pairs:
        item = _find(name, fields, request)
        if item.full_name in request.values:
            raise click.UsageError(f"{item.full_name} is given twice")
        request.values[item.full_name] = _value(item, text)
    return request


def _near(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; the nearest is {close[0]}" if close else ""


def _opcode(word: str) -> tuple[Opcode, bool]:
    name = word.lower().replace("_", "-")
    if name in MESSAGES:
        return MESSAGES[name], True
    if name in OPCODE_SLUGS:
        return OPCODE_SLUGS[name], False
    near = _near(name, [*MESSAGES, *OPCODE_SLUGS])
    raise click.UsageError(f"no opcode {word!r}{near}; --list shows them all")


def _find(name: str, fields: Sequence[CraftField], request: CraftRequest) -> CraftField:
    for item in fields:
        if item.full_name == name:
            return item
    matching = [item for item in fields if item.name == name]
    if len(matching) == 1:
        return matching[0]
    if matching:
        choices = ", ".join(item.full_name for item in matching)
        raise click.UsageError(f"{name} is in several layers: say which of {choices}")
    layer, dot, _ = name.partition(".")
    present = dict.fromkeys(item.layer for item in fields if item.layer)
    if dot and layer not in present and (layer in HEADERS or layer in ("outer", "usid")):
        raise click.UsageError(
            f"{name}: a {request.opcode.name} in mode {request.mode} has no {layer}; it has {', '.join(present)}"
        )
    full_names = [item.full_name for item in fields]
    # `bth.pns` is nearest to another field of the BTH, `pns` to a name without its layer.
    pool = [known for known in full_names if known.startswith(f"{layer}.")] if dot else [*full_names, *_short(fields)]
    raise click.UsageError(f"no field {name!r}{_near(name, pool or full_names)}; --list shows them all")


def _short(fields: Sequence[CraftField]) -> list[str]:
    return [item.name for item in fields]


def _value(item: CraftField, text: str) -> Any:
    special: dict[str, Callable[[str], Any]] = {
        "payload": _payload,
        "hmac": _hmac,
        "srh.segments": _segments,
        "ev": _evs,
    }
    if item.full_name in special:
        return special[item.full_name](text)
    if item.least is None:
        return _address(item, text)
    return _number(item, text)


def _number(item: CraftField, text: str) -> int:
    names = {name.lower().replace(" ", "-"): value for value, name in _ENUMERATIONS.get(item.full_name, {}).items()}
    if text.lower() in names:
        return names[text.lower()]
    try:
        value = int(text, 0)
    except ValueError:
        or_name = f" or one of {', '.join(names)}" if names else ""
        raise click.UsageError(f"{item.full_name}: {text!r} is no number such as 5, 0x1f or 0b101{or_name}") from None
    assert item.least is not None
    assert item.most is not None
    if not item.least <= value <= item.most:
        bits = (item.most - item.least).bit_length()
        raise click.UsageError(f"{item.full_name} has {bits} bits, so it must be {item.range}, got {text}")
    return value


def _evs(text: str) -> list[int]:
    item = CraftField("", "ev", 0, 0xFFFFFFFF)
    return [_number(item, part) for part in text.split(",")]


def _address(item: CraftField, text: str) -> str:
    if item.layer == "ether":
        if not _MAC.match(text):
            raise click.UsageError(f"{item.full_name}: {text!r} is not a MAC address such as 02:00:00:00:00:01")
        return text.lower()
    try:
        return str(_ADDRESSES[item.layer](text))
    except ValueError:
        version = 4 if item.layer == "ipv4" else 6
        hint = ""
        if item.layer == "ipv6" and "." in text and ":" not in text:
            hint = f"; for IPv4 say ipv4.{item.name}={text}"
        raise click.UsageError(f"{item.full_name}: {text!r} is not an IPv{version} address{hint}") from None


def _segments(text: str) -> list[str]:
    return [_address(CraftField("outer", "srh.segments"), part) for part in text.split(",")]


def _hmac(text: str) -> tuple[int, bytes]:
    key_id, colon, key = text.partition(":")
    if not colon or not key:
        raise click.UsageError(f"hmac: {text!r} is not KEYID:KEY, such as 17:secret")
    return _number(CraftField("", "hmac key id", 0, 0xFFFFFFFF), key_id), key.encode()


def _payload(text: str) -> bytes:
    kind, _, rest = text.partition(":")
    try:
        if kind == "text":
            return rest.encode("utf-8", "surrogateescape")
        if kind == "hex":
            return bytes.fromhex(rest)
        if kind in ("zeros", "count"):
            length = int(rest, 0)
            if not 0 <= length <= 1 << 30:
                raise click.UsageError(f"payload: {length} bytes are not 0 to 1 GiB")
            return bytes(length) if kind == "zeros" else (bytes(range(256)) * (length // 256 + 1))[:length]
        if kind == "file":
            return Path(rest).read_bytes()
    except OSError as error:
        raise click.UsageError(f"payload: {rest}: {error.strerror}") from None
    except ValueError:
        pass
    raise click.UsageError(f"payload: {text!r} is none of {PAYLOAD_FORMS}")
