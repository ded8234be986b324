"""Quantities of an experiment file in the units of the code. The schema has made sure of their form."""

from __future__ import annotations

from typing import Any

from mrc.fabric import units


def time_ns(value: Any) -> int:
    return units.duration_ns(value) if isinstance(value, str) else int(value)


def size_bytes(value: Any) -> int:
    return units.size_bytes(value) if isinstance(value, str) else int(value)


def rate_bps(value: Any) -> int:
    return units.rate_bps(value) if isinstance(value, str) else int(value)


def share(value: Any) -> float:
    return units.share(value)
