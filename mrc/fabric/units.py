# SPDX-License-Identifier: BSD-2-Clause
"""Quantities as people write them, on the command line and in files: `1gbit`, `400KB`, `0.5%`, `10us`."""

from __future__ import annotations

import re

from mrc.errors import CallerError

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(?:([kmgt])(i?))?b?", re.IGNORECASE | re.ASCII)
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kmgt]?)bit(?:/s)?", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(ns|us|ms|s)", re.ASCII)
_MOST_DIGITS = 1000
_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)%")


def size_bytes(text: str) -> int:
    """Bytes: `64MiB` and `64KiB` count in 1024s, `1.5GB` and `400KB` in 1000s, `4096`. Raises CallerError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise CallerError(f"{text!r} is not a size such as 64MiB, 1.5GB or 4096")
    return _scaled(match[1], 1024 if match[3] else 1000, match[2])


def rate_bps(text: str) -> int:
    """Bits a second: `1gbit`, `2.5Gbit/s`, `800kbit`, in 1000s. Raises CallerError."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise CallerError(f"{text!r} is not a rate such as 1gbit, 2.5gbit or 800kbit")
    return _scaled(match[1], 1000, match[2])


def share(text: str) -> float:
    """A share 0..1 from a percentage: `0.5%` is 0.005. Raises CallerError, above 100% too."""
    match = _SHARE.fullmatch(text.strip())
    number, parts = (0, 1) if match is None else _ratio(match[1])
    if match is None or number > 100 * parts:
        raise CallerError(f"{text!r} is not a percentage from 0% and up to 100%, such as 1% or 0.5%")
    return number / (100 * parts)


def duration_ns(text: str) -> int:
    """Nanoseconds: `500ns`, `10us`, `1.5ms`, `2s`. Raises CallerError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise CallerError(f"{text!r} is not a time such as 10us, 1.5ms or 500ns")
    number, parts = _ratio(match[1])
    return number * _NANOSECONDS[match[2]] // parts


def duration_text(ns: int) -> str:
    """What `duration_ns` reads as the same number: `200us`, `1500us`, `5ms`."""
    unit = next((unit for unit in ("s", "ms", "us") if ns and ns % _NANOSECONDS[unit] == 0), "ns")
    return f"{ns // _NANOSECONDS[unit]}{unit}"


def size_text(count: int) -> str:
    """What `size_bytes` reads as the same number: `400KB`, `4096`."""
    return _in_thousands(count, "B") if count >= 1000 and count % 1000 == 0 else str(count)


def rate_text(bps: int) -> str:
    """What `rate_bps` reads as the same number: `1gbit`, `1500kbit`."""
    return _in_thousands(bps, "bit")


def share_text(value: float) -> str:
    """What `share` reads as the same number, to a millionth: `0.5%`."""
    return f"{value * 100:.4f}".rstrip("0").rstrip(".") + "%"


def _scaled(text: str, unit: int, prefix: str | None) -> int:
    number, parts = _ratio(text)
    factor: int = unit ** _POWERS[(prefix or "").lower()]
    return number * factor // parts


def _ratio(text: str) -> tuple[int, int]:
    """`2.5` as 25 and 10: exact, and quick to import. Raises CallerError for more digits than any quantity has."""
    if len(text) > _MOST_DIGITS:
        raise CallerError(f"a number of {len(text)} digits is no quantity")
    whole, _, parts = text.partition(".")
    return int(whole + parts), 10 ** len(parts)


def _in_thousands(count: int, unit: str) -> str:
    prefixes = ["", "k", "m", "g", "t"] if unit == "bit" else ["", "K", "M", "G", "T"]
    power = 0
    while power < len(prefixes) - 1 and count and count % 1000 == 0:
        count //= 1000
        power += 1
    return f"{count}{prefixes[power]}{unit}"
