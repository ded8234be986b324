# SPDX-License-Identifier: BSD-2-Clause
"""What links are like, as the file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrc.errors import CallerError
from mrc.sim.cluster import ClusterLink
from mrc.sim.experiment import values


def link(said: Mapping[str, Any]) -> ClusterLink:
    """The model of links that a mapping describes; 0 is "never" or "without limit". Raises CallerError."""
    if said.keys() & {"ecn_at"} and said.keys() & {"ecn_low", "ecn_high"}:
        raise CallerError("ecn_at stands in place of ecn_low and ecn_high: say one or the other")
    found: dict[str, Any] = {}
    if "rate" in said:
        found["rate_bps"] = values.rate_bps(said["rate"])
    if "delay" in said:
        found["delay_ns"] = values.time_ns(said["delay"])
    if "loss" in said:
        found["loss"] = values.share(said["loss"])
    for key, name in (
        ("queue", "queue_bytes"),
        ("ecn_low", "ecn_low_bytes"),
        ("ecn_high", "ecn_high_bytes"),
        ("trim_at", "trim_at_bytes"),
        ("trim_to", "trim_to_bytes"),
    ):
        if key in said:
            found[name] = values.size_bytes(said[key]) or None
    if "ecn_at" in said:
        found["ecn_low_bytes"] = found["ecn_high_bytes"] = values.size_bytes(said["ecn_at"]) or None
    made = ClusterLink(**found)
    for smaller, larger in (("ecn_high", "queue"), ("trim_at", "queue")):
        low, high = getattr(made, f"{smaller}_bytes"), getattr(made, f"{larger}_bytes")
        if low is not None and high is not None and low > high:
            raise CallerError(f"{smaller} must be at most {larger}: a queue of {high} bytes never holds {low}")
    return made
