# SPDX-License-Identifier: BSD-2-Clause
"""What impairs a direction of a link, as `mrc lab` shows it to people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mrc.fabric.units import duration_text
from mrc.report.units import decimal_size_text, rate_text, share_text

if TYPE_CHECKING:
    from mrc.fabric import Impairment


def impairment_text(found: Impairment, *, marks: bool) -> str:
    """What is wrong with one direction, as one line. `marks`: whether this direction marks at all: toward a host none
    does."""
    said = []
    if found.loss:
        said.append(f"loses {share_text(found.loss)}")
    if found.rate_bps:
        queue = f"queue {decimal_size_text(found.limit_bytes)}"
        if found.ecn_at_bytes and marks:
            queue += f", marks above {decimal_size_text(found.ecn_at_bytes)}"
        if found.trim_at_bytes:
            queue += f", trims above {decimal_size_text(found.trim_at_bytes)}"
            if found.trim_to_bytes:
                queue += f" to {decimal_size_text(found.trim_to_bytes)}"
            dscp = found.trim_dscp if marks else found.trim_dscp_lasthop
            if dscp:
                queue += f" with codepoint {dscp}"
        said.append(f"{rate_text(found.rate_bps)} ({queue})")
    if found.duplicate:
        said.append(f"duplicates {share_text(found.duplicate)}")
    if found.corrupt:
        said.append(f"corrupts {share_text(found.corrupt)}")
    if found.delay_ns or found.jitter_ns:
        said.append(delay_text(found))
    if found.mtu_bytes:
        said.append(f"MTU {found.mtu_bytes} bytes")
    return "; ".join(said) or "nothing wrong"


def delay_text(found: Impairment) -> str:
    """How a direction delays: `5ms later`, `1ms and up to 200us later, 5% overtaken`."""
    text = f"{duration_text(found.delay_ns)} later" if found.delay_ns else "later"
    if found.jitter_ns:
        most = f"up to {duration_text(found.jitter_ns)}"
        text = f"{duration_text(found.delay_ns)} and {most} later" if found.delay_ns else f"{most} later"
    return text if not found.reorder else f"{text}, {share_text(found.reorder)} overtaken"


def in_units(field: str, value: Any) -> tuple[str, Any]:
    """A field of Impairment as JSON has it: a share becomes a percentage, and every key says its unit."""
    if field in ("loss", "duplicate", "corrupt", "reorder"):
        return f"{field}_percent", round(value * 100, 4)
    return field, value
