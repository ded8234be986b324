# SPDX-License-Identifier: BSD-2-Clause
"""Reliability probes, and what answered them."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.path_states import ProbeFates
from mrc.capture.analysis.records import PROBE_ANSWER
from mrc.capture.rows import Rows

# An answer that comes later than this is of another probe with the same number.
LATEST_NS = 2_000_000_000


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
        while queue and time - int(sent["time"][queue[0]]) > LATEST_NS:
            queue.popleft()
        if queue:
            probe = queue.popleft()
            at[probe], marked[probe] = time, back["mark"][index]
    return ProbeFates(sent, at, marked)
