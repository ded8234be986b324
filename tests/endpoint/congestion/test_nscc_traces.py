# SPDX-License-Identifier: BSD-2-Clause
"""Every event of the consortium's own simulator, replayed: same window, same increase, same average after each.

The traces come from the Ultra Ethernet consortium's simulator (100 Gbit/s, three tiers, 2 MB a flow): permutation16, 16
nodes without congestion; incast15, 15 senders to one receiver, with trimming. Times are picoseconds.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mrc.endpoint.congestion import DelayAverage, Nscc, NsccConfig, PacketSizes

TRACES = Path(__file__).parent / "traces"
PICOSECONDS = 1_000_000_000_000
MICROSECOND = PICOSECONDS // 1_000_000
NETWORK_RTT = 14_022_720
SIZES = PacketSizes(mtu=4150, mss=4086)


class Event(NamedTuple):
    """One line. `kind`: I flow start, A acknowledgement, N trim NACK; `flag`: ECN (A) or last hop (N)."""

    kind: str
    flow: int
    now: int
    size: int
    flag: int
    rtt: int
    delay: int
    inflight: int
    base_rtt: int
    max_cwnd: int
    cwnd_before: int
    cwnd_after: int
    inc_after: int
    avg_delay_after: int


class SimulatorDelay(DelayAverage):
    """How the simulator averages the delay: three habits that are not in the specification."""

    __slots__ = ()

    def _take(self, delay: float) -> None:
        self.value = int(0.0125 * delay + (1 - 0.0125) * self.value)

    def on_delay(self, delay: int, *, marked: bool, target: int, base_rtt: int) -> None:
        self._take(0.25 * base_rtt if not marked and delay > target else delay)

    def on_trimmed(self) -> None:
        """`trim_feeds_base_rtt` feeds the network's round trip instead."""

    def without_sample(self) -> int | None:
        return self.value


SIMULATOR = NsccConfig(
    line_rate_bps=100_000_000_000,
    base_rtt=NETWORK_RTT,
    trimming=True,
    ticks_per_second=PICOSECONDS,
    qa_threshold=4 * (NETWORK_RTT * 3 // 4),  # kept on although switches trim
    base_rtt_window_s=None,
    max_cwnd_least_packets=1,
    quick_adapt_when_limited_only=False,
    penalty_when_limited_only=False,
    clamp_restored_cwnd=False,
    zero_delay=MICROSECOND,
    delay_average=SimulatorDelay,
    trim_feeds_base_rtt=True,
)


def events(name: str) -> Iterator[Event]:
    with gzip.open(TRACES / f"{name}.csv.gz", "rt", newline="") as lines:
        for kind, *numbers in csv.reader(lines):
            yield Event(kind, *map(int, numbers))


def apply(controller: Nscc, event: Event) -> None:
    controller.sent(0)
    controller.inflight = event.inflight
    if event.kind == "A":
        controller.on_ack(event.now, event.size, bool(event.flag), event.rtt or None)
    elif event.kind == "N":
        controller.on_nack(event.now, event.size, trimmed=True)
        # The simulator measures on NACKs too, after it has acted on them, and uses that for base_rtt alone.
        controller.on_rtt(event.now, event.rtt)
    else:
        assert event.kind == "I"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("permutation16", {"I": 16, "A": 2547}), ("incast15", {"I": 15, "A": 7030, "N": 796})],
    ids=["permutation16", "incast15"],
)
def test_every_event_of_the_trace_leaves_the_window_the_simulator_left(name: str, kinds: dict[str, int]) -> None:
    flows: dict[int, Nscc] = {}
    replayed: Counter[str] = Counter()
    for line, event in enumerate(events(name), 1):
        controller = flows.setdefault(event.flow, Nscc(SIZES, SIMULATOR))
        apply(controller, event)
        replayed[event.kind] += 1
        ours = (controller.cwnd, controller.inc, controller.avg_delay, controller.base_rtt)
        assert ours == (event.cwnd_after, event.inc_after, event.avg_delay_after, event.base_rtt), f"line {line}"
        # The simulator computes max_cwnd in floating point and truncates twice.
        assert 0 <= controller.max_cwnd - event.max_cwnd <= 2, f"line {line}"
    assert replayed == kinds


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 0.7},
        {"fi": 23_000.0},
        {"fi_scale": 0.2},
        {"eta": 700.0},
        {"target_delay": NETWORK_RTT},
        {"zero_delay": MICROSECOND // 2},
        {"quick_adapt": False},
        {"qa_gate": 2},
        {"adjust_bytes_threshold": 9 * 4150},
        {"adjust_period_threshold": NETWORK_RTT + MICROSECOND},
        {"base_rtt_window_s": 0.001},
        {"trim_feeds_base_rtt": False},
        {"alpha_uses_mtu": True},
        {"fulfil_at_period": True},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_the_incast_trace_tells_a_wrong_parameter(wrong: dict[str, float]) -> None:
    config = dataclasses.replace(SIMULATOR, **wrong)
    flows: dict[int, Nscc] = {}
    for event in events("incast15"):
        controller = flows.setdefault(event.flow, Nscc(SIZES, config))
        apply(controller, event)
        if controller.cwnd != event.cwnd_after:
            return
    pytest.fail("the trace does not exercise this parameter")
