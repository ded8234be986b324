# SPDX-License-Identifier: BSD-2-Clause
"""Reliability probes and endpoint operations, and what answered them."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.flows import Pair
from mrc.capture.analysis.path_states import ProbeFates
from mrc.capture.analysis.records import PROBE_ANSWER, Rows
from mrc.capture.texts import ipv4_text, ipv6_text
from mrc.wire.names import OPERATIONS

# An answer that comes later than this is of another probe with the same number.
_LATEST_NS = 2_000_000_000


def match_probes(sent: Rows, answers: Rows) -> ProbeFates:
    """Each probe and the first SACK with its probe_id after it; both in order of time."""
    at, marked = np.full(len(sent), NEVER), np.zeros(len(sent), np.int64)
    back = answers[answers["kind"] == PROBE_ANSWER]
    waiting: defaultdict[int, deque[int]] = defaultdict(deque)
    events = [(time, 0, index) for index, time in enumerate(sent["time"].tolist())]
    events += [(time, 1, index) for index, time in enumerate(back["time"].tolist())]
    for time, is_answer, index in sorted(events):
        if not is_answer:
            waiting[int(sent["probe_id"][index])].append(index)
            continue
        queue = waiting[int(back["probe_id"][index])]
        while queue and time - int(sent["time"][queue[0]]) > _LATEST_NS:
            queue.popleft()
        if queue:
            probe = queue.popleft()
            at[probe], marked[probe] = time, back["mark"][index]
    return ProbeFates(sent, at, marked)


@dataclass(frozen=True, slots=True)
class EndpointOperation:
    """An endpoint request: `rtt_us` is None where no response was seen, `port_status_mask` where it carries none."""

    time_s: float
    packet: int
    op: str
    source: str
    destination: str
    request_id: int
    ev: int
    port_status_mask: int | None
    rtt_us: float | None


def operations(found: dict[Pair, Rows]) -> list[EndpointOperation]:
    """Every endpoint request of a capture with its response, in order of time; `found` one sighting of each."""
    made = []
    # A response may take another plane, so it is looked for by its number alone where the mirrored pair has none.
    responses: defaultdict[int, list[int]] = defaultdict(list)
    for rows in found.values():
        for one in rows[rows["answers"]]:
            responses[int(one["request_id"])].append(int(one["time"]))
    for (source, destination), rows in found.items():
        for one in rows[~rows["answers"]]:
            sent = int(one["time"])
            back = min((t for t in responses[int(one["request_id"])] if 0 <= t - sent <= _LATEST_NS), default=None)
            name = OPERATIONS.get(int(one["op"]), f"op {one['op']}")
            made.append(
                EndpointOperation(
                    sent / 1e9,
                    int(one["number"]),
                    name,
                    address_text(source),
                    address_text(destination),
                    int(one["request_id"]),
                    int(one["ev"]),
                    int(one["mask"]) if one["op"] == 0 else None,
                    None if back is None else (back - sent) / 1e3,
                )
            )
    return sorted(made, key=lambda each: each.packet)


def address_text(address: bytes) -> str:
    return ipv4_text(address) if len(address) == 4 else ipv6_text(address)
