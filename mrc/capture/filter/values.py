# SPDX-License-Identifier: BSD-2-Clause
"""Values in a filter: what a number, an address, a time or a word stands for in front of a field of some kind."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from mrc.capture.filter.names import IPV4, MAC, NUMBER, TIME, TRUTH, WORD, Name

_MAC = re.compile(r"(?:[0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}\Z")
# As the columns have them: RIGHT, WRONG, NOT_THERE.
_WORDS = {
    "malformed": 'a reason, as in malformed == "bad_pad"',
    "path": 'the words of the table, as in path == "p0l0>p0s1>p0l1>p0h1"',
}
_TRUTHS = {"true": 1, "1": 1, "false": 0, "0": 0, "null": -1}


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses whose upper bits, those set in `mask`, are `address`'s."""

    address: int
    mask: int


# Numbers and MAC addresses; nanoseconds; RIGHT, WRONG or NOT_THERE; reasons; IP addresses.
Value = int | str | Network


def as_value(name: Name, kind: str, text: str) -> Value:
    """What a token (`kind`: number, address, name or text) is for that field. Raises ValueError with a sentence."""
    if kind == "text" and name.kind not in (TIME, WORD):
        kind, text = ("address" if ":" in text or text.count(".") == 3 else "name"), text[1:-1]
    if name.kind == NUMBER:
        return _number(name, text)
    if name.kind == TIME:
        return _time(name, kind, text)
    if name.kind == TRUTH:
        if text not in _TRUTHS:
            raise ValueError(f"{name.text} is true, false or null")
        return _TRUTHS[text]
    if name.kind == WORD:
        if kind not in ("text", "name"):
            raise ValueError(f"{name.text} is compared with {_WORDS[name.text]}")
        return text.strip("\"'")
    if name.kind == MAC:
        if not _MAC.match(text):
            raise ValueError(f"{name.text} is compared with an address such as 02:00:00:00:00:01")
        return int("".join(part.zfill(2) for part in text.split(":")), 16)
    return _network(name, text)


def _number(name: Name, text: str) -> int:
    if text in name.words:
        return name.words[text]
    if text in ("true", "false"):
        return int(text == "true")
    try:
        return int(text, 0)
    except ValueError:
        if text.isdigit():  # 007
            return int(text)
        known = f" or one of {', '.join(name.words)}" if name.words else ""
        raise ValueError(f"{name.text} is compared with a whole number{known}, not {text}") from None


_SECONDS = re.compile(r"-?[0-9]{1,12}(\.[0-9]*)?")
_FRACTION = re.compile(r"(?<=:[0-9]{2})[.,]([0-9]+)")


def _time(name: Name, kind: str, text: str) -> int:
    """Nanoseconds."""
    if kind == "number":
        return int(Decimal(int(text, 0) if "x" in text.lower() else text) * 1_000_000_000)
    if kind == "text" and name.field == "time":
        quoted = text[1:-1]
        if _SECONDS.fullmatch(quoted):
            # As --json has it.
            return int(Decimal(quoted) * 1_000_000_000)
        # Of the fraction a datetime keeps microseconds only.
        fraction = _FRACTION.search(quoted)
        try:
            moment = datetime.fromisoformat(_FRACTION.sub("", quoted))
        except ValueError:
            moment = None
        if moment is not None:
            since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
            part = int(fraction[1].ljust(9, "0")[:9]) if fraction else 0
            return (since.days * 86400 + since.seconds) * 1_000_000_000 + part
    also = ' or a moment (UTC) such as "2026-01-31 12:00:00.5"' if name.field == "time" else ""
    raise ValueError(f"{name.text} is compared with seconds such as 1.25{also}")


def _network(name: Name, text: str) -> Network:
    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    try:
        if name.kind == IPV4:
            network = ipaddress.IPv4Network(text, strict=False)
        else:
            network = ipaddress.IPv6Network(text, strict=False)
    except ValueError:
        example = "10.0.0.1 or 10.0.0.0/8" if name.kind == IPV4 else "fd00::1 or 5f00::/16"
        raise ValueError(f"{name.text} is compared with an {name.kind} address such as {example}") from None
    return Network(int(network.network_address), int(network.netmask))
