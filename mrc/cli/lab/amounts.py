"""Rates, sizes and shares as `mrc lab` shows them to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrc.topology import Impairment

_THOUSANDS = ("", "k", "M", "G", "T")


def _scaled(value: float, unit: str) -> str:
    step = 0
    while value >= 1000 and step < len(_THOUSANDS) - 1:
        value /= 1000
        step += 1
    return f"{value:.4g} {_THOUSANDS[step]}{unit}"


def rate_text(bits_per_s: float) -> str:
    """`2.5 Gbit/s`."""
    return _scaled(bits_per_s, "bit/s")


def size_text(count: int) -> str:
    """`400 kB`, in 1000s."""
    return _scaled(count, "B")


def share_text(share: float) -> str:
    return f"{share * 100:.6g}%"


def impairment_text(found: Impairment, *, marks: bool) -> str:
    """What is wrong with one direction, as one line. `marks`: whether this direction marks at all: toward a host none
    does."""
    said = []
    if found.loss:
        said.append(f"loses {share_text(found.loss)}")
    if found.rate_bps:
        queue = f"queue {size_text(found.limit_bytes)}"
        if found.ecn_at_bytes and marks:
            queue += f", marks above {size_text(found.ecn_at_bytes)}"
        if found.trim_at_bytes:
            queue += f", trims above {size_text(found.trim_at_bytes)}"
            if found.trim_to_bytes:
                queue += f" to {size_text(found.trim_to_bytes)}"
            dscp = found.trim_dscp if marks else found.trim_dscp_lasthop
            if dscp:
                queue += f" with codepoint {dscp}"
        said.append(f"{rate_text(found.rate_bps)} ({queue})")
    if found.duplicate:
        said.append(f"duplicates {share_text(found.duplicate)}")
    if found.corrupt:
        said.append(f"corrupts {share_text(found.corrupt)}")
    return "; ".join(said) or "nothing wrong"


def in_units(field: str, value: Any) -> tuple[str, Any]:
    """A field of Impairment as JSON has it: a share becomes a percentage, and every key says its unit."""
    if field in ("loss", "duplicate", "corrupt"):
        return f"{field}_percent", round(value * 100, 4)
    return field, value
