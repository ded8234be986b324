# SPDX-License-Identifier: BSD-2-Clause
"""Quantities as reports write them for people; `mrc.fabric.units` reads and writes those that people type."""

from __future__ import annotations

_THOUSANDS = ("", "k", "M", "G", "T")


def size_text(count: float) -> str:
    """Write bytes in 1024s: `64.0 MiB`; whole bytes below 1 KiB."""
    if count < 1024:
        return f"{int(count)} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def narrow_size_text(count: int | None) -> str:
    """Write bytes in 1024s within eight characters, for a column that does not change its width: `1000 KiB`."""
    if count is None:
        return "-"
    return f"{count / 1024:.0f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def decimal_size_text(count: float) -> str:
    """Write bytes in 1000s, as queues are configured: `400 kB`."""
    return _in_thousands(count, "B")


def rate_text(bits_per_s: float) -> str:
    """Write a rate in 1000s: `2.5 Gbit/s`."""
    return _in_thousands(bits_per_s, "bit/s")


def share_text(share: float) -> str:
    """Write a share that was configured, to six digits: `0.5%`."""
    return f"{share * 100:.6g}%"


def percent_text(share: float) -> str:
    """Write a share that was measured: `4.8 %`; two digits below one."""
    return f"{share * 100:.2g} %" if share < 0.01 else f"{share * 100:.1f} %"


def measured_s_text(seconds: float) -> str:
    """Write a duration that was measured: `1.50 s`, `16.8 ms`, `80 us`."""
    # What rounds to 1000 of a unit is 1 of the next.
    if seconds >= 0.9995:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 0.9995e-3 else f"{seconds * 1e6:.3g} us"


def number_text(value: float | None, form: str = ",") -> str:
    """Write a number in a format of Python's, `-` where it is not known."""
    return "-" if value is None else format(value, form)


def microseconds_text(ns: int | None, form: str = ",.0f") -> str:
    """Write nanoseconds as a number of microseconds, `-` where they are not known: `1,234`."""
    return "-" if ns is None else format(ns / 1e3, f"z{form}")


def gbps_text(gbps: float | None) -> str:
    """Write a rate for a table, three digits of it, `-` where it is not known: `1.00`, `0.266`, `123`."""
    if gbps is None:
        return "-"
    whole = len(str(int(gbps))) if gbps >= 1 else 0
    return format(gbps, f",.{max(0, 3 - whole)}f") if gbps >= 0.1 or not gbps else format(gbps, ".3g")


def goodput_text(gbps: float | None) -> str:
    """Write a measured rate, `-` where it is not known: `9.87 Gbit/s`."""
    return "-" if gbps is None else f"{gbps:.2f} Gbit/s"


def count_text(count: int, share: float | None = None) -> str:
    """Write a count, and which share of all it is: `1,234 (4.8 %)`."""
    return f"{count:,} ({percent_text(share)})" if count and share is not None else f"{count:,}"


def plural(count: int, word: str) -> str:
    """Write a count of things: `1 packet`, `2,000 packets`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _in_thousands(value: float, unit: str) -> str:
    step = 0
    while value >= 1000 and step < len(_THOUSANDS) - 1:
        value /= 1000
        step += 1
    return f"{value:.4g} {_THOUSANDS[step]}{unit}"
